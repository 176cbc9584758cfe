//! The machine: one event or timeout at a time, then drain the effects, then wait until the next deadline.
//!
//! What each kind of event means is in a file of its own, all of them parts of [`Lifecycle`]; the data that they look at stands
//! in files that know nothing of the machine:
//!
//! | room | file | decides |
//! |---|---|---|
//! | `jobs` | `dispatch` | which job goes to which holder |
//! | | `moves` | a job changes hands, and the credit of its holders with it |
//! | | `pulled` | which job goes to those who ask for jobs, and what becomes of jobs that nobody has asked for |
//! | | `beats` | heartbeats of holders that name their jobs, and jobs that are not named any more |
//! | | `isolation` | which job runs alone because its process crashed the last time |
//! | | `unhandled` | what becomes of jobs whose type nobody takes |
//! | | `stages` | how far an outcome is, and what leads on; the only file that knows |
//! | | `answers` | outcomes of holders that wait for the answer: which of them counts, and when it is answered |
//! | | `reports` | outcomes on their way to the backend |
//! | | `brake` | how long a job is held that is given back again and again |
//! | | `redelivery` | what comes again while they are |
//! | | `doubts` | answers to an outcome that leave open what became of the job |
//! | | `ack_fallback` | outcomes that the backend does not take as they are |
//! | | `progress` | progress and checkpoints on theirs |
//! | | `losses` | what proves that a reservation is lost, and what becomes of its handler |
//! | `worker` | `workers` | the worker and its holders as a part of its own: it knows no other part, and answers with a list of `workers_said` |
//! | | `conversation` | whether a holder is still there, and what is done with the process of one that is not |
//! | | `pulling` | holders that ask for jobs, and when they do so in vain |
//! | | `cancel_signals` | whose process is woken up by a signal for a cancel, and how often |
//! | | `supervise` | the worker's process: started, ended, started again |
//! | | `capacity_news` | how many jobs the worker takes, for whoever reads the log |
//! | `backend` | `fetch` | FETCH, and how often the backend is asked again |
//! | | `registration` | who we are to the backend: registered, known, gone |
//! | | `heartbeats` | what they say, and what their answers mean |
//! | | `hanging` | what is done about a request that hangs while others are answered |
//! | | `wake` | streams of events: which are asked for, and what comes of what they tell |
//! | | `deafness` | what proves that a stream tells nothing, and what is asked for instead |
//! | | `memory_gate` | whether there is memory for more jobs |
//! | | `resume` | what a resume waits for |
//! | | `outage` | which lines an outage of the backend is told in |
//! | | `last_heartbeat` | the last heartbeat, and what its answer means |
//! | `shutdown` | `ending` | the end as a part of its own: it knows no other part, and answers with a list of `said` |
//! | | `phase` | which trigger moves which phase; the only file that does |
//! | | `triggers` | which trigger a signal or a directive is |
//! | | `idle` | when the end begins without a request: nothing to do for long enough, or one job done |
//! | | `transitions` | what a phase change brings with it |
//! | | `deadline` | when the drain has to end, and we have to be gone |
//! | | `steps` | which step of the end follows which; the only file that knows |
//! | | `stop` | the end itself, step by step |
//! | | `timeouts` | how long what may take |
//! | | `drain_log` | the lines that tell how the drain goes on |
//! | | `end_report` | what is told of the end where an orchestrator looks for it |
//! | (here) | `credit` | how many jobs can be taken now |
//! | | `deaths` | what becomes of the jobs of a process that went away |
//! | | `worker_consequences` | the facts that the workers decide by, what follows in the other parts from what they say, and who hears what a holder says |
//! | | `link_consequences` | the facts that the link decides by, and what follows in the other parts from what it says |
//! | | `consequences` | the facts that the end decides by, and what follows in the other parts from what it says |
//! | `view` | `health` | what probes are told |
//! | | `operators` | what the programs on the control socket are answered, and when |
//! | | `status` | what an operator is shown |

use std::collections::VecDeque;

use crate::lifecycle::api::ids::CallId;
use crate::lifecycle::api::{
    Effect, EndingTimer, Event, Failure, LinkTimer, Moment, Notice, Options, Phase, Reply, Snapshot, Timer, WorkerState,
};
use crate::lifecycle::backend::answers::Answered;
use crate::lifecycle::backend::link::Link;
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::jobs::job::{Job, Place};
use crate::lifecycle::jobs::part::Jobs;
use crate::lifecycle::shutdown::ending::Ending;
use crate::lifecycle::timers::Timers;
use crate::lifecycle::view::health_state::HealthState;
use crate::lifecycle::view::operator_state::Operators;
use crate::lifecycle::worker::conversation::Came;
use crate::lifecycle::worker::workers::Workers;

/// The life of one worker, its jobs and its conversation with the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    pub(super) options: Options,
    pub(super) ending: Ending,
    pub(super) link: Link,
    pub(super) timers: Timers<Timer>,
    pub(super) effects: VecDeque<Effect>,
    pub(super) jobs: Jobs,
    pub(super) workers: Workers,
    pub(super) health_state: HealthState,
    pub(super) operators: Operators,
}

impl Lifecycle {
    /// A life that begins: orders the start of the worker.
    #[must_use]
    pub fn new(options: Options, now: Moment) -> Self {
        let mut machine = Self {
            ending: Ending::default(),
            link: Link::new(&options),
            timers: Timers::default(),
            effects: VecDeque::new(),
            jobs: Jobs::default(),
            workers: Workers::new(now),
            health_state: HealthState::default(),
            operators: Operators::default(),
            options,
        };
        machine.order(Effect::StartWorker);
        machine
    }

    /// Takes in one fact, and draws every consequence.
    pub fn handle(&mut self, event: Event, now: Moment) {
        self.handle_one_of_several(event, now, true);
    }

    /// Takes in one of several facts that came at once. Where it is not the last of them the next one has to follow, without a wait:
    /// the FETCH is left to the last, so that one FETCH asks for what all of them have made room for, and so is what operators
    /// wait for.
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
            Event::WorkerStarted { process, worker } => {
                self.workers(now, |workers, cx| workers.worker_started(process, worker, cx));
            }
            Event::WorkerNotStarted(why) => self.workers(now, |workers, cx| workers.worker_not_started(why, cx)),
            Event::MemoryRanOut(kills) => self.workers.memory_ran_out(kills),
            Event::WorkerEnded(ended) => self.worker_ended(ended, now),
            Event::Reaped { children_left } => self.reaped(children_left, now),
            Event::HolderCame {
                holder,
                process,
                manners,
            } => self.holder_came(
                Came {
                    holder,
                    process,
                    manners,
                },
                now,
            ),
            Event::HolderRuns { holder, process } => self.workers.runs(holder, process),
            Event::Said(holder, said) => self.said(holder, said, now),
            Event::HeardPart(holder) => self.heard_part(holder, now),
            Event::OutboundFilled(holder) => self.workers(now, |workers, cx| workers.outbound(holder, true, cx)),
            Event::OutboundEmptied(holder) => self.workers(now, |workers, cx| workers.outbound(holder, false, cx)),
            Event::ReadingStopped(holder) => self.workers(now, |workers, cx| workers.reading_paused(holder, true, cx)),
            Event::ReadingResumed(holder) => self.workers(now, |workers, cx| workers.reading_paused(holder, false, cx)),
            Event::HungUp(holder) => self.hung_up(holder, now),
            Event::ProcessGone(process) => self.workers(now, |workers, cx| workers.process_gone(process, cx)),
            Event::BackendReplied(call, reply) => self.backend_replied(call, reply, now),
            Event::StreamSaid(call, news) => self.link(now, |link, cx| link.stream_said(call, news, cx)),
            Event::CredentialsChanged => self.link(now, Link::credentials_changed),
            Event::MemoryTaken(percent) => self.link(now, |link, cx| link.memory_is_taken(percent, cx)),
        }
    }

    /// Acts on the timer that was due first, if one is. What it orders can be done before the next one, of which there may be
    /// thousands: `poll_timeout` names it.
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
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Moment, Timer)> {
        let of_the_end = self.ending.timers().next();
        let of_the_end = of_the_end.map(|(due, timer)| (due, Timer::Ending(timer)));
        let of_the_link = self.link.timers().next();
        let of_the_link = of_the_link.map(|(due, timer)| (due, Timer::Link(timer)));
        let of_the_worker = self.workers.timers().next();
        let of_the_worker = of_the_worker.map(|(due, timer)| (due, Timer::Worker(timer)));
        let of_the_jobs = self.jobs.timers().next();
        let of_the_jobs = of_the_jobs.map(|(due, timer)| (due, Timer::Job(timer)));
        let due = [self.timers.next(), of_the_jobs, of_the_end, of_the_link, of_the_worker]
            .into_iter()
            .flatten();
        due.min_by_key(|(due, timer)| (*due, timer.turn()))
    }

    /// What can be seen from outside.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let held_back = self
            .jobs
            .ledger()
            .iter()
            .filter(|(_, job)| job.is_held_beside())
            .count();
        let count = |is: fn(&Place) -> bool| self.jobs.ledger().iter().filter(|(_, job)| is(&job.place)).count();
        // Their handlers may run, so that an end waits for them.
        let dropped = if self.phase().is_terminating() {
            self.jobs.ledger().dropped()
        } else {
            0
        };
        Snapshot {
            phase: self.phase(),
            state: self.state(),
            concurrency: self.shown_concurrency(),
            active: self.jobs.ledger().active() + dropped,
            waiting: self.jobs.ledger().waiting().len(),
            held_back,
            held: count(|place| matches!(place, Place::Held(_)))
                - self.jobs.ledger().lost()
                - self.jobs.ledger().dropped()
                + dropped,
            unanswered: self.jobs.ledger().unanswered(),
            dropped: self.jobs.ledger().dropped(),
            past_their_time: count(|place| matches!(place, Place::Held(held) if held.is_past_its_time)),
            reporting: count(|place| matches!(place, Place::Reporting(_))) - held_back,
            oldest_since: self.oldest_active_since(),
            ready_holders: self.workers.holders().ready(),
            capacity: self.workers.holders().concurrency(),
            free_credit: self.credit(),
            memory_taken: self.link.memory_gate().taken(),
            memory_gate_is_closed: self.link.memory_gate().is_closed(),
            streams: self.link.streams().open(),
            telling_streams: self.link.streams().telling(),
            deaf_streams: self.link.streams().deaf(),
            worker_is_alive: self.workers.supervision().is_alive(),
            heartbeat_interval: self.link.agent().heartbeats.interval(),
            terminating_since: self.ending.shutdown().began(),
            stop_by: self.ending.timers().deadline_of(EndingTimer::Deadline),
            cut_off: self.ending.shutdown().cut_off(),
            exit_by: self.ending.shutdown().exit_by(),
            deadlines: self.all_timers().count(),
        }
    }

    fn oldest_active_since(&self) -> Option<Moment> {
        let is_surplus = |job: &Job| job.report().is_some_and(|report| report.is_surplus);
        let active = self
            .jobs
            .ledger()
            .iter()
            .filter(|(_, job)| !job.is_lost && !job.is_dropped && !is_surplus(job));
        active.map(|(_, job)| job.claimed_at).min()
    }

    /// What nobody has set is what the worker asks for.
    fn shown_concurrency(&self) -> u32 {
        let active = u32::try_from(self.jobs.ledger().active()).unwrap_or(u32::MAX);
        self.link
            .concurrency_asked_for(&self.options)
            .map_or(self.options.concurrency, |most| most.max(active))
    }

    fn fire(&mut self, timer: Timer, now: Moment) {
        self.timers.cancel(timer);
        match timer {
            Timer::Ending(timer) => {
                self.ending.cancel(timer);
                self.end(now, |ending, cx| ending.due(timer, cx));
            }
            Timer::Link(timer) => {
                self.link.cancel(timer);
                if let LinkTimer::Call(call) = timer {
                    self.backend_replied(call, Reply::Failed(Failure::Unanswered), now);
                } else {
                    self.link(now, |link, cx| link.due(timer, cx));
                }
            }
            Timer::Worker(timer) => {
                self.workers.cancel(timer);
                self.workers(now, |workers, cx| workers.due(timer, cx));
            }
            Timer::Job(timer) => {
                self.jobs.cancel_timer(timer);
                self.jobs(now, |jobs, cx| jobs.due(timer, cx));
            }
            Timer::Client(client) => self.client_is_due(client, now),
        }
    }

    /// Draws every consequence of what was just taken in. Each step looks at the whole state, so none can be forgotten
    /// at one of the many places that could cause it.
    fn converge(&mut self, now: Moment, is_last: bool) {
        while self.phase() != Phase::Exited {
            self.resolve_gone_processes(now);
            self.start_next_worker(now);
            self.end_if_idle(now);
            self.workers(now, Workers::end_pulls);
            self.jobs(now, |jobs, cx| {
                jobs.return_surplus(cx);
                jobs.look_at_redelivered(cx);
                jobs.end_isolation(cx);
            });
            self.hand_over(now);
            self.isolate(now);
            self.workers(now, |workers, _| workers.answer_asked_pulls());
            self.jobs(now, Jobs::send_reports);
            self.link(now, Link::retire_workers);
            self.link(now, Link::watch_streams);
            if is_last {
                self.fetch(now);
                // Who waits until nothing is left looks whether a FETCH is on its way.
                self.answer_waits(now);
            }
            // Each round moves the end one step on, and there are only a few.
            if !self.advance(now) {
                self.watch_holders(now);
                self.ending.watch_drain(self.jobs.ledger().unfinished(), now);
                debug_assert_eq!(self.invariants_if_small(), Ok(()));
                return;
            }
        }
    }

    fn backend_replied(&mut self, call: CallId, reply: Reply, now: Moment) {
        let answered = self.link(now, |link, cx| link.answered(call, reply, cx));
        let Some(Answered { call, purpose, reply }) = answered else {
            return;
        };
        match purpose {
            Purpose::Fetch(fetch) => self.fetch_replied(&fetch, reply, now),
            Purpose::OfJob(request) => self.job_request_replied(request, call, reply, now),
            Purpose::Register(_)
            | Purpose::Heartbeat(_)
            | Purpose::FinalHeartbeat { .. }
            | Purpose::Manifest
            | Purpose::Deregister(..) => self.link(now, |link, cx| link.replied(purpose, reply, cx)),
        }
    }

    /// Every timer that is armed, whoever owns it.
    pub(super) fn all_timers(&self) -> impl Iterator<Item = (Timer, Moment)> {
        let of_the_end = self.ending.timers().iter();
        let of_the_end = of_the_end.map(|(timer, due)| (Timer::Ending(timer), due));
        let of_the_link = self.link.timers().iter();
        let of_the_link = of_the_link.map(|(timer, due)| (Timer::Link(timer), due));
        let of_the_worker = self.workers.timers().iter();
        let of_the_worker = of_the_worker.map(|(timer, due)| (Timer::Worker(timer), due));
        let of_the_jobs = self.jobs.timers().iter();
        let of_the_jobs = of_the_jobs.map(|(timer, due)| (Timer::Job(timer), due));
        self.timers
            .iter()
            .chain(of_the_jobs)
            .chain(of_the_end)
            .chain(of_the_link)
            .chain(of_the_worker)
    }

    pub(super) fn phase(&self) -> Phase {
        self.ending.phase()
    }

    /// What the worker and the backend are told about our phase.
    pub(super) fn state(&self) -> WorkerState {
        self.ending.state()
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.ending.note(&notice);
        self.order(Effect::Notify(notice));
    }
}
