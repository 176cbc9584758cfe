//! The worker's registration: unknown, registered, gone. Also the kind of the backend.

use std::time::Duration;

use crate::api::{
    Call, Failure, Farewell, LinkNotice, LinkTimer, MAX_CONCURRENCY, Notice, Options, Queues, Reply, Takes, Text,
    WorkerId,
};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::backend::link::{Context, Link};
use crate::backend::purpose::{Purpose, SentFetch};
use crate::retry::state::is_of_an_outage;

/// However short the heartbeat interval is, pauses between registrations may become this long.
const SHORTEST_LONG_PAUSE: Duration = Duration::from_secs(1);

/// Attempts to learn what kind of backend it is; then it counts as one of the usual ones until the
/// next registration.
const MANIFEST_ATTEMPTS: u32 = 10;

/// How long after the first of the queues that are not registered yet all of them are.
const REGISTER_MORE_AFTER: Duration = Duration::from_secs(1);

impl Link {
    /// A new incarnation introduces itself (worker protocol 3.1).
    pub(crate) fn begin_incarnation(&mut self, worker: WorkerId, cx: &Context) {
        self.timers.cancel(LinkTimer::Register);
        self.session.begins(worker);
        self.accepted_at = None;
        self.register(cx);
    }

    pub(crate) fn register(&mut self, cx: &Context) {
        let Some(worker) = self.session.worker().cloned() else {
            return;
        };
        if cx.is_terminating() {
            return;
        }
        if self.waits_for_queues(cx.options) {
            return;
        }
        self.session.registers_queues();
        let purpose = Purpose::Register(worker.clone());
        let takes = self.takes(cx.options);
        let call = Call::Register { worker, takes };
        self.call(call, purpose, cx.options.request_timeout, cx);
    }

    /// Whether the registration waits for the first request for jobs, which names queues.
    pub(crate) fn waits_for_queues(&self, options: &Options) -> bool {
        options.queues == Queues::AsAsked && !self.session.knows_queues()
    }

    /// The jobs that the worker takes, for the backend. Without a configuration it is what the
    /// holders have asked for until now.
    pub(crate) fn takes(&self, options: &Options) -> Takes {
        let is_asked_for = options.queues == Queues::AsAsked;
        Takes {
            queues: is_asked_for.then(|| self.session.queues().to_vec()),
            concurrency: self.concurrency_asked_for(options),
        }
    }

    /// The most jobs that its holders had and asked for at the same time, at least 1; none where
    /// somebody has set a bound.
    pub(crate) fn concurrency_asked_for(&self, options: &Options) -> Option<u32> {
        is_unbounded(options).then(|| self.session.most_at_once().max(1))
    }

    /// The most jobs that the holders had and asked for at the same time, whether or not somebody
    /// has set a bound; none before the first request, and none where holders do not name queues.
    pub(crate) fn most_asked_for(&self, options: &Options) -> Option<u32> {
        let most = self.session.most_at_once();
        (options.queues.are_named_by_holders() && most > 0).then_some(most)
    }

    /// The holders have and want so many jobs together.
    pub(crate) fn jobs_are_asked_for(&mut self, at_once: usize) {
        let at_once = u32::try_from(at_once).unwrap_or(MAX_CONCURRENCY);
        self.session.wanted_at_once(at_once.min(MAX_CONCURRENCY));
    }

    /// Holders ask for jobs from these queues, where nobody has configured any: the first ones are
    /// what the registration waits for; further ones are registered a moment later, together.
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
        let is_under_way = self.is_registering() || self.timers.deadline_of(LinkTimer::Register).is_some();
        if self.session.has_more_queues() && !is_under_way && !cx.is_terminating() {
            self.timers.arm(LinkTimer::Register, cx.now.after(REGISTER_MORE_AFTER));
        }
    }

    /// The backend has accepted something from this incarnation, perhaps a former one by now.
    pub(super) fn is_known_now(&mut self, worker: &WorkerId, cx: &Context) {
        // Its first answer came after the end had begun: what was held back until then is due.
        if self.session.heard_of(worker) && cx.is_terminating() {
            self.heartbeat_now(cx);
        }
    }

    pub(crate) fn register_replied(&mut self, worker: &WorkerId, reply: Reply, cx: &Context) {
        // An earlier attempt may have got through, and its answer not.
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
            // us.
            Reply::Failed(Failure::Unsupported) => {
                self.session.is_without_registration();
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
        // After it is settled: what is due to a backend that knows us goes out only then.
        if is_accepted {
            self.notify(LinkNotice::Registered(worker.clone()));
            self.session.registered();
            self.is_known_now(worker, cx);
        }
        self.register_more_queues(cx);
    }

    /// Sets the configured interval, or else the recommended one, but never more than the backend
    /// and the reservations bear (WP 10.3).
    fn set_interval(&mut self, recommended: Option<Duration>, longest: Option<Duration>, cx: &Context) {
        let configured = cx.options.heartbeat_interval;
        let is_fixed = cx.options.heartbeat_interval_is_fixed;
        let wanted = recommended.filter(|_| !is_fixed).unwrap_or(configured);
        let longest = longest.unwrap_or(wanted).min(cx.options.visibility_timeout / 3);
        let used = wanted.min(longest);
        let was = self.session.heartbeats.set_interval(used);
        if is_fixed && used < configured && used != was {
            self.notify(LinkNotice::HeartbeatIntervalCut { configured, used });
        }
        if self.timers.deadline_of(LinkTimer::Heartbeat).is_some() {
            self.timers.arm_at_latest(LinkTimer::Heartbeat, cx.now.after(used));
        }
    }

    pub(super) fn register_again(&mut self, failure: Failure, cx: &Context) {
        if cx.is_terminating() {
            return;
        }
        let before = self.session.registrations.add(failure, cx.now);
        let mut pause = self.draws.retry_pause(before, failure, cx.end.phase);
        if is_of_an_outage(failure) {
            // No heartbeat tells yet that it is over.
            let longest = self.session.heartbeats.interval().max(SHORTEST_LONG_PAUSE);
            pause = pause.min(self.draws.jitter.poll_pause(longest));
        }
        self.timers.arm(LinkTimer::Register, cx.now.after(pause));
        self.notify(Notice::CallFailed {
            what: "registration",
            job: None,
            failure,
            retry_in: Some(pause),
        });
    }

    /// The first heartbeat follows at once. After another registration it comes when it is due: a
    /// backend that accepts registrations and then knows nobody must not be asked without a pause.
    fn registration_is_settled(&mut self, cx: &Context) {
        let was_settled = self.session.registration_answered();
        self.streams.forget_backend();
        self.poll_pace.forget_backend();
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
        let done: Vec<WorkerId> = self.session.retired().filter(done).cloned().collect();
        for worker in done {
            if self.session.retired_is_done(&worker) {
                self.deregister(worker, Farewell::Full, cx);
            }
        }
    }

    /// Whether an answer may still make this incarnation known, or bring it a job.
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

    /// Some backends take nothing but our name, and most have no such operation (requirements
    /// C-16): then the other ways are tried, and that the last one is missing too is nothing to
    /// speak of. Who is not there is gone.
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
            self.notify(Notice::CallFailed {
                what,
                job: None,
                failure,
                retry_in: None,
            });
        }
    }

    /// Asks what kind of backend it is, once for each registration; after a heartbeat, so that a
    /// backend that is down is asked no more often than that.
    pub(super) fn ask_for_manifest(&mut self, cx: &Context) {
        let is_asking = self.calls.is_any(|purpose| *purpose == Purpose::Manifest);
        if !self.session.knows_traits() && !is_asking && !cx.is_terminating() {
            self.call(Call::Manifest, Purpose::Manifest, cx.options.request_timeout, cx);
        }
    }

    pub(crate) fn manifest_replied(&mut self, reply: &Reply) {
        let failure = reply.failure();
        if let Reply::Manifest(traits) = reply {
            self.session.has_traits(*traits);
        } else if failure.may_pass() && failure != Failure::Unauthorized {
            // The next heartbeat asks again, a few times.
            self.session.traits_not_heard(MANIFEST_ATTEMPTS);
        } else {
            // The backend does not tell its kind, or not to this worker.
            self.session.has_no_traits();
        }
    }
}

/// Whether nobody has configured how many jobs the worker may have at once.
fn is_unbounded(options: &Options) -> bool {
    options.queues.are_named_by_holders() && options.concurrency == MAX_CONCURRENCY
}
