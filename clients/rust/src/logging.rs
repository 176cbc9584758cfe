//! The log: JSON lines in the shape of ojs-init's own, each of a handler's with its job, whoever
//! wrote it.

use std::io::Write;
use std::panic;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};
use serde::Serialize;

use crate::current;
use crate::job::Job;
use crate::outgoing::Failure;
use crate::panics;
use crate::text::{clean, one_line};

const MOST_CHARS: usize = 10_000;
const MOST_ID_CHARS: usize = 200;
/// Where lines of this library come from, for the filters of other loggers.
const TARGET: &str = "ojs_worker";

/// From which level on our logger writes, once it is the program's.
static INSTALLED: OnceLock<LevelFilter> = OnceLock::new();

/// Makes everything that is logged by the crate `log` a JSON line on standard error, from the level
/// on that `OJS_LOG_LEVEL` names, info without it: lines of this library, of handlers and of
/// libraries. What a handler's thread logs names its job; other threads of a handler use
/// [`Job::log_here`]. Panics are lines as well.
///
/// # Errors
/// The program has another logger already.
pub fn install_log() -> Result<(), log::SetLoggerError> {
    let level = std::env::var("OJS_LOG_LEVEL").ok().and_then(|name| parse_level(&name)).unwrap_or(LevelFilter::Info);
    log::set_boxed_logger(Box::new(JsonLog { level }))?;
    log::set_max_level(level);
    INSTALLED.get_or_init(|| level);
    crate::panics::install();
    Ok(())
}

pub(crate) fn is_installed() -> bool {
    INSTALLED.get().is_some()
}

/// trace, debug, info, warn, warning, error, fatal or off.
pub(crate) fn parse_level(name: &str) -> Option<LevelFilter> {
    match name.to_ascii_lowercase().as_str() {
        "warning" => Some(LevelFilter::Warn),
        "fatal" => Some(LevelFilter::Error),
        other => other.parse().ok(),
    }
}

/// A job that wants more of the log than the others: lines below the process' level have to come as
/// far as the logger.
pub(crate) fn let_through(job: &Job) {
    if let Some(level) = job.log_level().filter(|level| is_installed() && *level > log::max_level()) {
        log::set_max_level(level);
    }
}

struct JsonLog {
    level: LevelFilter,
}

impl JsonLog {
    fn lets(&self, level: Level, job: Option<&Job>) -> bool {
        level <= job.and_then(Job::log_level).unwrap_or(self.level)
    }
}

impl Log for JsonLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.lets(metadata.level(), current::job().as_ref())
    }

    fn log(&self, record: &Record<'_>) {
        let job = current::job();
        if self.lets(record.level(), job.as_ref()) {
            write(record.level(), job.as_ref(), &record.args().to_string(), None);
        }
    }

    fn flush(&self) {}
}

/// Logs for this library: about a job, or about none; a failure has its stack.
pub(crate) fn say(level: Level, job: Option<&Job>, message: &str, failure: Option<&Failure>) {
    if let Some(installed) = INSTALLED.get() {
        if level <= job.and_then(Job::log_level).unwrap_or(*installed) {
            write(level, job, message, failure);
        }
        return;
    }
    let text = plain(job, message, failure);
    if log::max_level() != LevelFilter::Off {
        // The program's logger: a panic of it, as where nobody reads what it prints, must not end
        // the thread that reads or answers.
        let logged = panic::catch_unwind(|| log::log!(target: TARGET, level, "{text}"));
        if let Err(thrown) = logged {
            panics::drop_quietly(thrown);
        }
    } else if level <= Level::Info {
        // No logger at all: what failed is not swallowed.
        let _nobody_reads = writeln!(std::io::stderr().lock(), "ojs-worker: {}: {text}", level.as_str().to_lowercase());
    }
}

/// Ids and messages come from elsewhere: only a stack breaks lines.
fn plain(job: Option<&Job>, message: &str, failure: Option<&Failure>) -> String {
    let about = job.map_or_else(String::new, |job| {
        format!("job {} ({}): ", clean(job.id(), MOST_ID_CHARS), clean(job.kind(), MOST_ID_CHARS))
    });
    let mut text = about + &clean(message, MOST_CHARS);
    if let Some(failure) = failure {
        text += &format!(": {}: {}", failure.kind, failure.message);
    }
    let mut text = one_line(&text);
    for line in failure.map_or(&[][..], |failure| &failure.backtrace) {
        text += "\n    ";
        text += &one_line(line);
    }
    text
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    severity: &'static str,
    severity_number: u8,
    message: String,
    category: &'static str,
    component: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ojs: Option<About>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'a>>,
}

#[derive(Serialize)]
struct About {
    job_id: String,
    job_type: String,
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

#[derive(Serialize)]
struct Trace {
    trace_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
}

#[derive(Serialize)]
struct Failed<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    stack: String,
}

fn write(level: Level, job: Option<&Job>, message: &str, failure: Option<&Failure>) {
    let (severity, severity_number) = match level {
        Level::Error => ("ERROR", 17),
        Level::Warn => ("WARN", 13),
        Level::Info => ("INFO", 9),
        Level::Debug => ("DEBUG", 5),
        Level::Trace => ("TRACE", 1),
    };
    let line = Line {
        timestamp: timestamp(SystemTime::now()),
        severity,
        severity_number,
        message: clean(message, MOST_CHARS),
        category: "worker",
        component: if job.is_some() { "handler" } else { "worker" },
        ojs: job.map(|job| About {
            job_id: clean(job.id(), MOST_ID_CHARS),
            job_type: clean(job.kind(), MOST_ID_CHARS),
            queue: clean(job.queue(), MOST_ID_CHARS),
            attempt: job.attempt(),
        }),
        trace: job.and_then(Job::trace).map(|(trace_id, span_id)| Trace { trace_id, span_id }),
        error: failure.map(|failure| Failed {
            kind: &failure.kind,
            message: &failure.message,
            stack: failure.backtrace.join("\n"),
        }),
    };
    let Ok(mut text) = serde_json::to_string(&line) else { return };
    text.push('\n');
    // With one write: another process of the worker may write as well.
    let _nobody_reads = std::io::stderr().lock().write_all(text.as_bytes());
}

/// In UTC with milliseconds, as 2026-02-15T22:00:00.123Z.
fn timestamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// The day of the Gregorian calendar, counted from 1970-01-01. Years are counted from March, so
/// that the day that a leap year has more is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_the_day_that_it_is() {
        let at = |seconds: u64| timestamp(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_709_164_800), "2024-02-29T00:00:00.007Z");
        assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00.007Z");
        assert_eq!(at(4_102_444_800), "2100-01-01T00:00:00.007Z");
    }
}
