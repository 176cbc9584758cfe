//! The reference for states, deadlines and the exit status. It uses no code of the machine.

use std::collections::BTreeSet;
use std::time::Duration;

use ojs_lifecycle::api::{
    ClientId, Directive, Effect, EndingNotice, Event, FinalState, HeartbeatForm, LinkNotice, NotStarted, Notice,
    OperatorRequest, Options, Reason, ShownToOperator, StopSignal, ToWorker, WorkerState,
};
use ojs_values::signal::Signal;

use super::allowances::{OPERATOR_LEAVE_LIMIT, SAME_REQUEST, SLACK};
use super::promise::{Kept, promise};
use super::recycles::asks_to_end;

/// The requesters of quiet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    operator: bool,
    server: bool,
    prestop: bool,
}

/// The course that ought to be.
#[derive(Debug)]
pub struct Course {
    pub options: Options,
    pub state: WorkerState,
    /// The state before the delay.
    pub before: Option<WorkerState>,
    quiet: Wanted,
    last_directive: Option<Directive>,
    stop_signals: u32,
    /// The last of them that counted.
    last_stop: Option<(Signal, Duration)>,
    clock: Option<Duration>,
    /// Every SIGTSTP that was not undone.
    tstps: Vec<Duration>,
    lapse: Option<Duration>,
    /// When the last preStop hook ran.
    last_prestop: Option<Duration>,
    /// When terminate was asked for.
    pub t0: Option<Duration>,
    bound: Option<Duration>,
    /// When the bound was last brought forward.
    bound_at: Duration,
    pub abandoned: Option<u8>,
    is_asked: bool,
    was_told_terminate: bool,
    /// The forms of the last heartbeat so far: a refused one may be sent in another form.
    terminated_as: Vec<HeartbeatForm>,
    /// The signal for the quiet of an end that began in running.
    quiet_as: Vec<HeartbeatForm>,
    /// Terminate was just requested in running: a heartbeat has to report quiet.
    pub owes_quiet_beat: bool,
    /// The worker was asked or made to end.
    was_asked_to_end: bool,
    worker_is_gone: bool,
    /// The exit status of ojs-init if nothing requested the end.
    pub own_status: u8,
    /// The next request is sent for the second time.
    pub is_hedging: bool,
    /// Clients that asked on the control socket and have no answer.
    unanswered: BTreeSet<ClientId>,
    /// Clients that also asked to see the end.
    watching: BTreeSet<ClientId>,
    /// Clients that have an answer, and are still there.
    lingers: BTreeSet<ClientId>,
    idle_since: Option<Duration>,
    pub exit: Option<u8>,
}

impl Course {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            state: WorkerState::Running,
            before: None,
            quiet: Wanted::default(),
            last_directive: None,
            stop_signals: 0,
            last_stop: None,
            clock: None,
            tstps: Vec::new(),
            lapse: None,
            last_prestop: None,
            t0: None,
            bound: None,
            bound_at: Duration::ZERO,
            abandoned: None,
            is_asked: true,
            was_told_terminate: false,
            terminated_as: Vec::new(),
            quiet_as: Vec::new(),
            owes_quiet_beat: false,
            was_asked_to_end: false,
            worker_is_gone: false,
            own_status: 137,
            is_hedging: false,
            unanswered: BTreeSet::new(),
            watching: BTreeSet::new(),
            lingers: BTreeSet::new(),
            idle_since: None,
            exit: None,
        }
    }

    pub fn event(&mut self, event: &Event, now: Duration) {
        match event {
            Event::SignalArrived(signal) => self.signal(*signal, now),
            Event::OperatorAsked(client, request) => {
                self.unanswered.insert(*client);
                self.watching.remove(client);
                if matches!(request, OperatorRequest::Status { until_end: true }) {
                    self.watching.insert(*client);
                }
                self.asked(request, now);
            }
            Event::OperatorLeft(client) => {
                self.unanswered.remove(client);
                self.watching.remove(client);
                self.lingers.remove(client);
            }
            Event::WorkerStarted { .. } => self.worker_is_gone = false,
            Event::NextStarted(_) | Event::NextNotStarted(_) => {}
            Event::WorkerEnded(ended) => {
                self.worker_is_gone = true;
                self.own_status = self.options.remap_exit.apply(*ended);
            }
            Event::WorkerNotStarted(NotStarted::Refused(status)) => {
                self.worker_is_gone = true;
                self.own_status = *status;
            }
            Event::WorkerNotStarted(NotStarted::Shortage) => {
                if !self.worker_is_gone {
                    self.own_status = 70;
                }
                self.worker_is_gone = true;
            }
            Event::Reaped { .. }
            | Event::MemoryRanOut(_)
            | Event::HolderCame { .. }
            | Event::ProcessIsOld(_)
            | Event::Said(..)
            | Event::OutboundFilled(_)
            | Event::OutboundEmptied(_)
            | Event::HeardPart(_)
            | Event::ReadingStopped(_)
            | Event::ReadingResumed(_)
            | Event::HungUp(_)
            | Event::OperatorConnected(_)
            | Event::ProcessGone(_)
            | Event::BackendReplied(..)
            | Event::StreamSaid(..)
            | Event::MemoryTaken(_)
            | Event::WorkerMemory(_)
            | Event::CredentialsChanged => {}
        }
    }

    fn signal(&mut self, signal: Signal, now: Duration) {
        let meaning = match signal {
            Signal::TERM => StopSignal::Graceful,
            Signal::INT => self.options.sigint,
            Signal::QUIT => self.options.sigquit,
            Signal::TSTP => {
                if self.options.tstp_starts_clock {
                    self.tstps.push(now);
                }
                self.quiet.operator = true;
                return self.be_quiet();
            }
            Signal::CONT => return self.resume(),
            _other => return,
        };
        let last = self
            .last_stop
            .filter(|(last, at)| *last == signal && now - *at < SAME_REQUEST);
        if last.is_some() {
            return;
        }
        self.last_stop = Some((signal, now));
        self.start_clock(now);
        self.stop_signals += 1;
        if meaning == StopSignal::Exit || self.stop_signals >= 3 {
            self.abandoned = Some(128 + u8::try_from(signal.number()).unwrap());
            self.terminate(now, true);
        } else if meaning == StopSignal::Stop || self.stop_signals == 2 {
            self.force(now);
        } else {
            self.terminate(now, true);
            self.bind_to_clock(now);
        }
    }

    fn asked(&mut self, request: &OperatorRequest, now: Duration) {
        match request {
            OperatorRequest::Quiet => {
                self.quiet.operator = true;
                self.be_quiet();
            }
            OperatorRequest::Resume => self.resume(),
            OperatorRequest::Terminate => self.terminate(now, true),
            OperatorRequest::Stop => self.force(now),
            OperatorRequest::Prestop if self.state != WorkerState::Terminate => {
                self.start_clock(now);
                self.quiet.prestop = true;
                self.last_prestop = Some(now);
                self.lapse = self.lapse.or(Some(now + self.time_to_lapse()));
                self.be_quiet();
            }
            OperatorRequest::Prestop
            | OperatorRequest::Recycle
            | OperatorRequest::Wait { .. }
            | OperatorRequest::Status { .. }
            | OperatorRequest::Jobs
            | OperatorRequest::Cancel(_)
            | OperatorRequest::Health(_) => {}
        }
    }

    fn start_clock(&mut self, now: Duration) {
        let limit = self.options.times.limit.unwrap_or_default();
        let hook = self.tstps.iter().find(|at| now - **at < limit);
        self.clock.get_or_insert(hook.copied().unwrap_or(now));
    }

    pub fn directed(&mut self, directive: Option<Directive>, now: Duration) {
        let is_new = self.last_directive != directive;
        self.last_directive = directive;
        let only_server = self.quiet.server && !self.quiet.operator && !self.quiet.prestop;
        match directive {
            Some(Directive::Terminate) => self.terminate(now, true),
            Some(Directive::Quiet) => {
                self.quiet.server = true;
                self.be_quiet();
            }
            Some(Directive::Run) if is_new && self.options.server_resume && only_server => self.resume(),
            Some(Directive::Run) | None => {}
        }
    }

    fn be_quiet(&mut self) {
        if self.state == WorkerState::Running {
            self.state = WorkerState::Quiet;
        }
    }

    fn resume(&mut self) {
        self.tstps.clear();
        self.quiet = Wanted::default();
        if self.state == WorkerState::Quiet {
            self.state = WorkerState::Running;
        }
    }

    pub fn terminate(&mut self, now: Duration, is_asked: bool) {
        if self.state == WorkerState::Terminate {
            return;
        }
        self.owes_quiet_beat = self.state == WorkerState::Running;
        self.before = (!self.options.term_delay.is_zero()).then_some(self.state);
        self.state = WorkerState::Terminate;
        self.is_asked = is_asked;
        self.t0 = Some(now);
        let times = self.options.times;
        let elapsed = self.clock.map_or(Duration::ZERO, |clock| now - clock);
        let room = times
            .limit
            .map(|limit| limit.saturating_sub(times.stop_margin + elapsed));
        let drain = room.map_or(times.grace_period, |room| room.min(times.grace_period));
        self.bind(now + drain + times.stop_margin, now);
        self.bind_to_clock(now);
    }

    /// The orchestrator's SIGKILL bounds every deadline.
    fn bind_to_clock(&mut self, now: Duration) {
        if let (Some(clock), Some(limit)) = (self.clock, self.options.times.limit) {
            self.bind(clock + limit, now);
        }
    }

    fn bind(&mut self, at: Duration, now: Duration) {
        if self.bound.is_none_or(|bound| at < bound) {
            self.bound = Some(at);
            self.bound_at = now;
        }
    }

    fn force(&mut self, now: Duration) {
        self.terminate(now, true);
        self.bind(now + self.options.times.stop_margin, now);
        self.bind_to_clock(now);
    }

    fn is_lapsed(&self, now: Duration) -> bool {
        self.state != WorkerState::Terminate && self.lapse.is_some_and(|lapse| lapse <= now)
    }

    fn time_to_lapse(&self) -> Duration {
        self.options.times.limit.unwrap_or(self.options.times.grace_period)
    }

    /// No SIGTERM followed a preStop hook. Among the deadlines of one moment this one has no fixed
    /// order. A later hook replaces it.
    fn lapsed(&mut self, now: Duration) {
        let later = self.last_prestop.filter(|at| *at + self.time_to_lapse() > now);
        self.clock = later;
        self.lapse = later.map(|at| at + self.time_to_lapse());
        if later.is_some() {
            return;
        }
        self.quiet.prestop = false;
        if self.quiet == Wanted::default() && self.state == WorkerState::Quiet {
            self.state = WorkerState::Running;
        }
    }

    /// After the deadlines of this moment.
    pub fn time_passed(&self, now: Duration) -> Kept {
        promise!("a preStop hook lapses", !self.is_lapsed(now), "it has not by {now:?}");
        Ok(())
    }

    pub fn effect(&mut self, effect: &Effect, now: Duration) -> Kept {
        promise!("nothing after exit", self.exit.is_none(), "{effect:?}");
        match effect {
            Effect::Notify(Notice::Ending(EndingNotice::StateChanged {
                state: WorkerState::Terminate,
                reason: Reason::Worker,
            })) => {
                promise!(
                    "the worker's end is ours",
                    self.worker_is_gone,
                    "terminate because of a worker that runs"
                );
                self.terminate(now, false);
            }
            Effect::Notify(Notice::Ending(EndingNotice::PrestopLapsed { .. })) => {
                promise!("a preStop hook lapses", self.is_lapsed(now), "too early");
                self.lapsed(now);
            }
            Effect::Tell(_, ToWorker::Hello { state, .. }) if self.is_held_back(*state, now) => {}
            Effect::Tell(_, ToWorker::Lifecycle { state, .. } | ToWorker::Hello { state, .. }) => {
                self.told(*state, None)?
            }
            Effect::Notify(Notice::Link(LinkNotice::Hedged(_))) => self.is_hedging = true,
            Effect::CallBackend { call, .. } => self.called(call)?,
            effect if asks_to_end(effect) => self.was_asked_to_end = true,
            Effect::Exit(status) => self.exit = Some(*status),
            Effect::Answer(client, _) => {
                promise!(
                    "one answer for each request",
                    self.unanswered.remove(client),
                    "client {client} is answered, and has not asked"
                );
                self.lingers.insert(*client);
            }
            Effect::Show(client, shown) => {
                let is_end = matches!(shown, ShownToOperator::Status(status) if status.ending.is_some());
                promise!(
                    "one answer for each request",
                    self.unanswered.remove(client) || is_end && self.watching.contains(client),
                    "client {client} is shown {shown:?}, and has not asked"
                );
                self.lingers.insert(*client);
            }
            Effect::DropClient(client) => {
                let is_answered = !self.unanswered.contains(client);
                promise!("who waits is not sent away", is_answered, "client {client}");
                self.lingers.remove(client);
            }
            Effect::StartWorker { .. }
            | Effect::StartNext
            | Effect::TakeOver(_)
            | Effect::SignalWorker(_)
            | Effect::SignalProcess(..)
            | Effect::TerminateDescendants
            | Effect::KillDescendants
            | Effect::KillEverything
            | Effect::Tell(..)
            | Effect::ReadToEnd(_)
            | Effect::Close(..)
            | Effect::AbandonCall(_)
            | Effect::AnswerPull { .. }
            | Effect::AnswerBeat { .. }
            | Effect::WriteTerminationLog(_)
            | Effect::Notify(_) => {}
        }
        Ok(())
    }

    /// A frame, or a heartbeat in some form.
    pub fn told(&mut self, state: WorkerState, form: Option<HeartbeatForm>) -> Kept {
        let is_frame = form.is_none();
        let is_another_form = form.is_some_and(|form| !self.terminated_as.contains(&form));
        promise!(
            "terminated is the very last word",
            is_frame || self.terminated_as.is_empty() || state == WorkerState::Terminated && is_another_form,
            "{state:?} after it"
        );
        if state == WorkerState::Terminated {
            self.terminated_as.extend(form);
            let is_wanted = self.options.final_state != FinalState::Terminate;
            promise!(
                "terminated is said at the end, to whom wants it",
                is_wanted && !is_frame && self.state == WorkerState::Terminate,
                "in {:?}",
                self.state
            );
            return Ok(());
        }
        let is_news = form.is_some_and(|form| !self.quiet_as.contains(&form));
        if is_news && state == WorkerState::Quiet && self.t0.is_some() {
            self.quiet_as.extend(form);
            self.owes_quiet_beat = false;
            promise!(
                "terminate is irreversible",
                !self.was_told_terminate,
                "a beat says quiet after terminate"
            );
            return Ok(());
        }
        promise!(
            "the state told is the state",
            state == self.state,
            "told {state:?}, it is {:?}",
            self.state
        );
        promise!(
            "terminate is irreversible",
            state == WorkerState::Terminate || !self.was_told_terminate,
            "told {state:?} after terminate"
        );
        self.was_told_terminate |= !is_frame && state == WorkerState::Terminate;
        Ok(())
    }

    /// An end that has nothing to wait for begins at once.
    pub fn is_idle(&mut self, now: Duration) -> Kept {
        let since = *self.idle_since.get_or_insert(now);
        // The worker may be about to be killed.
        let is_held = !self.lingers.is_empty() && now <= since + OPERATOR_LEAVE_LIMIT + SLACK;
        promise!(
            "idle is the end of the drain",
            self.worker_is_gone || self.was_asked_to_end || is_held || !self.delay_is_over(now),
            "no job and no FETCH is left, and the worker was not asked to end"
        );
        Ok(())
    }

    /// Notes that there is work.
    pub fn is_busy(&mut self) {
        self.idle_since = None;
    }

    pub fn is_overdue(&self, now: Duration) -> Kept {
        let bound = self.latest();
        promise!(
            "gone in time",
            bound.is_none_or(|bound| now <= bound),
            "no exit at {now:?}, the end is {bound:?}"
        );
        Ok(())
    }

    fn latest(&self) -> Option<Duration> {
        let bound = self.bound?.saturating_sub(self.options.times.slack());
        Some(bound.max(self.bound_at) + SLACK)
    }

    /// `cut_off` is how many jobs the shutdown cut off, at least and at most.
    pub fn at_exit(&self, status: u8, cut_off: (usize, usize)) -> Kept {
        promise!(
            "one answer for each request",
            self.unanswered.is_empty(),
            "{:?} have none",
            self.unanswered
        );
        promise!(
            "exit follows a request",
            self.abandoned.is_some() || self.t0.is_some(),
            "nobody asked"
        );
        let expected: Vec<u8> = match (self.abandoned, self.is_asked) {
            (Some(status), _) => vec![status],
            (None, false) => vec![self.own_status],
            (None, true) if cut_off.0 > 0 => vec![self.options.interrupted_exit],
            (None, true) if cut_off.1 == 0 => vec![0],
            (None, true) => vec![0, self.options.interrupted_exit],
        };
        promise!(
            "exit status",
            expected.contains(&status),
            "{status}, expected {expected:?}; cut off {cut_off:?}"
        );
        Ok(())
    }
}
