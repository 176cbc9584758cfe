//! Effects in a person's words: one line each.

use std::time::Duration;

use ojs_lifecycle::api::{
    About, Call, CancelReason, Disposition, Effect, EndReport, ErrorCode, Failure, Farewell, FetchForm, GivenJob,
    HeartbeatForm, JobError, JobId, OperatorAnswer, Outcome, ShownToOperator, StreamTopic, Takes, ToWorker,
    WorkerState,
};
use ojs_wire::termination_log;

use super::render_jobs::{show_cancel, show_jobs};
use super::render_notice::said;
use super::render_status::show_status;
use super::words::OPERATOR;

/// One effect.
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::StartWorker { keeps_name: false } => "start the worker".to_owned(),
        Effect::StartWorker { keeps_name: true } => "start the worker again".to_owned(),
        Effect::StartNext => "start the next worker beside it".to_owned(),
        Effect::TakeOver(process) => format!("process {process} is the worker"),
        Effect::SignalWorker(signal) => format!("signal the worker {signal}"),
        Effect::SignalProcess(process, signal) => format!("signal process {process} {signal}"),
        Effect::TerminateDescendants => "ask the descendants to end".to_owned(),
        Effect::KillDescendants => "kill the descendants".to_owned(),
        Effect::KillEverything => "kill everything".to_owned(),
        Effect::Tell(connection, told) => format!("tell {connection}: {}", word(told)),
        Effect::AnswerPull { holder, pull, jobs } if jobs.is_empty() => {
            format!("answer pull {pull} of {holder}: no jobs")
        }
        Effect::AnswerPull { holder, pull, jobs } => {
            let jobs: Vec<&str> = jobs.iter().map(|job| &*job.envelope).collect();
            format!("answer pull {pull} of {holder}: {}", jobs.join(", "))
        }
        Effect::AnswerBeat {
            holder,
            state: told,
            jobs,
        } => format!("answer the heartbeat of {holder}: {} {}", state(*told), list(jobs)),
        Effect::ReadToEnd(connection) => format!("read {connection} to the end"),
        Effect::Close(connection, _) => format!("close {connection}"),
        Effect::CallBackend { call: asked, .. } => format!("backend: {}", call(asked)),
        Effect::Answer(OPERATOR, told) => format!("answer: {}", answer(told)),
        Effect::AbandonCall(_) => "close the connection of a request".to_owned(),
        Effect::Answer(client, told) => format!("answer client {client}: {}", answer(told)),
        Effect::Show(OPERATOR, shown) => format!("show: {}", show(shown)),
        Effect::Show(client, shown) => format!("show client {client}: {}", show(shown)),
        Effect::DropClient(client) => format!("drop client {client}"),
        Effect::Notify(notice) => format!("log: {}", said(notice)),
        Effect::WriteTerminationLog(account) => termination_log(account),
        Effect::Exit(status) => format!("exit {status}"),
    }
}

/// Line by line, as it is written.
fn termination_log(account: &EndReport) -> String {
    let text = termination_log::text(account, None, None);
    let lines = text.lines().map(|line| format!("\n         >   {line}"));
    format!("termination log:{}", lines.collect::<String>())
}

fn show(shown: &ShownToOperator) -> String {
    match shown {
        ShownToOperator::Status(status) => show_status(status),
        ShownToOperator::Health(probe, health) => format!("{probe:?}: {:?}", health.troubles),
        ShownToOperator::Jobs(list) => show_jobs(list),
        ShownToOperator::Cancel(answer) => show_cancel(answer),
    }
}

fn answer(answer: &OperatorAnswer) -> String {
    let taken = match answer.taken {
        Disposition::Done => "done".to_owned(),
        Disposition::Already => "so already".to_owned(),
        Disposition::Refused(why) => format!("refused ({why})"),
        Disposition::Busy(why) => format!("busy ({why})"),
    };
    let left = answer
        .left
        .map_or(String::new(), |left| format!(", {} left", seconds(left)));
    format!("{taken}; {:?}, {} active{left}", answer.phase, answer.active)
}

/// A period, in seconds.
pub fn seconds(period: Duration) -> String {
    format!("{:.3} s", period.as_secs_f64())
}

pub fn state(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running => "running",
        WorkerState::Quiet => "quiet",
        WorkerState::Terminate => "terminate",
        WorkerState::Terminated => "terminated",
    }
}

fn word(word: &ToWorker) -> String {
    match word {
        ToWorker::Hello { worker, state: now } => format!("hello {worker}, {}", state(*now)),
        ToWorker::Job(GivenJob {
            envelope, checkpoint, ..
        }) => {
            let shown: String = envelope.chars().take(40).collect();
            match checkpoint {
                Some(checkpoint) => format!("job {shown}, checkpoint {checkpoint}"),
                None => format!("job {shown}"),
            }
        }
        ToWorker::Lifecycle {
            state: now,
            reason,
            remaining,
        } => {
            let left = remaining.map_or(String::new(), |left| format!(", {} left", seconds(left)));
            format!("lifecycle {} ({}){left}", state(*now), reason.name())
        }
        ToWorker::Cancel { job, reason, grace } => {
            let reason = cancelled_by(*reason);
            format!("cancel {job} ({reason}), answer within {}", seconds(*grace))
        }
        ToWorker::Ok { job, about, .. } => {
            let about = match about {
                About::Ack => "ack",
                About::Fail => "fail",
                About::Release => "release",
                About::Progress => "progress",
                About::Checkpoint => "checkpoint",
            };
            format!("ok {about} {job}")
        }
        ToWorker::Error { code, message, job } => {
            let job = job.as_ref().map_or(String::new(), |job| format!(" {job}"));
            format!("error {}{job}: {message}", self::code(*code))
        }
        ToWorker::Ping { id } => format!("ping {id}"),
    }
}

fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotJson => "not-json",
        ErrorCode::InvalidFrame => "invalid-frame",
        ErrorCode::FrameTooLong => "frame-too-long",
        ErrorCode::UnknownType => "unknown-type",
        ErrorCode::UnsupportedProtocol => "unsupported-protocol",
        ErrorCode::NotHeld => "not-held",
        ErrorCode::Lost => "lost",
        ErrorCode::Refused => "refused",
        ErrorCode::NotOffered => "not-offered",
        ErrorCode::Unavailable => "unavailable",
    }
}

/// A request to the backend.
pub fn call(call: &Call) -> String {
    match call {
        Call::Register { worker, takes } => format!("register {worker}{}", taken(takes)),
        Call::Heartbeat {
            worker,
            state: now,
            active,
            visibility,
            takes,
            form,
        } => {
            let form = match form {
                HeartbeatForm::Full => "",
                HeartbeatForm::Counted => ", counted",
                HeartbeatForm::Protocol => ", protocol form",
                HeartbeatForm::Bare => ", bare form",
            };
            let visibility = match visibility.as_secs_f64() {
                120.0 => String::new(),
                other => format!(", for {other} s"),
            };
            let (what, takes) = (format!("{} {}", state(*now), list(active)), taken(takes));
            format!("heartbeat {worker} {what}{visibility}{takes}{form}")
        }
        Call::Fetch {
            worker,
            count,
            queues,
            visibility,
            form,
        } => {
            let from = queues
                .as_ref()
                .map_or(String::new(), |queues| format!(" from {}", queues.join(" ")));
            let form = match (form, visibility.as_secs_f64()) {
                (FetchForm::Full, 120.0) => String::new(),
                (FetchForm::Full, other) => format!(", for {other} s"),
                (FetchForm::WithoutVisibility, _) => ", without visibility timeout".to_owned(),
                (FetchForm::Bare, _) => ", bare form".to_owned(),
            };
            format!("fetch {worker}, at most {count}{from}{form}")
        }
        Call::Report {
            worker,
            job,
            outcome,
            is_bare,
        } => {
            let bare = if *is_bare { ", bare form" } else { "" };
            match outcome {
                Outcome::Acked { result: None } => format!("ack {job} by {worker}{bare}"),
                Outcome::Acked { result: Some(result) } => format!("ack {job} by {worker}, result {result}{bare}"),
                Outcome::Failed { error } => format!("fail {job} by {worker}: {}{bare}", self::error(error)),
                Outcome::Requeued { reason, .. } => format!("requeue {job} by {worker}: {reason}"),
            }
        }
        Call::GetJob { job } => format!("look at {job}"),
        Call::Progress { job, progress } => format!("progress {job} {}", progress.fraction),
        Call::Checkpoint { job, state } => format!("checkpoint {job} {state}"),
        Call::Manifest => "manifest".to_owned(),
        Call::Listen { topic } => listen(topic),
        Call::Deregister { worker, way } => {
            let how = match way {
                Farewell::Full => "",
                Farewell::Bare => ", bare form",
                Farewell::Delete => ", by DELETE",
            };
            format!("deregister {worker}{how}")
        }
    }
}

fn taken(takes: &Takes) -> String {
    let queues = takes.queues.iter().map(|queues| format!(" for {}", queues.join(" ")));
    let most = takes.concurrency.iter().map(|most| format!(", up to {most} at once"));
    queues.chain(most).collect()
}

fn listen(topic: &StreamTopic) -> String {
    match topic {
        StreamTopic::Queue(queue) => format!("listen to {queue}"),
        StreamTopic::Queues(queues) => format!("listen to all of {}", queues.join(", ")),
    }
}

fn error(error: &JobError) -> String {
    let name = |name: &Option<_>| name.as_ref().map_or("-".to_owned(), ToString::to_string);
    let retry = if error.retryable { "retryable" } else { "final" };
    let details = error
        .details
        .as_ref()
        .map_or(String::new(), |details| format!(" {details}"));
    let (kind, code) = (name(&error.kind), name(&error.code));
    format!("{kind} ({code}), {retry}, {:?}{details}", error.message)
}

fn list(jobs: &[JobId]) -> String {
    let names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(" "))
}

pub fn failure(failure: Failure) -> String {
    match failure {
        Failure::RetryLater { retry_after } => {
            let after = retry_after.map_or(String::new(), |after| format!(", come back after {}", seconds(after)));
            format!("declined{after}")
        }
        Failure::NotSent => "not sent".to_owned(),
        Failure::Overloaded => "no room".to_owned(),
        Failure::NoCredentials => "no credentials".to_owned(),
        Failure::Unanswered => "unanswered".to_owned(),
        Failure::ServerError => "server error".to_owned(),
        Failure::Redirected => "redirected".to_owned(),
        Failure::Unauthorized => "unauthorized".to_owned(),
        Failure::Unsupported => "not offered".to_owned(),
        Failure::NotFromBackend => "foreign".to_owned(),
        Failure::Unregistered => "unregistered".to_owned(),
        Failure::NotFound => "not found".to_owned(),
        Failure::Lost => "lost".to_owned(),
        Failure::Conflict { was_sent_twice: false } => "conflict".to_owned(),
        Failure::Conflict { was_sent_twice: true } => "conflict, sent twice".to_owned(),
        Failure::AlreadyCompleted => "already completed".to_owned(),
        Failure::Refused => "refused".to_owned(),
    }
}

pub fn cancelled_by(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Shutdown => "shutdown",
        CancelReason::Timeout => "timeout",
        CancelReason::Cancelled => "cancelled",
        CancelReason::Operator => "operator",
        CancelReason::Lost => "lost",
    }
}
