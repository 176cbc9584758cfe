//! The termination log: a few lines for the person who looks why a container ended, in the file that an orchestrator
//! shows of it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lifecycle::effect::Reason;
use crate::lifecycle::end_cause::EndCause;
use crate::lifecycle::ending::{Account, Cause, MOST_LEFT_NAMES};
use crate::lifecycle::ids::JobId;
use crate::signal::Signal;

/// Most bytes of it: what Kubernetes reads of the file of one container.
pub const MOST_BYTES: usize = 4096;

/// Most bytes of one job's name; nothing but the backend bounds it.
const MOST_NAME_BYTES: usize = 100;

/// Stands for the rest of what was cut.
const CUT: &str = "...";

/// Last line of a text that could not hold every name.
const TRUNCATED: &str = "truncated\n";

/// Base of the exit status after a signal.
const SIGNAL_BASE: u8 = 128;

/// The text: at most [`MOST_BYTES`] in lines, none of them empty. How it ended comes first, then what was counted, then
/// the names of the jobs that were cut off, one a line.
#[must_use]
pub fn text(account: &Account) -> String {
    let mut text = format!("{}\n", first_line(account));
    if let Some(ended) = account.worker.filter(|_| account.cause != Cause::WorkerEnded) {
        text.push_str(&format!("the worker: {ended}\n"));
    }
    if account.cause != Cause::WorkerWasEnded
        && let Some(cause) = &account.tally.ended_for
    {
        text.push_str(&format!("a process was ended: {}\n", why_ended(cause)));
    }
    text.push_str(&counts(account));
    names(account, &mut text);
    text
}

/// The text where the worker was not even tried to be started, for this reason.
#[must_use]
pub fn not_started(message: &str, status: u8) -> String {
    let end = format!("; exit status {status}\n");
    let most = MOST_BYTES - "not started: ".len() - end.len();
    format!("not started: {}{end}", printable(message, most))
}

/// The text after a bug, or without the kernel's help: nothing is known but this.
#[must_use]
pub fn broken(status: u8) -> String {
    format!("internal error, the worker was stopped: see the log; exit status {status}\n")
}

fn first_line(account: &Account) -> String {
    let cause = match account.cause {
        Cause::Asked(reason) => format!("{}: ", who(reason)),
        Cause::WorkerEnded => format!("the worker ended by itself{}: ", why_not_again(account)),
        Cause::WorkerWasEnded => match &account.tally.ended_for {
            Some(cause) => format!("the worker was ended{}: {}", why_not_again(account), why_ended(cause)),
            None => "the worker was ended".to_owned(),
        },
        Cause::NotStarted(status) => format!("the worker could not be started: {}", why_not_started(status)),
        Cause::AtOnce => String::new(),
    };
    let after = match account.took {
        Duration::ZERO => String::new(),
        took => format!(" after {}", seconds(took)),
    };
    let end = match account.status {
        Some(status) => format!("; exit status {status}{after}"),
        None => "; the end was still to come when this was written".to_owned(),
    };
    format!("{cause}{}{end}", course(account))
}

/// How it went. Empty where the cause says it all.
fn course(account: &Account) -> String {
    let cut_off = match (account.cut_off, account.status) {
        (0, _) => String::new(),
        (count, Some(_)) => format!(", {} cut off", jobs(count)),
        (count, None) => format!(", {} about to be cut off", jobs(count)),
    };
    if let Some(status) = account.status.filter(|_| account.is_abandoned) {
        let number = i32::from(status.saturating_sub(SIGNAL_BASE));
        let signal = Signal::from_number(number).map_or_else(|| "a signal".to_owned(), |signal| signal.to_string());
        return format!("ended at once by {signal}{cut_off}");
    }
    match (account.tally.stop, account.cause) {
        (Some((after, true)), _) => format!("stopped by force after {}{cut_off}", seconds(after)),
        (Some((after, false)), _) => format!("out of time after {}{cut_off}", seconds(after)),
        (None, Cause::Asked(_)) => "drained".to_owned(),
        (None, Cause::WorkerEnded) => account
            .worker
            .map_or_else(|| "not even SIGKILL ends it".to_owned(), |ended| ended.to_string()),
        (None, Cause::NotStarted(_) | Cause::AtOnce | Cause::WorkerWasEnded) => String::new(),
    }
}

/// Most bytes of a cause: two names, and the words around them.
const MOST_CAUSE_BYTES: usize = 300;

fn why_ended(cause: &EndCause) -> String {
    printable(&cause.to_string(), MOST_CAUSE_BYTES)
}

fn why_not_again(account: &Account) -> &'static str {
    if account.tally.has_ended_too_often {
        " too often to be started again"
    } else {
        ""
    }
}

fn why_not_started(status: u8) -> &'static str {
    match status {
        2 => "not as the user in process.user",
        70 => "the system had no process for it",
        126 => "it cannot be executed",
        127 => "it was not found",
        _ => "see the log",
    }
}

fn who(reason: Reason) -> &'static str {
    match reason {
        Reason::Sigterm => "SIGTERM",
        Reason::Sigint => "SIGINT",
        Reason::Sigquit => "SIGQUIT",
        Reason::Sigtstp => "SIGTSTP",
        Reason::Sigcont => "SIGCONT",
        Reason::Server => "asked by the backend",
        Reason::Control => "asked by the operator",
        Reason::Prestop => "a preStop hook",
        Reason::Worker => "the worker",
    }
}

fn counts(account: &Account) -> String {
    let tally = &account.tally;
    let counts = [
        (tally.done, "done"),
        (tally.failed, "failed"),
        (tally.handed_back, "handed back"),
        (account.unreported, "done but not reported"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let mut lines = String::new();
    if !counts.is_empty() {
        lines.push_str(&format!("jobs from then on: {}\n", counts.join(", ")));
    }
    if tally.left > 0 {
        lines.push_str(&format!("{} left to the visibility timeout\n", jobs(tally.left)));
    }
    if tally.is_fetch_abandoned {
        lines.push_str("a FETCH was not answered: jobs that it claimed are left to the visibility timeout\n");
    }
    lines
}

/// As many as there is room for, below their headings; the last line says when that was not all.
fn names(account: &Account, text: &mut String) {
    let tally = &account.tally;
    let cut_off = if account.status.is_some() {
        "cut off:\n"
    } else {
        "about to be cut off:\n"
    };
    let mut lines = below(cut_off, &tally.names);
    lines.extend(below("left to the visibility timeout:\n", &tally.left_names));
    let mut left = lines.len() + usize::from(tally.left_names.len() >= MOST_LEFT_NAMES);
    for line in lines {
        left -= 1;
        let reserve = if left == 0 { 0 } else { TRUNCATED.len() };
        if text.len() + line.len() + reserve > MOST_BYTES {
            text.push_str(TRUNCATED);
            return;
        }
        text.push_str(&line);
    }
    if left > 0 {
        text.push_str(TRUNCATED);
    }
}

/// A heading and a line for each name; nothing where there is no name.
fn below(heading: &str, names: &BTreeSet<JobId>) -> Vec<String> {
    let line = |name: &JobId| format!("{}\n", printable(&name.0, MOST_NAME_BYTES));
    let heading = (!names.is_empty()).then(|| heading.to_owned());
    heading.into_iter().chain(names.iter().map(line)).collect()
}

/// `text` on one line, in at most so many bytes: letters, digits and the signs of ASCII as they are, everything else, which
/// could break a line or hide what stands beside it, as its number.
fn printable(text: &str, most: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let is_plain = c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
        let shown = if is_plain {
            c.to_string()
        } else {
            c.escape_default().to_string()
        };
        if out.len() + shown.len() > most {
            let mut end = most - CUT.len();
            while !out.is_char_boundary(end.min(out.len())) {
                end -= 1;
            }
            out.truncate(end);
            return out + CUT;
        }
        out.push_str(&shown);
    }
    out
}

/// `1 job`, `2 jobs`.
fn jobs(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} job{plural}")
}

/// To a tenth of a second.
fn seconds(duration: Duration) -> String {
    format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
}

#[cfg(test)]
#[path = "termination_log_tests.rs"]
mod tests;
