//! The latest moments of a shutdown, as the machine itself shows them: it is played against a world
//! in which every step lasts as long as it may. A job never ends, no request is answered, and a
//! process that gets SIGKILL ends only after the machine's wait for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::script::holders::OF_A_CONNECTION;
use crate::script::settings;
use ojs_lifecycle::api::ids::{CallId, HolderId, JobId, ProcessId, WorkerId};
use ojs_lifecycle::api::{
    Call, Delivery, Effect, EndingTimer, Event, Failure, FromWorker, Limits, Moment, Options, Outcome, Ready, Reply,
    Reservation, ShutdownTimes, Subject, Surroundings, Timer, ToWorker, WorkerState,
};
use ojs_lifecycle::machine::Lifecycle;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Most facts and deadlines of one shutdown.
const MOST_STEPS: usize = 1000;

const LINK: HolderId = HolderId(1);
const PROCESS: ProcessId = ProcessId(100);

/// When each of them is ordered for the first time, counted from the SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Drain,
    Cancel,
    Kill,
    Fail,
    FinalHeartbeat,
    Deregister,
    Exit,
}

/// The event at each, or until then, in words.
const ROWS: [(&str, Step, &str); 8] = [
    (
        "",
        Step::Drain,
        "SIGTERM. No FETCH from here on. Heartbeat `quiet`, then every heartbeat `terminate`. The worker gets `lifecycle \
         terminate`, with the time that it has",
    ),
    (
        "until ",
        Step::Cancel,
        "Drain. Jobs finish and are ACKed. Idle: end game at once: SIGTERM to the worker, final heartbeat, deregister, \
         termination log, exit 0",
    ),
    (
        "",
        Step::Cancel,
        "Stop phase. Termination log; `cancel` for each job that is left; a worker that has answered them all gets SIGTERM",
    ),
    (
        "",
        Step::Kill,
        "SIGKILL to everything that is left; what it wrote last is still read",
    ),
    (
        "",
        Step::Fail,
        "FAIL `ShutdownError`, retryable, for each job that was cut off; ACKs that wait are sent once more",
    ),
    ("", Step::FinalHeartbeat, "final heartbeat: `terminate`, no jobs"),
    ("", Step::Deregister, "deregister"),
    (
        "",
        Step::Exit,
        "termination log, once more; exit, half a second before the orchestrator's SIGKILL",
    ),
];

/// The table: a column for Kubernetes and one for Docker, with the default time of each.
pub fn as_markdown() -> String {
    let surroundings = [Surroundings::Kubernetes, Surroundings::Container];
    let played = surroundings.map(|place| Play::of(times(place)).ends());
    let [kubernetes, docker] = surroundings.map(|place| times(place).limit.unwrap().as_secs());
    let mut text = format!("| Kubernetes, {kubernetes} s | Docker, {docker} s | what happens |\n|---|---|---|\n");
    for (until, step, words) in ROWS {
        let [kubernetes, docker] = [0, 1].map(|column: usize| played[column][&step].as_secs_f64());
        writeln!(text, "| {until}{kubernetes:.1} s | {until}{docker:.1} s | {words} |").unwrap();
    }
    text
}

/// The duration of a shutdown within this limit and with this margin, if every step lasts as long
/// as it may.
pub fn longest(limit: Duration, stop_margin: Option<Duration>) -> Duration {
    let limits = Limits {
        grace_period: Duration::from_secs(3600),
        grace_period_is_explicit: false,
        termination_grace_period: Some(limit),
        stop_margin,
        prestop_time: Duration::ZERO,
    };
    Play::of(ShutdownTimes::of_agent(&limits, Surroundings::None)).ends()[&Step::Exit]
}

/// The times that follow from the defaults.
fn times(surroundings: Surroundings) -> ShutdownTimes {
    let limits = Limits {
        grace_period: Duration::from_secs(30),
        grace_period_is_explicit: false,
        termination_grace_period: None,
        stop_margin: None,
        prestop_time: Duration::ZERO,
    };
    ShutdownTimes::of_agent(&limits, surroundings)
}

fn options(times: ShutdownTimes) -> Options {
    Options {
        concurrency: 1,
        times,
        ..settings::defaults()
    }
}

struct Play {
    machine: Lifecycle,
    now: Duration,
    /// Requests without an answer, and when the shell gives up each.
    asked: BTreeMap<CallId, Moment>,
    /// The backend answers until the SIGTERM.
    answers: bool,
    first: BTreeMap<Step, Duration>,
    is_killed: bool,
}

impl Play {
    /// A worker with a job, right before the SIGTERM.
    fn of(times: ShutdownTimes) -> Self {
        let start = Moment::new(Duration::ZERO);
        let mut play = Self {
            machine: Lifecycle::new(options(times), start),
            now: Duration::ZERO,
            asked: BTreeMap::new(),
            answers: true,
            first: BTreeMap::new(),
            is_killed: false,
        };
        let ready = Ready {
            concurrency: 1,
            types: None,
            ping: false,
            ok: true,
            cancel_signal: false,
            client: None,
        };
        let worker = WorkerId("w".into());
        let process = PROCESS;
        play.happens(Event::WorkerStarted { process, worker });
        play.happens(Event::HolderCame {
            holder: LINK,
            process: Some(process),
            manners: OF_A_CONNECTION,
        });
        play.happens(Event::Said(LINK, FromWorker::Ready(ready)));
        play.happens(Event::OutboundEmptied(LINK));
        play.answers = false;
        play
    }

    fn ends(mut self) -> BTreeMap<Step, Duration> {
        self.happens(Event::SignalArrived(Signal::TERM));
        for _ in 0..MOST_STEPS {
            if self.first.contains_key(&Step::Exit) {
                return self.first;
            }
            self.goes_on();
        }
        panic!("no end: {:?}", self.first);
    }

    /// Advances to the next moment with an event.
    fn goes_on(&mut self) {
        let (due, timer) = self.machine.poll_timeout().unwrap();
        let late = self.asked.iter().min_by_key(|(_, give_up)| **give_up);
        let late = late.map(|(call, give_up)| (*call, *give_up));
        let start = Moment::new(Duration::ZERO);
        if let Some((call, give_up)) = late.filter(|(_, give_up)| *give_up <= due) {
            self.now = self.now.max(start.elapsed(give_up));
            self.asked.remove(&call);
            return self.happens(Event::BackendReplied(call, Reply::Failed(Failure::Unanswered)));
        }
        self.now = self.now.max(start.elapsed(due));
        if timer == Timer::Ending(EndingTimer::Step) && std::mem::take(&mut self.is_killed) {
            self.happens(Event::WorkerEnded(Ended::Signalled(Signal::KILL)));
            self.happens(Event::Reaped { children_left: false });
            return self.happens(Event::HungUp(LINK));
        }
        let now = Moment::new(self.now);
        while self.machine.poll_timeout().is_some_and(|(due, _)| due <= now) {
            self.machine.handle_timeout(now);
            self.obey();
        }
    }

    fn happens(&mut self, event: Event) {
        self.machine.handle(event, Moment::new(self.now));
        self.obey();
    }

    fn obey(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            if let Some(step) = step(&effect) {
                self.first.entry(step).or_insert(self.now);
            }
            self.is_killed |= effect == Effect::KillEverything;
            if let Effect::CallBackend { id, call, give_up, .. } = effect {
                match self.answer(&call) {
                    Some(reply) => self
                        .machine
                        .handle(Event::BackendReplied(id, reply), Moment::new(self.now)),
                    None => drop(self.asked.insert(id, give_up)),
                }
            }
        }
    }

    fn answer(&self, call: &Call) -> Option<Reply> {
        if !self.answers {
            return None;
        }
        match call {
            Call::Fetch { .. } => Some(Reply::Fetched(vec![job()])),
            Call::Heartbeat { active, .. } => Some(Reply::HeartbeatOk {
                directive: None,
                extended: Some(active.clone()),
            }),
            Call::Register { .. }
            | Call::Report { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => Some(Reply::Failed(Failure::Unsupported)),
        }
    }
}

/// Which row of the table this is.
fn step(effect: &Effect) -> Option<Step> {
    let is_lifecycle = |state: &WorkerState| *state == WorkerState::Terminate;
    match effect {
        Effect::Tell(_, ToWorker::Lifecycle { state, .. }) if is_lifecycle(state) => Some(Step::Drain),
        Effect::Tell(_, ToWorker::Cancel { .. }) => Some(Step::Cancel),
        Effect::KillEverything => Some(Step::Kill),
        Effect::CallBackend { call, .. } => match call {
            Call::Report {
                outcome: Outcome::Failed { .. },
                ..
            } => Some(Step::Fail),
            Call::Heartbeat { state, active, .. } if is_lifecycle(state) && active.is_empty() => {
                Some(Step::FinalHeartbeat)
            }
            Call::Deregister { .. } => Some(Step::Deregister),
            Call::Heartbeat { .. }
            | Call::Register { .. }
            | Call::Fetch { .. }
            | Call::Report { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. } => None,
        },
        Effect::Exit(_) => Some(Step::Exit),
        Effect::StartWorker { .. }
        | Effect::StartNext
        | Effect::TakeOver(_)
        | Effect::SignalWorker(_)
        | Effect::SignalProcess(..)
        | Effect::TerminateDescendants
        | Effect::KillDescendants
        | Effect::Tell(..)
        | Effect::ReadToEnd(_)
        | Effect::Close(..)
        | Effect::Answer(..)
        | Effect::Show(..)
        | Effect::AbandonCall(_)
        | Effect::AnswerPull { .. }
        | Effect::AnswerBeat { .. }
        | Effect::DropClient(_)
        | Effect::Notify(_)
        | Effect::WriteTerminationLog(_) => None,
    }
}

fn job() -> Delivery {
    Delivery {
        has_crashed: false,
        subject: Subject {
            id: JobId("job".into()),
            kind: "t".into(),
            queue: "default".into(),
            attempt: Some(1),
            max_attempts: None,
            trace: None,
        }
        .into(),
        envelope: "{}".into(),
        checkpoint: None,
        timeout: None,
        reservation: Reservation::default(),
        visibility: None,
        waited: None,
    }
}
