//! The draw: what a trial puts together. Every combination of worker, backend and moment comes up equally often; all else
//! is chance.

use std::fmt;
use std::time::Duration;

use crate::support::random::Random;

/// What the worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Finishes its jobs, answers `cancel`, ends on SIGTERM.
    Good,
    /// The same with the Python client.
    Python,
    /// Answers nothing that it is asked; SIGTERM is ignored.
    Ignores,
    /// Stops itself (SIGSTOP) with jobs in its hands.
    Stops,
    /// Each job runs in a process of its own, one of them a daemon; SIGTERM ends only the parent.
    Forks,
    /// Ends by itself with jobs in its hands: exit status, SIGKILL or SIGSEGV.
    Crashes,
    /// Closes the socket and goes on working; SIGTERM is ignored.
    Closes,
    /// Sends frames without end, and finishes its jobs.
    Floods,
    /// Reads nothing any more once it has a job, and finishes its jobs.
    Deaf,
    /// On SIGTERM or `cancel` it acks what it holds and then stays.
    LastWords,
    /// Two processes with a connection each: one is good, one ignores.
    Prefork,
}

impl Behaviour {
    pub const ALL: [Self; 11] = [
        Self::Good,
        Self::Python,
        Self::Ignores,
        Self::Stops,
        Self::Forks,
        Self::Crashes,
        Self::Closes,
        Self::Floods,
        Self::Deaf,
        Self::LastWords,
        Self::Prefork,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Python => "python",
            Self::Ignores => "ignores",
            Self::Stops => "stops",
            Self::Forks => "forks",
            Self::Crashes => "crashes",
            Self::Closes => "closes",
            Self::Floods => "floods",
            Self::Deaf => "deaf",
            Self::LastWords => "last-words",
            Self::Prefork => "prefork",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|behaviour| behaviour.name() == name)
    }

    /// It may end, or be ended, before anybody asks for that.
    pub fn may_end_first(self) -> bool {
        matches!(self, Self::Crashes | Self::Closes)
    }
}

/// What the backend does, from some moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weather {
    /// Answers.
    Fine,
    /// Answers late.
    Slow,
    /// Every second request: 500, not carried out.
    Errors,
    /// Every second request is carried out, and its connection closed instead of an answer.
    Lost,
    /// Every second request: the connection is reset.
    Resets,
    /// Every third request is never answered.
    Hangs,
    /// Every second answer breaks off.
    Truncates,
    /// Every second request: 429 with Retry-After.
    Busy,
    /// Refuses connections for a while.
    Refuses,
    /// Answers nothing for a while.
    Silent,
    /// Gone for good: refuses, or answers nothing.
    Gone,
}

impl Weather {
    pub const ALL: [Self; 11] = [
        Self::Fine,
        Self::Slow,
        Self::Errors,
        Self::Lost,
        Self::Resets,
        Self::Hangs,
        Self::Truncates,
        Self::Busy,
        Self::Refuses,
        Self::Silent,
        Self::Gone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Slow => "slow",
            Self::Errors => "500",
            Self::Lost => "lost",
            Self::Resets => "reset",
            Self::Hangs => "hangs",
            Self::Truncates => "truncated",
            Self::Busy => "429",
            Self::Refuses => "refuses",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }

    /// Whatever is sent gets its answer in time: nothing may be left to its visibility timeout.
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Fine | Self::Slow)
    }
}

/// When, and how, the end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// While it starts.
    Start,
    /// While a FETCH is in flight.
    Fetch,
    /// While an ACK is in flight.
    Ack,
    /// While jobs are active.
    Busy,
    /// When all jobs are done.
    Idle,
    /// While jobs are active, one of which ends within milliseconds of the deadline.
    Deadline,
    /// While jobs are active; again in the drain, often at the deadline to the millisecond.
    Again,
    /// While jobs are active; again in the stop phase, perhaps twice.
    Late,
    /// SIGTSTP first, as a preStop hook does.
    Quiet,
    /// By the backend; perhaps a SIGTERM follows.
    Directive,
}

impl Occasion {
    pub const ALL: [Self; 10] = [
        Self::Start,
        Self::Fetch,
        Self::Ack,
        Self::Busy,
        Self::Idle,
        Self::Deadline,
        Self::Again,
        Self::Late,
        Self::Quiet,
        Self::Directive,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Fetch => "fetch",
            Self::Ack => "ack",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Deadline => "deadline",
            Self::Again => "again",
            Self::Late => "late",
            Self::Quiet => "quiet",
            Self::Directive => "directive",
        }
    }
}

/// How a job is to end when nobody disturbs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Ack,
    Fail,
    Release,
    /// Only with its process.
    Never,
}

impl Ending {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Never => "never",
        }
    }
}

/// One job.
#[derive(Debug, Clone, Copy)]
pub struct JobPlan {
    /// Milliseconds that it takes; with `at_deadline` from the deadline of the drain, and negative before it.
    pub ms: i64,
    pub at_deadline: bool,
    pub ending: Ending,
}

/// When the weather begins.
#[derive(Debug, Clone, Copy)]
pub enum Onset {
    /// Before the init is started.
    Start,
    /// So long before or after the end is asked for.
    Around(i64),
}

/// One trial.
#[derive(Debug, Clone)]
pub struct Plan {
    pub number: u64,
    pub seed: u64,
    pub behaviour: Behaviour,
    pub weather: Weather,
    pub occasion: Occasion,
    pub jobs: Vec<JobPlan>,
    pub concurrency: u32,
    pub is_pid_1: bool,
    pub grace: Duration,
    pub margin: Duration,
    pub limit: Duration,
    pub cancel_grace: Duration,
    pub term_delay: Duration,
    pub requeues: bool,
    pub kubernetes: bool,
    /// SIGTERM, SIGINT or SIGQUIT.
    pub signal: i32,
    /// From the moment that the occasion is there to t0.
    pub pause: Duration,
    /// Milliseconds from t0 to each further signal.
    pub more: Vec<i64>,
    pub onset: Onset,
    /// How long the weather lasts, where it ends.
    pub lasts: Duration,
    /// When the worker does what it does, from its first job.
    pub act_after: Duration,
}

/// The interval of the heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// The exit status of a shutdown that cut jobs off.
pub const INTERRUPTED: i32 = 10;

impl Plan {
    /// The plan of the trial of that number.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut random = Random::from_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let behaviour = pick(&Behaviour::ALL, number);
        let weather = pick(&Weather::ALL, number / 11);
        let occasion = pick(&Occasion::ALL, number + number / 11 + 3 * (number / 110));
        let mut chance = |percent| random.below(100) < percent;
        let is_pid_1 = !chance(15);
        let requeues = chance(20);
        let kubernetes = occasion == Occasion::Quiet && chance(50);
        let is_at_deadline = occasion == Occasion::Deadline || chance(10);
        let is_of_long_jobs = chance(35);
        let is_cut_by_limit = chance(12);
        let mut between = |low, high| random.between(low, high);
        // The margin is at most half of the limit, and a tenth of it is kept back: 4 s is the shortest with which an end
        // at the last moment comes 250 ms before the limit, and the machine may be late.
        let (grace, margin, limit) = if is_cut_by_limit {
            let [grace, margin] = [10_000, 4_000].map(Duration::from_millis);
            (grace, margin, margin * 2)
        } else {
            let grace = Duration::from_millis(pick(&[0, 300, 700, 1000, 1500], between(0, 4)));
            let margin = Duration::from_millis(pick(&[2000, 3000, 4000], between(0, 2)));
            let spare = Duration::from_millis(between(500, 1000));
            (grace, margin, (margin * 2).max(grace + margin + spare))
        };
        let concurrency = u32::try_from(between(1, 8)).unwrap();
        let count = between(1, 2 * u64::from(concurrency));
        let jobs = (0..count).map(|index| job(&mut between, occasion, index == 0 && is_at_deadline, is_of_long_jobs));
        let jobs = jobs.collect();
        let deadline = i64::try_from(grace.min(limit - margin).as_millis()).unwrap();
        let more = again(&mut between, occasion, deadline);
        Self {
            number,
            seed,
            behaviour,
            weather,
            occasion,
            jobs,
            concurrency,
            is_pid_1,
            grace,
            margin,
            limit,
            cancel_grace: Duration::from_millis(pick(&[0, 200, 1000], between(0, 2))),
            term_delay: Duration::from_millis(pick(&[0, 0, 0, 100], between(0, 3))),
            requeues,
            kubernetes,
            signal: pick(
                &[libc::SIGTERM, libc::SIGTERM, libc::SIGINT, libc::SIGQUIT],
                between(0, 3),
            ),
            pause: Duration::from_micros(between(0, 300_000)),
            more,
            onset: match between(0, 3) {
                0 => Onset::Start,
                1 => Onset::Around(0),
                _ => Onset::Around(i64::try_from(between(0, 700)).unwrap() - 200),
            },
            lasts: Duration::from_millis(between(200, 2500)),
            act_after: Duration::from_millis(between(0, 500)),
        }
    }
}

fn pick<T: Copy>(from: &[T], number: u64) -> T {
    from[usize::try_from(number).unwrap() % from.len()]
}

fn job(between: &mut impl FnMut(u64, u64) -> u64, occasion: Occasion, at_deadline: bool, is_long: bool) -> JobPlan {
    let ending = match between(0, 9) {
        0 => Ending::Fail,
        1 => Ending::Release,
        2 if occasion != Occasion::Idle => Ending::Never,
        _ => Ending::Ack,
    };
    let longest = match occasion {
        Occasion::Idle | Occasion::Ack => 60,
        _ if is_long => 3000,
        _ => 600,
    };
    let ms = i64::try_from(between(0, longest)).unwrap();
    if at_deadline {
        // Most within a few milliseconds, where it is decided who comes first.
        let spread = if between(0, 2) == 0 { 100 } else { 8 };
        let ms = i64::try_from(between(0, 2 * spread)).unwrap() - i64::try_from(spread).unwrap();
        return JobPlan {
            ms,
            at_deadline,
            ending: Ending::Ack,
        };
    }
    JobPlan {
        ms,
        at_deadline,
        ending,
    }
}

/// Further signals.
fn again(between: &mut impl FnMut(u64, u64) -> u64, occasion: Occasion, deadline: i64) -> Vec<i64> {
    let mut at = |low: i64, high: i64| low + i64::try_from(between(0, u64::try_from(high - low).unwrap())).unwrap();
    match occasion {
        Occasion::Again => match at(0, 2) {
            0 => vec![(deadline + at(-5, 5)).max(0)],
            _ => vec![at(0, deadline.max(1))],
        },
        Occasion::Late => {
            let second = deadline + at(0, 2000);
            match at(0, 3) {
                0 => vec![second, second + at(0, 1500)],
                _ => vec![second],
            }
        }
        Occasion::Directive => match at(0, 1) {
            0 => vec![at(0, 800)],
            _ => Vec::new(),
        },
        Occasion::Start
        | Occasion::Fetch
        | Occasion::Ack
        | Occasion::Busy
        | Occasion::Idle
        | Occasion::Deadline
        | Occasion::Quiet => Vec::new(),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trial {}: a worker that is {}, a backend that is {}, the end asked for at {}",
            self.number,
            self.behaviour.name(),
            self.weather.name(),
            self.occasion.name()
        )
    }
}
