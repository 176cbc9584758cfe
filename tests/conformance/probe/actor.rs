//! `act LOG [OPTION]...`: a child that takes signals, writes them down and does what its options
//! say.
//!
//! The actor blocks every signal and takes each from the queue, so that nothing of the C library
//! stands between the signal and the log. `LOG.ready` appears, with its process id, once it is
//! ready.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;

use super::family::{self, Orphans};
use super::{publish, text};
use crate::support::sys;

/// An order to an actor.
#[derive(Debug, Default)]
struct Part {
    log: String,
    /// Signals that keep their default action.
    default: u64,
    exit_on: Option<(i32, i32)>,
    release_on: Option<i32>,
    wave_on: Option<i32>,
    orphans: usize,
    waves: usize,
    team: usize,
    leftover: Option<String>,
    stop: bool,
    then_exit: Option<i32>,
}

/// Plays the part to its end.
pub fn run(arguments: &[OsString]) -> Result<i32, String> {
    let part = Part::parse(arguments)?;
    let failed = |error: std::io::Error| error.to_string();
    sys::set_mask(!part.default).map_err(failed)?;
    for number in 1..part.team {
        let path = format!("{}.{number}", part.log);
        sys::fork(|| log_signals(&path)).map_err(failed)?;
        family::await_file(&format!("{path}.ready"))?;
    }
    if let Some(leftover) = &part.leftover {
        family::leave_behind(leftover, &part.log)?;
    }
    for _ in 0..part.waves {
        Orphans::make(part.orphans)?.release();
    }
    let orphans = if part.waves == 0 && part.wave_on.is_none() {
        Some(Orphans::make(part.orphans)?)
    } else {
        None
    };
    let log = open_log(&part.log)?;
    publish(&format!("{}.ready", part.log), &std::process::id().to_string())?;
    if part.stop {
        sys::send(std::process::id().cast_signed(), libc::SIGSTOP).map_err(failed)?;
    }
    match part.then_exit {
        Some(status) => Ok(status),
        None => part.obey(log, orphans),
    }
}

impl Part {
    fn parse(arguments: &[OsString]) -> Result<Self, String> {
        let mut part = Self {
            log: text(arguments.first())?.to_owned(),
            ..Self::default()
        };
        for argument in arguments.iter().skip(1) {
            let argument = text(Some(argument))?;
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            let number = || value.parse::<i32>().map_err(|_| format!("not a number: {argument}"));
            let count = || value.parse::<usize>().map_err(|_| format!("not a count: {argument}"));
            match name {
                "default" => part.default |= sys::bit(number()?),
                "ignore" => sys::set_ignored(number()?, true)
                    .map(|()| part.default |= sys::bit(number().unwrap_or(1)))
                    .map_err(|error| error.to_string())?,
                "exit-on" => part.exit_on = Some(pair(value)?),
                "release-on" => part.release_on = Some(number()?),
                "wave-on" => part.wave_on = Some(number()?),
                "orphans" => part.orphans = count()?,
                "waves" => part.waves = count()?,
                "team" => part.team = count()?,
                "leftover" => part.leftover = Some(value.to_owned()),
                "stop" => part.stop = true,
                "then-exit" => part.then_exit = Some(number()?),
                _ => return Err(format!("no such option of an actor: {argument}")),
            }
        }
        Ok(part)
    }

    fn obey(&self, mut log: File, mut orphans: Option<Orphans>) -> Result<i32, String> {
        let wanted = !(self.default | sys::bit(libc::SIGCHLD));
        loop {
            let Some(signal) = sys::take_signal(wanted, None).map_err(|error| error.to_string())? else {
                continue;
            };
            if self.release_on == Some(signal)
                && let Some(orphans) = orphans.take()
            {
                orphans.release();
            }
            if self.wave_on == Some(signal) {
                Orphans::make(self.orphans)?.release();
            }
            log.write_all(format!("{signal}\n").as_bytes())
                .map_err(|error| error.to_string())?;
            match self.exit_on {
                Some((last, status)) if last == signal => return Ok(status),
                _ => {}
            }
        }
    }
}

fn pair(value: &str) -> Result<(i32, i32), String> {
    let parsed = value
        .split_once(':')
        .and_then(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)));
    parsed.ok_or_else(|| format!("not SIGNAL:STATUS: {value}"))
}

fn open_log(path: &str) -> Result<File, String> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| format!("{path}: {error}"))
}

/// A process that only writes down its signals, until it is killed.
pub fn log_signals(path: &str) -> i32 {
    let part = Part {
        log: path.to_owned(),
        ..Part::default()
    };
    let played = open_log(path).and_then(|log| {
        publish(&format!("{path}.ready"), &std::process::id().to_string())?;
        part.obey(log, None)
    });
    played.unwrap_or(super::BROKEN)
}

/// `die SIGNAL`: ends by that signal.
pub fn die(arguments: &[OsString]) -> Result<i32, String> {
    let signal: i32 = text(arguments.first())?.parse().map_err(|_| "not a signal")?;
    // The C library refuses to name 32 and 33, which nobody has touched anyway.
    let _ = sys::set_ignored(signal, false);
    sys::set_mask(0)
        .and_then(|()| sys::send(std::process::id().cast_signed(), signal))
        .map_err(|e| e.to_string())?;
    Err(format!("signal {signal} did not end this process"))
}
