//! Copies of the worker (`worker.processes`): starts COMMAND several times, starts each copy again
//! when it ends, passes signals on, and ends last.
//!
//! The keeper is a separate program and process. To PID 1 it is the first process of a prefork
//! worker. PID 1 sends it a signal when the drain begins, and then no copy is started again. If the
//! keeper ends first, PID 1 adopts the copies and ends them. Where ojs-init is not PID 1, its end
//! is a SIGTERM for the keeper, which passes it on.

use std::ffi::{NulError, OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use log::{info, warn};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::config::{RUNNER_VARIABLE, RunnerSettings, TERMINATE_SIGNAL};
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::report::report;
use crate::runner::slots::{AfterCopy, CopySlots};
use crate::runner::start::{self, ProcessNotStarted};
use crate::runner::state::now;
use ojs_os::child::{ChildPlan, SpawnError};
use ojs_os::entry::Environ;
use ojs_os::process::{self, Pid};
use ojs_os::reaper::{self, Reaped};
use ojs_os::signal_fd::SignalFd;
use ojs_os::signals::SignalSet;
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;

/// The number of a copy, from 0, in its environment.
const INDEX_VARIABLE: &str = "OJS_PROCESS_INDEX";

/// Signals after which no copy is started again. All signals are passed on.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::QUIT];

/// Most events of one wait: there is one descriptor.
const EVENTS: usize = 2;

const SIGNALS: Token = Token(0);

/// Runs the copies until PID 1 wants no more, or until they cannot be kept alive.
///
/// # Errors
///
/// The exit status, and a text for a person.
pub fn run(settings: RunnerSettings, command: &[OsString], environ: Environ) -> Result<Exit, (Exit, String)> {
    let ended = Copies::set_up(settings, command, environ)?.run();
    ended.map_err(failed("cannot wait for the copies of the worker"))
}

/// A failed system call: its purpose, and the advice.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> (Exit, String) {
    move |error| {
        let message = format!("worker.processes: {what}: {error}; {}", remedy(&error));
        (Exit::Internal, message)
    }
}

struct Copies {
    poll: Poll,
    signals: SignalFd,
    slots: CopySlots<Pid>,
    command: Vec<OsString>,
    environ: Environ,
    settings: RunnerSettings,
    /// The exit status after a copy could not be started, and none ran: that ends the worker.
    refused: Option<Exit>,
}

impl Copies {
    fn set_up(settings: RunnerSettings, command: &[OsString], environ: Environ) -> Result<Self, (Exit, String)> {
        let signals = SignalFd::new(SignalSet::ALL).map_err(failed("cannot create a descriptor of signals"))?;
        let poll = Poll::new().map_err(failed("cannot create an epoll descriptor"))?;
        let mut source = SourceFd(&signals.as_raw_fd());
        let watched = poll.registry().register(&mut source, SIGNALS, Interest::READABLE);
        watched.map_err(failed("cannot watch the signals"))?;
        Ok(Self {
            poll,
            signals,
            slots: CopySlots::new(settings.worker.processes, settings.worker.restart),
            command: command.to_vec(),
            environ,
            settings,
            refused: None,
        })
    }

    fn run(&mut self) -> io::Result<Exit> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.reap()?;
            // After the reaping: a copy that ended because of the drain is not started again.
            if self.take_signals()? {
                continue;
            }
            self.start_due();
            if let Some(exit) = self.exit() {
                return Ok(exit);
            }
            let wait = self.slots.next_start().map(|at| at.remaining(now()));
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// The exit status, after all work is done. PID 1 then owns the remaining copies: it cancels
    /// their jobs and ends them, as for any worker whose first process has ended.
    fn exit(&self) -> Option<Exit> {
        let status = self.slots.result()?;
        let own = if status == 0 {
            Exit::Success
        } else {
            Exit::Status(status)
        };
        Some(self.refused.unwrap_or(own))
    }

    /// Returns whether a copy may have ended, so that there is one to reap.
    fn take_signals(&mut self) -> io::Result<bool> {
        let mut has_child_ended = false;
        while let Some(signal) = self.signals.take()? {
            let is_terminate = signal == self.settings.on_terminate.unwrap_or(TERMINATE_SIGNAL);
            if is_terminate || ENDING.contains(&signal) {
                self.slots.end();
            }
            has_child_ended |= signal == Signal::CHLD;
            let is_for_us = signal == Signal::CHLD || is_terminate && self.settings.on_terminate.is_none();
            if !is_for_us {
                self.pass_on(signal);
            }
        }
        Ok(has_child_ended)
    }

    /// A copy that has ended and is not reaped yet still has its number.
    fn pass_on(&self, signal: Signal) {
        for pid in self.slots.running() {
            let _ = if self.settings.process_group {
                process::signal_group(pid, signal)
            } else {
                process::signal(pid, signal)
            };
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        while let Reaped::Process(pid, ended) = reaper::reap_one()? {
            // The process of a start that failed is in no slot.
            let Some((index, after)) = self.slots.ended(pid, ended, now()) else {
                continue;
            };
            match after {
                AfterCopy::Over => info!("copy {index} of the worker ended, {ended}"),
                AfterCopy::StartsAgain(pause) => again(index, &format!("ended, {ended}"), pause),
                AfterCopy::EndAll => {
                    warn!("copy {index} of the worker ended, {ended}, and is not started again: the worker ends");
                }
            }
        }
        Ok(())
    }

    fn start_due(&mut self) {
        while let Some(index) = self.slots.due(now()) {
            match self.start(index) {
                Ok(pid) => self.slots.started(index, pid, now()),
                Err((why, Some(exit))) if self.slots.running().is_empty() => {
                    report(&why);
                    self.refused = Some(exit);
                    self.slots.give_up();
                }
                // The program may be about to be replaced, and the other copies are healthy.
                Err((why, _)) => {
                    let pause = self.slots.not_started(index, now());
                    again(index, &format!("could not be started: {why}"), pause);
                }
            }
        }
    }

    fn plan(&self, index: u32) -> Result<ChildPlan, NulError> {
        let number = OsString::from(index.to_string());
        let set: [(&str, &OsStr); 1] = [(INDEX_VARIABLE, &number)];
        let plan = ChildPlan::new(&self.command, &self.environ)?;
        plan.with_environment(&set, &[RUNNER_VARIABLE])
    }

    /// Starts a copy.
    ///
    /// # Errors
    ///
    /// The reason, for a person, and the exit status of the worker if no copy runs; without one
    /// after a shortage.
    fn start(&self, index: u32) -> Result<Pid, (String, Option<Exit>)> {
        let plan = self
            .plan(index)
            .map_err(|error| (error.to_string(), Some(Exit::NotExecutable)))?;
        plan.spawn().map_err(|error| {
            let exit = match &error {
                SpawnError::Exec(error) => start::exit_of(error),
                SpawnError::NoProcess(_) | SpawnError::User { .. } | SpawnError::Traits(_) => Exit::NotExecutable,
            };
            match start::not_started(&self.command, error, &|| plan.trouble(None)) {
                ProcessNotStarted::Shortage(error) => (format!("{error}; {}", remedy(&error)), None),
                ProcessNotStarted::Refused(why) => (why, Some(exit)),
                ProcessNotStarted::NoHandler => ("it has no command".to_owned(), Some(exit)),
            }
        })
    }
}

fn again(copy: u32, why: &str, pause: Duration) {
    if pause.is_zero() {
        warn!("copy {copy} of the worker {why}; it is started again");
    } else {
        warn!(
            "copy {copy} of the worker {why}; it is started again in {} s",
            pause.as_secs()
        );
    }
}
