//! The worker's registration: unknown, registered, deregistered. Also the kind of the backend.

use std::mem;
use std::time::Duration;

use crate::api::{
    Call, Failure, Farewell, LinkNotice, LinkTimer, MAX_CONCURRENCY, Options, Queues, Reply, Takes, Text, WorkerId,
};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::backend::link::{Context, Link};
use crate::backend::link_said::Said;
use crate::backend::poll_pace::PollPace;
use crate::backend::purpose::{Purpose, SentFetch};
use crate::retry::state::is_of_an_outage;

/// Pauses between registrations may grow to this, however short the heartbeat interval is.
const SHORTEST_LONG_PAUSE: Duration = Duration::from_secs(1);

/// Attempts to fetch the backend's manifest. After these the backend counts as the usual kind until
/// the next registration.
const MANIFEST_ATTEMPTS: u32 = 10;

/// ojs-init registers all new queues this long after the first of them.
const REGISTER_MORE_AFTER: Duration = Duration::from_secs(1);

impl Link {
    /// A process of this worker has started. A new incarnation registers (worker protocol 3.1); one
    /// more process of the same one, after a recycling, does not.
    pub(crate) fn worker_began(&mut self, worker: WorkerId, cx: &Context) {
        if self.session.is(&worker) {
            return;
        }
        self.timers.cancel(LinkTimer::Register);
        self.session.begins(worker);
        self.accepted_at = None;
        self.register(cx);
    }

    pub(crate) fn register(&mut self, cx: &Context) {
        let Some(worker) = self.session.worker.clone() else {
            return;
        };
        if cx.is_terminating() {
            return;
        }
        if self.waits_for_queues(cx.options) {
            return;
        }
        self.session.registered_queues = self.session.queues.len();
        let purpose = Purpose::Register(worker.clone());
        let takes = self.takes(cx.options);
        let call = Call::Register { worker, takes };
        self.call(call, purpose, cx.options.request_timeout, cx);
    }

    /// Whether the registration waits for the first request for jobs, because that names the
    /// queues.
    pub(crate) fn waits_for_queues(&self, options: &Options) -> bool {
        options.queues == Queues::AsAsked && !self.session.knows_queues()
    }

    /// The jobs that the worker accepts, as reported to the backend. Without a configuration these
    /// are the jobs that the holders have asked for so far.
    pub(crate) fn takes(&self, options: &Options) -> Takes {
        let is_asked_for = options.queues == Queues::AsAsked;
        Takes {
            queues: is_asked_for.then(|| self.session.queues.clone()),
            concurrency: self.concurrency_asked_for(options),
        }
    }

    /// The most jobs that the holders had and asked for at the same time, at least 1. None if a
    /// bound is configured.
    pub(crate) fn concurrency_asked_for(&self, options: &Options) -> Option<u32> {
        is_unbounded(options).then(|| self.session.most_at_once.max(1))
    }

    /// The most jobs that the holders had and asked for at the same time, with or without a
    /// configured bound. None before the first request, and none where holders do not name queues.
    pub(crate) fn most_asked_for(&self, options: &Options) -> Option<u32> {
        let most = self.session.most_at_once;
        (options.queues.are_named_by_holders() && most > 0).then_some(most)
    }

    /// The holders together have and ask for this many jobs.
    pub(crate) fn jobs_are_asked_for(&mut self, at_once: usize) {
        let at_once = u32::try_from(at_once).unwrap_or(MAX_CONCURRENCY);
        self.session.most_at_once = self.session.most_at_once.max(at_once.min(MAX_CONCURRENCY));
    }

    /// Holders ask for jobs from these queues, and no queues are configured. The registration waits
    /// for the first queues. Further ones are registered together a moment later.
    pub(crate) fn queues_are_asked_for(&mut self, queues: &[Text], cx: &Context) {
        let is_first = !self.session.knows_queues();
        for queue in queues {
            self.session.asked_for(queue);
        }
        if is_first && !self.is_registering() {
            self.register(cx);
        } else {
            self.register_more_queues(cx);
        }
    }

    fn register_more_queues(&mut self, cx: &Context) {
        let is_under_way = self.is_registering() || self.timers.is_armed(LinkTimer::Register);
        if self.session.has_more_queues() && !is_under_way && !cx.is_terminating() {
            self.timers.arm(LinkTimer::Register, cx.now.after(REGISTER_MORE_AFTER));
        }
    }

    /// The backend has accepted a request of this incarnation, which may be a former one by now.
    pub(super) fn is_known_now(&mut self, worker: &WorkerId, cx: &Context) {
        // The first answer arrived after the end had begun, so the heartbeat that was held back is
        // due.
        if self.session.heard_of(worker) && cx.is_terminating() {
            self.heartbeat_now(cx);
        }
    }

    pub(crate) fn register_replied(&mut self, worker: &WorkerId, reply: Reply, cx: &Context) {
        // An earlier attempt may have reached the backend although its answer was lost.
        let is_accepted = matches!(
            reply,
            Reply::Registered { .. } | Reply::Failed(Failure::AlreadyCompleted)
        );
        if !self.session.is(worker) {
            if is_accepted {
                self.is_known_now(worker, cx);
            }
            return;
        }
        match reply {
            Reply::Registered {
                heartbeat_interval,
                longest_interval,
            } => {
                self.set_interval(heartbeat_interval, longest_interval, cx);
                self.registration_is_settled(cx);
            }
            // Most backends have no such call (requirements C-16): the first heartbeat introduces
            // the worker.
            Reply::Failed(Failure::Unsupported) => {
                self.session.has_no_registration = true;
                self.notify(LinkNotice::NotRegistered);
                self.registration_is_settled(cx);
                if cx.is_terminating() {
                    self.heartbeat_now(cx);
                }
            }
            Reply::Failed(Failure::AlreadyCompleted) => self.registration_is_settled(cx),
            Reply::Failed(_)
            | Reply::HeartbeatOk { .. }
            | Reply::Fetched(_)
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_) => self.register_again(reply.failure(), cx),
        }
        // This follows the settled registration because a backend that knows the worker gets the
        // held-back heartbeat only then.
        if is_accepted {
            self.notify(LinkNotice::Registered(worker.clone()));
            // If the worker has deregistered meanwhile, another deregistration undoes this.
            self.session.has_left = false;
            self.is_known_now(worker, cx);
        }
        self.register_more_queues(cx);
    }

    /// Sets the configured interval, or else the recommended one. The interval never exceeds what
    /// the backend and the reservations allow (WP 10.3).
    fn set_interval(&mut self, recommended: Option<Duration>, longest: Option<Duration>, cx: &Context) {
        let configured = cx.options.heartbeat_interval;
        let is_fixed = cx.options.heartbeat_interval_is_fixed;
        let wanted = recommended.filter(|_| !is_fixed).unwrap_or(configured);
        let longest = longest.unwrap_or(wanted).min(cx.options.visibility_timeout / 3);
        let used = wanted.min(longest);
        let was = mem::replace(&mut self.session.heartbeats.interval, used);
        if is_fixed && used < configured && used != was {
            self.notify(LinkNotice::HeartbeatIntervalCut { configured, used });
        }
        self.timers.bring_forward(LinkTimer::Heartbeat, cx.now.after(used));
    }

    pub(super) fn register_again(&mut self, failure: Failure, cx: &Context) {
        if cx.is_terminating() {
            return;
        }
        let before = self.session.registrations.add(failure, cx.now);
        let mut pause = self.draws.retry_pause(before, failure, cx.end.phase);
        if is_of_an_outage(failure) {
            // No heartbeat reports the end of the outage yet.
            let longest = self.session.heartbeats.interval.max(SHORTEST_LONG_PAUSE);
            pause = pause.min(self.draws.jitter.poll_pause(longest));
        }
        self.timers.arm(LinkTimer::Register, cx.now.after(pause));
        self.call_failed("registration", failure, Some(pause));
    }

    /// The first registration is followed by a heartbeat at once. After a later one the heartbeat
    /// waits for its interval, because a backend that accepts registrations but knows no worker
    /// would otherwise get requests without a pause.
    fn registration_is_settled(&mut self, cx: &Context) {
        let was_settled = self.session.registration_answered();
        self.say(Said::RegistrationAnswered);
        self.streams.forget_backend();
        self.poll_pace = PollPace::default();
        self.listen_again(cx);
        if !was_settled && !cx.is_terminating() {
            self.heartbeat_now(cx);
        }
    }

    pub(crate) fn retire_workers(&mut self, cx: &Context) {
        if cx.is_terminating() {
            return;
        }
        let done = |worker: &&WorkerId| !cx.jobs.has_any_of(worker) && !self.is_waiting_for_answers(worker);
        let done: Vec<WorkerId> = self.session.retired.keys().filter(done).cloned().collect();
        for worker in done {
            if self.session.retired.remove(&worker) == Some(true) {
                self.deregister(worker, Farewell::Full, cx);
            }
        }
    }

    /// Whether an answer may still show that the backend knows this incarnation, or deliver a job
    /// to it.
    fn is_waiting_for_answers(&self, former: &WorkerId) -> bool {
        self.calls.is_any(|purpose| match purpose {
            Purpose::Register(worker)
            | Purpose::Fetch(SentFetch { worker, .. })
            | Purpose::Heartbeat(SentHeartbeat { worker, .. }) => worker == former,
            Purpose::FinalHeartbeat { .. } | Purpose::OfJob(_) | Purpose::Manifest | Purpose::Deregister(..) => false,
        })
    }

    pub(crate) fn deregister(&mut self, worker: WorkerId, way: Farewell, cx: &Context) {
        let purpose = Purpose::Deregister(worker.clone(), way);
        let call = Call::Deregister { worker, way };
        self.call(call, purpose, cx.options.request_timeout, cx);
    }

    /// Some backends accept only the worker's name, and most have no such operation (requirements
    /// C-16). ojs-init then tries the other ways. A backend that lacks the last one as well is not
    /// worth a log line. A worker that the backend does not know counts as deregistered.
    pub(crate) fn deregister_replied(&mut self, worker: WorkerId, way: Farewell, reply: &Reply, cx: &Context) {
        let is_refused = *reply == Reply::Failed(Failure::Refused);
        let is_missing = *reply == Reply::Failed(Failure::Unsupported);
        let is_gone = matches!(
            reply,
            Reply::Failed(Failure::Unsupported | Failure::AlreadyCompleted | Failure::Unregistered)
        );
        match way {
            Farewell::Full if is_refused => self.deregister(worker, Farewell::Bare, cx),
            Farewell::Full | Farewell::Bare if is_refused || is_missing => {
                self.deregister(worker, Farewell::Delete, cx);
            }
            Farewell::Full | Farewell::Bare | Farewell::Delete if is_gone => {}
            Farewell::Full | Farewell::Bare | Farewell::Delete => self.note_failure("deregistration", reply),
        }
    }

    pub(crate) fn note_failure(&mut self, what: &'static str, reply: &Reply) {
        if let Reply::Failed(failure) = *reply {
            self.call_failed(what, failure, None);
        }
    }

    /// Asks for the backend's kind once for each registration. The request follows a heartbeat, so
    /// a backend that is down gets no more of them than heartbeats.
    pub(super) fn ask_for_manifest(&mut self, cx: &Context) {
        let is_asking = self.calls.is_any(|purpose| *purpose == Purpose::Manifest);
        if !self.session.knows_traits && !is_asking && !cx.is_terminating() {
            self.call(Call::Manifest, Purpose::Manifest, cx.options.request_timeout, cx);
        }
    }

    pub(crate) fn manifest_replied(&mut self, reply: &Reply) {
        let failure = reply.failure();
        if let Reply::Manifest(traits) = reply {
            self.session.traits = *traits;
            self.session.knows_traits = true;
        } else if failure.may_pass() && failure != Failure::Unauthorized {
            // The next heartbeat asks again, a few times.
            self.session.traits_not_heard(MANIFEST_ATTEMPTS);
        } else {
            // The backend does not report its kind, or not to this worker.
            self.session.knows_traits = true;
        }
    }
}

/// Whether the number of jobs at once is not configured.
fn is_unbounded(options: &Options) -> bool {
    options.queues.are_named_by_holders() && options.concurrency == MAX_CONCURRENCY
}
