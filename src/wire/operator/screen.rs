//! A report as a person reads it: one screen of text, no line longer than it is wide.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use crate::wire::operator::status_reply::{JobReport, StatusReply};
use crate::wire::text::{active_jobs, count, several, without_middle};

/// Columns that lines take at most, however wide the screen is.
const WIDEST: usize = 120;

/// Columns of the words on the left.
const MARGIN: usize = 10;

/// Columns of the bar.
const BAR: usize = 24;

/// Columns of a job's age, and of where it is.
const AGE: usize = 7;
const PLACE: usize = 10;

/// Columns between two of the table.
const GAP: usize = 2;

/// Columns of the ids that most backends give: UUIDs.
const UUID: usize = 36;

/// Fewest columns of a type.
const SHORTEST_TYPE: usize = 8;

/// Lines above the first job: the heading.
const HEADING: usize = 1;

/// Shown in place of a character that takes no column, or that a terminal would act on.
const UNPRINTABLE: char = '\u{fffd}';

/// The screen that is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    pub width: usize,
    pub height: usize,
    pub has_colour: bool,
}

/// The look of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
}

/// A line that never gets longer than it may be.
struct Line {
    text: String,
    /// Columns that are left.
    left: usize,
    has_colour: bool,
}

/// The lines of a report, at most as many as the screen has: first the instance, then as many jobs as fit, the oldest
/// first. Nothing in them moves the cursor.
#[must_use]
pub fn draw(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let mut lines = summary(report, screen);
    lines.truncate(screen.height);
    let total = report.jobs_not_shown.saturating_add(count(report.jobs.len()));
    // An empty line, the heading, and a job.
    let room = screen.height.saturating_sub(lines.len() + 1 + HEADING);
    if total > 0 && room > 0 {
        lines.push(String::new());
        lines.push(heading(screen));
        let fit = if total > count(room) { room - 1 } else { room };
        lines.extend(report.jobs.iter().take(fit).map(|job| row(job, screen)));
        let more = total.saturating_sub(count(fit.min(report.jobs.len())));
        if more > 0 {
            let mut line = Line::new(screen);
            line.put(Style::Dim, &format!("... and {more} more"));
            lines.push(line.text);
        }
    }
    lines
}

/// What became of an instance that was watched: `last` is what it said last, `is_killed` whether that was all that it will
/// ever say to us.
#[must_use]
pub fn farewell(last: Option<&StatusReply>, is_killed: bool) -> String {
    let Some(last) = last else {
        return "ojs-init has ended".to_owned();
    };
    let cut_off = match last.cut_off {
        0 => String::new(),
        1 => ", 1 job was cut off".to_owned(),
        count => format!(", {count} jobs were cut off"),
    };
    if let Some(status) = last.exit_status {
        let took = last
            .terminating_for_ms
            .map(|took| format!(", {} after the end began", time(took)));
        return format!(
            "ojs-init ends with status {status}{}{cut_off}",
            took.unwrap_or_default()
        );
    }
    let active = active_jobs(last.active);
    if is_killed {
        return format!("ojs-init ends everything in this container now, {active}");
    }
    format!(
        "ojs-init has ended; when it was last heard of: {}, {active}{cut_off}",
        printable(&last.phase)
    )
}

fn summary(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = Line::new(screen);
    line.put(
        Style::Plain,
        &format!(
            "ojs-init {}, pid {}, up {}",
            report.version,
            report.pid,
            time(report.up_ms)
        ),
    );
    lines.push(line.text);
    lines.push(state(report, screen));
    lines.extend(left(report, screen));
    lines.push(field("jobs", &tally(report), screen));
    lines.push(worker(report, screen));
    if let Some(end) = &report.worker.last_end {
        let which = if report.worker.pid.is_some() {
            "the one before"
        } else {
            "the last one"
        };
        lines.push(field("", &format!("{which} ended: {end}"), screen));
    }
    lines.push(backend(report, screen));
    let url = &report.backend.url;
    match &report.backend.worker_id {
        Some(id) if MARGIN + url.len() + " as ".len() + id.len() <= screen.width => {
            lines.push(field("", &format!("{url} as {id}"), screen));
        }
        Some(id) => lines.extend([field("", url, screen), field("", &format!("as {id}"), screen)]),
        None => lines.push(field("", url, screen)),
    }
    for (word, names) in [("queues", &report.queues), ("labels", &report.labels)] {
        if !names.is_empty() {
            lines.push(field(word, &names.join(", "), screen));
        }
    }
    if let Some(proof) = &report.caller_proof {
        lines.push(field("gateway", &format!("callers are known by: {proof}"), screen));
    }
    lines.extend(memory(report, screen));
    if report.log_records_dropped > 0 {
        let mut line = Line::begin("log", screen);
        let count = report.log_records_dropped;
        line.put(
            Style::Warning,
            &format!("{count} records dropped: standard error is too slow"),
        );
        lines.push(line.text);
    }
    lines
}

fn state(report: &StatusReply, screen: &Screen) -> String {
    let mut line = Line::begin("state", screen);
    let reasons: Vec<&str> = report.reasons.iter().map(|reason| who(reason)).collect();
    let reasons = reasons.join(" and ");
    match report.state.as_str() {
        "running" => line.put(Style::Good, "running"),
        "quiet" => {
            line.put(Style::Warning, "quiet");
            line.put(Style::Plain, &format!(": asked for by {reasons}"));
        }
        other => {
            line.put(Style::Bad, other);
            let phase = match report.phase.as_str() {
                "delay" => "before the drain",
                "end_game" => "end game",
                "stop" => "stop phase",
                other => other,
            };
            let since = report.terminating_for_ms.map(|since| format!(" for {}", time(since)));
            line.put(
                Style::Plain,
                &format!(
                    ": {phase}; terminating{}, because of {reasons}",
                    since.unwrap_or_default()
                ),
            );
        }
    }
    line.text
}

/// Who or what asked for the state.
fn who(reason: &str) -> &str {
    match reason {
        "operator" => "a signal or the control socket",
        "server" => "the backend",
        "prestop" => "a preStop hook",
        "control" => "the control socket",
        "worker" => "the worker's own end",
        "sigterm" => "SIGTERM",
        "sigint" => "SIGINT",
        "sigquit" => "SIGQUIT",
        other => other,
    }
}

/// The bar of the time that is left.
fn left(report: &StatusReply, screen: &Screen) -> Option<String> {
    let left = report.left_ms?;
    let whole = report.left_of_ms.unwrap_or(left).max(left).max(1);
    // Never more than BAR, and none only when nothing is left.
    let full = (u128::from(left) * BAR as u128).div_ceil(u128::from(whole));
    let full = usize::try_from(full).unwrap_or(BAR).min(BAR);
    let until = match report.phase.as_str() {
        "running" | "quiet" => "for a drain",
        "stop" | "exited" => "until the exit",
        _ => "until the stop phase",
    };
    let mut line = Line::begin("left", screen);
    let look = if full * 4 > BAR { Style::Plain } else { Style::Bad };
    line.put(Style::Plain, "[");
    line.put(look, &"#".repeat(full));
    line.put(Style::Dim, &".".repeat(BAR - full));
    line.put(Style::Plain, &format!("]  {} of {} {until}", time(left), period(whole)));
    Some(line.text)
}

fn tally(report: &StatusReply) -> String {
    let allowed = u64::from(report.concurrency);
    // The lesser of what is allowed and what the worker takes is the most that can be. It may have taken more before.
    let (most, besides) = match report.worker.capacity {
        takes if takes > 0 && takes.max(report.active) < allowed => {
            (takes.max(report.active), format!(" ({allowed} allowed)"))
        }
        _takes => (allowed, String::new()),
    };
    let mut text = format!(
        "{} of {most} active{besides}: {} with the worker, {} waiting, {} reporting",
        report.active, report.held, report.waiting, report.reporting
    );
    if report.cut_off > 0 {
        // A text never fails to be written to.
        let _ = write!(text, ", {} cut off", report.cut_off);
    }
    text
}

fn worker(report: &StatusReply, screen: &Screen) -> String {
    let worker = &report.worker;
    let mut line = Line::begin("worker", screen);
    let program = fit(&worker.program, 24);
    line.put(Style::Plain, program.trim_end());
    if report.mode == "exec" {
        line.put(Style::Plain, " for each job");
    }
    match (worker.pid, worker.up_ms) {
        (Some(pid), Some(up)) => line.put(Style::Plain, &format!(", pid {pid}, up {}", time(up))),
        (Some(_) | None, _) => {
            line.put(Style::Plain, " ");
            line.put(Style::Bad, "does not run");
        }
    }
    if let Some(next) = worker.starts_in_ms {
        line.put(Style::Plain, &format!(", next start in {}", time(next)));
    }
    line.put(Style::Plain, &format!(", {}", several(worker.restarts, "restart")));
    if worker.pid.is_some() || worker.connections > 0 {
        let connections = several(worker.connections, "connection");
        line.put(Style::Plain, &format!(", {connections}, {} ready", worker.ready));
    }
    line.text
}

/// Where there is a memory gate.
fn memory(report: &StatusReply, screen: &Screen) -> Option<String> {
    let taken = report.memory_taken_percent?;
    let mut line = Line::begin("memory", screen);
    line.put(Style::Plain, &format!("{taken}% of the limit is taken"));
    if report.memory_gate.as_deref() == Some("closed") {
        line.put(Style::Plain, ": ");
        line.put(Style::Warning, "the memory gate is closed, no job is fetched");
    }
    Some(line.text)
}

fn backend(report: &StatusReply, screen: &Screen) -> String {
    let backend = &report.backend;
    let mut line = Line::begin("backend", screen);
    match (backend.reachable, backend.heartbeat_age_ms) {
        (false, _) => line.put(Style::Bad, "unreachable"),
        (true, Some(_)) => line.put(Style::Good, "reachable"),
        // Nobody has asked it anything yet.
        (true, None) => line.put(Style::Plain, "not heard of yet"),
    }
    match backend.heartbeat_age_ms {
        Some(age) => line.put(Style::Plain, &format!(", heartbeat {} ago", time(age))),
        None => line.put(Style::Plain, ", no heartbeat accepted"),
    }
    let interval = period(backend.heartbeat_interval_ms);
    line.put(Style::Plain, &format!(", one every {interval}"));
    line.put(
        Style::Plain,
        &format!(", {} open", several(backend.requests, "request")),
    );
    line.text
}

fn heading(screen: &Screen) -> String {
    let (id, kind) = widths(screen);
    let mut line = Line::new(screen);
    line.put(
        Style::Dim,
        &format!("{:id$}  {:kind$}  {:>AGE$}  WHERE", "JOB", "TYPE", "AGE"),
    );
    line.text
}

fn row(job: &JobReport, screen: &Screen) -> String {
    let (id, kind) = widths(screen);
    let mut line = Line::new(screen);
    let age = time(job.age_ms);
    line.put(
        Style::Plain,
        &format!("{}  {}  {age:>AGE$}  ", fit(&job.id, id), fit(&job.kind, kind)),
    );
    match (job.cancelled, job.connection) {
        (true, _) => line.put(Style::Warning, "cancelled"),
        (false, Some(connection)) => line.put(Style::Plain, &format!("conn {connection}")),
        (false, None) => line.put(Style::Plain, &job.place),
    }
    line.text
}

/// Columns of id and type.
fn widths(screen: &Screen) -> (usize, usize) {
    let rest = screen.width.min(WIDEST).saturating_sub(AGE + PLACE + 3 * GAP);
    let id = UUID.max(rest * 3 / 5).min(rest.saturating_sub(SHORTEST_TYPE));
    (id, rest.saturating_sub(id))
}

fn field(word: &str, text: &str, screen: &Screen) -> String {
    let mut line = Line::begin(word, screen);
    line.put(Style::Plain, text);
    line.text
}

impl Line {
    fn new(screen: &Screen) -> Self {
        Self {
            text: String::new(),
            left: screen.width.min(WIDEST),
            has_colour: screen.has_colour,
        }
    }

    fn begin(word: &str, screen: &Screen) -> Self {
        let mut line = Self::new(screen);
        line.put(Style::Dim, &format!("{word:MARGIN$}"));
        line
    }

    /// Adds as much of a text as there is room for; nothing after that.
    fn put(&mut self, look: Style, text: &str) {
        let mut part = String::new();
        for character in printable(text).chars() {
            let columns = columns_of(character);
            if columns > self.left {
                self.left = 0;
                break;
            }
            self.left -= columns;
            part.push(character);
        }
        let colour = match look {
            Style::Plain => "",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "31",
        };
        if self.has_colour && !colour.is_empty() && !part.is_empty() {
            // A text never fails to be written to.
            let _ = write!(self.text, "\x1b[{colour}m{part}\x1b[0m");
        } else {
            self.text.push_str(&part);
        }
    }
}

/// Exactly so many columns: filled up, or with the middle left out.
fn fit(name: &str, columns: usize) -> String {
    let text = without_middle(&printable(name), columns, columns_of);
    let used: usize = text.chars().map(columns_of).sum();
    format!("{text}{}", " ".repeat(columns.saturating_sub(used)))
}

fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1)
}

/// With no character that a terminal acts on, or that takes no column: another user's program may have written it.
fn printable(text: &str) -> String {
    let shown = |character: char| match character.width() {
        Some(1..) => character,
        Some(0) | None => UNPRINTABLE,
    };
    text.chars().map(shown).collect()
}

/// Milliseconds as short as they can be read: `3.2s`, `42s`, `3m20s`, `2h3m`, `3d4h`.
fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..10 => format!("{seconds}.{}s", ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{}s", seconds % 60),
        3600..86_400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// The same of a time that somebody has set, which is mostly a whole number of seconds.
fn period(ms: u64) -> String {
    if ms < 10_000 && ms.is_multiple_of(1000) {
        format!("{}s", ms / 1000)
    } else {
        time(ms)
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
