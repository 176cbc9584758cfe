//! Mode none: the loop of the plain init. One blocking call, `rt_sigtimedwait`, until the machine
//! orders the exit.

use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use log::{debug, error, info, trace, warn};

use crate::config::Config;
use crate::daemon::descendants::{self, Descendants};
use crate::daemon::log::remedy::{remedy, remedy_of_signal};
use crate::daemon::log::report::report;
use crate::daemon::log::sink::LogHandle;
use crate::daemon::prepare::{become_init, install_log};
use crate::daemon::start::{self, StartFailure};
use ojs_lifecycle::api::{Budget, Moment, WorkerEnd};
use ojs_lifecycle::plain::{PlainEffect, PlainEvent, PlainInit, PlainNotice, PlainOptions, SignalTarget};
use ojs_os::cgroup::OomKills;
use ojs_os::child::ChildPlan;
use ojs_os::entry::{self, Environ};
use ojs_os::process::{self, Pid};
use ojs_os::reaper::{self, Reaped};
use ojs_os::signals::{self, SignalSet};
use ojs_os::{clock, image, init, tty};
use ojs_values::exit::{Ended, Exit};
use ojs_values::signal::Signal;
use ojs_wire::text::seconds;

/// Most processes reaped in one turn; then pending signals get theirs, however fast orphans die.
const REAPS_PER_TURN: usize = 256;

/// Runs `command` under the plain init, and exits when it is time. The exit drops no value, because
/// the kernel frees memory and closes descriptors anyway.
pub fn run(config: &Config, command: &[OsString], environ: &Environ) -> ! {
    let log = install_log(config, environ);
    let options = options(config);
    match start(config, options.budget, command, environ) {
        Ok(child) => {
            log.stderr_is_shared();
            debug!("child started with pid {}", child.pid);
            let mut supervisor = Supervisor::new(options, child, config.init.warn_on_reap);
            leave(log, supervise(&mut supervisor))
        }
        Err(StartFailure { message, exit }) => {
            report(&message);
            leave(log, exit)
        }
    }
}

fn leave(log: LogHandle, exit: Exit) -> ! {
    log.flush(None);
    entry::leave(exit.code())
}

fn options(config: &Config) -> PlainOptions {
    PlainOptions {
        rewrite: config.init.rewrite.clone(),
        process_group: config.init.process_group,
        remap_exit: config.init.remap_exit.clone(),
        budget: Budget::of_plain_init(&config.shutdown.limits),
    }
}

/// The running child, and whether the terminal is its.
#[derive(Debug)]
struct Child {
    pid: Pid,
    has_terminal: bool,
}

fn start(
    config: &Config,
    budget: Option<Budget>,
    command: &[OsString],
    environ: &Environ,
) -> Result<Child, StartFailure> {
    signals::expect_children();
    let credentials = start::credentials(&config.process)?;
    become_init(config, environ);
    if let Some(budget) = budget {
        announce(config, budget);
    }
    let program = command
        .first()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut plan = plan(command, environ)?;
    plan.credentials = credentials;
    plan.terminal = tty::foreground_terminal();
    let has_terminal = plan.terminal.is_some();
    let pid = start::spawn(&plan, &program, |message| warn!("{message}"))?;
    Ok(Child { pid, has_terminal })
}

/// The child, but for its user and its terminal.
pub(super) fn plan(command: &[OsString], environ: &Environ) -> Result<ChildPlan, StartFailure> {
    ChildPlan::new(command, environ).map_err(start::nul_byte)
}

/// The start-up line about the end: the child's time, and the setting that decided it.
fn announce(config: &Config, budget: Budget) {
    let drain = seconds(budget.drain);
    if config.shutdown.limits.termination_grace_period.is_none() {
        let limit = seconds(budget.limit);
        info!(
            "after a stop signal the child gets {drain}, then SIGKILL; assuming an orchestrator's limit of {limit}: set \
             shutdown.termination_grace_period when it is another"
        );
    } else if budget.is_cut {
        let grace = seconds(config.shutdown.limits.grace_period);
        info!(
            "after a stop signal the child gets {drain}, then SIGKILL: the termination grace period cuts the grace \
             period of {grace}"
        );
    } else {
        info!("after a stop signal the child gets {drain}, then SIGKILL");
    }
}

/// Runs the loop. A bug in it must not leave a child without its init, so ojs-init stops the child
/// first and then reports the bug.
fn supervise(supervisor: &mut Supervisor) -> Exit {
    let exit = panic::catch_unwind(AssertUnwindSafe(|| supervisor.run())).unwrap_or_else(|_| {
        supervisor.stop_child();
        Exit::Internal
    });
    if supervisor.child.has_terminal {
        tty::take_back(supervisor.child.pid);
    }
    exit
}

/// The machine, and the child that it acts on.
struct Supervisor {
    machine: PlainInit,
    child: Child,
    child_is_reaped: bool,
    warn_on_reap: bool,
    descendants: Descendants,
    /// None until the init is settled, or if the kernel does not show how often memory ran out.
    oom_kills: Option<OomKills>,
}

impl Supervisor {
    fn new(options: PlainOptions, child: Child, warn_on_reap: bool) -> Self {
        let machine = PlainInit::new(options);
        Self {
            machine,
            child,
            child_is_reaped: false,
            warn_on_reap,
            descendants: Descendants::default(),
            oom_kills: None,
        }
    }

    fn run(&mut self) -> Exit {
        // For a command that has ended already, `settle` would only delay the exit.
        self.reap();
        if let Some(exit) = self.perform() {
            return exit;
        }
        self.settle();
        // The program that exec'ed ojs-init may have left more ended children than one turn reaps.
        // The second turn also reads the pages again that the child's end needs.
        let mut reap_again = true;
        loop {
            if reap_again {
                reap_again = self.reap();
            }
            if let Some(exit) = self.perform() {
                return exit;
            }
            let timeout = if reap_again {
                Some(Duration::ZERO)
            } else {
                self.time_to_wait()
            };
            match signals::wait(SignalSet::ALL, timeout) {
                Ok(Some(Signal::CHLD)) => reap_again = true,
                Ok(Some(signal)) => {
                    debug!("received {signal}");
                    self.machine.handle(PlainEvent::SignalArrived(signal), now());
                }
                Ok(None) => {}
                Err(error) => {
                    error!(
                        "cannot wait for signals: {error}; stopping the child; {}",
                        remedy(&error)
                    );
                    self.stop_child();
                    return Exit::Internal;
                }
            }
            if self.machine.poll_timeout().is_some() {
                self.machine.handle_timeout(now());
            }
        }
    }

    /// Prepares for a wait: closes the child's descriptors, finds the counter of OOM kills, and
    /// releases the pages of the start. The kernel needs time to release pages. Here the child
    /// starts meanwhile; at the exit, the container's runtime waits for it.
    fn settle(&mut self) {
        init::release_inherited();
        self.oom_kills = OomKills::find();
        image::let_go_of_pages();
    }

    fn time_to_wait(&self) -> Option<Duration> {
        self.machine.poll_timeout().map(|(due, timer)| {
            let timeout = due.remaining(now());
            trace!("waiting at most {timeout:?} for {timer:?}");
            timeout
        })
    }

    /// Reaps ended processes. Returns true if there may be more.
    fn reap(&mut self) -> bool {
        for _ in 0..REAPS_PER_TURN {
            match reaper::reap_one() {
                Ok(Reaped::Process(pid, ended)) if pid == self.child.pid && !self.child_is_reaped => {
                    self.child_is_reaped = true;
                    debug!("child {pid} ended: {ended}");
                    self.tell_of_oom_kills(ended);
                    self.machine.handle(PlainEvent::ChildEnded(ended), now());
                }
                Ok(Reaped::Process(pid, ended)) => self.descendants.reaped(pid, ended, self.warn_on_reap),
                Ok(Reaped::NoneReady) => {
                    self.machine.handle(PlainEvent::Reaped { children_left: true }, now());
                    return false;
                }
                Ok(Reaped::NoChildren) => {
                    self.machine.handle(PlainEvent::Reaped { children_left: false }, now());
                    return false;
                }
                Err(error) => {
                    warn!(
                        "cannot reap: {error}; ended processes stay zombies until the next SIGCHLD; {}",
                        remedy(&error)
                    );
                    return false;
                }
            }
        }
        true
    }

    /// Logs an end of the child that the kernel's OOM killer may have caused: the child itself can
    /// no longer log why.
    fn tell_of_oom_kills(&self, ended: Ended) {
        if ended == Ended::Exited(0) {
            return;
        }
        let kills = self.oom_kills.as_ref().map_or(0, OomKills::since);
        if let Some(line) = out_of_memory(ended, kills) {
            error!("{line}");
        }
    }

    /// Executes the effects of the machine. Returns the exit status if the last effect was the
    /// exit.
    fn perform(&mut self) -> Option<Exit> {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                PlainEffect::Send(signal, target) => self.send(signal, target),
                PlainEffect::TerminateLeftovers => self.descendants.terminate(|_| false),
                PlainEffect::KillEverything => self.kill_everything(),
                PlainEffect::Notify(notice) => say(notice, &self.what_is_left()),
                PlainEffect::Exit(status) => return Some(Exit::Status(status)),
            }
        }
        None
    }

    fn send(&mut self, signal: Signal, target: SignalTarget) {
        let pid = self.child.pid;
        let result = match target {
            SignalTarget::Child => process::signal(pid, signal),
            SignalTarget::Group => {
                self.descendants.group_is_signalled(pid, signal);
                process::signal_group(pid, signal)
            }
        };
        match result {
            Ok(()) => debug!(
                "forwarded {signal} to {}{pid}",
                if target == SignalTarget::Group {
                    "process group "
                } else {
                    ""
                }
            ),
            Err(error) => warn!(
                "cannot forward {signal} to {pid}: {error}; {}",
                remedy_of_signal(&error)
            ),
        }
    }

    /// The processes that a SIGKILL ends now, in words.
    fn what_is_left(&self) -> String {
        if self.child_is_reaped {
            "the processes that the command left behind".to_owned()
        } else {
            format!("the command (process {}) and its processes", self.child.pid)
        }
    }

    /// SIGKILL to the child and its group. Not for a reaped child, because another process may have
    /// its pid.
    fn stop_child(&self) {
        if !self.child_is_reaped {
            descendants::kill_group(self.child.pid);
        }
    }

    fn kill_everything(&self) {
        self.stop_child();
        descendants::kill_everybody();
    }
}

/// The words for a child that ended like this while the kernel ended so many processes because
/// memory ran out.
fn out_of_memory(ended: Ended, oom_kills: u64) -> Option<String> {
    let end = WorkerEnd { ended, oom_kills };
    (oom_kills > 0)
        .then(|| format!("the command ended: {end}; give the container more memory, or let the command use less"))
}

fn say(notice: PlainNotice, left: &str) {
    match notice {
        PlainNotice::StopAsked(signal, drain) => info!("{signal}: the child has {} to end", seconds(drain)),
        PlainNotice::Dropped(signal) => debug!("{signal} dropped, as --rewrite says"),
        PlainNotice::LeftoversFound(left) => {
            info!(
                "the child ended and left processes behind: SIGTERM, and {} to end",
                seconds(left)
            );
        }
        PlainNotice::DeadlineReached => {
            warn!("the time is over: SIGKILL to {left}; handle SIGTERM, or raise --grace-period")
        }
        PlainNotice::GaveUp => warn!(
            "processes are left that SIGKILL did not reach or did not end in time; leaving without them; look for \
             processes in state D, and for those of other users"
        ),
    }
}

fn now() -> Moment {
    Moment::new(clock::monotonic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_while_memory_ran_out_is_told_with_the_kernels_counter() {
        let killed = Ended::Signalled(Signal::KILL);
        let line = out_of_memory(killed, 1).unwrap_or_default();
        assert!(
            line.starts_with("the command ended: killed by SIGKILL (out of memory: oom_kill of the cgroup rose by 1)"),
            "{line}"
        );
        assert!(
            out_of_memory(Ended::Exited(137), 2).is_some(),
            "a shell hides the signal"
        );
        assert_eq!(out_of_memory(killed, 0), None);
    }
}
