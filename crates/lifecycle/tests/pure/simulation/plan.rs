//! The events of one run, drawn from its seed. The run itself uses no chance, so a failure is
//! shrunk by removing parts of its plan.

use std::time::Duration;

use ojs_lifecycle::api::StopSignal::{Exit, Graceful, Stop};
use ojs_lifecycle::api::{
    Directive, FinalState, Leftovers, LimitSource, NotStarted, OperatorRequest, Options, RecycleLimits, Restart,
    ShutdownTimes, TransitionSignals, stop_margin,
};
use ojs_values::exit::{Ended, RemapExit};
use ojs_values::signal::Signal;

use super::asks::asks;
use super::chance::Chance;
use super::{fetches, idle, memory, recycles, streams};
use crate::script::settings;

/// Status of a shutdown that cut jobs off.
pub const INTERRUPTED: u8 = 75;

pub const RARE_KIND: &str = "rare";

#[derive(Debug, Clone)]
pub struct Plan {
    pub options: Options,
    pub backend: BackendHabits,
    pub twists: Vec<Twist>,
    /// When SIGTERM is sent if nothing has requested the end before, in ms.
    pub horizon: u64,
    /// Whether a deadline precedes a fact of that moment.
    pub timers_first: bool,
}

#[derive(Debug, Clone)]
pub struct BackendHabits {
    /// `None`: the backend has no registration. Else: the interval that it recommends.
    pub registers: Option<Option<u64>>,
    pub tells_extended: bool,
    /// A list of nothing is left out.
    pub omits_empty: bool,
    pub shows_worker: bool,
    pub visibility: u64,
    pub delay: u64,
    /// Delay of looks at a job, if it differs from that of other requests.
    pub look_delay: Option<u64>,
    /// A conflict does not name the job's state.
    pub hides_state: bool,
    /// When a FAIL or requeue is carried out, and when it is answered: the job may be delivered
    /// again before either.
    pub nack_delay: Option<(u64, u64)>,
}

/// A fault, a disturbance, or a job. Times are in ms.
#[derive(Debug, Clone)]
pub enum Twist {
    Signal(u64, Signal),
    Ask(u64, OperatorRequest),
    /// The file with the token was replaced.
    NewToken(u64),
    /// Answers to heartbeats from then on.
    Directive(u64, Option<Directive>),
    /// The shell is slow.
    Stall(u64, u64),
    /// A job is there to be fetched.
    Job(u64, JobPlan),
    /// The fate of the request of this number.
    Call(u64, Fault),
    /// Every request from then until then.
    Outage(u64, u64, Fault),
    Hang(super::hangs::Hang),
    /// Events of a job that the worker does not see.
    Fate(u64, u64, Fate),
    /// The act of the handler of the job frame of this number.
    Handler(u64, Habit),
    /// The worker of this number (from 0) is like this.
    Life(u64, Life),
    /// A process of the worker dies unasked.
    Death(u64, usize, Ended, bool),
    /// A process ignores everything but SIGKILL, or that as well.
    Stubborn(usize, Stubbornness),
    /// A connection does not answer pings, and reads nothing from then on.
    Deaf(u64, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stubbornness {
    IgnoresTerm,
    HeldByKernel,
}

#[derive(Debug, Clone)]
pub struct JobPlan {
    pub id: u64,
    pub is_rare: bool,
    pub is_large: bool,
    pub timeout: Option<u64>,
    pub attempt: u64,
    pub max_attempts: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Cancelled,
    TakenByOther,
    Lapsed,
}

/// Faults of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Slow(u64),
    NotSent,
    /// Carried out, and the answer is lost.
    ReplyLost(u64),
    RequestLost(u64),
    /// The shell never answers, whether the request is carried out or not.
    Silence(bool),
    Declined(Option<u64>),
    Unauthorized,
    NotOffered,
    Unregistered,
    Refused,
    /// A success that another server has written.
    Foreign,
    /// An error of the backend, carried out or not.
    ServerError(bool),
    /// The backend's store is away: it finds no job, and answers as if there were none.
    StoreAway,
    /// Success, of another kind of request.
    OtherReply,
    /// A FETCH brings this many more than asked for.
    TooMany(u64),
    /// A FETCH brings each job twice.
    Doubled,
    /// A FETCH returns a job that the worker already has.
    Redelivered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Ack,
    Fail,
    Release,
}

/// The act of a handler with its job.
#[derive(Debug, Clone)]
pub struct Habit {
    pub after: u64,
    pub act: Act,
    /// The answer to a cancel, and after which time.
    pub on_cancel: Option<(u64, Answer)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Answer(Answer),
    Twice(Answer, Answer),
    Nothing,
    AckThenDie,
    /// Without an answer.
    Die,
    CloseSocket,
    Garbage,
    AckUnknown,
    Chatter,
    Pause,
}

/// A worker: its processes, the first of which is the main one.
#[derive(Debug, Clone)]
pub struct Life {
    pub start: Result<(), NotStarted>,
    pub start_delay: u64,
    pub processes: Vec<ProcessPlan>,
    pub links: Vec<LinkPlan>,
}

#[derive(Debug, Clone)]
pub struct ProcessPlan {
    /// Which process started it; 0 for the children of the main one.
    pub parent: usize,
    /// From SIGTERM to its end.
    pub term_delay: u64,
    pub term_end: Ended,
    /// The end of its connections is not seen before the shell has to read to the end.
    pub is_hidden: bool,
    /// Its end is seen by its pid before it is reaped.
    pub is_watched: bool,
}

#[derive(Debug, Clone)]
pub struct LinkPlan {
    pub process: usize,
    pub connect: u64,
    pub ready: u64,
    pub concurrency: u32,
    pub is_picky: bool,
    pub pings: bool,
}

impl LinkPlan {
    /// Whether it asks for its jobs itself. This draws no chance of its own, so the worlds of all
    /// seeds stay unchanged.
    pub fn pulls(&self) -> bool {
        self.connect.is_multiple_of(4) && !self.is_picky
    }
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut options = options(&mut chance, seed);
        let horizon = *chance.pick(&[800, 3_000, 8_000, 15_000, 40_000]);
        let backend = backend(&mut chance);
        let mut twists = Vec::new();
        lives(&mut chance, &mut twists);
        jobs(&mut chance, horizon, &mut twists);
        fetches::many_jobs(seed, &mut twists);
        asks(seed, &mut chance, horizon, &mut twists);
        faults(&mut chance, horizon, &mut twists);
        handlers(&mut chance, &mut twists);
        incidents(&mut chance, horizon, &mut twists);
        super::hangs::hangs(&mut chance, horizon, &mut twists);
        options.recycle.overlap &= !recycles::is_held_by_kernel(&twists);
        Self {
            options,
            backend,
            twists,
            horizon,
            timers_first: chance.one_in(2),
        }
    }

    /// This plan with only the given twists.
    pub fn with_twists(&self, twists: Vec<Twist>) -> Self {
        Self { twists, ..self.clone() }
    }
}

/// Changes that make a run easier to read. Each is tried when a run is made small.
pub const SIMPLER: [fn(&mut Plan); 15] = [
    |plan| plan.options.recycle = RecycleLimits::default(),
    |plan| plan.horizon = 800,
    |plan| plan.horizon = plan.horizon.min(3_000),
    |plan| plan.horizon = plan.horizon.min(8_000),
    |plan| plan.options.poll_interval = ms(1_000),
    |plan| plan.options.listen_to.clear(),
    |plan| plan.options.heartbeat_interval = ms(5_000),
    |plan| plan.backend.delay = 3,
    |plan| plan.backend.look_delay = None,
    |plan| plan.backend.nack_delay = None,
    |plan| plan.backend.registers = None,
    |plan| plan.backend.tells_extended = false,
    |plan| plan.options.term_delay = ms(0),
    |plan| plan.options.concurrency = 1,
    |plan| plan.options.restart = Restart::Never,
];

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn options(chance: &mut Chance, seed: u64) -> Options {
    let limit = *chance.pick(&[None, Some(2_000), Some(6_000), Some(10_000), Some(30_000)]);
    let margin = chance.one_in(4).then(|| ms(limit.unwrap_or(4_000) / 4));
    let times = ShutdownTimes {
        grace_period: ms(*chance.pick(&[0, 500, 3_000, 10_000, 30_000])),
        limit: limit.map(ms),
        stop_margin: limit.map_or(margin.unwrap_or(ms(5_000)), |limit| stop_margin(margin, ms(limit))),
        source: LimitSource::Configured,
    };
    let stop = [Graceful, Graceful, Stop, Exit];
    let mut remap_exit = RemapExit::default();
    remap_exit.insert(7);
    Options {
        concurrency: idle::concurrency(seed, fetches::concurrency(seed, *chance.pick(&[1, 2, 3, 5]))),
        restart: *chance.pick(&[
            Restart::Never,
            Restart::Hung,
            Restart::Hung,
            Restart::OnFailure,
            Restart::Always,
        ]),
        ready_timeout: ms(*chance.pick(&[300, 2_000, 60_000])),
        type_wait: ms(*chance.pick(&[0, 200, 3_000])),
        memory_gate: memory::gate(seed),
        recycle: recycles::limits(seed),
        exit_when_idle: idle::time(seed),
        once: idle::once(seed),
        job_timeout: None,
        timeout_grace: ms(*chance.pick(&[0, 300, 2_000])),
        listen_to: streams::queues(seed),
        poll_interval: ms(*chance.pick(&[100, 1_000])),
        poll_interval_max: ms(10_000),
        heartbeat_interval: ms(*chance.pick(&[300, 1_000, 5_000])),
        heartbeat_interval_is_fixed: chance.one_in(3),
        visibility_timeout: ms(*chance.pick(&[1_500, 30_000])),
        request_timeout: ms(*chance.pick(&[500, 2_000, 10_000])),
        final_state: *chance.pick(&[FinalState::Terminate, FinalState::Terminated, FinalState::Both]),
        server_resume: chance.one_in(3),
        times,
        cancel_grace: ms(*chance.pick(&[0, 200, 1_000, 3_000])),
        term_delay: ms(*chance.pick(&[0, 0, 400, 5_000])),
        tstp_starts_clock: chance.one_in(2),
        sigint: *chance.pick(&stop),
        sigquit: *chance.pick(&stop),
        signals: TransitionSignals {
            on_terminate: chance.one_in(4).then_some(Signal::HUP),
            ..TransitionSignals::default()
        },
        remap_exit,
        interrupted_exit: INTERRUPTED,
        leftovers: *chance.pick(&[Leftovers::Fail, Leftovers::Requeue]),
        seed,
        ..settings::defaults()
    }
}

fn backend(chance: &mut Chance) -> BackendHabits {
    BackendHabits {
        registers: *chance.pick(&[None, Some(None), Some(Some(400)), Some(Some(2_000))]),
        tells_extended: chance.one_in(2),
        omits_empty: chance.one_in(2),
        shows_worker: chance.one_in(2),
        visibility: *chance.pick(&[3_000, 120_000]),
        delay: *chance.pick(&[0, 3, 40, 300]),
        look_delay: chance.one_in(3).then_some(900),
        hides_state: chance.one_in(3),
        // At once and answered late, or after the end of the reservation that it was meant for.
        nack_delay: *chance.pick(&[None, None, Some((1, 1_600)), Some((3_400, 3_450))]),
    }
}

fn lives(chance: &mut Chance, twists: &mut Vec<Twist>) {
    for number in 0..3 {
        let count = *chance.pick(&[1_usize, 1, 2, 3]);
        let processes = (0..count).map(|index| process(chance, index)).collect();
        let links = (0..chance.below(4)).map(|_| link(chance, count)).collect();
        let start = match chance.below(24) {
            0 => Err(NotStarted::Shortage),
            1 => Err(NotStarted::Refused(127)),
            _ => Ok(()),
        };
        let start_delay = *chance.pick(&[0, 1, 1, 500]);
        let life = Life {
            start,
            start_delay,
            processes,
            links,
        };
        twists.push(Twist::Life(number, life));
    }
}

fn process(chance: &mut Chance, index: usize) -> ProcessPlan {
    ProcessPlan {
        parent: if index > 1 && chance.one_in(2) { 1 } else { 0 },
        term_delay: *chance.pick(&[0, 20, 200, 1_500]),
        term_end: *chance.pick(&[Ended::Exited(0), Ended::Signalled(Signal::TERM), Ended::Exited(7)]),
        is_hidden: chance.one_in(3),
        is_watched: chance.one_in(2),
    }
}

fn link(chance: &mut Chance, processes: usize) -> LinkPlan {
    LinkPlan {
        process: chance.index(processes),
        connect: chance.below(60),
        ready: *chance.pick(&[0, 5, 100, 1_000]),
        concurrency: *chance.pick(&[0, 1, 1, 2, 4]),
        is_picky: chance.one_in(4),
        pings: chance.one_in(4),
    }
}

fn jobs(chance: &mut Chance, horizon: u64, twists: &mut Vec<Twist>) {
    for id in 0..chance.below(12) {
        let max_attempts = *chance.pick(&[None, Some(1), Some(3)]);
        let job = JobPlan {
            id,
            is_rare: chance.one_in(6),
            is_large: chance.one_in(25),
            timeout: chance.one_in(5).then(|| 50 + chance.below(2_000)),
            attempt: chance.below(2),
            max_attempts,
        };
        twists.push(Twist::Job(chance.below(horizon / 2), job));
    }
}

fn faults(chance: &mut Chance, horizon: u64, twists: &mut Vec<Twist>) {
    let crowd = *chance.pick(&[0, 3, 10, 25]);
    for _ in 0..chance.below(crowd + 1) {
        twists.push(Twist::Call(1 + chance.below(50), fault(chance)));
    }
    if chance.one_in(4) {
        let from = chance.below(horizon);
        let kind = *chance.pick(&[
            Fault::NotSent,
            Fault::Declined(None),
            Fault::RequestLost(300),
            Fault::ReplyLost(300),
            Fault::Silence(false),
            Fault::Slow(1_500),
            Fault::Refused,
            Fault::Foreign,
            Fault::ServerError(false),
            Fault::StoreAway,
            Fault::StoreAway,
        ]);
        let length = *chance.pick(&[500, 4_000, 60_000]);
        twists.push(Twist::Outage(from, from + length, kind));
    }
    for _ in 0..chance.below(3) {
        let fate = *chance.pick(&[Fate::Cancelled, Fate::TakenByOther, Fate::Lapsed]);
        twists.push(Twist::Fate(chance.below(horizon), chance.below(8), fate));
    }
}

fn fault(chance: &mut Chance) -> Fault {
    let delay = *chance.pick(&[5, 100, 900, 20_000]);
    match chance.below(22) {
        18 => Fault::Foreign,
        19 => Fault::ServerError(chance.one_in(2)),
        20 | 21 => Fault::StoreAway,
        0 | 1 => Fault::Slow(delay),
        2 => Fault::NotSent,
        3 | 4 => Fault::ReplyLost(delay),
        5 | 6 => Fault::RequestLost(delay),
        7 => Fault::Silence(chance.one_in(2)),
        8 => Fault::Declined(chance.one_in(2).then_some(700)),
        9 => Fault::Unauthorized,
        10 => Fault::NotOffered,
        11 => Fault::Unregistered,
        12 | 13 => Fault::Refused,
        14 => Fault::OtherReply,
        15 => Fault::TooMany(1 + chance.below(3)),
        16 => Fault::Doubled,
        _ => Fault::Redelivered,
    }
}

fn handlers(chance: &mut Chance, twists: &mut Vec<Twist>) {
    for number in 0..16 {
        if chance.one_in(2) {
            twists.push(Twist::Handler(number, habit(chance)));
        }
    }
}

fn answer(chance: &mut Chance) -> Answer {
    *chance.pick(&[Answer::Ack, Answer::Ack, Answer::Fail, Answer::Release])
}

fn habit(chance: &mut Chance) -> Habit {
    let act = match chance.below(16) {
        0..=4 => Act::Answer(answer(chance)),
        5 => Act::Twice(answer(chance), answer(chance)),
        6..=8 => Act::Nothing,
        9 | 10 => Act::AckThenDie,
        11 => Act::Die,
        12 => Act::CloseSocket,
        13 => *chance.pick(&[Act::Garbage, Act::Pause]),
        14 => Act::AckUnknown,
        _ => Act::Chatter,
    };
    Habit {
        after: *chance.pick(&[0, 1, 30, 400, 2_500, 9_000]),
        act,
        on_cancel: chance
            .one_in(2)
            .then(|| (*chance.pick(&[0, 30, 600, 2_500]), answer(chance))),
    }
}

fn incidents(chance: &mut Chance, horizon: u64, twists: &mut Vec<Twist>) {
    if chance.one_in(2) {
        let end = *chance.pick(&[
            Ended::Exited(0),
            Ended::Exited(3),
            Ended::Exited(7),
            Ended::Signalled(Signal::KILL),
        ]);
        twists.push(Twist::Death(
            chance.below(horizon + 2_000),
            chance.index(6),
            end,
            chance.one_in(2),
        ));
    }
    if chance.one_in(4) {
        let how = *chance.pick(&[Stubbornness::IgnoresTerm, Stubbornness::HeldByKernel]);
        twists.push(Twist::Stubborn(chance.index(4), how));
    }
    if chance.one_in(6) {
        twists.push(Twist::Deaf(chance.below(horizon), chance.index(4)));
    }
}
