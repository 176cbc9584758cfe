//! The termination log: a few lines on why a container ended, for the person who investigates, in
//! the file that the orchestrator shows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::text::{asked_by, roughly, several, tenths};
use crate::trouble::sentence;
use ojs_lifecycle::api::{EndCause, EndReport, EndedBy, JobId, MOST_LEFT_NAMES, Reason, Text};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_values::text::beginning;

/// Most bytes of the text: Kubernetes reads no more from the file of one container.
pub const MOST_BYTES: usize = 4096;

/// Most bytes of one job's name; nothing but the backend bounds it.
const MOST_NAME_BYTES: usize = 100;

/// Most bytes of the log's text about the backend, or about a worker that could not be started.
const MOST_TROUBLE_BYTES: usize = 600;

/// Stands for the part that was cut.
const CUT: &str = "...";

/// Last line of a text that could not hold every name.
const TRUNCATED: &str = "truncated\n";

/// The text: at most [`MOST_BYTES`] in lines, none of them empty. First the end of ojs-init, then
/// the counts, then the names of the jobs that were cut off, one a line. `backend_error` and
/// `no_worker` are the log's texts for the last request that the backend failed, and for a worker
/// that could not be started.
pub fn text(account: &EndReport, backend_error: Option<&str>, no_worker: Option<&str>) -> String {
    let mut text = format!("{}\n", first_line(account, no_worker));
    if let Some(ended) = account.worker.filter(|_| !is_all_about_the_worker(account)) {
        let ran = account
            .ran
            .map_or(String::new(), |ran| format!(", {}", since_start(ran)));
        text.push_str(&format!("the worker: {ended}{ran}\n"));
    }
    if account.cause != EndedBy::WorkerWasEnded
        && let Some(cause) = &account.tally.ended_for
    {
        text.push_str(&format!("a process was ended: {}\n", why_ended(cause)));
    }
    if let Some(trouble) = &account.backend {
        let never = if trouble.is_from_the_start {
            "never registered: "
        } else {
            ""
        };
        let why = printable(&sentence(trouble, backend_error), MOST_TROUBLE_BYTES);
        text.push_str(&format!("{never}{why}\n"));
    }
    text.push_str(&counts(account));
    names(account, &mut text);
    text
}

/// The text if not even a start of the worker was tried, for this reason.
pub fn not_started(message: &str, status: u8) -> String {
    let end = format!("; exit status {status}\n");
    let most = MOST_BYTES - "not started: ".len() - end.len();
    format!("not started: {}{end}", printable(message, most))
}

/// The text after a bug, or without the kernel's help: nothing is known but this.
pub fn broken(status: u8) -> String {
    format!("internal error, the worker was stopped: see the log; exit status {status}\n")
}

/// True if the first line describes only the end of the worker.
fn is_all_about_the_worker(account: &EndReport) -> bool {
    account.cause == EndedBy::WorkerEnded && account.tally.stop.is_none() && !account.is_abandoned
}

/// The cause of the end, its course, the status and the time, each once.
fn first_line(account: &EndReport, no_worker: Option<&str>) -> String {
    let cause = match account.cause {
        EndedBy::Asked(reason) => format!("{}: ", who(reason)),
        EndedBy::WorkerEnded => format!("the worker ended by itself{}: ", when(account)),
        EndedBy::WorkerWasEnded => match &account.tally.ended_for {
            Some(cause) => format!("the worker was ended{}: {}", why_not_again(account), why_ended(cause)),
            None => "the worker was ended".to_owned(),
        },
        EndedBy::NotStarted(status) => {
            let why = printable(no_worker.unwrap_or(why_not_started(status)), MOST_TROUBLE_BYTES);
            format!("the worker could not be started: {why}")
        }
        EndedBy::AtOnce => String::new(),
    };
    let took = match tenths(account.took).as_str() {
        "0 s" => String::new(),
        took => format!("; the shutdown took {took}"),
    };
    let end = match account.status {
        Some(status) => format!("{}{took}", own_status(account, status)),
        None => "; the end was still to come when this was written".to_owned(),
    };
    format!("{cause}{}{end}", course(account))
}

/// The exit status of ojs-init, if it differs from the worker's.
fn own_status(account: &EndReport, status: u8) -> String {
    match account
        .worker
        .filter(|_| is_all_about_the_worker(account))
        .map(|end| end.ended)
    {
        Some(Ended::Exited(own)) if own == status => String::new(),
        Some(Ended::Exited(_)) => format!(", made {status} by -e"),
        Some(Ended::Signalled(_)) | None => format!("; exit status {status}"),
    }
}

/// How long after its start the worker ended, and whether that had happened too often.
fn when(account: &EndReport) -> String {
    let again = why_not_again(account);
    match account.ran {
        Some(ran) if again.is_empty() => format!(" {}", since_start(ran)),
        Some(ran) => format!("{again}, this time {}", since_start(ran)),
        None => again.to_owned(),
    }
}

/// The course of the end. Empty if the cause already contains it.
fn course(account: &EndReport) -> String {
    let cut_off = match (account.cut_off, account.status) {
        (0, _) => String::new(),
        (count, Some(_)) => format!(", {} cut off", several(count, "job")),
        (count, None) => format!(", {} about to be cut off", several(count, "job")),
    };
    if let Some(status) = account.status.filter(|_| account.is_abandoned) {
        let signal = Signal::of_exit_status(status).map_or_else(|| "a signal".to_owned(), |signal| signal.to_string());
        return format!("ended at once by {signal}{cut_off}");
    }
    match (account.tally.stop, account.cause) {
        (Some((after, true)), _) => format!("stopped by force after {}{cut_off}", tenths(after)),
        (Some((after, false)), _) => format!("out of time after {}{cut_off}", tenths(after)),
        (None, EndedBy::Asked(_)) => "drained".to_owned(),
        (None, EndedBy::WorkerEnded) => account
            .worker
            .map_or_else(|| "not even SIGKILL ends it".to_owned(), |ended| ended.to_string()),
        (None, EndedBy::NotStarted(_) | EndedBy::AtOnce | EndedBy::WorkerWasEnded) => String::new(),
    }
}

/// Most bytes of a cause: two names, and the words around them.
const MOST_CAUSE_BYTES: usize = 300;

fn why_ended(cause: &EndCause) -> String {
    printable(&cause.to_string(), MOST_CAUSE_BYTES)
}

fn why_not_again(account: &EndReport) -> &'static str {
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

/// The side that asked for the end.
fn who(reason: Reason) -> &'static str {
    if reason == Reason::Worker {
        "the worker"
    } else {
        asked_by(reason)
    }
}

fn counts(account: &EndReport) -> String {
    let tally = &account.tally;
    let counts = [
        (tally.done, "done"),
        (tally.failed, "failed"),
        (tally.handed_back, "handed back"),
        (account.unreported, "done but not reported"),
    ];
    let mut lines = String::new();
    let cut_off = [
        (tally.cut_off_failed, "failed"),
        (tally.cut_off_handed_back, "handed back"),
    ];
    let is_about_others = account.status.is_some() && account.cut_off > 0;
    for (heading, counts) in [
        ("jobs that were cut off", listed(&cut_off)),
        (
            if is_about_others {
                "other jobs from then on"
            } else {
                "jobs from then on"
            },
            listed(&counts),
        ),
    ] {
        if !counts.is_empty() {
            lines.push_str(&format!("{heading}: {counts}\n"));
        }
    }
    if tally.left > 0 {
        lines.push_str(&format!(
            "{} left to the visibility timeout\n",
            several(tally.left, "job")
        ));
    }
    if tally.is_fetch_abandoned {
        lines.push_str("a FETCH was not answered: jobs that it claimed are left to the visibility timeout\n");
    }
    lines
}

/// `2 done, 1 failed`, without counts of 0.
fn listed(counts: &[(usize, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    counts.join(", ")
}

/// As many names as fit, below their headings; with their types if all of them fit. The last line
/// reports a cut.
fn names(account: &EndReport, text: &mut String) {
    let tally = &account.tally;
    let cut_off = if account.status.is_some() {
        "cut off:\n"
    } else {
        "about to be cut off:\n"
    };
    let all = |with_types| {
        let mut lines = below(cut_off, &tally.names, with_types);
        lines.extend(below(
            "held by the worker when it ended:\n",
            &tally.died_names,
            with_types,
        ));
        lines.extend(below(
            "left to the visibility timeout:\n",
            &tally.left_names,
            with_types,
        ));
        lines
    };
    let mut lines = all(true);
    if text.len() + lines.iter().map(String::len).sum::<usize>() + TRUNCATED.len() > MOST_BYTES {
        lines = all(false);
    }
    let are_more = [&tally.left_names, &tally.died_names]
        .into_iter()
        .any(|names| names.len() >= MOST_LEFT_NAMES);
    let mut left = lines.len() + usize::from(are_more);
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

/// A heading and a line for each name; empty without names.
fn below(heading: &str, names: &BTreeMap<JobId, Text>, with_types: bool) -> Vec<String> {
    let line = |(name, kind): (&JobId, &Text)| {
        let kind = if with_types { &**kind } else { "" };
        let space = if kind.is_empty() { "" } else { " " };
        let [name, kind] = [&name.0, kind].map(|text| printable(text, MOST_NAME_BYTES));
        format!("{name}{space}{kind}\n")
    };
    let heading = (!names.is_empty()).then(|| heading.to_owned());
    heading.into_iter().chain(names.iter().map(line)).collect()
}

/// `text` on one line, in at most `most` bytes. Letters, digits and the signs of ASCII stay. Every
/// other character could break a line or hide its neighbours, so its number replaces it.
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
            return beginning(&out, most - CUT.len()).to_owned() + CUT;
        }
        out.push_str(&shown);
    }
    out
}

/// `3 h 12 min after its start`
fn since_start(ran: Duration) -> String {
    match roughly(ran).as_str() {
        "0 s" => "right after its start".to_owned(),
        ran => format!("{ran} after its start"),
    }
}

#[cfg(test)]
#[path = "termination_log_tests.rs"]
mod tests;
