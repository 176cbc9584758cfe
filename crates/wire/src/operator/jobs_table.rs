//! The list of jobs for a person: two lines for each job, as wide as they need to be, because an id
//! is there to be copied.

use ojs_values::small;

use crate::operator::jobs_reply::JobsReply;
use crate::operator::line::{columns_of, fit, printable};
use crate::operator::screen::time;
use crate::operator::status_reply::{Fraction, JobReport};
use crate::text::{count, several};

/// Columns of the attempt, and of the age.
const ATTEMPT: usize = 8;
const AGE: usize = 7;

/// The lines of the list. Nothing in them is a character that a terminal acts on.
pub fn table(reply: &JobsReply) -> Vec<String> {
    let total = reply.jobs_not_shown.saturating_add(count(reply.jobs.len()));
    if total == 0 {
        return vec!["no job is active".to_owned()];
    }
    let widest = |text: fn(&JobReport) -> &str, least: usize| {
        let texts = reply.jobs.iter().map(|job| printable(text(job)));
        texts
            .map(|text| text.chars().map(columns_of).sum())
            .fold(least, usize::max)
    };
    let (id, kind) = (
        widest(|job| &job.id, "JOB".len()),
        widest(|job| &job.kind, "TYPE".len()),
    );
    let mut lines = vec![format!(
        "{:id$}  {:kind$}  {:>ATTEMPT$}  {:>AGE$}  STATE",
        "JOB", "TYPE", "ATTEMPT", "AGE"
    )];
    let is_exec = reply.mode == "exec";
    for job in &reply.jobs {
        lines.push(format!(
            "{}  {}  {:>ATTEMPT$}  {:>AGE$}  {}",
            fit(&job.id, id),
            fit(&job.kind, kind),
            attempt(job),
            time(job.age_ms),
            state(job, is_exec)
        ));
        lines.extend(details(job));
    }
    if reply.jobs_not_shown > 0 {
        lines.push(format!(
            "... and {} more, newer than these",
            several(reply.jobs_not_shown, "job")
        ));
    }
    lines
}

fn attempt(job: &JobReport) -> String {
    match (job.attempt, job.max_attempts) {
        (Some(attempt), Some(most)) => format!("{attempt} of {most}"),
        (Some(attempt), None) => attempt.to_string(),
        (None, _) => "-".to_owned(),
    }
}

fn state(job: &JobReport, is_exec: bool) -> String {
    let mut state = printable(&job.state);
    for word in [&job.cancel_reason, &job.outcome].into_iter().flatten() {
        state.push_str(&format!(" ({})", printable(word)));
    }
    if let Some(left) = job.ends_in_ms {
        let end = if is_exec { "SIGKILL" } else { "its process is ended" };
        state.push_str(&format!(", {end} in {}", time(left)));
    }
    state
}

/// Queue, holder, timeout and progress.
fn details(job: &JobReport) -> Option<String> {
    let queue = Some(&job.queue).filter(|queue| !queue.is_empty());
    let progress = job.progress.map(|Fraction(fraction)| {
        let message = job.progress_message.as_deref().unwrap_or_default();
        let ago = job.progress_age_ms.map(|age| format!(", {} ago", time(age)));
        let shown = printable(&format!("{:.0}% {message}", fraction * 100.0));
        format!("{}{}", shown.trim_end(), ago.unwrap_or_default())
    });
    let parts = [
        queue.map(|queue| format!("queue {}", printable(queue))),
        job.connection.map(|connection| format!("connection {connection}")),
        job.pid.map(|pid| format!("pid {pid}")),
        job.held_ms.map(|held| format!("there for {}", time(held))),
        job.timeout_in_ms.map(|left| format!("timeout in {}", time(left))),
        progress,
    ];
    let parts: Vec<String> = small::gather(parts.into_iter().flatten());
    (!parts.is_empty()).then(|| format!("    {}", parts.join(", ")))
}

#[cfg(test)]
#[path = "jobs_table_tests.rs"]
mod tests;
