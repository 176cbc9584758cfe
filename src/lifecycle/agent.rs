//! The conversation with the backend: registration, heartbeats, FETCH, and what their answers mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lifecycle::effect::{Call, CancelReason, Remark, WorkerState};
use crate::lifecycle::event::{Directive, Failure, JobState, Reply};
use crate::lifecycle::ids::{Claim, JobId, WorkerId};
use crate::lifecycle::jobs::Place;
use crate::lifecycle::machine::{Lifecycle, Purpose, Timer};
use crate::lifecycle::phase::Phase;
use crate::lifecycle::reports::is_ours;
use crate::lifecycle::time::Moment;

/// Heartbeats on their way at the same time: one that hangs, and one on a fresh connection.
const MAX_BEATS_IN_FLIGHT: usize = 2;

/// Looks at jobs that a heartbeat did not extend, on their way at the same time; the next heartbeat finds the others.
const MAX_LOOKS_IN_FLIGHT: usize = 8;

/// Longest pause before a repeat once the end has begun: an ACK is tried to the last moment.
const LONGEST_RETRY_AT_THE_END: Duration = Duration::from_millis(500);

/// Least time between two heartbeats that workers ask for.
const WORKER_BEAT_EVERY: Duration = Duration::from_secs(1);

/// What we know of the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Agent {
    /// Our name; another one for each incarnation of the worker.
    pub(super) worker: Option<WorkerId>,
    /// Whether registration was answered, one way or the other.
    pub(super) is_settled: bool,
    /// Whether the backend has accepted anything from this incarnation: only then does it have to hear of our end.
    pub(super) is_known: bool,
    /// Time between heartbeats.
    interval: Duration,
    /// The next heartbeat says quiet although we are further already (GS 5.1).
    says_quiet_first: bool,
    /// Another heartbeat is wanted as soon as there is room for it.
    beats_again: bool,
    /// When a worker last asked for a heartbeat.
    asked_at: Option<Moment>,
    /// FETCHes in a row that failed.
    fetch_failures: u32,
    /// Registrations in a row that failed.
    register_failures: u32,
    /// Whether this backend tells which reservations a heartbeat extended.
    extends: bool,
    /// What the last heartbeat's reply asked for.
    pub(super) last_directive: Option<Directive>,
    /// Whether the last answer of the backend was none.
    is_unreachable: bool,
    /// The backend takes no progress.
    pub(super) has_no_progress: bool,
    /// The backend saves no checkpoints.
    pub(super) has_no_checkpoints: bool,
    /// The present incarnation was deregistered: a late answer does not make it known again.
    has_left: bool,
    /// Former incarnations that still have outcomes to deliver or requests to be answered, and whether the backend
    /// knows them.
    retired: BTreeMap<WorkerId, bool>,
}

impl Agent {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            worker: None,
            is_settled: false,
            is_known: false,
            interval,
            says_quiet_first: false,
            beats_again: false,
            asked_at: None,
            fetch_failures: 0,
            register_failures: 0,
            extends: false,
            last_directive: None,
            is_unreachable: false,
            has_no_progress: false,
            has_no_checkpoints: false,
            has_left: false,
            retired: BTreeMap::new(),
        }
    }
}

impl Lifecycle {
    /// A new incarnation introduces itself (worker protocol 3.1).
    pub(super) fn begin_incarnation(&mut self, worker: WorkerId, now: Moment) {
        self.agent.worker = Some(worker);
        self.agent.is_settled = false;
        self.agent.is_known = false;
        self.agent.has_left = false;
        self.agent.register_failures = 0;
        self.register(now);
    }

    pub(super) fn register(&mut self, now: Moment) {
        let Some(worker) = self.agent.worker.clone() else {
            return;
        };
        if self.phase.is_terminating() {
            return;
        }
        let purpose = Purpose::Register(worker.clone());
        self.call(Call::Register { worker }, purpose, self.options.request_timeout, now);
    }

    /// The backend has accepted something from this incarnation, perhaps a former one by now.
    fn is_known_now(&mut self, worker: &WorkerId, now: Moment) {
        if self.agent.worker.as_ref() == Some(worker) {
            let was_known = std::mem::replace(&mut self.agent.is_known, !self.agent.has_left);
            // Its first answer came after the end had begun: what was held back until then is due.
            if self.phase.is_terminating() && self.agent.is_known && !was_known {
                self.beat_now(now);
            }
        } else if let Some(is_known) = self.agent.retired.get_mut(worker) {
            *is_known = true;
        }
    }

    pub(super) fn register_replied(&mut self, worker: &WorkerId, reply: Reply, now: Moment) {
        if matches!(reply, Reply::Registered { .. }) {
            self.is_known_now(worker, now);
        }
        if self.agent.worker.as_ref() != Some(worker) {
            return;
        }
        match reply {
            Reply::Registered {
                heartbeat_interval,
                longest_interval,
            } => {
                self.set_interval(heartbeat_interval, longest_interval, now);
                self.registration_is_settled(now);
            }
            // Most backends have no such call (requirements C-16): the first heartbeat introduces us.
            Reply::Failed(Failure::NotOffered) => self.registration_is_settled(now),
            Reply::Failed(failure) => self.register_again(failure, now),
            Reply::Beaten { .. } | Reply::Fetched(_) | Reply::Accepted | Reply::Looked(_) => {
                self.register_again(Failure::Unanswered, now);
            }
        }
    }

    /// What was configured, else recommended; but never more than the backend and the reservations bear (WP 10.3).
    fn set_interval(&mut self, recommended: Option<Duration>, longest: Option<Duration>, now: Moment) {
        let configured = self.options.heartbeat_interval;
        let wanted = recommended
            .filter(|_| !self.options.heartbeat_interval_is_fixed)
            .unwrap_or(configured);
        let longest = longest.unwrap_or(wanted).min(self.options.visibility_timeout / 3);
        self.agent.interval = wanted.min(longest);
        if self.timers.due(Timer::Heartbeat).is_some() {
            self.timers
                .arm_at_latest(Timer::Heartbeat, now.after(self.agent.interval));
        }
    }

    fn register_again(&mut self, failure: Failure, now: Moment) {
        let pause = self.retry_pause(self.agent.register_failures, asked_for(failure));
        self.agent.register_failures = self.agent.register_failures.saturating_add(1);
        self.timers.arm(Timer::Register, now.after(pause));
        self.say(Remark::CallFailed {
            what: "registration",
            failure,
            retry_in: Some(pause),
        });
    }

    /// The first heartbeat follows at once. After another registration it comes when it is due: a backend that accepts
    /// registrations and then knows nobody must not be asked without a pause.
    fn registration_is_settled(&mut self, now: Moment) {
        let was_settled = std::mem::replace(&mut self.agent.is_settled, true);
        if !was_settled && !self.phase.is_terminating() {
            self.beat_now(now);
        }
    }

    /// Sends a heartbeat, and the next one an interval later. With two on their way, it is sent when one is answered.
    pub(super) fn beat_now(&mut self, now: Moment) {
        let Some(worker) = self.agent.worker.clone() else {
            return;
        };
        if !self.agent.is_settled || self.shutdown.has_said_goodbye() {
            return;
        }
        self.timers.arm(Timer::Heartbeat, now.after(self.agent.interval));
        // Whoever never heard of us does not have to hear of our end.
        if self.phase.is_terminating() && !self.agent.is_known {
            return;
        }
        if self.beats_in_flight() >= MAX_BEATS_IN_FLIGHT {
            self.agent.beats_again = true;
            return;
        }
        self.agent.beats_again = false;
        let says_quiet = std::mem::take(&mut self.agent.says_quiet_first);
        let state = if says_quiet { WorkerState::Quiet } else { self.state() };
        let kept = self.jobs.iter().filter(|(_, job)| job.is_kept_reserved());
        let named: Vec<(JobId, Claim)> = kept.map(|(claim, job)| (job.id().clone(), claim)).collect();
        let mut seen = BTreeSet::new();
        let active: Vec<JobId> = named
            .iter()
            .map(|(id, _)| id.clone())
            .filter(|id| seen.insert(id.clone()))
            .collect();
        let patience = self.options.request_timeout.min(self.agent.interval);
        let call = Call::Heartbeat {
            worker: worker.clone(),
            state,
            active,
        };
        self.call(call, Purpose::Heartbeat { worker, named }, patience, now);
        self.agent.beats_again = says_quiet;
    }

    pub(super) fn beats_in_flight(&self) -> usize {
        let is_beat = |purpose: &&Purpose| matches!(purpose, Purpose::Heartbeat { .. });
        self.calls.values().filter(is_beat).count()
    }

    /// A handler said that it is alive: that counts as often as once a second.
    pub(super) fn beat_for_worker(&mut self, now: Moment) {
        let is_soon = self
            .agent
            .asked_at
            .is_some_and(|asked| asked.until(now) < WORKER_BEAT_EVERY);
        if is_soon {
            self.timers
                .arm_at_latest(Timer::Heartbeat, now.after(WORKER_BEAT_EVERY));
        } else {
            self.agent.asked_at = Some(now);
            self.beat_now(now);
        }
    }

    /// The shutdown begins: a heartbeat says quiet, the ones after it terminate (requirements C-03).
    pub(super) fn beat_for_terminate(&mut self, from: Phase, now: Moment) {
        if self.agent.is_known {
            self.agent.says_quiet_first = from == Phase::Running;
            self.beat_now(now);
        }
    }

    pub(super) fn heartbeat_replied(&mut self, worker: &WorkerId, named: &[(JobId, Claim)], reply: Reply, now: Moment) {
        // One that this very answer causes is not sent twice.
        let beats_again = std::mem::take(&mut self.agent.beats_again);
        match reply {
            Reply::Beaten { directive, extended } => {
                self.is_known_now(worker, now);
                self.agent.register_failures = 0;
                if let Some(extended) = extended {
                    self.look_for_lost(named, &extended, now);
                }
                self.directed(directive, now);
            }
            Reply::Failed(failure @ Failure::Unregistered) => {
                let is_registering = self.is_waiting_for(|purpose| matches!(purpose, Purpose::Register(_)));
                if !is_registering && self.timers.due(Timer::Register).is_none() && !self.phase.is_terminating() {
                    self.register_again(failure, now);
                }
            }
            Reply::Failed(failure) => self.say(Remark::CallFailed {
                what: "heartbeat",
                failure,
                retry_in: None,
            }),
            Reply::Registered { .. } | Reply::Fetched(_) | Reply::Accepted | Reply::Looked(_) => {}
        }
        if beats_again {
            self.beat_now(now);
        }
    }

    /// Reservations that a heartbeat did not extend, judged only where the backend is known to tell (C-32).
    fn look_for_lost(&mut self, named: &[(JobId, Claim)], extended: &[JobId], now: Moment) {
        let was_told_before = std::mem::replace(&mut self.agent.extends, true);
        if !was_told_before {
            return;
        }
        let extended: BTreeSet<&JobId> = extended.iter().collect();
        let in_flight = self
            .calls
            .values()
            .filter(|purpose| matches!(purpose, Purpose::LookForLost(_)))
            .count();
        let missing: Vec<Claim> = named
            .iter()
            .filter(|(id, claim)| !extended.contains(id) && self.can_be_lost(*claim))
            .map(|(_, claim)| *claim)
            .take(MAX_LOOKS_IN_FLIGHT.saturating_sub(in_flight))
            .collect();
        for claim in missing {
            if let Some(job) = self.jobs.get_mut(claim) {
                job.is_looked_at = true;
                let call = Call::Look { job: job.id().clone() };
                self.call(call, Purpose::LookForLost(claim), self.options.request_timeout, now);
            }
        }
    }

    fn can_be_lost(&self, claim: Claim) -> bool {
        self.jobs.get(claim).is_some_and(|job| {
            !job.is_lost && !job.is_looked_at && matches!(job.place, Place::Waiting | Place::Held(_))
        })
    }

    pub(super) fn looked_for_lost(&mut self, claim: Claim, reply: Reply) {
        let Some(job) = self.jobs.get_mut(claim) else { return };
        job.is_looked_at = false;
        let Reply::Looked(view) = reply else { return };
        if is_ours(job, &view) {
            return;
        }
        let reason = match view.state {
            JobState::Hidden => return,
            JobState::Cancelled => CancelReason::Cancelled,
            JobState::Active | JobState::Completed | JobState::Elsewhere => CancelReason::Lost,
        };
        let id = job.id().clone();
        match job.place {
            Place::Reporting(_) => {}
            Place::Waiting => {
                self.finish(claim);
                self.say(Remark::ReservationLost(id));
            }
            Place::Held(_) => {
                job.is_lost = true;
                self.say(Remark::ReservationLost(id));
                self.cancel(claim, reason, self.options.timeout_grace);
            }
        }
    }

    /// Asks for as many jobs as can be taken, and for none outside running.
    pub(super) fn fetch(&mut self, now: Moment) {
        if !self.is_taking_jobs() || !self.agent.is_settled {
            return;
        }
        if self.timers.due(Timer::Fetch).is_some() || self.is_fetching() {
            return;
        }
        let credit = self
            .most_active()
            .saturating_sub(self.jobs.len())
            .min(self.connections.free().saturating_sub(self.jobs.waiting().len()));
        let Some(worker) = self.agent.worker.clone() else {
            return;
        };
        if let Ok(count @ 1..) = u32::try_from(credit) {
            let purpose = Purpose::Fetch(worker.clone());
            self.call(
                Call::Fetch { worker, count },
                purpose,
                self.options.request_timeout,
                now,
            );
        }
    }

    pub(super) fn is_fetching(&self) -> bool {
        self.calls.values().any(|purpose| matches!(purpose, Purpose::Fetch(_)))
    }

    /// No FETCH before this pause is over.
    pub(super) fn pause_fetch(&mut self, pause: Duration, now: Moment) {
        let until = now.after(pause);
        if self.timers.due(Timer::Fetch).is_none_or(|due| due < until) {
            self.timers.arm(Timer::Fetch, until);
        }
    }

    pub(super) fn fetch_replied(&mut self, worker: WorkerId, reply: Reply, now: Moment) {
        match reply {
            Reply::Fetched(deliveries) => {
                self.agent.fetch_failures = 0;
                if deliveries.is_empty() {
                    let pause = self.jitter.poll_pause(self.options.poll_interval);
                    self.pause_fetch(pause, now);
                }
                self.claim(deliveries, worker.clone(), now);
                self.is_known_now(&worker, now);
            }
            Reply::Failed(failure) => self.fetch_failed(failure, now),
            Reply::Registered { .. } | Reply::Beaten { .. } | Reply::Accepted | Reply::Looked(_) => {
                self.fetch_failed(Failure::Unanswered, now);
            }
        }
    }

    fn fetch_failed(&mut self, failure: Failure, now: Moment) {
        if self.phase.is_terminating() {
            if failure == Failure::Unanswered {
                self.say(Remark::FetchAbandoned);
            }
            return;
        }
        let pause = self.retry_pause(self.agent.fetch_failures, asked_for(failure));
        self.agent.fetch_failures = self.agent.fetch_failures.saturating_add(1);
        self.pause_fetch(pause, now);
        self.say(Remark::CallFailed {
            what: "FETCH",
            failure,
            retry_in: Some(pause),
        });
    }

    /// The incarnation is over: it is deregistered as soon as its last outcome is delivered.
    pub(super) fn retire(&mut self) {
        self.timers.cancel(Timer::Register);
        if let Some(worker) = self.agent.worker.take() {
            self.agent.retired.insert(worker, self.agent.is_known);
        }
    }

    pub(super) fn retire_workers(&mut self, now: Moment) {
        if self.phase.is_terminating() || self.agent.retired.is_empty() {
            return;
        }
        let done = |worker: &&WorkerId| {
            self.jobs.iter().all(|(_, job)| job.worker != **worker) && !self.is_waiting_for_answers(worker)
        };
        let done: Vec<WorkerId> = self.agent.retired.keys().filter(done).cloned().collect();
        for worker in done {
            if self.agent.retired.remove(&worker) != Some(true) {
                continue;
            }
            let call = Call::Deregister { worker };
            self.call(call, Purpose::Deregister, self.options.request_timeout, now);
        }
    }

    /// Whether an answer may still make this incarnation known, or bring it a job.
    fn is_waiting_for_answers(&self, former: &WorkerId) -> bool {
        self.calls.values().any(|purpose| match purpose {
            Purpose::Register(worker) | Purpose::Fetch(worker) | Purpose::Heartbeat { worker, .. } => worker == former,
            Purpose::FinalHeartbeat
            | Purpose::Report(_)
            | Purpose::LookBeforeRepeat(_)
            | Purpose::LookForLost(_)
            | Purpose::Progress(_)
            | Purpose::Checkpoint(_)
            | Purpose::Deregister => false,
        })
    }

    /// Everybody whom the backend knows and who has not been deregistered.
    pub(super) fn take_registered(&mut self) -> Vec<WorkerId> {
        let former = self.agent.retired.iter().filter(|(_, is_known)| **is_known);
        let mut all: Vec<WorkerId> = former.map(|(worker, _)| worker.clone()).collect();
        self.agent.retired.retain(|_, is_known| !*is_known);
        if let Some(worker) = self.agent.worker.clone()
            && std::mem::take(&mut self.agent.is_known)
        {
            self.agent.has_left = true;
            all.push(worker);
        }
        all
    }

    /// How long to wait before a request is repeated. When the end is near nobody can wait long.
    pub(super) fn retry_pause(&mut self, failures: u32, asked_for: Option<Duration>) -> Duration {
        let pause = self.jitter.retry_pause(failures, asked_for);
        if self.phase.is_terminating() {
            pause.min(LONGEST_RETRY_AT_THE_END)
        } else {
            pause
        }
    }

    pub(super) fn note_backend_health(&mut self, reply: &Reply) {
        if matches!(reply, Reply::Failed(Failure::NoRoom | Failure::NoCredentials)) {
            return;
        }
        let is_unreachable = matches!(reply, Reply::Failed(Failure::NotSent | Failure::Unanswered));
        if std::mem::replace(&mut self.agent.is_unreachable, is_unreachable) && !is_unreachable {
            self.say(Remark::BackendIsBack);
        }
    }
}

fn asked_for(failure: Failure) -> Option<Duration> {
    match failure {
        Failure::Declined { retry_after } => retry_after,
        Failure::NotSent
        | Failure::NoRoom
        | Failure::NoCredentials
        | Failure::Unanswered
        | Failure::Unauthorized
        | Failure::NotOffered
        | Failure::Unregistered
        | Failure::Lost
        | Failure::AlreadyCompleted
        | Failure::Refused => None,
    }
}
