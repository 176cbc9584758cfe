//! The draw: what a trial puts together. Every combination of worker, backend and moment comes up
//! equally often; all else is chance.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ojs_devserver::{Backend, Dialect};

use super::asks::asks;
use super::gateway;
use super::kinds::{Behaviour, Ending, FinalState, Occasion, Weather};
use super::names::Host;
use super::recycles::{self, Recycles};
use crate::sdk::Proof;
use crate::support::random::Random;

/// One job.
#[derive(Debug, Clone, Copy)]
pub struct JobPlan {
    /// Milliseconds that it takes; with `at_deadline` from the deadline of the drain, and negative
    /// before it.
    pub ms: i64,
    pub at_deadline: bool,
    pub ending: Ending,
    /// Its result is larger than some backends take.
    pub is_large: bool,
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
    /// The time of GNU `timeout` is over, which is to send this signal then.
    Expiry(i32),
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
    /// By what the init knows the processes of a worker that is made with an SDK.
    pub proof: Proof,
    /// How the backend speaks.
    pub dialect: Dialect,
    /// How its URL names it.
    pub host: Host,
    /// Which of several things, where a kind of worker, backend or moment has several.
    pub variant: u64,
    pub jobs: Vec<JobPlan>,
    pub concurrency: u32,
    pub is_pid_1: bool,
    pub grace: Duration,
    pub margin: Duration,
    pub limit: Duration,
    pub cancel_grace: Duration,
    pub term_delay: Duration,
    /// Longest that a request may take where nothing else is decided.
    pub request_timeout: Duration,
    /// How long a heartbeat keeps a job reserved.
    pub visibility: Duration,
    /// The state that the last heartbeats say.
    pub final_state: FinalState,
    /// Each job has one attempt: given back it would be discarded.
    pub is_last_attempt: bool,
    pub requeues: bool,
    pub kubernetes: bool,
    /// SIGTERM, SIGINT or SIGQUIT.
    pub signal: i32,
    /// From the moment that the occasion is there to t0.
    pub pause: Duration,
    /// With what the end is asked for, one after the other.
    pub first: Vec<Ask>,
    /// The requests then, and how many milliseconds later each comes.
    pub more: Vec<(i64, Ask)>,
    pub onset: Onset,
    /// How long the weather lasts, where it ends.
    pub lasts: Duration,
    /// When the worker does what it does, from its first job.
    pub act_after: Duration,
    /// How the worker is recycled, where it is.
    pub recycles: Option<Recycles>,
}

/// How long a job may take whose worker hangs.
const TIMEOUT_MS: [u64; 3] = [300, 600, 1000];

/// From `cancel` (timeout) to the end of the worker that hangs.
pub const TIMEOUT_GRACE: Duration = Duration::from_millis(150);

/// Most bytes of an ACK and its job together that a backend takes that takes no large ones.
pub const LIMIT_BYTES: u64 = 32 << 10;

/// Bytes that a large result has more than others.
pub const LARGE_BYTES: usize = 48 << 10;

/// Longest time between two signals that are one request, in milliseconds: a busy machine may make
/// it longer.
pub const TWINS_MS: i64 = 50;

/// The interval of the heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// How long a job is reserved where nothing but heartbeats keeps it, and where it does not matter.
pub const SHORT_VISIBILITY: Duration = Duration::from_millis(1500);

/// See [`SHORT_VISIBILITY`].
const LONG_VISIBILITY: Duration = Duration::from_secs(120);

/// In so many trials each pair of behaviour, weather and occasion has to come up [`LEAST_TIMES`]
/// times.
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
        Self::with(seed, number, combination(number))
    }

    /// The plan of the trial with these three.
    pub fn with(seed: u64, number: u64, (behaviour, weather, occasion): (Behaviour, Weather, Occasion)) -> Self {
        let mut random = Random::from_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut chance = |percent| random.below(100) < percent;
        let is_pid_1 = !chance(15) && occasion != Occasion::Timeout;
        let requeues = chance(20);
        let is_last_attempt = chance(15) && weather != Weather::Late;
        let kubernetes = occasion == Occasion::Quiet && chance(50);
        let is_at_deadline = occasion == Occasion::Deadline || chance(10);
        let is_of_long_jobs = chance(35);
        let is_cut_by_limit = chance(12);
        let is_short = chance(8) && weather != Weather::Store;
        let mut between = |low, high| random.between(low, high);
        let variant = between(0, 9_999);
        let (grace, margin, limit) = match (is_cut_by_limit, is_short) {
            (true, _) => [10_000, 5_000, 10_000].map(Duration::from_millis).into(),
            (false, true) => brief(&mut between),
            (false, false) => times(&mut between, weather, occasion),
        };
        let (concurrency, count) = numbers(&mut between, behaviour, weather);
        let jobs = (0..count).map(|index| job(&mut between, occasion, index == 0 && is_at_deadline, is_of_long_jobs));
        let jobs: Vec<JobPlan> = jobs.collect();
        let jobs = jobs.into_iter().map(|job| suited(&mut between, weather, job)).collect();
        let deadline = i64::try_from(grace.min(limit - margin).as_millis()).unwrap();
        let signal = pick(
            &[libc::SIGTERM, libc::SIGTERM, libc::SIGINT, libc::SIGQUIT],
            between(0, 3),
        );
        let (first, more) = asks(&mut between, occasion, deadline, signal);
        let request_timeout = Duration::from_secs(pick(&[1, 10, 10], between(0, 2)));
        // Where no heartbeat gets through for long, a job is lost by right.
        let is_kept_short = between(0, 2) != 0 && weather.lets_heartbeats_through();
        let visibility = if is_kept_short {
            SHORT_VISIBILITY
        } else {
            LONG_VISIBILITY
        };
        let (onset, lasts) = spell(&mut between, weather);
        Self {
            number,
            is_calm: false,
            seed,
            behaviour,
            weather,
            occasion,
            proof: gateway::proof_of(number),
            dialect: pick(&DIALECTS, number),
            host: Host::draw(seed, number),
            variant,
            jobs,
            concurrency,
            is_pid_1,
            grace,
            margin,
            limit,
            cancel_grace: Duration::from_millis(pick(&[0, 200, 1000], between(0, 2))),
            term_delay: Duration::from_millis(pick(&[0, 0, 0, 100], between(0, 3))),
            request_timeout,
            visibility,
            final_state: pick(&FinalState::ALL, between(0, 4)),
            is_last_attempt,
            requeues,
            kubernetes,
            signal,
            pause: Duration::from_micros(between(0, 300_000)),
            first,
            more,
            onset,
            lasts,
            act_after: Duration::from_millis(between(0, 500)),
            recycles: None,
        }
        .recycled(deadline, is_of_long_jobs)
    }

    /// Puts recyclings into one trial of four. Their chance is their own: all else is as it was
    /// without them.
    fn recycled(mut self, deadline: i64, is_of_long_jobs: bool) -> Self {
        let mut random = recycles::chance(self.seed, self.number);
        self.recycles = Recycles::draw(&mut random, deadline);
        let more = self.recycles.as_ref().map_or(0, |recycles| recycles.more_jobs);
        // There few jobs come again and again.
        if self.weather != Weather::Late {
            let mut between = |low, high| random.between(low, high);
            for _ in 0..more {
                let job = job(&mut between, self.occasion, false, is_of_long_jobs);
                self.jobs.push(suited(&mut between, self.weather, job));
            }
        }
        self.recycles = self.recycles.map(|recycles| recycles.overlapping(&mut random));
        self
    }

    /// How long before the limit the stop phase has to be over, where the machine has the time.
    pub fn slack(&self) -> Duration {
        match self.limit {
            long if long >= Duration::from_secs(5) => Duration::from_millis(500),
            short => (short / 10).max(Duration::from_millis(250)),
        }
    }

    /// How long a job may take, by its envelope.
    pub fn job_timeout(&self) -> Option<Duration> {
        let millis = pick(&TIMEOUT_MS, self.variant);
        (self.behaviour == Behaviour::Hangs).then_some(Duration::from_millis(millis))
    }

    /// Whether a worker that was ended because it hung is started again.
    pub fn restarts(&self) -> bool {
        self.variant.is_multiple_of(2)
    }

    /// Which of the public backends' stores is away, and how late the backend says so.
    pub fn store(&self) -> (Backend, Duration) {
        let backend = pick(&Backend::ALL, self.variant);
        let is_slow = backend == Backend::Nats;
        (backend, Duration::from_millis(if is_slow { 100 } else { 0 }))
    }

    /// A trial that measures: the worker ends at once, nothing disturbs, and the only job ends in
    /// the drain.
    pub fn calm(seed: u64, number: u64) -> Self {
        Self {
            is_calm: true,
            behaviour: Behaviour::Good,
            weather: Weather::Fine,
            occasion: Occasion::Busy,
            dialect: Dialect::Spec,
            host: Host::Address,
            jobs: vec![JobPlan {
                ms: CALM_JOB_MS,
                at_deadline: false,
                ending: Ending::Ack,
                is_large: false,
            }],
            concurrency: 1,
            is_pid_1: true,
            grace: Duration::from_secs(2),
            margin: Duration::from_secs(4),
            limit: Duration::from_secs(10),
            term_delay: Duration::ZERO,
            final_state: FinalState::Terminate,
            kubernetes: false,
            signal: libc::SIGTERM,
            pause: Duration::ZERO,
            first: vec![Ask::Signal(libc::SIGTERM)],
            more: Vec::new(),
            onset: Onset::Start,
            recycles: None,
            ..Self::draw(seed, number)
        }
    }

    /// The word that the trial's name begins with.
    pub fn kind(&self) -> &'static str {
        match self.behaviour {
            _ if self.is_calm => "calm",
            Behaviour::Sdk(_) => "gateway-trial",
            Behaviour::Exec(_) => "exec-trial",
            _ => "trial",
        }
    }

    /// The arguments that play it again.
    pub fn again(&self) -> String {
        if self.is_calm {
            "--count 0".to_owned()
        } else {
            crate::gateway::again(self)
        }
    }
}

/// The numbers of each kind have no common factor: in as many trials in a row as their product
/// every pair comes up once, and so does every combination of three. The dialects have none with
/// them either.
pub fn combination(number: u64) -> (Behaviour, Weather, Occasion) {
    (
        pick(&Behaviour::ALL, number),
        pick(&Weather::ALL, number),
        pick(&Occasion::ALL, number),
    )
}

/// How backends speak, the specification's way most often: what is said there can be judged best.
const DIALECTS: [Dialect; 7] = [
    Dialect::Spec,
    Dialect::Go,
    Dialect::Spec,
    Dialect::Integer,
    Dialect::Spec,
    Dialect::Strict,
    Dialect::Protocol,
];

/// Grace, margin and limit.
type Times = (Duration, Duration, Duration);

/// The margin is at most half of the limit, and a tenth of it is kept back. With 5 s an end at the
/// last moment comes 500 ms before the limit. Half of that is for a busy machine.
fn times(between: &mut impl FnMut(u64, u64) -> u64, weather: Weather, occasion: Occasion) -> Times {
    let graces = if weather == Weather::Store {
        [300, 1000, 2000, 3000, 4000]
    } else {
        [0, 300, 700, 1000, 1500]
    };
    let grace = Duration::from_millis(pick(&graces, between(0, 4)));
    let margin = Duration::from_millis(pick(&[2000, 3000, 4000], between(0, 2)));
    let spare = Duration::from_millis(between(500, 1000));
    // A hook that waits for idle may use as much as the drain.
    let drains = 1 + u32::from(occasion == Occasion::Operator);
    (grace, margin, (margin * 2).max(grace * drains + margin + spare))
}

/// The same, of an orchestrator that allows little.
fn brief(between: &mut impl FnMut(u64, u64) -> u64) -> Times {
    let limit = Duration::from_millis(between(1_000, 3_000));
    (Duration::from_millis(between(0, 300)), limit / 2, limit)
}

/// How many jobs at once, and how many there are.
fn numbers(between: &mut impl FnMut(u64, u64) -> u64, behaviour: Behaviour, weather: Weather) -> (u32, u64) {
    if weather == Weather::Late {
        // With as many jobs as it may have nothing is fetched, and nothing comes again, while an
        // outcome is on its way.
        let concurrency = between(2, 8);
        return (u32::try_from(concurrency).unwrap(), between(1, concurrency / 2));
    }
    let concurrency = between(1, 8);
    // Those that come later have time left when the first have none.
    let fewest = if behaviour == Behaviour::Hangs {
        2 * concurrency
    } else {
        1
    };
    (u32::try_from(concurrency).unwrap(), between(fewest, 2 * concurrency))
}

/// When the weather begins, and how long it lasts.
fn spell(between: &mut impl FnMut(u64, u64) -> u64, weather: Weather) -> (Onset, Duration) {
    let mut about = |low: i64, high: i64| low + i64::try_from(between(0, u64::try_from(high - low).unwrap())).unwrap();
    if weather == Weather::Late {
        return (Onset::Start, Duration::ZERO);
    }
    if weather == Weather::Store {
        // One that is away from the start has no jobs to give.
        let onset = Onset::Around(about(-1_000, 500));
        return (onset, Duration::from_millis(about(500, 4_000).unsigned_abs()));
    }
    if weather == Weather::Frozen {
        // Connections have to be there.
        let onset = Onset::Around(about(-400, 600));
        return (onset, Duration::from_millis(about(200, 2_500).unsigned_abs()));
    }
    let onset = match about(0, 3) {
        0 => Onset::Start,
        1 => Onset::Around(0),
        _ => Onset::Around(about(-200, 500)),
    };
    (onset, Duration::from_millis(about(200, 2_500).unsigned_abs()))
}

/// The job as that weather meets it best.
fn suited(between: &mut impl FnMut(u64, u64) -> u64, weather: Weather, job: JobPlan) -> JobPlan {
    match weather {
        Weather::Late if !job.at_deadline => JobPlan {
            ms: job.ms / 8,
            ending: pick(&[Ending::Ack, Ending::Fail, Ending::Release], between(0, 2)),
            ..job
        },
        Weather::Limit => JobPlan {
            is_large: between(0, 2) != 0,
            ..job
        },
        _ => job,
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
            is_large: false,
        };
    }
    JobPlan {
        ms,
        at_deadline,
        ending,
        is_large: false,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: a worker that is {}, a backend at {} that is {} and speaks {}, the end asked for at {}",
            self.kind(),
            self.number,
            self.behaviour.name(),
            self.host.name(),
            self.weather.name(),
            self.dialect,
            self.occasion.name()
        )?;
        if self.behaviour.is_sdk() {
            write!(f, ", callers known by {}", self.proof.name())?;
        }
        if let Some(recycles) = &self.recycles {
            write!(f, ", {recycles}")?;
        }
        Ok(())
    }
}
