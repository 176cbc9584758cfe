//! `status --watch`: the instance, once a second, until it ends.
//!
//! The text is drawn over the screen, with nothing to restore afterwards: no alternate screen, no
//! raw mode, no hidden cursor. In a container the SIGKILL of PID 1 ends this process as well, so it
//! could not restore them.

use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use crate::commands::ask::{Incoming, NoAnswer, send};
use crate::commands::common::{FIND_WITHIN, NOT_TAKEN, Target, Terminal, failed};
use crate::commands::status::{json, refusal, screen};
use crate::daemon::log::report::report;
use crate::daemon::runtime::candidate::Candidate;
use crate::daemon::runtime::instances::{self, Instance, NoInstance, Unreachable};
use ojs_lifecycle::api::OperatorRequest;
use ojs_os::process::Pid;
use ojs_os::signal_fd::SignalFd;
use ojs_os::signals::SignalSet;
use ojs_os::{clock, stdio};
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::operator::screen::{draw, farewell};
use ojs_wire::operator::status_reply::{StatusReply, decode_report};
use ojs_wire::text::seconds;

/// Time between two looks at the instance.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Without an answer for this long, the screen counts as old.
const OLD_AFTER: Duration = Duration::from_secs(2);

/// How long the subcommand looks again for an instance that has closed the connection. It may only
/// have replaced this client by another.
const FIND_AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// Time between two attempts to find it again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Longest that a picture may wait for a slow terminal: then the next one is drawn.
const OUTPUT_LIMIT: Duration = Duration::from_millis(200);

/// After the last message of PID 1 this process lives no longer than PID 1 waits for it, which is
/// 100 ms.
const FAREWELL_LIMIT: Duration = Duration::from_millis(30);

/// Clears the screen.
const CLEAR: &str = "\x1b[2J";

/// To the upper left corner.
const HOME: &str = "\x1b[H";

/// Clears the rest of a line, and begins the next.
const NEXT_LINE: &str = "\x1b[K\r\n";

/// Clears the rest of the screen.
const CLEAR_REST: &str = "\x1b[J";

/// Signals that end it, and the one for a new size of the terminal.
const SIGNALS: [Signal; 5] = [Signal::INT, Signal::TERM, Signal::QUIT, Signal::HUP, Signal::WINCH];

/// The contents of the screen.
struct View {
    as_json: bool,
    has_colour: bool,
    last: Option<StatusReply>,
    /// The rest of a line of JSON for which its reader had no room. Nothing is written before the
    /// rest is.
    unwritten: Vec<u8>,
    /// The earlier text was cleared from the screen.
    is_clear: bool,
}

/// The conversation with the instance.
struct Talk {
    instance: Instance,
    incoming: Incoming,
    connected_at: Duration,
    /// When the question was asked that has no answer yet.
    asked_at: Option<Duration>,
    next: Duration,
}

/// Shows the instance until it ends, or until a signal arrives.
pub(super) fn run(as_json: bool, target: Target, terminal: Terminal) -> Exit {
    let search = match target.warned() {
        Ok(search) => search,
        Err(message) => return failed(&message, Exit::Usage),
    };
    let why_not = if !io::stdout().is_terminal() {
        Some("standard output is no terminal")
    } else if !terminal.moves_cursor {
        Some("this terminal cannot draw over what stands there (TERM=dumb)")
    } else {
        None
    };
    if let Some(why) = why_not.filter(|_| !as_json) {
        let message = format!(
            "status --watch: {why}; use `status` for one screen, or `status --json --watch` for one line of JSON a second"
        );
        return failed(&message, Exit::Usage);
    }
    let mask = SIGNALS.into_iter().fold(SignalSet::inherited(), SignalSet::with);
    mask.set_as_mask();
    let signals = match SignalFd::new(SignalSet::of(&SIGNALS)) {
        Ok(signals) => signals,
        Err(error) => return failed(&format!("cannot create a signal descriptor: {error}"), NOT_TAKEN),
    };
    let instance = match search.find(FIND_WITHIN) {
        Ok(instance) => instance,
        Err(message) => return failed(&message, NOT_TAKEN),
    };
    let mut view = View {
        as_json,
        has_colour: terminal.has_colour,
        last: None,
        unwritten: Vec::new(),
        is_clear: false,
    };
    // The kernel closes the connection when this process has ended. PID 1 waits for that close
    // before its SIGKILL.
    watch(Box::leak(Box::new(Talk::new(instance))), &mut view, &signals)
}

fn watch(talk: &mut Talk, view: &mut View, signals: &SignalFd) -> Exit {
    loop {
        // A connection that breaks here is noticed by its end, below.
        talk.ask_if_due();
        if let Err(error) = talk.wait(signals) {
            return failed(&format!("cannot wait: {error}"), NOT_TAKEN);
        }
        while let Ok(Some(signal)) = signals.take() {
            match signal {
                Signal::WINCH => view.resized(),
                signal => return view.interrupted(signal),
            }
        }
        let (lines, over) = talk.incoming.lines(&talk.instance.stream);
        for line in lines {
            match view.take(&line, talk.instance.pid) {
                Ok(None) => talk.asked_at = None,
                Ok(Some(exit)) => return exit,
                Err(message) => return failed(&message, NOT_TAKEN),
            }
        }
        match over {
            None => view.is_old(talk.silence()),
            Some(NoAnswer::Gone) => match talk.find_again() {
                Ok(Some(again)) => *talk = again,
                Ok(None) => return view.gone(),
                Err(error) => return failed(&error.to_string(), NOT_TAKEN),
            },
            Some(error @ (NoAnswer::TooLate(_) | NoAnswer::Strange | NoAnswer::Failed(_))) => {
                return failed(&error.to_string(), NOT_TAKEN);
            }
        }
    }
}

impl Talk {
    fn new(instance: Instance) -> Self {
        let now = clock::monotonic();
        Self {
            instance,
            incoming: Incoming::new(),
            connected_at: now,
            asked_at: None,
            next: now,
        }
    }

    fn ask_if_due(&mut self) {
        let now = clock::monotonic();
        if self.asked_at.is_none() && now >= self.next {
            self.asked_at = Some(now);
            self.next = now.saturating_add(LOOK_EVERY);
            // A connection that is broken is noticed by its end.
            let _ = send(&self.instance.stream, &OperatorRequest::Status { until_end: true });
        }
    }

    /// Waits for an answer, a signal, or the next look.
    fn wait(&self, signals: &SignalFd) -> io::Result<()> {
        let now = clock::monotonic();
        let left = match self.asked_at {
            None => self.next.saturating_sub(now),
            // Once a second the screen shows how long there was no answer.
            Some(_) => LOOK_EVERY,
        };
        let mut waiting = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.instance.stream.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waiting, clock::poll_timeout(left)) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How long there has been no answer.
    fn silence(&self) -> Duration {
        self.asked_at
            .map_or(Duration::ZERO, |at| clock::monotonic().saturating_sub(at))
    }

    /// Another connection to this instance; none if it has ended.
    fn find_again(&self) -> Result<Option<Self>, NoInstance> {
        let place = [Candidate {
            path: self.instance.path.clone(),
            make: false,
            is_configured: true,
        }];
        // An instance that accepts and closes this connection repeatedly is busy, so wait.
        clock::pause_until(self.connected_at.saturating_add(TRY_AGAIN_AFTER));
        let give_up = clock::monotonic().saturating_add(FIND_AGAIN_WITHIN);
        loop {
            let error = match instances::the_only(&place, TRY_AGAIN_AFTER) {
                Ok(instance) => {
                    return Ok(Some(Self {
                        next: self.next,
                        ..Self::new(instance)
                    }));
                }
                Err(error) => error,
            };
            let is_dead = |why: &Unreachable| matches!(why, Unreachable::Dead);
            let is_over = match &error {
                NoInstance::None(reasons) => reasons.iter().any(|(_, why)| is_dead(why)),
                NoInstance::Several(_) | NoInstance::OtherPids(..) => false,
            };
            if is_over || !self.instance.path.exists() {
                return Ok(None);
            }
            if clock::monotonic() >= give_up {
                return Err(error);
            }
            clock::pause_until(clock::monotonic().saturating_add(TRY_AGAIN_AFTER));
        }
    }
}

impl View {
    /// Shows an answer. Returns an exit if that was the last one of `pid`.
    fn take(&mut self, line: &[u8], pid: Pid) -> Result<Option<Exit>, String> {
        let shown = decode_report(line).ok_or_else(|| refusal(line))?;
        let ending = shown.ending.clone();
        self.last = Some(shown);
        // PID 1 kills this process as well.
        let is_killed = pid == Pid::INIT && ending.as_deref() == Some("kill");
        let is_last = is_killed || ending.as_deref() == Some("exit");
        let limit = if is_last { FAREWELL_LIMIT } else { OUTPUT_LIMIT };
        let written = if self.as_json {
            self.print(line, is_last, limit)
        } else {
            let below = is_last.then(|| farewell(self.last.as_ref(), is_killed));
            self.draw(below, limit)
        };
        Ok(match written {
            _ if is_last => Some(Exit::Success),
            // No reader is left.
            Err(error) if error.kind() != ErrorKind::TimedOut => Some(NOT_TAKEN),
            Ok(()) | Err(_) => None,
        })
    }

    /// Prints a line of JSON. Bytes for which its reader had no room are printed first the next
    /// time. The lines meanwhile are left out, except the last one.
    fn print(&mut self, line: &[u8], is_last: bool, limit: Duration) -> io::Result<()> {
        if self.unwritten.is_empty() || is_last {
            self.unwritten.extend_from_slice(json(line).as_bytes());
        }
        let (count, result) = stdio::write_output_counted(&self.unwritten, limit);
        self.unwritten.drain(..count);
        result
    }

    fn resized(&mut self) {
        self.is_clear = false;
        if !self.as_json && self.last.is_some() {
            // The next drawing follows in a second.
            let _ = self.draw(None, OUTPUT_LIMIT);
        }
    }

    /// Shows how long there was no answer, after a long silence.
    fn is_old(&mut self, silence: Duration) {
        if silence >= OLD_AFTER && !self.as_json {
            let line = format!("no answer for {}", seconds(Duration::from_secs(silence.as_secs())));
            let _ = self.draw(Some(line), OUTPUT_LIMIT);
        }
    }

    /// The instance has ended without a last answer.
    fn gone(&mut self) -> Exit {
        let farewell = farewell(self.last.as_ref(), false);
        if self.as_json {
            report(&farewell);
        } else {
            let _ = self.draw(Some(farewell), OUTPUT_LIMIT);
        }
        Exit::Success
    }

    /// Ctrl-C is how a person ends it; the rest is as for any program.
    fn interrupted(&self, signal: Signal) -> Exit {
        if !self.as_json {
            let _ = stdio::write_output(b"\r\n", OUTPUT_LIMIT);
        }
        if signal == Signal::INT {
            return Exit::Success;
        }
        Exit::Status(signal.exit_status())
    }

    /// Draws the last answer, and this line below it.
    fn draw(&mut self, below: Option<String>, limit: Duration) -> io::Result<()> {
        let mut screen = screen(self.has_colour);
        let width = screen.width;
        screen.height = screen.height.saturating_sub(usize::from(below.is_some()));
        let mut lines = self.last.as_ref().map_or(Vec::new(), |last| draw(last, &screen));
        lines.extend(below.map(|line| line.chars().take(width).collect()));
        let mut text = if self.is_clear {
            HOME.to_owned()
        } else {
            [CLEAR, HOME].concat()
        };
        self.is_clear = true;
        text.extend(lines.iter().flat_map(|line| [line.as_str(), NEXT_LINE]));
        text.push_str(CLEAR_REST);
        stdio::write_output(text.as_bytes(), limit)
    }
}
