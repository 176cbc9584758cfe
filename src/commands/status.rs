//! The subcommands `status` and `health`: find the instance, ask it, show its answer.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::cli::HealthOf;
use crate::commands::ask::exchange;
use crate::commands::common::{ANSWER_WITHIN, FIND_WITHIN, NOT_TAKEN, Target, Terminal, connect, failed};
use ojs_lifecycle::api::{OperatorRequest, Probe};
use ojs_os::signals::SignalSet;
use ojs_os::{clock, stdio, tty};
use ojs_values::exit::Exit;
use ojs_wire::operator::control::decode_answer;
use ojs_wire::operator::screen::{Screen, draw};
use ojs_wire::operator::status_reply::{decode_health, decode_report, printable};

/// Longest that `health` runs in all: the kubelet gives an exec probe 1 s, the start of the process
/// included.
const HEALTH_WITHIN: Duration = Duration::from_millis(800);

/// Longest that text may wait for a slow reader of standard output.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// Status of `health` if there is no instance, or no answer.
const NOT_ASKED: Exit = Exit::Status(2);

/// Columns and lines if the size is unknown.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// Shows the instance once.
pub(super) fn status(as_json: bool, target: Target, terminal: Terminal) -> Exit {
    let line = match answer(&OperatorRequest::Status { until_end: false }, target) {
        Ok(line) => line,
        Err(exit) => return exit,
    };
    let Some(shown) = decode_report(&line) else {
        return failed(&refusal(&line), NOT_TAKEN);
    };
    write(&if as_json {
        json(&line)
    } else {
        text(&draw(&shown, &screen(terminal.has_colour)))
    })
}

/// The line that answers a request, or the exit status after its error was reported.
pub(super) fn answer(request: &OperatorRequest, target: Target) -> Result<Vec<u8>, Exit> {
    let search = target.warned().map_err(|message| failed(&message, Exit::Usage))?;
    SignalSet::inherited().set_as_mask();
    let answered = connect(&search, FIND_WITHIN)
        .and_then(|stream| exchange(stream, request, ANSWER_WITHIN).map_err(|error| error.to_string()));
    answered.map_err(|message| failed(&message, NOT_TAKEN))
}

/// Writes a view to standard output.
pub(super) fn write(text: &str) -> Exit {
    match stdio::write_output(text.as_bytes(), OUTPUT_LIMIT) {
        Ok(()) => Exit::Success,
        Err(error) => failed(&format!("cannot write to standard output: {error}"), NOT_TAKEN),
    }
}

/// Checks the health of the instance.
pub(super) fn health(of: HealthOf, target: Target, begin: Duration) -> Exit {
    SignalSet::inherited().set_as_mask();
    let (probe, word) = match of {
        HealthOf::Both => (Probe::Healthy, "healthy"),
        HealthOf::Live => (Probe::Live, "live"),
        HealthOf::Ready => (Probe::Ready, "ready"),
    };
    let give_up = begin.saturating_add(HEALTH_WITHIN);
    let left = || give_up.saturating_sub(clock::monotonic());
    let answered = target.warned().and_then(|search| {
        let stream = connect(&search, left())?;
        exchange(stream, &OperatorRequest::Health(probe), left()).map_err(|error| error.to_string())
    });
    let line = match answered {
        Ok(line) => line,
        Err(message) => return failed(&message, NOT_ASKED),
    };
    let Some(health) = decode_health(&line) else {
        return failed(&refusal(&line), NOT_ASKED);
    };
    let (text, exit) = if health.healthy {
        (word.to_owned(), Exit::Success)
    } else {
        let reasons: Vec<String> = health.reasons.into_iter().map(|reason| reason.message).collect();
        (format!("not {word}: {}", reasons.join("; ")), NOT_TAKEN)
    };
    // The status is the answer, so a failed write of the line is ignored.
    let _ = stdio::write_output(format!("{}\n", printable(&text)).as_bytes(), left());
    exit
}

/// A report as JSON, on one line.
pub(super) fn json(line: &[u8]) -> String {
    format!("{}\n", printable(&String::from_utf8_lossy(line)))
}

/// Lines as a text.
pub(super) fn text(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Size and colours of standard output.
pub(super) fn screen(has_colour: bool) -> Screen {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let (width, height) = tty::size(stdout.as_fd()).filter(|_| is_terminal).unwrap_or(USUAL_SIZE);
    Screen {
        width: usize::from(width),
        // The last line stays free for later output. A reader other than a terminal wants every
        // job.
        height: if is_terminal {
            usize::from(height).saturating_sub(1)
        } else {
            usize::MAX
        },
        has_colour: has_colour && is_terminal,
    }
}

/// Why the instance sent no report.
pub(super) fn refusal(line: &[u8]) -> String {
    let message = decode_answer(line).map(|told| told.message).unwrap_or_default();
    if message.is_empty() {
        "what ojs-init answered is not understood; is it another version?".to_owned()
    } else {
        format!("ojs-init says: {message}; is it another version?")
    }
}
