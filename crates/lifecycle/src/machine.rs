//! The machine: one event or timeout at a time, then drain the effects, then wait until the next
//! deadline.
//!
//! The machine has four parts. Each owns its data and knows no other part. A part gets facts, and
//! returns a list of orders and requests.
//!
//! | part | folder | owns |
//! |---|---|---|
//! | [`Jobs`] | `jobs` | every job, its outcome's way to the backend, the memory of former jobs |
//! | [`Workers`] | `worker` | the worker process, the holders of jobs, their offers and requests |
//! | [`Link`] | `backend` | registration, heartbeats, FETCH, streams of events, requests that hang, outages |
//! | [`Ending`] | `shutdown` | the phase, the times and the steps of the end, the account of it |
//!
//! `router` gathers the facts and carries out the orders of a part. `view` shows the whole machine
//! to operators and probes. The table [`CONSEQUENCES`] has the possible consequences of each event,
//! in their order.

use std::collections::VecDeque;

use crate::api::ids::{CallId, JobId};
use crate::api::{
    Effect, Event, Failure, LinkTimer, Moment, Notice, Options, Phase, Reply, Snapshot, Timer, WorkerState,
};
use crate::backend::answers::Answered;
use crate::backend::link::Link;
use crate::jobs::job::Job;
use crate::jobs::part::Jobs;
use crate::shutdown::ending::Ending;
use crate::view::health_state::HealthState;
use crate::view::operator_state::Operators;
use crate::worker::workers::Workers;

/// Something that may follow from an event.
type Consequence = fn(&mut Lifecycle, Moment);

/// The possible consequences of each event, in this order. A later one relies on the effects of the
/// earlier ones.
const CONSEQUENCES: [Consequence; 11] = [
    Lifecycle::resolve_gone_processes,
    Lifecycle::start_next_worker,
    Lifecycle::end_if_idle,
    Lifecycle::end_pulls,
    Lifecycle::look_after_jobs,
    Lifecycle::hand_over,
    Lifecycle::isolate,
    Lifecycle::answer_asked_pulls,
    Lifecycle::recycle,
    Lifecycle::send_reports,
    Lifecycle::look_after_link,
];

/// The consequences after the last of several simultaneous events. A wait for idleness depends on
/// whether a FETCH is in flight, so the FETCH is first.
const OF_THE_LAST_EVENT: [Consequence; 2] = [Lifecycle::fetch, Lifecycle::answer_waits];

/// The life of one worker, its jobs and its conversation with the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    pub(super) options: Options,
    pub(super) ending: Ending,
    pub(super) link: Link,
    pub(super) effects: VecDeque<Effect>,
    pub(super) jobs: Jobs,
    pub(super) workers: Workers,
    pub(super) health_state: HealthState,
    pub(super) operators: Operators,
}

impl Lifecycle {
    /// A life that begins: orders the start of the worker.
    pub fn new(options: Options, now: Moment) -> Self {
        let mut machine = Self {
            ending: Ending::default(),
            link: Link::new(&options),
            effects: VecDeque::new(),
            jobs: Jobs::default(),
            workers: Workers::new(now),
            health_state: HealthState::default(),
            operators: Operators::default(),
            options,
        };
        machine.order(Effect::StartWorker { keeps_name: false });
        machine
    }

    /// Handles one fact with all its consequences.
    pub fn handle(&mut self, event: Event, now: Moment) {
        self.handle_one_of_several(event, now, true);
    }

    /// Handles one of several simultaneous events. If it is not the last of them, the next one has
    /// to follow without a wait. The FETCH is left to the last event, so one FETCH asks for the
    /// room that all of them made. The replies for which operators wait are left to it as well.
    pub fn handle_one_of_several(&mut self, event: Event, now: Moment, is_last: bool) {
        if self.phase() != Phase::Exited {
            self.take_in(event, now);
            self.converge(now, is_last);
        }
    }

    fn take_in(&mut self, event: Event, now: Moment) {
        match event {
            Event::SignalArrived(signal) => self.end(now, |ending, cx| ending.signal_arrived(signal, cx)),
            Event::OperatorConnected(client) => self.operator_connected(client, now),
            Event::OperatorAsked(client, request) => self.operator_asked(client, request, now),
            Event::OperatorLeft(client) => self.operator_left(client),
            Event::WorkerStarted { process, worker } => self.worker_started(process, worker, now),
            Event::NextStarted(process) => self.next_worker_started(process, now),
            Event::NextNotStarted(why) => self.workers(now, |workers, cx| workers.next_not_started(why, cx)),
            Event::WorkerNotStarted(why) => self.workers(now, |workers, cx| workers.worker_not_started(why, cx)),
            Event::WorkerMemory(bytes) => self.workers(now, |workers, cx| workers.memory_is(bytes, cx)),
            Event::MemoryRanOut(kills) => self.workers.supervision.oom_kills = kills,
            Event::WorkerEnded(ended) => self.worker_ended(ended, now),
            Event::Reaped { children_left } => self.reaped(children_left, now),
            Event::HolderCame {
                holder,
                process,
                manners,
            } => self.holder_came(holder, process, manners, now),
            Event::ProcessIsOld(process) => self.workers(now, |workers, cx| workers.process_is_old(process, cx)),
            Event::Said(holder, said) => self.said(holder, said, now),
            Event::HeardPart(holder) => self.heard_part(holder, now),
            Event::OutboundFilled(holder) => self.workers(now, |workers, cx| workers.outbound(holder, true, cx)),
            Event::OutboundEmptied(holder) => self.workers(now, |workers, cx| workers.outbound(holder, false, cx)),
            Event::ReadingStopped(holder) => self.workers(now, |workers, cx| workers.reading_paused(holder, true, cx)),
            Event::ReadingResumed(holder) => self.workers(now, |workers, cx| workers.reading_paused(holder, false, cx)),
            Event::HungUp(holder) => self.hung_up(holder, now),
            Event::ProcessGone(process) => self.workers(now, |workers, cx| {
                workers.process_gone(process, cx);
                workers.one_of_two_is_gone(process, cx);
            }),
            Event::BackendReplied(call, reply) => self.backend_replied(call, reply, now),
            Event::StreamSaid(call, news) => self.link(now, |link, cx| link.stream_said(call, news, cx)),
            Event::CredentialsChanged => self.link(now, Link::credentials_changed),
            Event::MemoryTaken(percent) => self.link(now, |link, cx| link.memory_is_taken(percent, cx)),
        }
    }

    /// Acts on the timer that was due first, if one is due. Its orders can be carried out before
    /// the next timer, of which there may be thousands. `poll_timeout` returns the next one.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.phase() != Phase::Exited
            && let Some((_, timer)) = self.poll_timeout().filter(|(due, _)| *due <= now)
        {
            self.fire(timer, now);
            self.converge(now, true);
        }
    }

    /// The next order, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call `handle_timeout`, and why.
    pub fn poll_timeout(&self) -> Option<(Moment, Timer)> {
        let due = [
            self.operators.timers.next_as(Timer::Client),
            self.jobs.timers.next_as(Timer::Job),
            self.ending.timers.next_as(Timer::Ending),
            self.link.timers.next_as(Timer::Link),
            self.workers.timers.next_as(Timer::Worker),
        ];
        due.into_iter()
            .flatten()
            .min_by_key(|(due, timer)| (*due, timer.turn()))
    }

    /// Whether the outcome of this job is for the machine: a holder that waits for answers was
    /// given the job, and the machine remembers.
    pub fn knows(&self, job: &JobId) -> bool {
        self.jobs.knows(job)
    }

    /// The visible state.
    pub fn snapshot(&self) -> Snapshot {
        let jobs = &self.jobs.ledger;
        let count = |is: fn(&Job) -> bool| jobs.iter().filter(|(_, job)| is(job)).count();
        let held_back = count(Job::is_held_beside);
        // The handlers of dropped jobs may run, so an end waits for them.
        let dropped = if self.phase().is_terminating() {
            jobs.dropped()
        } else {
            0
        };
        Snapshot {
            phase: self.phase(),
            state: self.state(),
            concurrency: self.shown_concurrency(),
            active: jobs.active() + dropped,
            waiting: jobs.waiting().len(),
            held_back,
            held: count(|job| job.held().is_some()) - jobs.lost() - jobs.dropped() + dropped,
            unanswered: jobs.unanswered(),
            dropped: jobs.dropped(),
            past_their_time: count(|job| job.held().is_some_and(|held| held.is_past_its_time)),
            reporting: count(Job::is_reporting) - held_back,
            oldest_since: self.oldest_active_since(),
            ready_holders: self.workers.holders.ready(),
            capacity: self.workers.holders.concurrency(),
            free_credit: self.credit(),
            memory_taken: self.link.memory_taken,
            memory_gate_is_closed: self.link.memory_gate_is_closed,
            streams: self.link.streams.open(),
            telling_streams: self.link.streams.telling(),
            deaf_streams: self.link.streams.deaf(),
            worker_is_alive: self.workers.supervision.is_alive(),
            heartbeat_interval: self.link.session.heartbeats.interval,
            drain_since: self.ending.drain_since(),
            cut_off: self.ending.shutdown.cut_off,
            exit_by: self.ending.shutdown.exit_by(),
            deadlines: self.all_timers().count(),
        }
    }

    fn oldest_active_since(&self) -> Option<Moment> {
        let is_surplus = |job: &Job| job.report().is_some_and(|report| report.is_surplus);
        let jobs = self.jobs.ledger.iter();
        let active = jobs.filter(|(_, job)| !job.is_lost && !job.is_dropped && !is_surplus(job));
        active.map(|(_, job)| job.claimed_at).min()
    }

    /// The concurrency. Without a setting it follows the worker's requests.
    fn shown_concurrency(&self) -> u32 {
        let active = u32::try_from(self.jobs.ledger.active()).unwrap_or(u32::MAX);
        self.link
            .concurrency_asked_for(&self.options)
            .map_or(self.options.concurrency, |most| most.max(active))
    }

    fn fire(&mut self, timer: Timer, now: Moment) {
        match timer {
            Timer::Ending(timer) => {
                self.ending.timers.cancel(timer);
                self.end(now, |ending, cx| ending.due(timer, cx));
            }
            Timer::Link(timer) => {
                self.link.timers.cancel(timer);
                if let LinkTimer::Call(call) = timer {
                    self.backend_replied(call, Reply::Failed(Failure::Unanswered), now);
                } else {
                    self.link(now, |link, cx| link.due(timer, cx));
                }
            }
            Timer::Worker(timer) => {
                self.workers.timers.cancel(timer);
                self.workers(now, |workers, cx| workers.due(timer, cx));
            }
            Timer::Job(timer) => {
                self.jobs.timers.cancel(timer);
                self.jobs(now, |jobs, cx| jobs.due(timer, cx));
            }
            Timer::Client(client) => {
                self.operators.timers.cancel(client);
                self.client_is_due(client, now);
            }
        }
    }

    /// Runs every consequence of the last fact. Each step looks at the whole state, so none can be
    /// forgotten at one of the many places that could cause it.
    fn converge(&mut self, now: Moment, is_last: bool) {
        while self.phase() != Phase::Exited {
            for consequence in CONSEQUENCES {
                consequence(self, now);
            }
            if is_last {
                for consequence in OF_THE_LAST_EVENT {
                    consequence(self, now);
                }
            }
            // Each round moves the end one step on, and there are only a few steps.
            if !self.advance(now) {
                self.watch_holders(now);
                self.ending.watch_drain(self.jobs.ledger.unfinished(), now);
                debug_assert_eq!(self.invariants_if_small(), Ok(()));
                return;
            }
        }
    }

    fn backend_replied(&mut self, call: CallId, reply: Reply, now: Moment) {
        match self.link(now, |link, cx| link.answered(call, reply, cx)) {
            Some(Answered::Fetch(fetch, reply)) => self.fetch_replied(&fetch, reply, now),
            Some(Answered::OfJob(request, call, reply)) => self.job_request_replied(request, call, reply, now),
            None => {}
        }
    }

    /// Every armed timer of every part.
    pub(super) fn all_timers(&self) -> impl Iterator<Item = (Timer, Moment)> {
        let clients = self.operators.timers.iter_as(Timer::Client);
        clients
            .chain(self.jobs.timers.iter_as(Timer::Job))
            .chain(self.ending.timers.iter_as(Timer::Ending))
            .chain(self.link.timers.iter_as(Timer::Link))
            .chain(self.workers.timers.iter_as(Timer::Worker))
    }

    pub(super) fn phase(&self) -> Phase {
        self.ending.phase
    }

    /// See [`Ending::state`].
    pub(super) fn state(&self) -> WorkerState {
        self.ending.state()
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(super) fn notify(&mut self, notice: impl Into<Notice>) {
        let notice = notice.into();
        self.ending.note(&notice);
        self.order(Effect::Notify(notice));
    }
}
