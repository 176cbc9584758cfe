//! The draw: what a trial puts together. Every combination of worker, backend and moment comes up equally often; all else
//! is chance.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::kinds::{Behaviour, Ending, Occasion, Weather};
use crate::support::random::Random;

/// One job.
#[derive(Debug, Clone, Copy)]
pub struct JobPlan {
    /// Milliseconds that it takes; with `at_deadline` from the deadline of the drain, and negative before it.
    pub ms: i64,
    pub at_deadline: bool,
    pub ending: Ending,
}

/// How often each pair comes up in so many trials, at least; 0 where one is missing.
pub fn rarest_pair(count: u64) -> usize {
    let mut pairs = BTreeMap::new();
    for (behaviour, weather, occasion) in (0..count).map(combination) {
        for pair in [
            (behaviour.name(), weather.name()),
            (behaviour.name(), occasion.name()),
            (weather.name(), occasion.name()),
        ] {
            *pairs.entry(pair).or_insert(0_usize) += 1;
        }
    }
    let all =
        Behaviour::ALL.len() * Weather::ALL.len() + (Behaviour::ALL.len() + Weather::ALL.len()) * Occasion::ALL.len();
    let is_complete = pairs.len() == all;
    pairs.into_values().min().filter(|_| is_complete).unwrap_or(0)
}

/// Something that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Signal(i32),
    /// A control command, by its words. What comes next waits for its end.
    Command(&'static [&'static str]),
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
    pub is_calm: bool,
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
    /// With what the end is asked for, one after the other.
    pub first: Vec<Ask>,
    /// What is asked for then, and how many milliseconds later.
    pub more: Vec<(i64, Ask)>,
    pub onset: Onset,
    /// How long the weather lasts, where it ends.
    pub lasts: Duration,
    /// When the worker does what it does, from its first job.
    pub act_after: Duration,
}

/// The interval of the heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// In so many trials each pair of behaviour, weather and occasion has to come up [`LEAST_TIMES`] times.
pub const THOROUGH: u64 = 5_000;

/// See [`THOROUGH`].
pub const LEAST_TIMES: usize = 10;

/// How long the job of a calm trial takes, in milliseconds.
const CALM_JOB_MS: i64 = 60;

/// The exit status of a shutdown that cut jobs off.
pub const INTERRUPTED: i32 = 10;

impl Plan {
    /// The plan of the trial of that number.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut random = Random::from_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (behaviour, weather, occasion) = combination(number);
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
        let signal = pick(
            &[libc::SIGTERM, libc::SIGTERM, libc::SIGINT, libc::SIGQUIT],
            between(0, 3),
        );
        let (first, more) = asks(&mut between, occasion, deadline, signal);
        Self {
            number,
            is_calm: false,
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
            signal,
            pause: Duration::from_micros(between(0, 300_000)),
            first,
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

    /// A trial that measures: the worker ends at once, nothing disturbs, and the only job ends in the drain.
    pub fn calm(seed: u64, number: u64) -> Self {
        Self {
            is_calm: true,
            behaviour: Behaviour::Good,
            weather: Weather::Fine,
            occasion: Occasion::Busy,
            jobs: vec![JobPlan {
                ms: CALM_JOB_MS,
                at_deadline: false,
                ending: Ending::Ack,
            }],
            concurrency: 1,
            is_pid_1: true,
            grace: Duration::from_secs(2),
            margin: Duration::from_secs(4),
            limit: Duration::from_secs(10),
            term_delay: Duration::ZERO,
            kubernetes: false,
            signal: libc::SIGTERM,
            pause: Duration::ZERO,
            first: vec![Ask::Signal(libc::SIGTERM)],
            more: Vec::new(),
            onset: Onset::Start,
            ..Self::draw(seed, number)
        }
    }

    /// What a name of it begins with.
    pub fn kind(&self) -> &'static str {
        if self.is_calm { "calm" } else { "trial" }
    }

    /// The arguments that play it again.
    pub fn again(&self) -> String {
        if self.is_calm {
            "--count 0".to_owned()
        } else {
            format!("--seed {} --only {}", self.seed, self.number)
        }
    }
}

/// In each 121 in a row every pair comes up once, in 1,331 every combination of three.
pub fn combination(number: u64) -> (Behaviour, Weather, Occasion) {
    let (column, row, square) = (number % 11, number / 11 % 11, number / 121);
    // Two squares in a row differ in which of the three belong together, and no two strides are the same.
    let occasion = column + 2 * row + 3 * square;
    (
        pick(&Behaviour::ALL, column),
        pick(&Weather::ALL, row),
        pick(&Occasion::ALL, occasion),
    )
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

/// With what the end is asked for, and what follows.
fn asks(
    between: &mut impl FnMut(u64, u64) -> u64,
    occasion: Occasion,
    deadline: i64,
    signal: i32,
) -> (Vec<Ask>, Vec<(i64, Ask)>) {
    let mut at = |low: i64, high: i64| low + i64::try_from(between(0, u64::try_from(high - low).unwrap())).unwrap();
    let stop = Ask::Signal(signal);
    let more = match occasion {
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
        Occasion::Operator => return operator(&mut at, deadline, stop),
        Occasion::Start
        | Occasion::Fetch
        | Occasion::Ack
        | Occasion::Busy
        | Occasion::Idle
        | Occasion::Deadline
        | Occasion::Quiet => Vec::new(),
    };
    (vec![stop], more.into_iter().map(|ms| (ms, stop)).collect())
}

/// What somebody does who has the control commands, with or without an orchestrator that ends the container.
fn operator(at: &mut impl FnMut(i64, i64) -> i64, deadline: i64, signal: Ask) -> (Vec<Ask>, Vec<(i64, Ask)>) {
    let terminate = Ask::Command(&["terminate"]);
    let stop = Ask::Command(&["stop"]);
    let hook = |words| vec![Ask::Command(words), signal];
    match at(0, 10) {
        0 => (vec![terminate], Vec::new()),
        1 => (vec![terminate], vec![(at(0, deadline + 500), signal)]),
        2 => (vec![terminate], vec![(at(0, deadline.max(1)), stop)]),
        3 => (vec![Ask::Command(&["quiet"]), terminate], Vec::new()),
        4 | 5 => (vec![stop], Vec::new()),
        6 | 7 => (vec![signal], vec![(at(0, deadline + 500), stop)]),
        8 => (hook(&["prestop", "--for", "300ms"]), Vec::new()),
        9 => (hook(&["prestop", "--until-idle"]), vec![(at(0, 800), stop)]),
        _ => (hook(&["prestop", "--until-idle"]), Vec::new()),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: a worker that is {}, a backend that is {}, the end asked for at {}",
            self.kind(),
            self.number,
            self.behaviour.name(),
            self.weather.name(),
            self.occasion.name()
        )
    }
}
