//! The conversation with the backend: what we know of it, FETCH, and how often it is asked again. Registration and
//! heartbeats have files of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lifecycle::effect::{Call, Remark};
use crate::lifecycle::event::{Directive, Failure, Habits, Reply};
use crate::lifecycle::heartbeats::Beats;
use crate::lifecycle::ids::{Claim, WorkerId};
use crate::lifecycle::jobs::Place;
use crate::lifecycle::machine::{Lifecycle, Purpose, Timer};
use crate::lifecycle::time::Moment;

/// Longest pause before a repeat once the end has begun: an ACK is tried to the last moment.
const LONGEST_RETRY_AT_THE_END: Duration = Duration::from_millis(500);

/// Least time between two attempts that changed credentials bring forward.
const NEW_CREDENTIALS_EVERY: Duration = Duration::from_secs(1);

/// What we know of the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Agent {
    /// Our name; another one for each incarnation of the worker.
    pub(super) worker: Option<WorkerId>,
    /// Whether registration was answered, one way or the other.
    pub(super) is_settled: bool,
    /// Whether the backend has accepted anything from this incarnation: only then does it have to hear of our end.
    pub(super) is_known: bool,
    /// When and how heartbeats go out.
    pub(super) beats: Beats,
    /// What this kind of backend does differently.
    pub(super) habits: Habits,
    /// Whether it was asked, and did answer.
    pub(super) knows_habits: bool,
    /// It refused the full form of an ACK and took the bare one (requirements C-24).
    pub(super) takes_bare_acks: bool,
    /// FETCHes in a row that failed.
    fetch_failures: u32,
    /// Registrations in a row that failed.
    pub(super) register_failures: u32,
    /// What the last heartbeat's reply asked for.
    pub(super) last_directive: Option<Directive>,
    /// Whether the last answer of the backend was none.
    is_unreachable: bool,
    /// Our credentials were refused since they last changed.
    is_refused: bool,
    /// When changed credentials last brought something forward.
    renewed_at: Option<Moment>,
    /// The backend takes no progress.
    pub(super) has_no_progress: bool,
    /// The backend saves no checkpoints.
    pub(super) has_no_checkpoints: bool,
    /// The present incarnation was deregistered: a late answer does not make it known again.
    pub(super) has_left: bool,
    /// Former incarnations that still have outcomes to deliver or requests to be answered, and whether the backend
    /// knows them.
    pub(super) retired: BTreeMap<WorkerId, bool>,
}

impl Agent {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            worker: None,
            is_settled: false,
            is_known: false,
            beats: Beats::new(interval),
            habits: Habits::default(),
            knows_habits: false,
            takes_bare_acks: false,
            fetch_failures: 0,
            register_failures: 0,
            last_directive: None,
            is_unreachable: false,
            is_refused: false,
            renewed_at: None,
            has_no_progress: false,
            has_no_checkpoints: false,
            has_left: false,
            retired: BTreeMap::new(),
        }
    }
}

impl Lifecycle {
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
            Reply::Registered { .. }
            | Reply::Beaten { .. }
            | Reply::Accepted
            | Reply::Looked(_)
            | Reply::Described(_) => {
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

    /// How long to wait before a request is repeated. When the end is near nobody can wait long.
    pub(super) fn retry_pause(&mut self, failures: u32, asked_for: Option<Duration>) -> Duration {
        let pause = self.jitter.retry_pause(failures, asked_for);
        if self.phase.is_terminating() {
            pause.min(LONGEST_RETRY_AT_THE_END)
        } else {
            pause
        }
    }

    /// What waits for a second chance gets it now: the first one may have had the wrong credentials.
    pub(super) fn credentials_changed(&mut self, now: Moment) {
        if !std::mem::take(&mut self.agent.is_refused) {
            return;
        }
        // Whoever can write next to the file must not make us ask without a pause.
        let earliest = self
            .agent
            .renewed_at
            .map_or(now, |last| last.after(NEW_CREDENTIALS_EVERY));
        let at = now.after(earliest.from_now(now));
        self.agent.renewed_at = Some(at);
        // One that is on its way with the old ones shall not wait long after its refusal.
        self.agent.register_failures = 0;
        self.agent.fetch_failures = 0;
        let reporting = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.place, Place::Reporting(_)));
        let reporting: Vec<Claim> = reporting.map(|(claim, _)| claim).collect();
        let mut timers = vec![Timer::Register, Timer::Fetch, Timer::Heartbeat];
        for claim in reporting {
            if let Some(report) = self.jobs.report_mut(claim) {
                report.failures = 0;
                timers.extend(report.step.is_pause().then_some(Timer::Report(claim)));
            }
        }
        for timer in timers {
            if self.timers.due(timer).is_some() {
                self.timers.arm_at_latest(timer, at);
            }
        }
    }

    pub(super) fn note_backend_health(&mut self, reply: &Reply) {
        let is_refusal = matches!(reply, Reply::Failed(Failure::Unauthorized | Failure::NoCredentials));
        self.agent.is_refused |= is_refusal;
        if matches!(reply, Reply::Failed(Failure::NoRoom | Failure::NoCredentials)) {
            return;
        }
        let is_unreachable = matches!(reply, Reply::Failed(Failure::NotSent | Failure::Unanswered));
        if std::mem::replace(&mut self.agent.is_unreachable, is_unreachable) && !is_unreachable {
            self.say(Remark::BackendIsBack);
        }
    }
}

/// When the backend wants to be asked again, if it said so.
pub(super) fn asked_for(failure: Failure) -> Option<Duration> {
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
