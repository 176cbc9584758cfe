//! The rules, one at a time; the names end with the backend obligations that they play.

use std::time::Duration;

use super::fetch::Fetch;
use super::job::JobState;
use super::worker::{Heartbeat, HeartbeatAnswer};
use super::{Store, StoreSettings, new_job};
use crate::json::Object;
use crate::moment::Moment;
use crate::refusal::{Refusal, RefusalKind};

/// Reservation, heartbeat timeout and room of the stores here.
pub(super) const VISIBILITY: Duration = Duration::from_secs(60);
pub(super) const SILENCE: Duration = Duration::from_secs(30);
const ROOM: usize = 10;

pub(super) fn secs(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

pub(super) fn store() -> Store {
    let settings = StoreSettings {
        enforces_timeouts: true,
        visibility_timeout: VISIBILITY,
        heartbeat_timeout: SILENCE,
        max_jobs: ROOM,
    };
    Store::new(settings, "2026-01-01T00:00:00Z".parse().unwrap(), 7)
}

impl Store {
    /// Adds a job of that id, with these further fields.
    pub(super) fn put(&mut self, now: Moment, id: &str, more: &str) -> Result<(), Refusal> {
        let text = format!(r#"{{"id":"{id}","type":"t","args":[]{more}}}"#);
        let job = new_job::read(Object::read(text.as_bytes()).unwrap())?;
        self.enqueue(now, vec![job], String::new).map(|_| ())
    }

    /// Fetches all available jobs for a worker; the empty name is none.
    pub(super) fn take(&mut self, now: Moment, worker: &str) -> Vec<String> {
        self.tick(now);
        let fetch = Fetch {
            queues: vec!["default".into(), "second".into()],
            count: 99,
            worker: (!worker.is_empty()).then(|| worker.into()),
            ..Fetch::default()
        };
        self.fetch(now, &fetch)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    pub(super) fn is(&self, id: &str) -> JobState {
        self.job(id).unwrap().state
    }

    pub(super) fn beats(&mut self, now: Moment, worker: &str, jobs: &[&str]) -> HeartbeatAnswer {
        let jobs = jobs.iter().map(ToString::to_string).collect();
        self.heartbeat(
            now,
            &Heartbeat {
                worker: worker.into(),
                jobs,
                ..Heartbeat::default()
            },
        )
        .unwrap()
    }

    pub(super) fn errors(&self, id: &str) -> Vec<String> {
        let of = |error: &serde_json::value::RawValue| {
            let error = Object::read(error.get().as_bytes()).unwrap();
            error.text("type").unwrap().unwrap()
        };
        self.job(id).unwrap().errors.iter().map(|error| of(error)).collect()
    }
}

fn error(text: &str) -> Object {
    Object::read(text.as_bytes()).unwrap()
}

fn details(refusal: &Refusal) -> String {
    refusal.details.as_ref().unwrap().get().to_owned()
}

#[test]
fn a_job_goes_to_one_worker_only_b_07() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    assert_eq!(store.take(secs(1), "a"), ["j"]);
    assert!(store.take(secs(1), "b").is_empty());
    assert_eq!((store.is("j"), store.job("j").unwrap().attempt), (JobState::Active, 1));
}

#[test]
fn queues_come_in_the_order_asked_for_and_jobs_by_priority_and_age() {
    let mut store = store();
    for (id, more) in [
        ("second", r#","queue":"second","priority":100"#),
        ("old", ""),
        ("new", ""),
        ("urgent", r#","priority":5"#),
        ("idle", r#","priority":-5"#),
    ] {
        store.put(secs(0), id, more).unwrap();
    }
    assert_eq!(store.take(secs(1), "w"), ["urgent", "old", "new", "idle", "second"]);
}

#[test]
fn only_the_holder_may_speak_for_a_job_b_06() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "a");
    for refused in [
        store.ack(secs(1), "j", Some("b"), None).map(|_| ()),
        store
            .fail(secs(1), "j", Some("b"), error(r#"{"code":"x"}"#))
            .map(|_| ()),
        store.requeue(secs(1), "j", Some("b")).map(|_| ()),
    ] {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Conflict);
        assert!(
            details(&refusal).contains(r#""reserved_by":"a""#),
            "{}",
            details(&refusal)
        );
    }
    assert!(store.ack(secs(1), "j", Some("a"), None).is_ok());
}

#[test]
fn an_ack_that_names_no_worker_is_believed() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "a");
    assert!(store.ack(secs(1), "j", None, None).is_ok());
}

#[test]
fn a_repeated_ack_says_that_the_job_is_completed() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "a");
    store.ack(secs(1), "j", Some("a"), None).unwrap();
    let refusal = store.ack(secs(1), "j", Some("a"), None).unwrap_err();
    assert!(details(&refusal).contains(r#""current_state":"completed""#));
    assert_eq!(store.job("j").unwrap().times_acked, 1);
}

#[test]
fn a_visibility_timeout_counts_as_an_attempt_and_leaves_an_error_b_05() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "");
    store.tick(VISIBILITY - Duration::from_millis(1));
    assert_eq!(store.is("j"), JobState::Active);
    store.tick(VISIBILITY);
    assert_eq!(
        (store.is("j"), store.job("j").unwrap().attempt),
        (JobState::Available, 2)
    );
    assert_eq!(store.errors("j"), ["visibility_timeout"]);
    store.take(VISIBILITY, "b");
    assert_eq!(store.job("j").unwrap().attempt, 2);
    let refusal = store.ack(VISIBILITY, "j", Some("a"), None).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Conflict);
}

#[test]
fn the_last_visibility_timeout_discards_the_job_b_05() {
    let mut store = store();
    store.put(secs(0), "j", r#","retry":{"max_attempts":1}"#).unwrap();
    store.take(secs(0), "");
    store.tick(VISIBILITY);
    assert_eq!(
        (store.is("j"), store.job("j").unwrap().attempt),
        (JobState::Discarded, 1)
    );
}

#[test]
fn a_job_s_own_visibility_timeout_counts_and_the_request_s_before_it() {
    let mut store = store();
    store.put(secs(0), "j", r#","visibility_timeout":5"#).unwrap();
    store
        .put(secs(0), "k", r#","visibility_timeout":5,"queue":"second""#)
        .unwrap();
    let fetch = |queue: &str, visibility| Fetch {
        queues: vec![queue.into()],
        count: 1,
        visibility,
        ..Fetch::default()
    };
    store.fetch(secs(0), &fetch("default", None)).unwrap();
    store.fetch(secs(0), &fetch("second", Some(secs(9)))).unwrap();
    store.tick(secs(5));
    assert_eq!((store.is("j"), store.is("k")), (JobState::Available, JobState::Active));
    store.tick(secs(9));
    assert_eq!(store.is("k"), JobState::Available);
}

#[test]
fn a_failed_job_waits_for_its_next_attempt_b_09() {
    let mut store = store();
    store
        .put(secs(0), "j", r#","retry":{"initial_interval":"PT10S","jitter":false}"#)
        .unwrap();
    store.take(secs(0), "w");
    let failed =
        error(r#"{"code":"shutdown","type":"ShutdownError","message":"m","retryable":true,"details":{"n":1.50}}"#);
    store.fail(secs(1), "j", Some("w"), failed).unwrap();
    let job = store.job("j").unwrap();
    assert_eq!(
        (job.state, job.attempt, job.due_at),
        (JobState::Retryable, 1, Some(secs(11)))
    );
    assert!(job.errors[0].get().contains(r#""details":{"n":1.50}"#));
    assert!(store.take(secs(10), "w").is_empty());
    assert_eq!(store.take(secs(11), "w"), ["j"]);
    assert_eq!(store.job("j").unwrap().attempt, 2);
}

#[test]
fn attempts_are_used_up_and_then_the_policy_decides() {
    let mut store = store();
    let policy =
        r#","retry":{"max_attempts":2,"initial_interval":"PT1S","jitter":false,"on_exhaustion":"dead_letter"}"#;
    store.put(secs(0), "j", policy).unwrap();
    for (now, state) in [(0, JobState::Retryable), (5, JobState::Discarded)] {
        assert_eq!(store.take(secs(now), "w"), ["j"]);
        store
            .fail(secs(now), "j", Some("w"), error(r#"{"type":"Bad","message":"m"}"#))
            .unwrap();
        assert_eq!(store.is("j"), state);
    }
    assert_eq!(store.dead_letters().count(), 1);
    store.retry_dead_letter(secs(6), "j").unwrap();
    assert_eq!(store.take(secs(6), "w"), ["j"]);
    assert_eq!((store.job("j").unwrap().attempt, store.errors("j").len()), (1, 2));
    assert_eq!(store.dead_letters().count(), 0);
}

#[test]
fn what_is_not_retryable_is_discarded() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "w");
    store
        .fail(
            secs(0),
            "j",
            None,
            error(r#"{"code":"x","message":"m","retryable":false}"#),
        )
        .unwrap();
    assert_eq!(store.is("j"), JobState::Discarded);
    assert_eq!(store.delete_dead_letter("j").unwrap_err().kind, RefusalKind::NotFound);
}

#[test]
fn what_is_given_back_was_never_had() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    for now in 0..5 {
        assert_eq!(store.take(secs(now), "w"), ["j"]);
        assert_eq!(store.job("j").unwrap().attempt, 1);
        store.requeue(secs(now), "j", Some("w")).unwrap();
        assert_eq!(store.is("j"), JobState::Available);
    }
    assert!(store.job("j").unwrap().errors.is_empty());
}

#[test]
fn a_scheduled_job_waits_and_an_expired_one_is_not_handed_out() {
    let mut store = store();
    store
        .put(secs(0), "later", r#","scheduled_at":"2026-01-01T00:00:10Z""#)
        .unwrap();
    store
        .put(secs(0), "past", r#","scheduled_at":"2025-01-01T00:00:10Z""#)
        .unwrap();
    store
        .put(
            secs(0),
            "stale",
            r#","expires_at":"2026-01-01T00:00:05Z","priority":-1"#,
        )
        .unwrap();
    assert_eq!(
        (store.is("later"), store.is("past")),
        (JobState::Scheduled, JobState::Available)
    );
    assert_eq!(store.take(secs(5), "w"), ["past"]);
    assert_eq!(
        (store.is("stale"), store.errors("stale")),
        (JobState::Discarded, vec!["expired".to_owned()])
    );
    assert_eq!(store.take(secs(10), "w"), ["later"]);
}

#[test]
fn what_was_started_does_not_expire() {
    let mut store = store();
    store
        .put(secs(0), "j", r#","expires_at":"2026-01-01T00:00:05Z""#)
        .unwrap();
    store.take(secs(4), "w");
    store.requeue(secs(6), "j", Some("w")).unwrap();
    store.tick(secs(100));
    assert_eq!(store.is("j"), JobState::Available);
}

#[test]
fn a_pending_job_waits_for_its_activation() {
    let mut store = store();
    store.put(secs(0), "j", r#","options":{"pending":true}"#).unwrap();
    assert!(store.take(secs(1), "w").is_empty());
    store.activate(secs(2), "j").unwrap();
    assert_eq!(store.activate(secs(2), "j").unwrap_err().kind, RefusalKind::Conflict);
    assert_eq!(store.take(secs(2), "w"), ["j"]);
}

#[test]
fn a_paused_queue_gives_and_takes_nothing() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.pause(secs(0), "default", true).unwrap();
    assert!(store.take(secs(1), "w").is_empty());
    assert_eq!(store.put(secs(1), "k", "").unwrap_err().kind, RefusalKind::QueuePaused);
    store.pause(secs(2), "default", false).unwrap();
    assert_eq!(store.take(secs(2), "w"), ["j"]);
}

#[test]
fn finished_jobs_make_room_and_unfinished_ones_do_not() {
    let mut store = store();
    for number in 0..ROOM {
        store.put(secs(0), &format!("j{number}"), "").unwrap();
    }
    assert_eq!(store.put(secs(1), "more", "").unwrap_err().kind, RefusalKind::Full);
    store.take(secs(1), "w");
    store.ack(secs(2), "j3", None, None).unwrap();
    store.ack(secs(3), "j1", None, None).unwrap();
    store.put(secs(4), "more", "").unwrap();
    assert!(store.job("j3").is_none(), "the one that ended first goes first");
    assert!(store.job("j1").is_some());
}

#[test]
fn an_id_is_taken_once() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    assert_eq!(store.put(secs(0), "j", "").unwrap_err().kind, RefusalKind::Duplicate);
}

#[test]
fn a_checkpoint_stays_until_the_job_is_over() {
    let mut store = store();
    let state = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
    store.put(secs(0), "j", "").unwrap();
    assert_eq!(
        store.save_checkpoint(secs(0), "j", state("1"), None).unwrap_err().kind,
        RefusalKind::Conflict
    );
    store.take(secs(0), "w");
    assert_eq!(store.save_checkpoint(secs(0), "j", state("1"), None).unwrap(), 1);
    assert_eq!(store.save_checkpoint(secs(0), "j", state("2"), Some(7)).unwrap(), 7);
    assert_eq!(
        store
            .save_checkpoint(secs(0), "j", state("3"), Some(7))
            .unwrap_err()
            .kind,
        RefusalKind::Conflict
    );
    let large = state(&format!("\"{}\"", "x".repeat(super::progress::MAX_CHECKPOINT_BYTES)));
    assert_eq!(
        store.save_checkpoint(secs(0), "j", large, None).unwrap_err().kind,
        RefusalKind::TooLarge
    );
    store.requeue(secs(1), "j", None).unwrap();
    store.take(secs(1), "w");
    assert_eq!(store.job("j").unwrap().checkpoint.as_ref().unwrap().state.get(), "2");
    store.ack(secs(2), "j", None, None).unwrap();
    assert!(store.job("j").unwrap().checkpoint.is_none());
}
