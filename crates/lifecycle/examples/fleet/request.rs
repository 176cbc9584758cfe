//! The options of the program.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::fleet_model::{Conditions, Streams};

/// Any error; the program ends with its text.
pub type Trouble = Box<dyn std::error::Error>;

/// Time to each answer of a slow backend.
const SLOWNESS: Duration = Duration::from_millis(200);

/// Jobs of one row; more of them make the row no clearer.
const JOBS: f64 = 200.0;

/// Shortest and longest time of a measurement, in seconds, if none is asked for.
const MEASURED: (f64, f64) = (4.0, 20.0);

/// Time of the measurement of a fleet without work, in seconds. Its workers send the same again and
/// again.
const MEASURED_IDLE: f64 = 5.0;

/// A kind of backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A stream of each queue.
    Streams,
    /// One stream for all queues, which names no job.
    Together,
    /// No streams.
    Polls,
    /// A stream of each queue, and each answer takes 200 ms.
    Slow,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Streams, Self::Together, Self::Polls, Self::Slow];

    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Together => "together",
            Self::Polls => "polls",
            Self::Slow => "slow",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mode = Self::ALL.into_iter().find(|mode| mode.name() == name);
        mode.ok_or_else(|| "not streams, together, polls or slow".to_owned())
    }
}

/// The rows to print.
#[derive(Debug)]
pub struct Request {
    pub modes: Vec<Mode>,
    pub workers: Vec<usize>,
    pub jobs_a_second: Vec<f64>,
    /// The conditions that all rows share, but for the time of the measurement.
    pub base: Conditions,
    /// The time of each measurement. None: as long as the rate of jobs needs.
    measured: Option<Duration>,
    /// The file for the figures.
    pub json: Option<PathBuf>,
}

impl Request {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Trouble> {
        let mut request = Self {
            modes: Mode::ALL.to_vec(),
            workers: vec![1, 10, 100, 300, 1000, 10_000],
            jobs_a_second: vec![0.0, 1.0, 5.0, 50.0],
            base: Conditions::usual(1, 0.0),
            measured: None,
            json: None,
        };
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            request
                .set(&name, &value)
                .map_err(|why| format!("{name} {value}: {why}"))?;
        }
        Ok(request)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        match name {
            "--modes" => self.modes = list(value)?,
            "--workers" => self.workers = list(value)?,
            "--jobs" => self.jobs_a_second = list(value)?,
            "--json" => self.json = Some(value.into()),
            "--concurrency" => self.base.concurrency = value.parse()?,
            "--seed" => self.base.seed = value.parse()?,
            "--handler" => self.base.handler = milliseconds(value)?,
            "--service" => self.base.service = milliseconds(value)?,
            "--way" => self.base.way = milliseconds(value)?,
            "--fan-out" => self.base.fan_out = milliseconds(value)?,
            "--lead-s" => self.base.lead = milliseconds(value)? * 1000,
            "--warm-up-s" => self.base.warm_up = milliseconds(value)? * 1000,
            "--streams-last-s" => self.base.streams_last = Some(milliseconds(value)? * 1000),
            "--measured-s" => self.measured = Some(milliseconds(value)? * 1000),
            _ => return Err("there is no such option".into()),
        }
        Ok(())
    }

    /// The conditions of one row.
    pub fn conditions(&self, mode: Mode, workers: usize, jobs_a_second: f64) -> Conditions {
        let streams = match mode {
            Mode::Streams | Mode::Slow => Streams::OfEachQueue,
            Mode::Together => Streams::OfAllTogether,
            Mode::Polls => Streams::Missing,
        };
        let slowness = if mode == Mode::Slow { SLOWNESS } else { Duration::ZERO };
        let measured = if jobs_a_second > 0.0 {
            (JOBS / jobs_a_second).clamp(MEASURED.0, MEASURED.1)
        } else {
            MEASURED_IDLE
        };
        Conditions {
            workers,
            measured: self.measured.unwrap_or(Duration::from_secs_f64(measured)),
            jobs_a_second,
            streams,
            slowness,
            ..self.base.clone()
        }
    }
}

fn list<T: FromStr>(text: &str) -> Result<Vec<T>, Trouble>
where
    T::Err: Display,
{
    let read = |word: &str| word.parse().map_err(|why: T::Err| format!("{word}: {why}"));
    Ok(text.split(',').map(read).collect::<Result<_, String>>()?)
}

fn milliseconds(text: &str) -> Result<Duration, Trouble> {
    Ok(Duration::try_from_secs_f64(text.parse::<f64>()? / 1000.0)?)
}
