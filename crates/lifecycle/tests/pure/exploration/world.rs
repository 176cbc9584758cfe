//! The machine's world, small: one worker with up to two processes, a backend, a sender of signals.
//! Every possible next event is an action; none has to happen.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::script::holders::{OF_A_CONNECTION, WAITS_FOR_ANSWERS};
use ojs_lifecycle::api::ids::{CallId, ClientId, HolderId, JobId, ProcessId, PullId, WorkerId};
use ojs_lifecycle::api::{
    Call, Effect, Event, Failure, FromWorker, GivenJob, JobError, JobNotice, LinkNotice, Manners, Moment, NotStarted,
    Notice, OperatorRequest, Options, Ready, StreamNews, ToWorker,
};
use ojs_lifecycle::machine::Lifecycle;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::promises::{Fate, Kind};

/// How often each kind of thing may happen on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub sigterm: u8,
    pub sigtstp: u8,
    pub sigcont: u8,
    pub terminate: u8,
    /// How often an operator cancels a job.
    pub cancels: u8,
    pub jobs: u8,
    /// Jobs of an answer beyond the requested number.
    pub surplus: u8,
    /// Requests that the backend does not carry out, or that remain without an answer.
    pub failures: u8,
    /// Processes that end without a request to end.
    pub deaths: u8,
    /// Connections that close while their process lives.
    pub hang_ups: u8,
    /// Times that a holder which asks for jobs itself asks again.
    pub pulls: u8,
    /// Outcomes that are reported although one was reported before.
    pub repeats: u8,
    /// Heartbeats of holders that name no job.
    pub beats: u8,
    /// News of streams of events.
    pub news: u8,
    /// Timers that become due before the end begins; from then on time is free.
    pub waits: u8,
}

/// How holders get their jobs, and which frames they receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// Connections of the worker socket, which announce once how many jobs they accept.
    Told,
    /// Connections of the worker socket that ask for each handful of jobs.
    Asking,
    /// Clients of the gateway, each of a process that is known.
    Gateway,
    /// Clients of the gateway whose process is unknown.
    Strangers,
}

impl Kin {
    fn manners(self) -> Manners {
        match self {
            Self::Told | Self::Asking => OF_A_CONNECTION,
            Self::Gateway | Self::Strangers => WAITS_FOR_ANSWERS,
        }
    }
}

/// The inhabitants of a world.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    pub holders: u8,
    /// Most jobs of a holder.
    pub each: u32,
    pub kin: Kin,
    /// The backend was slow before, so that two FETCHes may be on their way.
    pub is_slow: bool,
}

/// A possible next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    TimeComesToTheNextTimer,
    Signal(Signal),
    OperatorTerminates,
    OperatorCancels(JobId),
    Answer(CallId, Answer),
    Worker(HolderId, JobId, Kind),
    Ends(ProcessId),
    HangsUp(HolderId),
    Wants(HolderId),
    /// The client withdraws its request, although it has no answer.
    TakesBack(HolderId, PullId),
    BeatsNamingNothing(HolderId),
    Told(CallId, StreamNews),
    Starts,
}

/// Answers that the backend may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Good,
    Jobs(u8),
    StillOurs,
    NoLongerOurs,
    Fails(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub is_alive: bool,
    /// The process was asked to end, or will have been killed.
    pub may_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub process: ProcessId,
    /// The machine got the event that nothing more follows.
    pub is_over: bool,
    /// The machine waits for that.
    pub is_awaited: bool,
}

/// The state at the end of a path.
#[derive(Debug, Clone)]
pub struct World {
    pub machine: Lifecycle,
    pub now: Moment,
    pub options: Options,
    pub left: Budget,
    /// Requests on their way, and until when they can be answered.
    pub asked: Vec<(CallId, Call, Moment)>,
    worker: Option<ProcessId>,
    incarnations: u64,
    pub start_is_ordered: bool,
    pub processes: BTreeMap<ProcessId, Process>,
    pub links: BTreeMap<HolderId, Link>,
    /// Requests for jobs without an answer, each with its holder and its number of jobs.
    pub pulls: BTreeMap<PullId, (HolderId, usize)>,
    pub next_pull: u64,
    pub cast: Cast,
    /// Clients that wait for the answer to a job's outcome.
    pub waits: BTreeMap<JobId, HolderId>,
    pub jobs: BTreeMap<JobId, Fate>,
    /// The log announces that later jobs of a FETCH are left to their visibility timeout.
    pub is_fetch_given_up: bool,
    /// A FETCH fails in this step: a line in the log is about its jobs alone.
    pub is_fetch_failing: bool,
    /// When a SIGTSTP arrived, without a SIGTERM since.
    hook: Option<Moment>,
    /// When ojs-init must have exited.
    pub gone_by: Option<Moment>,
    pub is_abandoned: bool,
    pub exited: Option<u8>,
    /// The first promise that was broken.
    pub broken: Option<String>,
    pub seen: VecDeque<Effect>,
}

impl World {
    /// A worker that runs, with one process for each holder, all of them ready for jobs.
    pub fn new(options: &Options, left: Budget, cast: Cast) -> Self {
        let now = Moment::new(Duration::ZERO);
        let mut world = Self {
            machine: Lifecycle::new(options.clone(), now),
            now,
            options: options.clone(),
            left,
            asked: Vec::new(),
            worker: None,
            incarnations: 0,
            start_is_ordered: false,
            processes: BTreeMap::new(),
            links: BTreeMap::new(),
            pulls: BTreeMap::new(),
            next_pull: 0,
            cast,
            waits: BTreeMap::new(),
            jobs: BTreeMap::new(),
            is_fetch_given_up: false,
            is_fetch_failing: false,
            hook: None,
            gone_by: None,
            is_abandoned: false,
            exited: None,
            broken: None,
            seen: VecDeque::new(),
        };
        world.drain();
        world.start(cast.holders, cast.each);
        if let Some((id, ..)) = world
            .asked
            .iter()
            .find(|(_, call, _)| matches!(call, Call::Register { .. }))
        {
            let id = *id;
            world.take(&Action::Answer(id, Answer::Good));
        }
        world.after_slow_answers();
        world.seen.clear();
        world
    }

    /// The parts that make two worlds equal.
    pub fn identity(&self) -> impl std::fmt::Debug {
        let place = (&self.links, &self.processes, self.worker, self.start_is_ordered);
        let end = (
            self.is_fetch_given_up,
            self.hook,
            self.gone_by,
            self.is_abandoned,
            self.exited,
            self.incarnations,
        );
        (
            self.machine.clone(),
            self.left,
            self.asked.clone(),
            format!("{place:?}"),
            (self.jobs.clone(), self.pulls.clone(), self.waits.clone()),
            end,
        )
    }

    fn start(&mut self, holders: u8, each: u32) {
        self.start_is_ordered = false;
        self.incarnations += 1;
        let first = ProcessId(self.incarnations * 100);
        self.worker = Some(first);
        let worker = WorkerId(format!("w{}", self.incarnations).into());
        self.happen(Event::WorkerStarted { process: first, worker });
        for number in 0..holders {
            let process = ProcessId(first.0 + u64::from(number));
            let connection = HolderId(process.0);
            let alive = Process {
                is_alive: true,
                may_end: false,
            };
            self.processes.insert(process, alive);
            let link = Link {
                process,
                is_over: false,
                is_awaited: false,
            };
            self.links.insert(connection, link);
            self.happen(Event::HolderCame {
                holder: connection,
                process: (self.cast.kin != Kin::Strangers).then_some(process),
                manners: self.cast.kin.manners(),
            });
            if self.is_pulling() {
                self.wants(connection);
                continue;
            }
            let ready = Ready {
                concurrency: each,
                types: None,
                ping: false,
                ok: true,
                // Its timer multiplies the states, so only one kind of world has it.
                cancel_signal: holders == 2,
                client: None,
            };
            self.happen(Event::Said(connection, FromWorker::Ready(ready)));
        }
    }

    /// Lets one thing happen, and checks every promise.
    pub fn take(&mut self, action: &Action) {
        match action {
            Action::TimeComesToTheNextTimer => self.pass_time(),
            Action::Signal(signal) => self.signal(*signal),
            Action::OperatorTerminates => {
                self.left.terminate -= 1;
                self.gone_within_the_limit();
                self.happen(Event::OperatorAsked(ClientId(1), OperatorRequest::Terminate));
            }
            Action::OperatorCancels(job) => self.operator_cancels(job),
            Action::Answer(call, answer) => self.answer(*call, *answer),
            Action::Worker(holder, job, kind) => self.worker_answers(*holder, job, *kind),
            Action::Ends(process) => self.process_ends(*process),
            Action::HangsUp(connection) => {
                if let Some(link) = self.links.get_mut(connection) {
                    self.left.hang_ups -= u8::from(!link.is_awaited);
                    link.is_over = true;
                }
                self.waits_no_more(*connection);
                self.happen(Event::HungUp(*connection));
            }
            Action::Wants(holder) => {
                self.left.pulls -= 1;
                self.wants(*holder);
            }
            Action::TakesBack(holder, pull) => self.takes_back(*holder, *pull),
            Action::BeatsNamingNothing(holder) => self.beats_naming_nothing(*holder),
            Action::Told(stream, news) => self.told(*stream, news.clone()),
            Action::Starts if self.incarnations < 2 => self.start(1, 1),
            Action::Starts => {
                self.start_is_ordered = false;
                self.happen(Event::WorkerNotStarted(NotStarted::Refused(127)));
            }
        }
        self.check_streams();
        self.check_answers();
        self.check_state();
    }

    fn pass_time(&mut self) {
        let Some((due, _)) = self.machine.poll_timeout() else {
            return;
        };
        if !self.machine.snapshot().phase.is_terminating() {
            self.left.waits -= 1;
        }
        self.now = self.now.max(due);
        // The shell answers in time, or never.
        let now = self.now;
        self.asked.retain(|(_, _, give_up)| *give_up >= now);
        let was_terminating = self.machine.snapshot().phase.is_terminating();
        while self.machine.poll_timeout().is_some_and(|(due, _)| due <= now) {
            self.machine.handle_timeout(now);
            self.drain();
        }
        self.check_phase(was_terminating);
    }

    fn gone_within_the_limit(&mut self) {
        if let Some(limit) = self.options.times.limit {
            self.gone_by.get_or_insert(self.now.after(limit));
        }
    }

    /// The first SIGTERM shows that a SIGTSTP shortly before was the orchestrator's first step.
    fn note_hook(&mut self) {
        let limit = self.options.times.limit.filter(|_| self.options.tstp_starts_clock);
        if let Some((hook, limit)) = self.hook.take().zip(limit)
            && hook.elapsed(self.now) < limit
        {
            self.gone_by = self.gone_by.map(|end| end.min(hook.after(limit)));
        }
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::TERM => {
                self.left.sigterm -= 1;
                self.gone_within_the_limit();
                self.note_hook();
            }
            Signal::TSTP => {
                self.left.sigtstp -= 1;
                self.hook = Some(self.now);
            }
            _ => self.left.sigcont -= 1,
        }
        self.happen(Event::SignalArrived(signal));
        self.is_abandoned |= self.left.sigterm == 0 && signal == Signal::TERM && self.exited.is_some_and(|s| s > 128);
    }

    fn worker_answers(&mut self, holder: HolderId, job: &JobId, kind: Kind) {
        if self.is_gateway() {
            self.outcome_waits(holder, job, kind);
        } else if let Some(fate) = self.jobs.get_mut(job) {
            fate.said = Some(kind);
        }
        let job = job.clone();
        let said = match kind {
            Kind::Ack => FromWorker::Ack {
                job,
                result: Some("1".into()),
            },
            Kind::Requeue => FromWorker::Release {
                job,
                reason: None,
                after: Duration::ZERO,
            },
            Kind::Fail => FromWorker::Fail {
                job,
                error: JobError::new("broken"),
            },
        };
        self.happen(Event::Said(holder, said));
    }

    fn process_ends(&mut self, process: ProcessId) {
        if let Some(state) = self.processes.get_mut(&process) {
            self.left.deaths -= u8::from(!state.may_end);
            state.is_alive = false;
        }
        if self.worker == Some(process) {
            self.worker = None;
            self.happen(Event::WorkerEnded(Ended::Exited(3)));
        } else {
            self.happen(Event::ProcessGone(process));
        }
        let children_left = self.processes.values().any(|process| process.is_alive);
        self.happen(Event::Reaped { children_left });
    }

    pub fn happen(&mut self, event: Event) {
        let was_terminating = self.machine.snapshot().phase.is_terminating();
        self.machine.handle(event, self.now);
        self.drain();
        self.check_phase(was_terminating);
    }

    fn drain(&mut self) {
        if let Err(contradiction) = self.machine.invariants() {
            self.break_promise(&contradiction);
        }
        while let Some(effect) = self.machine.poll_effect() {
            if self.exited.is_some() {
                self.break_promise("an effect after the exit");
            }
            self.notice(&effect);
            self.seen.push_back(effect);
        }
    }

    fn notice(&mut self, effect: &Effect) {
        match effect {
            Effect::StartWorker { .. } | Effect::StartNext => self.start_is_ordered = true,
            Effect::TakeOver(_) => {}
            Effect::SignalWorker(signal) => match self.worker {
                Some(process) => self.may_end(*signal, |id| id == process),
                None => self.break_promise("a signal to a worker that is not there"),
            },
            Effect::SignalProcess(process, signal) => {
                self.check_signal(*process, *signal);
                self.may_end(*signal, |id| id == *process);
            }
            Effect::TerminateDescendants | Effect::KillDescendants => {
                let worker = self.worker;
                self.may_end(Signal::KILL, |id| Some(id) != worker);
            }
            Effect::KillEverything => self.may_end(Signal::KILL, |_| true),
            Effect::Tell(connection, ToWorker::Job(GivenJob { envelope, .. })) => {
                self.check_handover(*connection, &JobId((&**envelope).into()));
                self.machine.handle(Event::OutboundEmptied(*connection), self.now);
            }
            Effect::AnswerPull { holder, pull, jobs } => self.pull_is_answered(*holder, *pull, jobs),
            Effect::ReadToEnd(connection) | Effect::Close(connection, _) => {
                if matches!(effect, Effect::Close(..)) {
                    self.waits_no_more(*connection);
                }
                if let Some(link) = self.links.get_mut(connection) {
                    link.is_awaited = true;
                }
            }
            Effect::CallBackend { id, call, give_up, .. } => self.asked_for(*id, call, *give_up),
            Effect::Notify(Notice::Job(
                JobNotice::Abandoned(job, _)
                | JobNotice::Void(job, _)
                | JobNotice::ReservationLost(job, _)
                | JobNotice::Dropped(job, _),
            )) => {
                if let Some(fate) = self.jobs.get_mut(&job.id) {
                    fate.is_let_go = true;
                }
            }
            Effect::Notify(Notice::Link(LinkNotice::FetchAbandoned)) => self.fetch_is_given_up(),
            Effect::Exit(status) => self.exited = Some(*status),
            // A client that asks leaves with the answer.
            Effect::Answer(client, _) | Effect::Show(client, _) => {
                self.machine.handle(Event::OperatorLeft(*client), self.now)
            }
            Effect::AbandonCall(id) => self.abandoned(*id),
            Effect::Tell(holder, word) => self.told_by_us(*holder, word),
            Effect::AnswerBeat { .. } | Effect::DropClient(_) | Effect::Notify(_) | Effect::WriteTerminationLog(_) => {}
        }
    }

    fn may_end(&mut self, signal: Signal, is_meant: impl Fn(ProcessId) -> bool) {
        if signal == Signal::TERM || signal == Signal::KILL {
            for (_, process) in self.processes.iter_mut().filter(|(id, _)| is_meant(**id)) {
                process.may_end = true;
            }
        }
    }

    /// Whether every process with this connection has ended, and the shell has read all of its
    /// frames.
    pub fn is_gone(&self, connection: HolderId) -> bool {
        let is_alive = |process: &ProcessId| self.processes.get(process).is_some_and(|process| process.is_alive);
        self.links
            .get(&connection)
            .is_none_or(|link| link.is_over && !is_alive(&link.process))
    }
}
