//! The machine: one event or timeout at a time, then drain the effects, then wait until the next deadline.
//!
//! What each kind of event means is in a file of its own, all of them parts of [`Lifecycle`]:
//!
//! | file | decides |
//! |---|---|
//! | `intake` | which trigger a signal or a directive is, and what a phase change brings with it |
//! | `conversation` | what a worker says, and whether it is still there |
//! | `handover` | which job goes to which connection |
//! | `unhandled` | what becomes of jobs whose type no connection takes |
//! | `reports` | outcomes on their way to the backend |
//! | `redelivery` | what comes again while they are |
//! | `doubts` | answers to an outcome that leave open what became of the job |
//! | `setbacks` | how often in a row something failed, and how |
//! | `refusals` | outcomes that it does not take as they are |
//! | `news` | progress and checkpoints on theirs |
//! | `agent` | FETCH, and how often the backend is asked again |
//! | `fetch_forms` | how a FETCH is spelled |
//! | `outage` | which lines an outage of the backend is told in |
//! | `registration` | who we are to the backend: registered, known, gone |
//! | `resume` | what a resume waits for |
//! | `heartbeats` | what they say, and what their answers mean |
//! | `losses` | what proves that a reservation is lost, and what becomes of its handler |
//! | `capacity` | how many jobs the connections take, for whoever reads the log |
//! | `supervision` | the worker's process: started, ended, started again |
//! | `shutdown` | the times of the end: the orchestrator's clock, the deadline, the plan of the stop phase |
//! | `steps` | the end itself, step by step |
//! | `ending` | what is told of the end where an orchestrator looks for it |
//! | `health` | what probes are told |
//! | `operators` | what the programs on the control socket are answered, and when |
//!
//! `jobs` and `connections` are what all of them look at; `phase` alone moves a phase.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::lifecycle::api::effect::{Call, Effect, Farewell, HeartbeatForm, Remark, Word, WorkerState};
use crate::lifecycle::api::event::{ErrorCode, Event, Failure, Reply};
use crate::lifecycle::api::ids::{CallId, Claim, ClientId, ConnectionId, JobId, ProcessId, WorkerId};
use crate::lifecycle::api::options::Options;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::backend::backoff::Jitter;
use crate::lifecycle::backend::fetch::Agent;
use crate::lifecycle::backend::heartbeats::Beat;
use crate::lifecycle::backend::outage::Outages;
use crate::lifecycle::jobs::ledger::{Ledger, Place};
use crate::lifecycle::shutdown::end_report::Tally;
use crate::lifecycle::shutdown::phase::Phase;
use crate::lifecycle::shutdown::times::Shutdown;
use crate::lifecycle::timers::Timers;
use crate::lifecycle::view::health::Vitals;
use crate::lifecycle::view::operators::Operators;
use crate::lifecycle::view::snapshot::Snapshot;
use crate::lifecycle::worker::capacity::Capacity;
use crate::lifecycle::worker::holders::Connections;
use crate::lifecycle::worker::supervision::Supervision;

/// How long after its `give_up` a request that was not answered counts as unanswered: the shell should have said so.
const CALL_LEEWAY: Duration = Duration::from_millis(250);

/// What can become due. The one that comes first here goes first when two are due at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// When has this step of the shutdown had its time?
    Step,
    /// When do outcomes go out although the last checkpoint of their job has no answer?
    WithoutCheckpoints,
    /// When is the last heartbeat sent although an earlier one has no answer?
    FinalHeartbeat,
    /// When have the jobs had theirs?
    Deadline,
    /// When is the worker told that the drain begins?
    DelayOver,
    /// When is it time to log how many jobs are left?
    DrainLog,
    /// When has a preStop hook come to nothing?
    PrestopLapse,
    /// When do we stop waiting for an answer that should have come?
    Call(CallId),
    /// When have the descendants of a worker that ended had their time?
    KillDescendants,
    /// When do we stop waiting for descendants that SIGKILL did not end?
    GiveUpOnDescendants,
    /// When is it time to look for descendants that became ours since the last look?
    Rescan,
    /// When is the worker started again?
    Start,
    /// Until when do the reports of the last worker hold up the next one?
    StartAnyway,
    /// When has the worker had its time to say ready?
    Ready,
    /// When is it told that the connections take more or fewer jobs than before?
    Capacity,
    /// When are all connections there, as far as can be told?
    Settled,
    /// When has a process whose connection was closed had its time to end by itself?
    HungUp(ProcessId),
    /// When has a process that is being ended had its time?
    KillProcess(ProcessId),
    /// When is this connection asked whether it is there?
    Ping(ConnectionId),
    /// When has this connection had its time to read?
    Stalled(ConnectionId),
    /// When has this job had its time?
    JobTimeout(Claim),
    /// When has the handler had its time to answer the cancel?
    JobGrace(Claim),
    /// The same for a job that is lost.
    LostGrace(Claim),
    /// When do we stop waiting for somebody who takes this job?
    NoHandler(Claim),
    /// When is the ACK sent without its result?
    WithoutResult(Claim),
    /// When is this report sent again?
    Report(Claim),
    /// When is this job looked at again that came while an earlier outcome of it was on its way?
    LookAgain(Claim),
    /// When may the next progress be sent?
    Progress(Claim),
    /// When is the checkpoint saved again?
    Checkpoint(Claim),
    /// When is a person told of an outage again?
    Outage,
    /// When is the next heartbeat?
    Heartbeat,
    /// When is the next registration attempt?
    Register,
    /// When may the next FETCH be?
    Fetch,
    /// When is a FETCH that failed tried again?
    FetchAgain,
    /// When has a program on the control socket had its time to ask, or to wait?
    Client(ClientId),
}

/// What a request to the backend was for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Register(WorkerId),
    Heartbeat(Beat),
    FinalHeartbeat {
        state: WorkerState,
        form: HeartbeatForm,
    },
    /// And when it went out.
    Fetch(WorkerId, Moment),
    Report(Claim),
    LookBeforeRepeat(Claim),
    LookAgain(Claim),
    LookForLost(Claim),
    Progress(Claim),
    Checkpoint(Claim),
    Manifest,
    Deregister(WorkerId, Farewell),
}

/// The life of one worker, its jobs and its conversation with the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    pub(super) options: Options,
    pub(super) phase: Phase,
    pub(super) timers: Timers<Timer>,
    pub(super) effects: VecDeque<Effect>,
    pub(super) jobs: Ledger,
    pub(super) connections: Connections,
    pub(super) capacity: Capacity,
    pub(super) worker: Supervision,
    pub(super) agent: Agent,
    pub(super) shutdown: Shutdown,
    pub(super) tally: Tally,
    pub(super) vitals: Vitals,
    pub(super) outages: Outages,
    pub(super) operators: Operators,
    pub(super) calls: BTreeMap<CallId, Purpose>,
    pub(super) next_call: u64,
    pub(super) jitter: Jitter,
}

impl Lifecycle {
    /// A life that begins: orders the start of the worker.
    #[must_use]
    pub fn new(options: Options, now: Moment) -> Self {
        let mut machine = Self {
            phase: Phase::Running,
            timers: Timers::default(),
            effects: VecDeque::new(),
            jobs: Ledger::default(),
            connections: Connections::default(),
            capacity: Capacity::default(),
            worker: Supervision::new(now),
            agent: Agent::new(options.heartbeat_interval),
            shutdown: Shutdown::default(),
            tally: Tally::default(),
            vitals: Vitals::default(),
            outages: Outages::default(),
            operators: Operators::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            jitter: Jitter::new(options.seed),
            options,
        };
        machine.order(Effect::StartWorker);
        machine
    }

    /// Takes in one fact.
    pub fn handle(&mut self, event: Event, now: Moment) {
        if self.phase == Phase::Exited {
            return;
        }
        match event {
            Event::SignalArrived(signal) => self.signal_arrived(signal, now),
            Event::OperatorConnected(client) => self.operator_connected(client, now),
            Event::OperatorAsked(client, request) => self.operator_asked(client, request, now),
            Event::OperatorLeft(client) => self.operator_left(client),
            Event::WorkerStarted { process, worker } => self.worker_started(process, worker, now),
            Event::WorkerNotStarted(why) => self.worker_not_started(why, now),
            Event::MemoryRanOut(kills) => self.worker.memory_ran_out(kills),
            Event::WorkerEnded(ended) => self.worker_ended(ended, now),
            Event::Reaped { children_left } => self.reaped(children_left, now),
            Event::Connected { connection, process } => self.connected(connection, process, now),
            Event::Said(connection, said) => self.said(connection, said, now),
            Event::OutboundFilled(connection) => self.outbound(connection, true, now),
            Event::OutboundEmptied(connection) => self.outbound(connection, false, now),
            Event::ReadingStopped(connection) => self.unheard(connection, true, now),
            Event::ReadingResumed(connection) => self.unheard(connection, false, now),
            Event::HungUp(connection) => self.hung_up(connection, now),
            Event::ProcessGone(process) => self.process_gone(process, now),
            Event::BackendReplied(call, reply) => self.backend_replied(call, reply, now),
            Event::CredentialsChanged => self.credentials_changed(now),
        }
        self.settle(now);
    }

    /// Acts on every timer that is due.
    pub fn handle_timeout(&mut self, now: Moment) {
        while self.phase != Phase::Exited
            && let Some(timer) = self.timers.take_due(now)
        {
            self.due(timer, now);
            self.settle(now);
        }
    }

    /// The next order, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call `handle_timeout`, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Moment, Timer)> {
        self.timers.next()
    }

    /// What can be seen from outside.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let count = |is: fn(&Place) -> bool| self.jobs.iter().filter(|(_, job)| is(&job.place)).count();
        Snapshot {
            phase: self.phase,
            state: self.state(),
            concurrency: self.options.concurrency,
            active: self.jobs.active(),
            waiting: self.jobs.waiting().len(),
            held: count(|place| matches!(place, Place::Held(_))) - self.jobs.lost(),
            unanswered: self.jobs.unanswered().len(),
            reporting: count(|place| matches!(place, Place::Reporting(_))),
            ready_connections: self.connections.ready(),
            capacity: self.connections.concurrency(),
            free_credit: self.credit(),
            worker_is_alive: self.worker.is_alive(),
            heartbeat_interval: self.agent.beats.interval,
            terminating_since: self.shutdown.began(),
            stop_by: self.timers.due(Timer::Deadline),
            cut_off: self.shutdown.cut_off,
            exit_by: self.shutdown.exit_by(),
            deadlines: self.timers.iter().count(),
        }
    }

    fn due(&mut self, timer: Timer, now: Moment) {
        match timer {
            Timer::Step => self.step_is_over(now),
            Timer::WithoutCheckpoints => self.shutdown.goes_without_checkpoints = true,
            Timer::FinalHeartbeat => self.send_final_heartbeat(now),
            Timer::Deadline => self.deadline_reached(now),
            Timer::DelayOver => self.delay_is_over(now),
            Timer::DrainLog => self.log_drain(now),
            Timer::PrestopLapse => self.prestop_lapsed(now),
            Timer::Call(call) => self.backend_replied(call, Reply::Failed(Failure::Unanswered), now),
            Timer::KillDescendants => self.kill_descendants(now),
            Timer::GiveUpOnDescendants => self.give_up_on_descendants(now),
            Timer::Rescan => self.rescan(),
            Timer::Start => self.start_is_due(),
            Timer::Ready => self.say(Remark::NotReady),
            Timer::Capacity => self.tell_capacity(now),
            Timer::Settled => self.compare_capacity(),
            Timer::HungUp(process) => self.outlived_connection(process, now),
            Timer::KillProcess(process) => self.kill_process(process),
            Timer::Ping(connection) => self.ping(connection, now),
            Timer::Stalled(connection) => self.stalled(connection, now),
            Timer::JobTimeout(claim) => self.job_timed_out(claim, now),
            Timer::JobGrace(claim) => self.job_outlived_grace(claim, now),
            Timer::LostGrace(claim) => self.lost_job_outlived_grace(claim, now),
            Timer::NoHandler(claim) => self.no_handler(claim, now),
            Timer::WithoutResult(claim) => self.drop_result(claim, now),
            Timer::Report(claim) => self.report_is_due(claim, now),
            Timer::LookAgain(claim) => self.look_again_is_due(claim),
            Timer::Progress(claim) => self.send_progress(claim, now),
            Timer::Checkpoint(claim) => self.send_checkpoint(claim, now),
            Timer::Outage => self.outage_goes_on(now),
            Timer::Heartbeat => self.beat_now(now),
            Timer::Register => self.register(now),
            Timer::Client(client) => self.client_is_due(client, now),
            // Being due is all: `settle` looks whether it is armed.
            Timer::StartAnyway | Timer::Fetch | Timer::FetchAgain => {}
        }
    }

    /// Draws every consequence of what was just taken in. Each step looks at the whole state, so none can be forgotten
    /// at one of the many places that could cause it.
    fn settle(&mut self, now: Moment) {
        while self.phase != Phase::Exited {
            self.resolve_gone_processes(now);
            self.start_next_worker(now);
            self.return_surplus(now);
            self.look_at_redelivered(now);
            self.hand_over(now);
            self.send_reports(now);
            self.retire_workers(now);
            self.fetch(now);
            self.answer_waits(now);
            // Each round moves a shutdown one step on, and there are only a few.
            if !self.advance(now) {
                self.watch_connections(now);
                return self.watch_drain(now);
            }
        }
    }

    fn backend_replied(&mut self, call: CallId, reply: Reply, now: Moment) {
        self.timers.cancel(Timer::Call(call));
        let Some(purpose) = self.calls.remove(&call) else {
            return self.late_reply(call, &reply, now);
        };
        self.note_backend_health(&purpose, &reply, now);
        match purpose {
            Purpose::Register(worker) => self.register_replied(&worker, reply, now),
            Purpose::Heartbeat(beat) => self.heartbeat_replied(&beat, reply, now),
            Purpose::FinalHeartbeat { state, form } => self.final_heartbeat_replied(state, form, &reply, now),
            Purpose::Fetch(worker, asked_at) => self.fetch_replied(worker, asked_at, reply, now),
            Purpose::Report(claim) => self.report_replied(claim, call, reply, now),
            Purpose::LookBeforeRepeat(claim) => self.looked_before_repeat(claim, reply, now),
            Purpose::LookAgain(claim) => self.looked_again(claim, reply, now),
            Purpose::LookForLost(claim) => self.looked_for_lost(claim, reply, now),
            Purpose::Progress(claim) => self.progress_replied(claim, &reply, now),
            Purpose::Checkpoint(claim) => self.checkpoint_replied(claim, &reply, now),
            Purpose::Manifest => self.manifest_replied(&reply),
            Purpose::Deregister(worker, way) => self.deregister_replied(worker, way, &reply, now),
        }
    }

    /// Sends a request that may take `patience`, less where a shutdown does not leave that much.
    pub(super) fn call(&mut self, call: Call, purpose: Purpose, patience: Duration, now: Moment) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        let give_up = self.shutdown.cap(now.after(patience));
        self.calls.insert(id, purpose);
        self.timers.arm(Timer::Call(id), give_up.after(CALL_LEEWAY));
        self.order(Effect::CallBackend { id, call, give_up });
        id
    }

    /// What the worker and the backend are told about our phase.
    pub(super) fn state(&self) -> WorkerState {
        match self.phase {
            Phase::Running => WorkerState::Running,
            Phase::Quiet => WorkerState::Quiet,
            Phase::Delay | Phase::Drain | Phase::EndGame | Phase::Stop | Phase::Exited => WorkerState::Terminate,
        }
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(super) fn say(&mut self, remark: Remark) {
        self.keep_account(&remark);
        self.order(Effect::Say(remark));
    }

    /// Writes to a connection that is still open.
    pub(super) fn tell(&mut self, connection: ConnectionId, word: Word) {
        if self.connections.is_open(connection) {
            self.order(Effect::Tell(connection, word));
        }
    }

    /// Writes to every open connection.
    pub(super) fn tell_all(&mut self, word: &Word) {
        let open: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        for connection in open {
            self.tell(connection, word.clone());
        }
    }

    pub(super) fn refuse(&mut self, connection: ConnectionId, code: ErrorCode, message: &str, job: Option<JobId>) {
        let message = message.into();
        self.tell(connection, Word::Error { code, message, job });
    }
}
