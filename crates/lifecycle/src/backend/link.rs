//! The link to the backend as one part of the machine: registration, heartbeats, FETCH, event
//! streams, hedges and outages.
//!
//! The part knows no other part. It reads [`Facts`] about the others and returns a list of
//! [`Said`]: orders for the shell and requests to the other parts, in the order of execution.

use std::time::Duration;

use crate::api::ids::{CallId, Claim, JobId};
use crate::api::{
    Call, Effect, Failure, Farewell, LinkNotice, LinkTimer, Moment, Notice, Options, Phase, WorkerId, WorkerState,
};
use crate::backend::answer_times::AnswerTimes;
use crate::backend::calls::Calls;
use crate::backend::link_said::Said;
use crate::backend::outages::Outages;
use crate::backend::poll_pace::PollPace;
use crate::backend::purpose::{Purpose, WhenItHangs};
use crate::backend::session::BackendSession;
use crate::backend::streams::Streams;
use crate::backend::wake_ups::WakeUps;
use crate::retry::draws::Draws;
use crate::timers::Timers;

/// An unanswered request fails this long after its `give_up`. The shell should have reported it by
/// then.
pub(super) const CALL_LEEWAY: Duration = Duration::from_millis(250);

/// The state of the session with the backend, and every request in flight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) session: BackendSession,
    pub(crate) calls: Calls,
    /// Recent answer times of the backend.
    pub(super) answer_times: AnswerTimes,
    /// The last reading of the shell: the share of the memory limit in use, in percent. None: no
    /// reading yet.
    pub(crate) memory_taken: Option<u8>,
    /// The container uses too much memory for another FETCH.
    pub(crate) memory_gate_is_closed: bool,
    pub(super) outages: Outages,
    pub(crate) streams: Streams,
    pub(super) wake_ups: WakeUps,
    pub(super) poll_pace: PollPace,
    pub(crate) draws: Draws,
    pub(crate) timers: Timers<LinkTimer>,
    /// When the backend last accepted a heartbeat of the present incarnation.
    pub(crate) accepted_at: Option<Moment>,
    pub(crate) said: Vec<Said>,
}

/// Facts about the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndFacts {
    pub(crate) phase: Phase,
    /// The state for the backend.
    pub(crate) state: WorkerState,
    /// No heartbeat but the last one may still be sent.
    pub(crate) has_said_goodbye: bool,
    /// The last heartbeat is in flight, or about to be sent.
    pub(crate) is_saying_goodbye: bool,
    /// The stop phase sends the last outcomes.
    pub(crate) is_reporting: bool,
    /// No request may last longer than this.
    pub(crate) calls_end: Option<Moment>,
}

/// A job whose reservation has to be extended.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) id: JobId,
    pub(crate) claim: Claim,
    pub(crate) claimed_at: Moment,
    /// The visibility timeout that the job itself asks for.
    pub(crate) visibility: Option<Duration>,
}

/// Questions about the jobs. Each is a walk over all of them.
pub(crate) trait Reservations {
    /// The jobs that a heartbeat has to name.
    fn kept(&self) -> Vec<Kept>;
    /// Whether there is a job that a heartbeat has to name.
    fn has_kept(&self) -> bool;
    /// How many jobs have an outcome that the backend has not accepted.
    fn reporting(&self) -> usize;
    /// Whether this incarnation of the worker has a job left.
    fn has_any_of(&self, worker: &WorkerId) -> bool;
}

/// The facts of a decision besides the state of the link.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) end: EndFacts,
    /// ojs-init may hand out new jobs: the phase is running and the worker is alive.
    pub(crate) takes_jobs: bool,
    pub(crate) jobs: &'a dyn Reservations,
    pub(crate) now: Moment,
}

impl Context<'_> {
    pub(super) fn is_terminating(&self) -> bool {
        self.end.phase.is_terminating()
    }

    /// The deadline of a request that would otherwise be given up at this moment.
    pub(super) fn cap(&self, give_up: Moment) -> Moment {
        self.end.calls_end.map_or(give_up, |end| give_up.min(end))
    }
}

impl Link {
    pub(crate) fn new(options: &Options) -> Self {
        let mut link = Self {
            streams: Streams::new(&options.listen_to),
            draws: Draws::new(options.seed),
            ..Self::default()
        };
        link.session.heartbeats.interval = options.heartbeat_interval;
        link
    }

    /// Sends a request with the timeout `patience`, or a shorter one if the end leaves less time.
    pub(crate) fn call(&mut self, call: Call, purpose: Purpose, patience: Duration, cx: &Context) -> CallId {
        let id = self.draws.call();
        self.call_as(id, call, purpose, patience, cx);
        id
    }

    /// Sends a request under a number that was drawn already. The end may leave less time.
    pub(crate) fn call_as(&mut self, id: CallId, call: Call, purpose: Purpose, patience: Duration, cx: &Context) {
        let is_of_a_job_that_is_not_done = matches!(&call, Call::Report { outcome, .. } if !outcome.is_ack());
        let rule = purpose.when_it_hangs(!is_of_a_job_that_is_not_done);
        let again = (rule == WhenItHangs::Again).then(|| call.clone());
        self.send_call_as(id, call, cx.cap(cx.now.after(patience)), false);
        if rule != WhenItHangs::Wait {
            let hangs_at = cx.now.after(self.answer_times.hangs_after());
            self.timers.arm_at_latest(LinkTimer::Hanging, hangs_at);
        }
        self.calls.insert(id, purpose, again, cx.now);
    }

    /// Sends a request under a new number.
    pub(super) fn send_call(&mut self, call: Call, give_up: Moment, is_again: bool) -> CallId {
        let id = self.draws.call();
        self.send_call_as(id, call, give_up, is_again);
        id
    }

    fn send_call_as(&mut self, id: CallId, call: Call, give_up: Moment, is_again: bool) {
        self.timers.arm(LinkTimer::Call(id), give_up.after(CALL_LEEWAY));
        self.order(Effect::CallBackend {
            id,
            call,
            give_up,
            is_again,
        });
    }
}

/// Requests in flight.
impl Link {
    /// Whether any FETCH is in flight.
    pub(crate) fn is_fetching(&self) -> bool {
        self.fetches_on_their_way().0 > 0
    }

    /// How many FETCHes are in flight, and how many jobs they ask for together.
    pub(crate) fn fetches_on_their_way(&self) -> (usize, usize) {
        let mut sum = (0, 0);
        for (_, purpose) in self.calls.general() {
            if let Purpose::Fetch(fetch) = purpose {
                sum = (sum.0 + 1, sum.1 + fetch.count);
            }
        }
        sum
    }

    /// Whether FETCH pauses because the last one failed.
    pub(crate) fn is_fetch_held_up(&self) -> bool {
        self.timers.is_armed(LinkTimer::FetchAgain)
    }

    pub(crate) fn is_registering(&self) -> bool {
        self.calls.is_any(|purpose| matches!(purpose, Purpose::Register(_)))
    }
}

/// The end.
impl Link {
    /// The end begins: no further FETCH or registration is sent.
    pub(crate) fn end_begins(&mut self) {
        for timer in [
            LinkTimer::Fetch,
            LinkTimer::FetchReturned,
            LinkTimer::FetchAgain,
            LinkTimer::Register,
        ] {
            self.timers.cancel(timer);
        }
    }

    /// Only the last heartbeat and the deregistrations follow. Sends no other heartbeat, and waits
    /// for no FETCH any more.
    pub(crate) fn says_nothing_more(&mut self) {
        self.timers.cancel(LinkTimer::Heartbeat);
        if self.is_fetching() {
            self.notify(LinkNotice::FetchAbandoned);
            let is_fetch = |(_, purpose): &(_, &Purpose)| matches!(purpose, Purpose::Fetch(..));
            let fetches: Vec<CallId> = self.calls.general().filter(is_fetch).map(|(call, _)| call).collect();
            for call in fetches {
                self.calls.remove(call);
            }
        }
    }

    /// Deregisters each worker that the backend knows.
    pub(crate) fn deregister_everybody(&mut self, cx: &Context) {
        self.abandon_heartbeats();
        for worker in self.session.take_registered() {
            self.deregister(worker, Farewell::Full, cx);
        }
    }
}

/// Output of the link.
impl Link {
    pub(super) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.say(Said::Order(effect));
    }

    pub(super) fn notify(&mut self, notice: impl Into<Notice>) {
        self.say(Said::Notify(notice.into()));
    }

    /// Logs that a request failed, and when it is retried.
    pub(super) fn call_failed(&mut self, what: &'static str, failure: Failure, retry_in: Option<Duration>) {
        self.notify(Notice::CallFailed {
            what,
            job: None,
            failure,
            retry_in,
        });
    }
}
