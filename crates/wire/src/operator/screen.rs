//! A report for a person: one screen of text, no line wider than the screen.

use std::time::Duration;

use crate::operator::connections::table;
pub use crate::operator::line::Screen;
use crate::operator::line::{Line, MARGIN, Style, WIDEST, field, fit, printable, wrapped};
use crate::operator::status_reply::{Fraction, JobReport, StatusReply, WorkerReport};
use crate::text::{active_jobs, count, several};
use crate::trouble::consequences;

/// Columns of the bar.
const BAR: usize = 24;

/// Columns of a job's age, and of its place.
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

/// Least lines below the instance: an empty one, the heading, a job, and the number of further
/// jobs.
const LEAST_BELOW: usize = 4;

/// The lines of a report, at most as many as the screen has: first the instance, then its
/// connections, then as many jobs as fit, the oldest first. Nothing in them moves the cursor.
pub fn draw(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let mut lines = summary(report, screen, usize::MAX);
    if lines.len() + LEAST_BELOW > screen.height {
        // On a small screen the jobs matter more than the ends of long lines.
        lines = summary(report, screen, 1);
    }
    lines.truncate(screen.height);
    let total = report.jobs_not_shown.saturating_add(count(report.jobs.len()));
    let below = screen.height.saturating_sub(lines.len());
    let room = if total > 0 {
        // The jobs have at least half of it, and one of them is always shown.
        (below / 2).min(below.saturating_sub(LEAST_BELOW))
    } else {
        below
    };
    lines.extend(table(report, screen, room));
    // An empty line, the heading, and a job.
    let room = screen.height.saturating_sub(lines.len() + 1 + HEADING);
    if total > 0 && room > 0 {
        lines.push(String::new());
        lines.push(heading(screen));
        let mut shown = 0;
        let mut left = room;
        for job in &report.jobs {
            let rows = rows(job, is_exec(report), screen);
            // The last line shows how many more there are.
            let reserve = usize::from(total > count(shown + 1));
            if rows.len() + reserve > left {
                break;
            }
            left -= rows.len();
            shown += 1;
            lines.extend(rows);
        }
        let more = total.saturating_sub(count(shown));
        if more > 0 {
            let mut line = Line::new(screen);
            line.put(Style::Dim, &format!("... and {more} more"));
            lines.push(line.text);
        }
    }
    lines
}

/// The end of an instance that was watched. `last` is its last answer, and `is_killed` means that
/// no other will follow.
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

/// The lines about the instance; a field that is too long for one line has `most` lines at most.
fn summary(report: &StatusReply, screen: &Screen, most: usize) -> Vec<String> {
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
    lines.extend(jobs(report, screen).into_iter().take(most));
    lines.extend(worker(report, screen).into_iter().take(most));
    lines.extend(uses(&report.worker, screen).filter(|_| most > 1));
    if let Some(end) = &report.worker.last_end {
        let which = if report.worker.pid.is_some() {
            "the one before"
        } else {
            "the last one"
        };
        lines.push(field("", &format!("{which} ended: {end}"), screen));
    }
    lines.extend(backend(report, screen, most));
    let url = report.backend.url.as_deref().unwrap_or_default();
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
    lines.extend(queues_refused(report, screen));
    lines.extend(gateway(report, screen).into_iter().take(most));
    lines.extend(memory(report, screen));
    lines.extend(returns(report, screen));
    if report.log_records_dropped > 0 {
        let mut line = Line::begin("log", screen);
        let count = report.log_records_dropped;
        line.put(
            Style::Warning,
            &format!("{count} records dropped: standard error is too slow, or cannot be written"),
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

/// The side that asked for the state.
fn who(reason: &str) -> &str {
    match reason {
        "operator" => "a signal or the control socket",
        "server" => "the backend",
        "prestop" => "a preStop hook",
        "control" => "the control socket",
        "worker" => "the worker's own end",
        "idle" => "worker.exit_when_idle",
        "once" => "--once",
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

/// The number of active jobs, their limit if there is one, and their places.
fn jobs(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let active = report.active;
    let allowed = u64::from(report.concurrency);
    let takes = report.worker.capacity;
    // The most possible is the lesser of the configured limit and the worker's capacity. The worker
    // may have had more jobs before.
    let active = if report.uncapped {
        format!("{active} active, no limit set")
    } else if takes > 0 && takes.max(active) < allowed {
        format!("{active} of {} active ({allowed} allowed)", takes.max(active))
    } else {
        format!("{active} of {allowed} active")
    };
    let held = if is_exec(report) { "running" } else { "with the worker" };
    let mut parts = vec![
        format!("{active}: {} {held}", report.held),
        format!("{} waiting", report.waiting),
        format!("{} reporting", report.reporting),
    ];
    if report.dropped > 0 {
        parts.push(format!("{} not named by the worker", report.dropped));
    }
    if report.cut_off > 0 {
        parts.push(format!("{} cut off", report.cut_off));
    }
    let parts: Vec<_> = parts.into_iter().map(|part| (Style::Plain, part)).collect();
    wrapped("jobs", &parts, screen)
}

/// Whether each job is a process.
fn is_exec(report: &StatusReply) -> bool {
    report.mode == "exec"
}

fn worker(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let worker = &report.worker;
    let name = worker.program.rsplit('/').next().unwrap_or_default();
    let name = fit(name, 24);
    let for_each = if is_exec(report) {
        ", a process for each job"
    } else {
        ""
    };
    let mut program = format!("{}{for_each}", name.trim_end());
    let runs = worker.pid.zip(worker.up_ms);
    let mut parts = Vec::new();
    match runs {
        Some((pid, up)) => parts.extend([
            (Style::Plain, format!("pid {pid}")),
            (Style::Plain, format!("up {}", time(up))),
        ]),
        None => program.push_str(" does not run"),
    }
    parts.insert(0, (if runs.is_some() { Style::Plain } else { Style::Bad }, program));
    let next = worker.starts_in_ms.map(|next| format!("next start in {}", time(next)));
    parts.extend(next.map(|next| (Style::Plain, next)));
    if let Some((reason, since)) = worker.recycling.as_ref().zip(worker.recycling_for_ms) {
        parts.push((Style::Warning, format!("recycling for {} ({reason})", time(since))));
    }
    parts.push((Style::Plain, several(worker.restarts, "restart")));
    if is_exec(report) {
        // Its one connection is that of the runner, and no program has one.
        let ready = if worker.ready > 0 { "ready" } else { "not ready" };
        parts.push((Style::Plain, ready.to_owned()));
    } else if worker.pid.is_some() || worker.connections > 0 {
        parts.push((Style::Plain, several(worker.connections, "connection")));
        parts.push((Style::Plain, format!("{} ready", worker.ready)));
    }
    wrapped("worker", &parts, screen)
}

/// The memory and the processor time of the worker, and the jobs that it was given.
fn uses(worker: &WorkerReport, screen: &Screen) -> Option<String> {
    let (mib, processes, cpu) = (worker.memory_bytes? >> 20, worker.processes?, time(worker.cpu_ms?));
    let jobs = several(worker.jobs, "job");
    let several = if processes == 1 { "" } else { "es" };
    let text = format!("{mib} MiB in {processes} process{several}, cpu {cpu}; {jobs} since its start");
    Some(field("uses", &text, screen))
}

/// How ojs-init identifies callers, and how many jobs they ask for.
fn gateway(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let Some(proof) = &report.caller_proof else {
        return Vec::new();
    };
    let mut parts = vec![(Style::Plain, format!("callers are known by: {proof}"))];
    let asked = report.most_asked.map_or_else(
        || "no jobs asked for yet".to_owned(),
        |most| format!("most jobs asked for at once: {most}"),
    );
    parts.push((Style::Plain, asked));
    wrapped("gateway", &parts, screen)
}

/// Queues that the worker asks for and does not get.
fn queues_refused(report: &StatusReply, screen: &Screen) -> Option<String> {
    let mut line = Line::begin("refused", screen);
    let names = report.queues_refused.join(", ");
    line.put(Style::Warning, &format!("not in OJS_QUEUES, and asked for: {names}"));
    (!names.is_empty()).then_some(line.text)
}

/// The memory gate, if there is one.
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

/// The types whose jobs are given back repeatedly, and the jobs held before they return.
fn returns(report: &StatusReply, screen: &Screen) -> Option<String> {
    let types = report.given_back.iter();
    let types: Vec<String> = types.map(|of| format!("{} {} times", of.kind, of.times)).collect();
    let held = format!("{} held, to go back later", several(report.held_back, "job"));
    let mut line = Line::begin("returns", screen);
    match (types.is_empty(), report.held_back) {
        (true, 0) => return None,
        (true, _) => line.put(Style::Plain, &held),
        (false, _) => line.put(Style::Warning, &format!("{held}; given back: {}", types.join(", "))),
    }
    Some(line.text)
}

fn backend(report: &StatusReply, screen: &Screen, most: usize) -> Vec<String> {
    let backend = &report.backend;
    let mut parts = Vec::new();
    let mut lines = trouble(report, screen);
    let word = if lines.is_empty() { "backend" } else { "" };
    match (backend.reachable, backend.heartbeat_age_ms) {
        _ if !lines.is_empty() => {}
        (false, _) => parts.push((Style::Bad, "unreachable".to_owned())),
        (true, Some(_)) => parts.push((Style::Good, "reachable".to_owned())),
        (true, None) if waits_for_request(report) => {
            let when = "not asked yet: the worker registers at its first request for jobs";
            return wrapped(word, &[(Style::Plain, when.to_owned())], screen);
        }
        // The backend has accepted no heartbeat yet, and no outage is known.
        (true, None) => parts.push((Style::Plain, "not heard of yet".to_owned())),
    }
    parts.push((
        Style::Plain,
        match backend.heartbeat_age_ms {
            Some(age) => format!("heartbeat {} ago", time(age)),
            None => "no heartbeat accepted".to_owned(),
        },
    ));
    let interval = period(backend.heartbeat_interval_ms);
    parts.push((Style::Plain, format!("one every {interval}")));
    parts.push((Style::Plain, format!("{} open", several(backend.requests, "request"))));
    lines.extend(wrapped(word, &parts, screen).into_iter().take(most));
    lines
}

/// Whether ojs-init waits for the queues that the worker's first request for jobs names. Until then
/// it sends neither a registration nor heartbeats.
fn waits_for_request(report: &StatusReply) -> bool {
    report.mode == "gateway" && report.most_asked.is_none() && report.queues.is_empty()
}

/// Why the backend fails, since when, and the consequences.
fn trouble(report: &StatusReply, screen: &Screen) -> Vec<String> {
    let Some(trouble) = &report.backend.trouble else {
        return Vec::new();
    };
    let mut line = Line::begin("backend", screen);
    line.put(Style::Bad, &trouble.state);
    line.put(Style::Plain, &format!(" for {}", time(trouble.lasted_ms)));
    let mut lines = vec![line.text];
    lines.extend(trouble.error.as_ref().map(|error| field("", error, screen)));
    let waiting = usize::try_from(trouble.waiting_outcomes).unwrap_or(usize::MAX);
    let consequences = consequences(waiting, trouble.lapses_ms.map(Duration::from_millis));
    if !consequences.is_empty() {
        lines.push(field("", &consequences, screen));
    }
    lines
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

/// The row of a job, and below it the last progress, and that the job is past its timeout.
fn rows(job: &JobReport, is_exec: bool, screen: &Screen) -> Vec<String> {
    let (id, kind) = widths(screen);
    let mut line = Line::new(screen);
    let age = time(job.age_ms);
    line.put(
        Style::Plain,
        &format!("{}  {}  {age:>AGE$}  ", fit(&job.id, id), fit(&job.kind, kind)),
    );
    match (job.ends_in_ms, job.cancelled, job.connection) {
        (Some(_), _, _) => line.put(Style::Bad, why_it_ends(job)),
        (None, true, _) => line.put(Style::Warning, "cancelled"),
        (None, false, Some(_)) if is_exec => line.put(Style::Plain, "running"),
        (None, false, Some(connection)) => line.put(Style::Plain, &format!("conn {connection}")),
        (None, false, None) => line.put(Style::Plain, &job.place),
    }
    let mut below = Line::new(screen);
    if let Some(left) = job.ends_in_ms {
        let end = if is_exec { "SIGKILL" } else { "process ends" };
        below.put(Style::Bad, &format!("  {}, {end} in {}", why_it_ends(job), time(left)));
    }
    if let Some(Fraction(fraction)) = job.progress {
        let message = job.progress_message.as_deref().unwrap_or_default();
        below.put(Style::Dim, format!("  {:.0}% {message}", fraction * 100.0).trim_end());
    }
    let below = Some(below.text).filter(|text| !text.is_empty());
    [line.text].into_iter().chain(below).collect()
}

/// Why the process of a job is ended.
fn why_it_ends(job: &JobReport) -> &'static str {
    match job.cancel_reason.as_deref() {
        Some("operator") => "cancelled",
        _ => "timed out",
    }
}

/// Columns of id and type.
fn widths(screen: &Screen) -> (usize, usize) {
    let rest = screen.width.min(WIDEST).saturating_sub(AGE + PLACE + 3 * GAP);
    let id = UUID.max(rest * 3 / 5).min(rest.saturating_sub(SHORTEST_TYPE));
    (id, rest.saturating_sub(id))
}

/// Milliseconds as short as they can be read: `3.2s`, `42s`, `3m20s`, `2h3m`, `3d4h`.
pub(super) fn time(ms: u64) -> String {
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

/// A configured time, mostly a whole number of seconds.
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
