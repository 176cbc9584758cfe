//! A rehearsal of a start, for `config check`. It runs the same steps through the same functions up
//! to the child, which is not started, and removes all that it made. It collects warnings where a
//! start logs them, so both report the same ones.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

#[cfg(feature = "agent")]
use crate::config::Mode;
use crate::config::{self, Config};
use crate::daemon::plain_loop;
#[cfg(feature = "agent")]
use crate::daemon::rehearsal_agent;
use crate::daemon::start;
use crate::daemon::surroundings::doubtful_times;
use ojs_os::entry::Environ;
use ojs_os::signals;

/// Most warnings that are kept: each step of a start has one or two.
const MOST_WARNINGS: usize = 64;

/// The errors and warnings of a start.
#[derive(Debug)]
pub struct Checked {
    /// The result of the check, and each warning on a separate line. A start would log the warnings
    /// and continue.
    pub report: String,
    /// Each would end a start, which would report only the first one.
    pub errors: Vec<String>,
}

/// Plays a start with this configuration and this command, which is empty if it is not known.
pub fn run(mut config: Config, command: &[OsString], environ: &Environ) -> Checked {
    let collector: &'static Collector = &COLLECTOR;
    if log::set_logger(collector).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    signals::expect_children();
    let doubts = doubtful_times(&config, environ);
    let errors = play(&config, command, environ);
    config.warnings.extend(doubts);
    config.warnings.extend(COLLECTOR.take());
    let report = if errors.is_empty() {
        config::check_report(&config)
    } else {
        config::warning_lines(&config)
    };
    Checked { report, errors }
}

fn play(config: &Config, command: &[OsString], environ: &Environ) -> Vec<String> {
    let credentials = start::credentials(&config.process).map_err(|refused| refused.message);
    #[cfg(feature = "agent")]
    if config.mode != Mode::None {
        return rehearsal_agent::play(config, command, environ, credentials);
    }
    let program = command.first().map(|program| program.to_string_lossy());
    let checked = credentials.and_then(|credentials| {
        let plan = plain_loop::plan(command, environ);
        plan.and_then(|plan| start::rehearse(plan, credentials, program.as_deref()))
            .map_err(|refused| refused.message)
    });
    checked.err().into_iter().collect()
}

/// Collects warnings that otherwise go to standard error.
static COLLECTOR: Collector = Collector(Mutex::new(Vec::new()));

#[derive(Debug)]
struct Collector(Mutex<Vec<String>>);

impl Collector {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if self.enabled(record.metadata()) && warnings.len() < MOST_WARNINGS {
            warnings.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}
