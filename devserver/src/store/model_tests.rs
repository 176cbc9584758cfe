//! In any order of steps: each job is in one state, an active one has one reservation, attempts
//! never decrease, no job vanishes, and every look-up agrees with the jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::Store;
use super::fetch::Fetch;
use super::job::{Directive, Job, JobState};
use super::tests::store;
use super::worker::Heartbeat;
use crate::json::Object;
use crate::moment::Moment;

#[derive(Debug, Clone)]
enum Step {
    Enqueue { more: usize },
    Fetch { worker: u8, count: u64 },
    Ack { job: usize, worker: u8 },
    Fail { job: usize, worker: u8, is_retryable: bool },
    Requeue { job: usize, worker: u8 },
    Cancel { job: usize },
    Activate { job: usize },
    Heartbeat { worker: u8, says: u8 },
    Direct { worker: u8, says: u8 },
    Deregister { worker: u8 },
    Pause { is_paused: bool },
    Checkpoint { job: usize },
    Report { job: usize },
    RetryDeadLetter { job: usize },
    Pass { seconds: u64 },
}

/// Fields that an enqueued job may have.
const MORE: [&str; 6] = [
    "",
    r#","priority":3,"queue":"second""#,
    r#","retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#,
    r#","retry":{"max_attempts":2,"initial_interval":"PT3S"},"visibility_timeout":7"#,
    r#","scheduled_at":"2026-01-01T00:01:00Z","expires_at":"2026-01-01T00:02:00Z""#,
    r#","pending":true,"expires_at":"2026-01-01T00:01:30Z""#,
];

fn step() -> impl Strategy<Value = Step> {
    let job = 0..40_usize;
    let worker = 0..3_u8;
    prop_oneof![
        4 => (0..MORE.len()).prop_map(|more| Step::Enqueue { more }),
        5 => (worker.clone(), 1..4_u64).prop_map(|(worker, count)| Step::Fetch { worker, count }),
        3 => (job.clone(), worker.clone()).prop_map(|(job, worker)| Step::Ack { job, worker }),
        3 => (job.clone(), worker.clone(), any::<bool>())
            .prop_map(|(job, worker, is_retryable)| Step::Fail { job, worker, is_retryable }),
        2 => (job.clone(), worker.clone()).prop_map(|(job, worker)| Step::Requeue { job, worker }),
        1 => job.clone().prop_map(|job| Step::Cancel { job }),
        1 => job.clone().prop_map(|job| Step::Activate { job }),
        3 => (worker.clone(), 0..4_u8).prop_map(|(worker, says)| Step::Heartbeat { worker, says }),
        1 => (worker.clone(), 0..2_u8).prop_map(|(worker, says)| Step::Direct { worker, says }),
        1 => worker.prop_map(|worker| Step::Deregister { worker }),
        1 => any::<bool>().prop_map(|is_paused| Step::Pause { is_paused }),
        1 => job.clone().prop_map(|job| Step::Checkpoint { job }),
        1 => job.clone().prop_map(|job| Step::Report { job }),
        1 => job.prop_map(|job| Step::RetryDeadLetter { job }),
        4 => (0..20_u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

fn word(says: u8) -> Option<Directive> {
    match says {
        0 => Some(Directive::Run),
        1 => Some(Directive::Quiet),
        _ => None,
    }
}

/// Does a step; a refusal is no failure. Returns the job whose attempts begin anew.
fn take(store: &mut Store, now: &mut Moment, made: &mut Vec<String>, step: &Step) -> Option<String> {
    let id = |job: usize| made.get(job).cloned().unwrap_or_default();
    match *step {
        Step::Enqueue { more } => {
            let id = format!("j{}", made.len());
            if store.put(*now, &id, MORE[more]).is_ok() {
                made.push(id);
            }
        }
        Step::RetryDeadLetter { job } => {
            let id = id(job);
            return store.retry_dead_letter(*now, &id).is_ok().then_some(id);
        }
        Step::Pass { seconds } => {
            *now += Duration::from_secs(seconds);
            store.tick(*now);
        }
        Step::Cancel { job } => {
            let _ = store.cancel(*now, &id(job));
        }
        Step::Activate { job } => {
            let _ = store.activate(*now, &id(job));
        }
        Step::Pause { is_paused } => store.pause(*now, "default", is_paused).unwrap(),
        Step::Fetch { .. }
        | Step::Ack { .. }
        | Step::Fail { .. }
        | Step::Requeue { .. }
        | Step::Heartbeat { .. }
        | Step::Direct { .. }
        | Step::Deregister { .. }
        | Step::Checkpoint { .. }
        | Step::Report { .. } => work(store, *now, made, step),
    }
    None
}

/// Does a step of a worker.
fn work(store: &mut Store, now: Moment, made: &[String], step: &Step) {
    let name = |worker: u8| format!("w{worker}");
    let id = |job: usize| made.get(job).cloned().unwrap_or_default();
    match *step {
        Step::Fetch { worker, count } => {
            let queues = vec!["default".into(), "second".into()];
            let worker = (worker > 0).then(|| name(worker));
            let fetch = Fetch {
                queues,
                count,
                worker,
                ..Fetch::default()
            };
            assert!(store.fetch(now, &fetch).unwrap().len() as u64 <= count);
        }
        Step::Ack { job, worker } => {
            let _ = store.ack(now, &id(job), Some(&name(worker)), None);
        }
        Step::Fail {
            job,
            worker,
            is_retryable,
        } => {
            let error = format!(r#"{{"code":"x","message":"m","retryable":{is_retryable}}}"#);
            let error = Object::read(error.as_bytes()).unwrap();
            let _ = store.fail(now, &id(job), Some(&name(worker)), error);
        }
        Step::Requeue { job, worker } => {
            let _ = store.requeue(now, &id(job), Some(&name(worker)));
        }
        Step::Heartbeat { worker, says } => {
            let beat = Heartbeat {
                worker: name(worker),
                reported: word(says),
                jobs: made.to_vec(),
                ..Heartbeat::default()
            };
            for id in store.heartbeat(now, &beat).unwrap().extended {
                assert!(store.job(&id).unwrap().is_held_by(Some(&name(worker))));
            }
        }
        Step::Direct { worker, says } => {
            let _ = store.direct(&name(worker), word(says).unwrap());
        }
        Step::Deregister { worker } => {
            let _ = store.deregister(&name(worker));
        }
        Step::Checkpoint { job } => {
            let _ = store.save_checkpoint(now, &id(job), crate::json::raw(&1), None);
        }
        Step::Report { job } => {
            let _ = store.report_progress(now, &id(job), Some(0.5), None);
        }
        Step::Enqueue { .. }
        | Step::Cancel { .. }
        | Step::Activate { .. }
        | Step::Pause { .. }
        | Step::RetryDeadLetter { .. }
        | Step::Pass { .. } => {}
    }
}

impl Store {
    /// Panics if a look-up and the jobs disagree.
    fn check(&self, now: Moment) {
        let jobs = || self.jobs.values();
        for (state, count) in self.counts() {
            assert_eq!(jobs().filter(|job| job.state == state).count(), count, "{state}");
        }
        for (name, queue) in self.queues() {
            for state in JobState::ALL {
                let of_it = |job: &&Job| &*job.queue == name && job.state == state;
                assert_eq!(jobs().filter(of_it).count(), queue.counts.of(state), "{name} {state}");
            }
        }
        let due: BTreeSet<_> = jobs()
            .filter_map(|job| job.due_at.map(|due| (due, job.id.clone())))
            .collect();
        assert_eq!(due, self.index.timers);
        let held: usize = self.index.held.values().map(BTreeSet::len).sum();
        assert_eq!(held, jobs().filter(|job| job.state == JobState::Active).count());
        let ready: BTreeSet<_> = self
            .index
            .queues
            .values()
            .flat_map(|queue| queue.ready.values().cloned())
            .collect();
        let available: BTreeSet<_> = jobs()
            .filter(|job| job.state == JobState::Available)
            .map(|job| job.id.clone())
            .collect();
        assert_eq!(ready, available);
        assert_eq!(
            self.index.ended.len(),
            jobs().filter(|job| job.state.is_terminal()).count()
        );
        assert_eq!(self.heartbeats.len(), self.workers.len());
        assert_eq!(self.by_number.len(), self.jobs.len());
        for job in jobs() {
            let is_active = job.state == JobState::Active;
            assert_eq!(job.reservation.is_some(), is_active, "{job:?}");
            let is_open = job.deliveries.back().is_some_and(|delivery| delivery.end.is_none());
            assert_eq!(is_open, is_active, "{job:?}");
            let open = job.deliveries.iter().filter(|delivery| delivery.end.is_none()).count();
            assert_eq!(open, usize::from(is_active), "{job:?}");
            if is_active {
                assert!(job.due_at.is_some_and(|due| due >= now), "{job:?}");
                let holder = job.worker().cloned().unwrap_or_default();
                assert!(self.index.held[&holder].contains(&job.id));
            }
            assert!(job.attempt <= job.policy.max_attempts, "{job:?}");
            assert!(job.times_acked <= 1, "{job:?}");
            assert!(job.checkpoint.is_none() || !job.state.is_terminal(), "{job:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_is_in_one_place_whatever_is_done(steps in proptest::collection::vec(step(), 1..120)) {
        let mut store = store();
        let mut now = Moment::ZERO;
        let mut made = Vec::new();
        let mut seen: BTreeMap<String, (JobState, u32)> = BTreeMap::new();
        for step in &steps {
            let anew = take(&mut store, &mut now, &mut made, step);
            store.check(now);
            for id in &made {
                let before = seen.get(id).copied();
                match store.job(id) {
                    Some(job) => {
                        let least = before.filter(|_| anew.as_ref() != Some(id)).map_or(0, |(_, attempt)| attempt);
                        prop_assert!(job.attempt >= least, "{:?}", job);
                        seen.insert(id.clone(), (job.state, job.attempt));
                    }
                    None => prop_assert!(before.is_some_and(|(state, _)| state.is_terminal()), "{} vanished", id),
                }
            }
        }
    }
}
