//! Effects as a person says them: one line each.

use std::time::Duration;

use ojs_lifecycle::api::{
    About, Call, CancelReason, CapacityNews, Disposition, Effect, EndReport, ErrorCode, Failure, Farewell, FetchForm,
    Force, HeartbeatForm, InPlaceOfDeaf, JobError, JobId, Manner, Notice, OperatorAnswer, Outage, Outcome,
    ShownToOperator, StillThere, StreamTopic, Takes, ToWorker, WorkerState,
};
use ojs_wire::termination_log;

use super::ends;
use super::render_status::show_status;
use super::words::{OPERATOR, drain};

/// One effect.
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::StartWorker => "start the worker".to_owned(),
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
        Effect::Notify(remark) => format!("log: {}", said(remark)),
        Effect::WriteTerminationLog(account) => termination_log(account),
        Effect::Exit(status) => format!("exit {status}"),
    }
}

/// Line by line, as it is written.
fn termination_log(account: &EndReport) -> String {
    let text = termination_log::text(account, None);
    let lines = text.lines().map(|line| format!("\n         >   {line}"));
    format!("termination log:{}", lines.collect::<String>())
}

fn show(shown: &ShownToOperator) -> String {
    match shown {
        ShownToOperator::Status(status) => show_status(status),
        ShownToOperator::Health(probe, health) => format!("{probe:?}: {:?}", health.troubles),
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

fn capacity(news: CapacityNews) -> String {
    match news {
        CapacityNews::Lost {
            lost,
            more,
            takes,
            most,
        } => {
            let who = lost.map_or("fewer jobs are asked for".to_owned(), |(connection, process)| {
                format!("connection {connection} of process {process} and {more} more are gone")
            });
            format!("{who}: {takes} of {most} jobs can be taken")
        }
        CapacityNews::Gained { takes, most } => format!("{takes} of {most} jobs can be taken"),
        CapacityNews::Differs { takes, allowed } => format!("the worker takes {takes} jobs, {allowed} are allowed"),
    }
}

/// A period, in seconds.
pub fn seconds(period: Duration) -> String {
    format!("{:.3} s", period.as_secs_f64())
}

fn state(state: WorkerState) -> &'static str {
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
        ToWorker::Job { envelope, checkpoint } => {
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

fn failure(failure: Failure) -> String {
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

/// `sigterm, stop signal 2, 1.000 s after sigterm`
fn force(force: Force) -> String {
    let nth = match force.nth {
        0 => String::new(),
        nth => format!(", stop signal {nth}"),
    };
    let after = force.after.map_or(String::new(), |(before, after)| {
        format!(", {} after {}", seconds(after), before.name())
    });
    format!("{}{nth}{after}", force.by.name())
}

fn outage(outage: &Outage) -> String {
    let lapse = outage
        .lapses_in
        .map_or(String::new(), |lapse| format!(", lapse in {}", seconds(lapse)));
    format!(
        " ({}) for {}: {} failed, {} outcomes wait{lapse}",
        failure(outage.failure),
        seconds(outage.lasted),
        outage.failed,
        outage.waiting
    )
}

fn known(left: Option<Duration>) -> String {
    left.map_or_else(|| "?".to_owned(), seconds)
}

#[expect(clippy::too_many_lines, reason = "a table: one line for each")]
fn said(remark: &Notice) -> String {
    match remark {
        Notice::StateChanged { state: now, reason } => format!("{} ({})", state(*now), reason.name()),
        Notice::Stayed { what, why } => format!("{} changes nothing: {why}", what.name()),
        Notice::DrainBegan { .. } | Notice::Draining { .. } => drain(remark),
        Notice::Drained => "drained".to_owned(),
        Notice::SameRequest(what, after) => format!("{} is the same request, after {}", what.name(), seconds(*after)),
        Notice::StopBegan { held, forced } => {
            let why = forced.map_or_else(
                || "deadline".to_owned(),
                |force| format!("forced by {}", self::force(force)),
            );
            format!("stop phase ({why}): {held} held")
        }
        Notice::GraceEnded(force) => format!("no more grace: {}", self::force(*force)),
        Notice::EndingAtOnce(force) => format!("ending at once: {}", self::force(*force)),
        Notice::Killing => "killing".to_owned(),
        Notice::KillGaveUp(StillThere::Held) => "the kernel holds processes".to_owned(),
        Notice::KillGaveUp(StillThere::NoTime(waited)) => format!("no time left, {} after SIGKILL", seconds(*waited)),
        Notice::KillGaveUp(StillThere::Overdue(late)) => format!("the time was over {} ago", seconds(*late)),
        Notice::WorkerEnded(end, Manner::Orderly | Manner::Failed) => format!("worker ended: {end}"),
        Notice::WorkerEnded(end, manner) => format!("worker ended: {end} ({manner:?})"),
        Notice::WorkerWasEnded { end, cause } => format!("worker was ended: {cause} ({end})"),
        Notice::DescendantsLeft(patience) => format!("descendants left: they get {}", seconds(*patience)),
        Notice::RestartIn(pause) => format!("restart in {}", seconds(*pause)),
        Notice::TooManyRestarts => "too many restarts".to_owned(),
        Notice::StartPostponed => "start postponed: no process to be had".to_owned(),
        Notice::NothingAskedFor => "nobody has asked for jobs in time".to_owned(),
        Notice::NotReady => "the worker has not said ready in time".to_owned(),
        Notice::HolderReady {
            holder: connection,
            concurrency,
            ..
        } => format!("connection {connection} is ready for {concurrency}"),
        Notice::Capacity(news) => capacity(*news),
        Notice::EndingProcess { process, cause, jobs } => format!("ending process {process} with {jobs} jobs: {cause}"),
        Notice::Claimed(job) => format!("claimed {job}"),
        Notice::HandedOver(job, connection) => format!("handed {job} to {connection}"),
        Notice::GivenBackAgain {
            job,
            times,
            is_of_type,
            is_held,
        } => {
            let what = if *is_of_type { &*job.kind } else { &*job.id.0 };
            let follows = if *is_held { "held from now on" } else { "never started" };
            format!("{what} is given back again and again, {times} times: {follows}")
        }
        Notice::OutcomeSent { job, end, took } => format!("{job} is to be {end:?} after {}", seconds(*took)),
        Notice::Settled { job, outcome, .. } => {
            let outcome = match outcome {
                Outcome::Acked { .. } => "acked",
                Outcome::Failed { .. } => "failed",
                Outcome::Requeued { .. } => "requeued",
            };
            format!("{job} is {outcome}")
        }
        Notice::Abandoned(job, why) => format!("{job} is left to its visibility timeout: {why}"),
        Notice::Void(job, why) => format!("{job} was delivered again for nothing: {why}"),
        Notice::Replaced(job) => format!("{job} was delivered again and replaced where it waits"),
        Notice::Adopted(job) => format!("{job} was delivered again and adopted"),
        Notice::ReservationLost(job, CancelReason::Cancelled) => format!("{job} was cancelled"),
        Notice::DoneTwice(job) => format!("{job} was done twice"),
        Notice::ReservationLost(job, _) => format!("the reservation of {job} is lost"),
        Notice::Unanswered(job, reason) => format!("the handler of {job} does not answer: {}", cancelled_by(*reason)),
        Notice::Hedged(endpoint) => format!("{endpoint:?} hangs: once more on another connection"),
        Notice::Registered(worker) => format!("{worker} is registered"),
        Notice::Listening => "the backend tells of new jobs".to_owned(),
        Notice::StreamsAreDeaf(InPlaceOfDeaf::OtherKind) => "the streams are deaf: trying the other kind".to_owned(),
        Notice::StreamsAreDeaf(InPlaceOfDeaf::OtherQueues) => "some streams are deaf: closed".to_owned(),
        Notice::StreamsAreDeaf(InPlaceOfDeaf::Polls) => "the streams are deaf: closed".to_owned(),
        Notice::NotListening(failure) => format!("the backend does not tell of new jobs: {failure:?}"),
        Notice::WokenUp => "woken up".to_owned(),
        Notice::NotRegistered => "there is no registration".to_owned(),
        Notice::TimedOut(job, _) => format!("{job} timed out"),
        Notice::TimeoutPassed(job, _) => format!("the timeout of {job} is over, and it goes on"),
        Notice::Dropped(job, why) => format!("{job} is dropped: {why:?}"),
        Notice::CheckpointNotSaved(job, failure) => format!("a checkpoint of {job} is lost: {failure:?}"),
        Notice::NamedAgain(job) => format!("{job} is named again and kept"),
        Notice::ResultDropped(job) => format!("the result of {job} is dropped"),
        Notice::NoHandler { job, waits, .. } => {
            let waits = waits.map(|time| format!(": it waits {}", seconds(time)));
            let then = waits.unwrap_or_else(|| ", and it holds the last credit".to_owned());
            format!("nobody takes {job} of type {}{then}", job.kind)
        }
        Notice::CallFailed {
            what,
            job,
            failure: how,
            retry_in,
        } => {
            let retry = retry_in.map_or(String::new(), |pause| format!(", again in {}", seconds(pause)));
            let job = job.as_ref().map_or(String::new(), |job| format!(" of {job}"));
            format!("{what}{job} failed: {}{retry}", failure(*how))
        }
        Notice::HeartbeatForm(form) => format!("heartbeats refused: trying the next form, {form:?}"),
        Notice::QuietStays => "the backend still asks for quiet".to_owned(),
        Notice::HeartbeatsRefused => "heartbeats are refused in every form".to_owned(),
        Notice::FetchForm(form) => format!("FETCHes are taken in this form, {form:?}"),
        Notice::HeartbeatIntervalCut { configured, used } => {
            format!(
                "heartbeat interval cut from {} to {}",
                seconds(*configured),
                seconds(*used)
            )
        }
        Notice::BackendIsAway(outage) => format!("the backend is away ({})", failure(outage.failure)),
        Notice::BackendIsStillAway(outage) => format!("the backend is still away{}", self::outage(outage)),
        Notice::BackendIsBack(outage) => format!("the backend is back after {}", seconds(outage.lasted)),
        Notice::MemoryGateClosed { taken, reopens_at, .. } => {
            format!("the memory gate closes at {taken}, until {reopens_at}")
        }
        Notice::MemoryGateOpened { taken } => format!("the memory gate opens at {taken}"),
        Notice::BackendIsUnsteady { failed } => format!("the backend comes and goes, {failed} requests failed"),
        Notice::FetchAbandoned => "a FETCH is given up; jobs it claimed wait for their visibility timeout".to_owned(),
        Notice::PrestopRan { left } => format!("preStop: SIGKILL expected in {}", known(*left)),
        Notice::PrestopLapsed { later: None } => "preStop came to nothing".to_owned(),
        Notice::PrestopLapsed { later } => format!("preStop came to nothing, a later one counts: {}", known(*later)),
        Notice::Summary(account) => ends::summary(account),
        Notice::RunsAlone(job) => format!("{job} runs alone"),
        Notice::JobsDied { death, jobs } => ends::died(death, jobs),
    }
}

fn cancelled_by(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Shutdown => "shutdown",
        CancelReason::Timeout => "timeout",
        CancelReason::Cancelled => "cancelled",
        CancelReason::Lost => "lost",
    }
}
