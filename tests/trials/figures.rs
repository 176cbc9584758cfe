//! The results of a run, in numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::kinds::{Behaviour, Occasion, Weather};
use super::plan::Plan;
use super::promises::{Broken, Measured};

/// A run ends when so many trials have failed: more of them tell nothing more.
pub const FAILURES: usize = 20;

/// A run that looks for one broken promise ends when so many trials have broken it.
const ENOUGH: usize = 3;

/// Half of the calm trials stay below it, in milliseconds.
const MEDIAN: f64 = 20.0;

/// Fewer trials do not have every pair.
const SQUARE: usize = Weather::ALL.len() * Occasion::ALL.len();

/// Columns of one name or number.
const COLUMN: usize = 10;

/// The numbers of a run.
#[derive(Debug, Default)]
pub struct Figures {
    played: usize,
    failed: usize,
    broken: BTreeMap<&'static str, usize>,
    /// Promises that seemed to be broken while other trials kept the machine busy.
    doubtful: BTreeMap<&'static str, usize>,
    left: Vec<f64>,
    left_to_lapse: usize,
    /// Trials whose worker was recycled, how often that was begun, and how often it came to its
    /// end.
    recycled: (usize, usize, usize),
    wound_up: Vec<f64>,
    wound_up_in_calm: Vec<f64>,
    by_behaviour_and_weather: BTreeMap<(Behaviour, Weather), usize>,
    by_behaviour_and_occasion: BTreeMap<(Behaviour, Occasion), usize>,
    by_weather_and_occasion: BTreeMap<(Weather, Occasion), usize>,
    /// Trials of each mode and of each dialect of the backend, and how many of them have failed.
    by_kind: BTreeMap<String, (usize, usize)>,
}

impl Figures {
    /// Trials in which a promise was broken.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Whether more trials tell more: fewer than `FAILURES` have failed, and each promise of
    /// `until` was broken in fewer than `ENOUGH`.
    pub fn go_on(&self, until: &[String]) -> bool {
        let times = |promise: &str| {
            [&self.broken, &self.doubtful]
                .iter()
                .filter_map(|seen| seen.get(promise))
                .sum::<usize>()
        };
        self.failed < FAILURES && until.iter().all(|promise| times(promise) < ENOUGH)
    }

    /// These promises seem to be broken. The trial is played again, with nothing beside it.
    pub fn doubt(&mut self, broken: &[Broken]) {
        for promise in broken.iter().map(|broken| broken.promise).collect::<BTreeSet<_>>() {
            *self.doubtful.entry(promise).or_default() += 1;
        }
    }

    /// Judges the calm trials together, unless one of them has failed by itself.
    pub fn judge_calm(&mut self) {
        const PROMISE: &str = "from the last outcome to the exit in under 20 ms";
        let mut sorted = self.wound_up_in_calm.clone();
        sorted.sort_by(f64::total_cmp);
        let is_measured = sorted.len() * 2 > self.played;
        if self.failed == 0 && !(is_measured && share(&sorted, 50) < MEDIAN) {
            self.failed += 1;
            *self.broken.entry(PROMISE).or_default() += 1;
            println!(
                "BROKEN {PROMISE}: {} of {} measured: {sorted:.1?}",
                sorted.len(),
                self.played
            );
        }
    }

    /// Counts a trial.
    pub fn add(&mut self, plan: &Plan, measured: Measured, broken: &[Broken]) {
        self.played += 1;
        self.failed += usize::from(!broken.is_empty());
        let promises: BTreeSet<&'static str> = broken.iter().map(|broken| broken.promise).collect();
        for promise in promises {
            *self.broken.entry(promise).or_default() += 1;
        }
        if plan.is_calm {
            self.wound_up_in_calm.extend(measured.wound_up);
            return;
        }
        for kind in [plan.kind().to_owned(), format!("backend {}", plan.dialect)] {
            let count = self.by_kind.entry(kind).or_default();
            count.0 += 1;
            count.1 += usize::from(!broken.is_empty());
        }
        self.left.extend(measured.left);
        self.wound_up.extend(measured.wound_up);
        self.left_to_lapse += measured.left_to_lapse;
        self.recycled.0 += usize::from(measured.recyclings > 0);
        self.recycled.1 += measured.recyclings;
        self.recycled.2 += measured.recycled;
        let Plan {
            behaviour,
            weather,
            occasion,
            ..
        } = *plan;
        *self.by_behaviour_and_weather.entry((behaviour, weather)).or_default() += 1;
        *self.by_behaviour_and_occasion.entry((behaviour, occasion)).or_default() += 1;
        *self.by_weather_and_occasion.entry((weather, occasion)).or_default() += 1;
    }
}

/// From the least to the most, and of how many.
fn distribution(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let of = |percent| share(&sorted, percent);
    format!(
        "least {:.1}, 1 % below {:.1}, 10 % below {:.1}, half below {:.1}, 90 % below {:.1}, most {:.1}; {} trials",
        of(0),
        of(1),
        of(10),
        of(50),
        of(90),
        of(100),
        sorted.len()
    )
}

/// The value that this share of all stays below.
fn share(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

impl Figures {
    fn pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "how often each pair came up:")?;
        write!(f, "{:<11}", "")?;
        for name in Weather::ALL
            .map(Weather::name)
            .into_iter()
            .chain(Occasion::ALL.map(Occasion::name))
        {
            write!(f, "{name:>COLUMN$}")?;
        }
        writeln!(f)?;
        for behaviour in Behaviour::ALL {
            write!(f, "{:<11}", behaviour.name())?;
            for weather in Weather::ALL {
                let count = self.by_behaviour_and_weather.get(&(behaviour, weather));
                write!(f, "{:>COLUMN$}", count.unwrap_or(&0))?;
            }
            for occasion in Occasion::ALL {
                let count = self.by_behaviour_and_occasion.get(&(behaviour, occasion));
                write!(f, "{:>COLUMN$}", count.unwrap_or(&0))?;
            }
            writeln!(f)?;
        }
        for weather in Weather::ALL {
            write!(f, "{:<11}{:>2$}", weather.name(), "", COLUMN * Weather::ALL.len())?;
            for occasion in Occasion::ALL {
                let count = self.by_weather_and_occasion.get(&(weather, occasion));
                write!(f, "{:>COLUMN$}", count.unwrap_or(&0))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.played >= SQUARE {
            self.pairs(f)?;
        }
        for (what, values) in [
            ("from the end to the limit", &self.left),
            (
                "from the last outcome's answer to the exit, workers that end at once",
                &self.wound_up,
            ),
            (
                "the same with nothing beside it, as it is promised",
                &self.wound_up_in_calm,
            ),
        ] {
            if !values.is_empty() {
                writeln!(f, "ms {what}: {}", distribution(values))?;
            }
        }
        writeln!(f, "deliveries left to their visibility timeout: {}", self.left_to_lapse)?;
        let (trials, begun, done) = self.recycled;
        writeln!(
            f,
            "workers recycled in {trials} trials: {begun} times begun, {done} times done"
        )?;
        for (kind, (trials, failed)) in &self.by_kind {
            writeln!(f, "figure: {kind}: {trials} trials, {failed} broken")?;
        }
        for (promise, times) in &self.broken {
            writeln!(f, "BROKEN in {times} trials: {promise}")?;
        }
        write!(f, "{} trials, {} with a broken promise", self.played, self.failed)
    }
}
