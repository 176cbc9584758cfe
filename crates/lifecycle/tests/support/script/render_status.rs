//! The status of an operator, line by line.

use std::time::Duration;

use ojs_lifecycle::api::{HolderStatus, JobPlace, Status};

use super::render::seconds;

/// Its first line is the phase; then each job, the worker with its holders, and the backend.
pub fn show_status(status: &Status) -> String {
    let time = |time: Option<Duration>| time.map_or("-".to_owned(), seconds);
    let snapshot = &status.snapshot;
    let mut lines = vec![format!(
        "{:?} {:?}, {} of {} left; {} active of {}{} ({} waiting, {} held, {} reporting, {} not shown), {} cut off",
        snapshot.phase,
        status.causes,
        time(status.left),
        time(status.left_of),
        snapshot.active,
        snapshot.concurrency,
        if status.is_uncapped { " asked for" } else { "" },
        snapshot.waiting,
        snapshot.held,
        snapshot.reporting,
        status.not_shown,
        snapshot.cut_off
    )];
    lines.extend(status.ending.map(|ending| format!("next: {ending:?}")));
    lines.extend(status.jobs.iter().map(|job| {
        let place = match job.place {
            JobPlace::Waiting => "waiting".to_owned(),
            JobPlace::Held(connection) => format!("on {connection}"),
            JobPlace::Reporting => "reporting".to_owned(),
            JobPlace::GoesBack => "going back".to_owned(),
        };
        let cancelled = if job.is_cancelled { ", cancelled" } else { "" };
        format!("{}, {} old, {place}{cancelled}", job.subject.id, seconds(job.age))
    }));
    let worker = &status.worker;
    let process = worker.process.map_or("none".to_owned(), |process| process.to_string());
    lines.push(format!(
        "worker {process}, {} up, {:?}, {} restarts, starts in {}, {} connections, {} ready",
        seconds(worker.up),
        worker.ended,
        worker.restarts,
        time(worker.starts_in),
        worker.holders,
        snapshot.ready_holders
    ));
    if let Some((reason, since)) = worker.recycling {
        lines.push(format!("recycling since {}: {reason}", seconds(since)));
    }
    lines.extend(worker.most_loaded.iter().map(holder));
    let backend = &status.backend;
    let reachable = if backend.is_unreachable {
        "unreachable"
    } else {
        "reachable"
    };
    lines.push(format!(
        "backend {reachable}, heartbeat {} ago, every {}, {} requests",
        time(backend.heartbeat_age),
        seconds(snapshot.heartbeat_interval),
        backend.requests
    ));
    lines.join("\n         >   ")
}

fn holder(holder: &HolderStatus) -> String {
    let process = holder
        .process
        .map_or("unknown".to_owned(), |process| process.to_string());
    let concurrency = holder.concurrency.map_or(String::new(), |most| format!(" of {most}"));
    format!(
        "{} in process {process}, {:?}, holds {}{concurrency}",
        holder.holder, holder.state, holder.jobs
    )
}
