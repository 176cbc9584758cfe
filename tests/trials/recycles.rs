//! Recycling in a trial: the limits of the worker, when somebody runs `ojs-init recycle`, and what
//! the log says of it.

use std::fmt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::course::Story;
use super::plan::Ask;
use crate::support::random::Random;

/// A day, in milliseconds.
const DAY: f64 = 86_400_000.0;

/// The overlap of an init that is told nothing of it.
const DEFAULT_OVERLAP: &str = "auto";

/// The request of whoever has the worker recycled.
pub const RECYCLE: Ask = Ask::Command(&["recycle"]);

/// How the worker of a trial is recycled.
#[derive(Debug, Clone, Default)]
pub struct Recycles {
    pub max_jobs: Option<u32>,
    pub max_age: Option<Duration>,
    /// Before the end is asked for: how long after the one before each request comes.
    pub before: Vec<Duration>,
    /// From the last of them until the end is asked for.
    pub then: Duration,
    /// After that, in milliseconds.
    pub after: Vec<i64>,
    /// Jobs that there are besides the others, so that each life of the worker has some.
    pub more_jobs: u64,
    /// Whether the next worker process starts beside the old one. Of mode socket alone: the others
    /// are told as well, and have one worker at a time.
    pub overlap: &'static str,
}

/// The chance of the recyclings of this trial.
pub fn chance(seed: u64, number: u64) -> Random {
    Random::from_seed(seed.rotate_left(17) ^ number.wrapping_mul(0xA076_1D64_78BD_642F))
}

impl Recycles {
    /// Draws those of one trial in four.
    pub fn draw(random: &mut Random, deadline: i64) -> Option<Self> {
        if random.below(4) != 0 {
            return None;
        }
        let ways = random.between(1, 7);
        let max_jobs = (ways & 1 != 0).then(|| u32::try_from(random.between(1, 6)).unwrap());
        let max_age = (ways & 2 != 0).then(|| Duration::from_millis(random.between(1_000, 3_000)));
        let is_asked_for = ways & 4 != 0;
        // A worker has to live until it is of age.
        let longest = if max_age.is_some() { 3_500 } else { 1_000 };
        let mut before = Vec::new();
        let mut after = Vec::new();
        if is_asked_for {
            let gap = |random: &mut Random| Duration::from_millis(random.between(0, 800));
            before = (0..random.between(0, 2)).map(|_| gap(random)).collect();
            let at = |random: &mut Random| i64::try_from(random.between(0, 600)).unwrap().min(deadline + 200);
            after = (0..random.between(0, 2)).map(|_| at(random)).collect();
        }
        // Half of the requests come right before the end.
        let is_right_before = !before.is_empty() && random.below(2) == 0;
        let then = if is_right_before { 10 } else { longest };
        Some(Self {
            max_jobs,
            max_age,
            before,
            then: Duration::from_micros(random.between(0, then * 1_000)),
            after,
            more_jobs: random.between(2, 30),
            overlap: DEFAULT_OVERLAP,
        })
    }

    /// Draws whether two workers may run at a time, most often as the product has it.
    pub fn overlapping(self, random: &mut Random) -> Self {
        let overlap = ["off", "on", DEFAULT_OVERLAP, DEFAULT_OVERLAP][usize::try_from(random.below(4)).unwrap()];
        Self { overlap, ..self }
    }

    /// Tells the init its limits.
    pub fn tell(&self, command: &mut Command) {
        if self.overlap != DEFAULT_OVERLAP {
            command.env("OJS_WORKER_RECYCLE_OVERLAP", self.overlap);
        }
        if let Some(jobs) = self.max_jobs {
            command.env("OJS_WORKER_MAX_JOBS", jobs.to_string());
        }
        if let Some(age) = self.max_age {
            command.env("OJS_WORKER_MAX_AGE", format!("{}ms", age.as_millis()));
        }
    }
}

impl fmt::Display for Recycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (jobs, age) = (self.max_jobs, self.max_age);
        let (before, after) = (self.before.len(), self.after.len());
        write!(f, "recycled by {jobs:?} jobs, {age:?}, {before} + {after} requests")?;
        write!(f, ", overlap {}", self.overlap)
    }
}

/// A recycling, as the log has it: milliseconds on the clock of the backend's record.
#[derive(Debug, Clone, Copy)]
pub struct Recycling {
    pub began: f64,
    /// The earliest moment at which the grace period of the old worker can have begun. With
    /// two workers at a time it is the start of the next one, which is ready later.
    pub granted: f64,
    /// The next worker was ready, or was recycled before that; later than everything if neither
    /// happened. With two workers at a time: the old one has ended.
    pub ended: f64,
    /// The worker that is recycled.
    pub old: Option<i32>,
    /// The process that was started last beside it.
    pub next: Option<i32>,
    /// The next worker was ready.
    pub is_done: bool,
    pub is_by_operator: bool,
}

/// All of them, the earliest first.
pub fn of(story: &Story) -> Vec<Recycling> {
    let mut found: Vec<Recycling> = Vec::new();
    let mut worker = None;
    for line in story.log.lines() {
        if let Some((ms, pid)) = start(story, line) {
            match found.last_mut().filter(|_| line.contains(BESIDE)) {
                Some(last) => (last.next, last.granted) = (Some(pid), ms),
                None => worker = Some(pid),
            }
        } else if line.contains("recycling the worker, because") {
            let began = moment(story, line).unwrap_or(0.0);
            if let Some(last) = found.last_mut() {
                last.ended = last.ended.min(began);
            }
            found.push(Recycling {
                began,
                granted: began,
                ended: f64::MAX,
                old: worker,
                next: None,
                is_done: false,
                is_by_operator: line.contains("an operator asked"),
            });
        } else if line.contains("the worker was recycled in ")
            && let Some(last) = found.last_mut()
        {
            last.ended = moment(story, line).unwrap_or(f64::MAX);
            last.is_done = true;
            worker = last.next.or(worker);
        }
    }
    found
}

/// When worker processes were started, and their numbers.
pub fn starts(story: &Story) -> Vec<(f64, i32)> {
    story.log.lines().filter_map(|line| start(story, line)).collect()
}

/// How the log begins to tell of a next worker process beside the old one.
const BESIDE: &str = "the next worker was started beside the old one, with pid ";

/// The start of a worker process, where the line tells of one.
fn start(story: &Story, line: &str) -> Option<(f64, i32)> {
    let mut words = ["Worker started with pid ", BESIDE].into_iter();
    let (_, rest) = words.find_map(|words| line.split_once(words))?;
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((moment(story, line)?, pid))
}

/// The time of day, in milliseconds, as the log has it.
#[expect(clippy::disallowed_methods, reason = "a log is compared with the backend's record")]
pub fn ms_of_day() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_secs_f64() * 1000.0 % DAY
}

/// The moment of a line: it begins with `22:40:46.924Z`.
fn moment(story: &Story, line: &str) -> Option<f64> {
    let (time, _) = line.split_once('Z')?;
    let mut parts = time.split(':').map(str::parse::<f64>);
    let mut next = || parts.next()?.ok();
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    let of_day = ((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0;
    // A trial may go over midnight, and two clocks may differ a little.
    Some((of_day - story.began_of_day + 1.5 * DAY) % DAY - DAY / 2.0)
}
