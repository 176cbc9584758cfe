//! The list of jobs for an operator, line by line, and the reply to a cancel.

use ojs_lifecycle::api::{CancelAnswer, CancelRefusal, JobActivity, JobList, JobStatus, StoppingJob};

use super::render::{cancelled_by, seconds};

pub fn show_jobs(list: &JobList) -> String {
    let mut lines = vec![format!("{} jobs, {} not shown", list.jobs.len(), list.not_shown)];
    lines.extend(list.jobs.iter().map(show_job));
    lines.join("\n         >   ")
}

fn show_job(job: &JobStatus) -> String {
    let mut parts = vec![format!("{} {}", job.subject.id, activity(job.activity))];
    let times = [
        ("ends in", job.ends_in),
        ("with a holder for", job.held_for),
        ("times out in", job.times_out_in),
    ];
    parts.extend(job.process.map(|process| format!("in process {process}")));
    parts.extend(
        times
            .iter()
            .filter_map(|(what, time)| Some(format!("{what} {}", seconds((*time)?)))),
    );
    parts.extend(
        job.progress
            .as_ref()
            .map(|(progress, age)| format!("progress {} {} ago", progress.fraction, seconds(*age))),
    );
    parts.join(", ")
}

fn activity(activity: JobActivity) -> String {
    match activity {
        JobActivity::WaitsForHandler => "waits for a handler".to_owned(),
        JobActivity::WaitsForLook => "waits for a look".to_owned(),
        JobActivity::WaitsForTurn => "waits to run alone".to_owned(),
        JobActivity::Runs => "runs".to_owned(),
        JobActivity::RunsPastTimeout => "runs past its timeout".to_owned(),
        JobActivity::Stops(reason) => format!("is told to stop: {}", cancelled_by(reason)),
        JobActivity::IsDropped => "is dropped".to_owned(),
        JobActivity::Reports(end) => format!("is {end:?}, and that is being reported"),
        JobActivity::GoesBack => "goes back later".to_owned(),
    }
}

pub fn show_cancel(answer: &CancelAnswer) -> String {
    match answer {
        CancelAnswer::Stops(stopping) => show_stopping(stopping),
        CancelAnswer::Decided(job, end) => format!("cancel: {job} is {end:?}"),
        CancelAnswer::Refused(refusal) => match refusal {
            CancelRefusal::Unknown => "cancel: refused, no such job".to_owned(),
            CancelRefusal::Ambiguous => "cancel: refused, several jobs".to_owned(),
            CancelRefusal::Decided(job, end) => format!("cancel: refused, {job} is {end:?}"),
            CancelRefusal::CannotBeTold(job) => format!("cancel: refused, nothing can stop {job}"),
            CancelRefusal::Dropped(job) => format!("cancel: refused, {job} is dropped"),
        },
    }
}

fn show_stopping(stopping: &StoppingJob) -> String {
    let time = |what: &str, time: Option<_>| time.map_or(String::new(), |time| format!(", {what} {}", seconds(time)));
    format!(
        "cancel: {}{} stops ({}){}{}, {} others, {:?} without an answer",
        if stopping.is_news { "" } else { "already, " },
        stopping.job,
        cancelled_by(stopping.reason),
        time("ends in", stopping.ends_in),
        time("drain", stopping.drain_left),
        stopping.others,
        stopping.unanswered
    )
}
