//! Notices in a person's words: one line each.

use std::time::Duration;

use ojs_lifecycle::api::{
    CancelReason, CapacityNews, EndingNotice, Force, InPlaceOfDeaf, JobNotice, LinkNotice, Manner, Notice, Outcome,
    StillThere, Trouble, WorkerNotice,
};

use super::ends;
use super::render::{cancelled_by, failure, seconds, state};
use super::words::drain;

/// One notice.
pub fn said(notice: &Notice) -> String {
    match notice {
        Notice::Ending(notice) => ending(notice),
        Notice::Link(notice) => link(notice),
        Notice::Worker(notice) => worker(notice),
        Notice::Job(notice) => about_job(notice),
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
    }
}

fn ending(notice: &EndingNotice) -> String {
    match notice {
        EndingNotice::StateChanged { state: now, reason } => {
            format!("{} ({})", state(*now), reason.name())
        }
        EndingNotice::Stayed { what, why } => format!("{} changes nothing: {why}", what.name()),
        EndingNotice::DrainBegan {
            active,
            reporting,
            left,
        } => drain("drain begins", *active, *reporting, *left),
        EndingNotice::Draining {
            active,
            reporting,
            left,
        } => drain("draining", *active, *reporting, *left),
        EndingNotice::Drained => "drained".to_owned(),
        EndingNotice::SameRequest(what, after) => {
            format!("{} is the same request, after {}", what.name(), seconds(*after))
        }
        EndingNotice::StopBegan { held, forced } => {
            let why = forced.map_or_else(
                || "deadline".to_owned(),
                |force| format!("forced by {}", self::force(force)),
            );
            format!("stop phase ({why}): {held} held")
        }
        EndingNotice::GraceEnded { by, active } => format!("no more grace: {}: {active} active", force(*by)),
        EndingNotice::EndingAtOnce { by, active } => format!("ending at once: {}: {active} active", force(*by)),
        EndingNotice::KillGaveUp { why, held } => {
            let why = match why {
                StillThere::Held => "the kernel holds processes".to_owned(),
                StillThere::NoTime(waited) => format!("no time left, {} after SIGKILL", seconds(*waited)),
                StillThere::Overdue(late) => format!("the time was over {} ago", seconds(*late)),
            };
            format!("{why}: {held} held")
        }
        EndingNotice::PrestopRan { left } => format!("preStop: SIGKILL expected in {}", known(*left)),
        EndingNotice::PrestopLapsed { later: None } => "preStop came to nothing".to_owned(),
        EndingNotice::PrestopLapsed { later } => {
            format!("preStop came to nothing, a later one counts: {}", known(*later))
        }
        EndingNotice::Summary(account) => ends::summary(account),
    }
}

fn link(notice: &LinkNotice) -> String {
    match notice {
        LinkNotice::Hedged(endpoint) => format!("{endpoint:?} hangs: once more on another connection"),
        LinkNotice::Registered(worker) => format!("{worker} is registered"),
        LinkNotice::Listening => "the backend tells of new jobs".to_owned(),
        LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::OtherKind) => {
            "the streams are deaf: trying the other kind".to_owned()
        }
        LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::OtherQueues) => "some streams are deaf: closed".to_owned(),
        LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::Polls) => "the streams are deaf: closed".to_owned(),
        LinkNotice::NotListening(failure) => {
            format!("the backend does not tell of new jobs: {failure:?}")
        }
        LinkNotice::WokenUp => "woken up".to_owned(),
        LinkNotice::NotRegistered => "there is no registration".to_owned(),
        LinkNotice::HeartbeatForm(form) => format!("heartbeats refused: trying the next form, {form:?}"),
        LinkNotice::QuietStays => "the backend still asks for quiet".to_owned(),
        LinkNotice::HeartbeatsRefused => "heartbeats are refused in every form".to_owned(),
        LinkNotice::FetchForm(form) => format!("FETCHes are taken in this form, {form:?}"),
        LinkNotice::HeartbeatIntervalCut { configured, used } => {
            format!(
                "heartbeat interval cut from {} to {}",
                seconds(*configured),
                seconds(*used)
            )
        }
        LinkNotice::BackendIsAway(outage) => format!("the backend is away ({})", failure(outage.failure)),
        LinkNotice::BackendIsStillAway(outage) => {
            format!("the backend is still away{}", self::outage(outage))
        }
        LinkNotice::BackendIsBack(outage) => {
            format!("the backend is back after {}", seconds(outage.lasted))
        }
        LinkNotice::MemoryGateClosed { taken, reopens_at, .. } => {
            format!("the memory gate closes at {taken}, until {reopens_at}")
        }
        LinkNotice::MemoryGateOpened { taken } => format!("the memory gate opens at {taken}"),
        LinkNotice::BackendIsUnsteady { failed } => {
            format!("the backend comes and goes, {failed} requests failed")
        }
        LinkNotice::FetchAbandoned => {
            "a FETCH is given up; jobs it claimed wait for their visibility timeout".to_owned()
        }
    }
}

fn worker(notice: &WorkerNotice) -> String {
    match notice {
        WorkerNotice::Killing { held } => format!("killing: {held} held"),
        WorkerNotice::WorkerEnded(end, Manner::Orderly | Manner::Failed) => {
            format!("worker ended: {end}")
        }
        WorkerNotice::WorkerEnded(end, manner) => format!("worker ended: {end} ({manner:?})"),
        WorkerNotice::WorkerWasEnded { end, cause } => format!("worker was ended: {cause} ({end})"),
        WorkerNotice::DescendantsLeft(patience) => {
            format!("descendants left: they get {}", seconds(*patience))
        }
        WorkerNotice::Recycling { reason, held, grace } => format!(
            "recycling the worker with {held} jobs, within {}: {reason}",
            seconds(*grace)
        ),
        WorkerNotice::NextNotReady(pause) => format!("the next worker ended, another in {}", seconds(*pause)),
        WorkerNotice::Recycled { reason, took } => {
            format!("recycled in {} ({})", seconds(*took), reason.word())
        }
        WorkerNotice::RestartIn(pause) => format!("restart in {}", seconds(*pause)),
        WorkerNotice::TooManyRestarts => "too many restarts".to_owned(),
        WorkerNotice::StartPostponed => "start postponed: no process to be had".to_owned(),
        WorkerNotice::NothingAskedFor => "nobody has asked for jobs in time".to_owned(),
        WorkerNotice::NotReady => "the worker has not said ready in time".to_owned(),
        WorkerNotice::HolderReady {
            holder: connection,
            concurrency,
            ..
        } => format!("connection {connection} is ready for {concurrency}"),
        WorkerNotice::Capacity(news) => capacity(*news),
        WorkerNotice::QueuesRefused(queues) => format!("the queues {} are asked for and refused", queues.join(" ")),
        WorkerNotice::EndingProcess { process, cause, jobs } => {
            format!("ending process {process} with {jobs} jobs: {cause}")
        }
    }
}

fn about_job(notice: &JobNotice) -> String {
    match notice {
        JobNotice::Claimed(job) => format!("claimed {job}"),
        JobNotice::HandedOver(job, connection) => format!("handed {job} to {connection}"),
        JobNotice::GivenBackAgain {
            job,
            times,
            is_of_type,
            is_held,
        } => {
            let what = if *is_of_type { &*job.kind } else { &*job.id.0 };
            let follows = if *is_held { "held from now on" } else { "never started" };
            format!("{what} is given back again and again, {times} times: {follows}")
        }
        JobNotice::OutcomeSent { job, end, took } => {
            format!("{job} is to be {end:?} after {}", seconds(*took))
        }
        JobNotice::Settled { job, outcome, .. } => {
            let outcome = match outcome {
                Outcome::Acked { .. } => "acked",
                Outcome::Failed { .. } => "failed",
                Outcome::Requeued { .. } => "requeued",
            };
            format!("{job} is {outcome}")
        }
        JobNotice::Abandoned(job, why) => format!("{job} is left to its visibility timeout: {why}"),
        JobNotice::Void(job, why) => format!("{job} was delivered again for nothing: {why}"),
        JobNotice::Replaced(job) => format!("{job} was delivered again and replaced where it waits"),
        JobNotice::Adopted(job) => format!("{job} was delivered again and adopted"),
        JobNotice::ReservationLost(job, CancelReason::Cancelled) => format!("{job} was cancelled"),
        JobNotice::DoneTwice(job) => format!("{job} was done twice"),
        JobNotice::ReservationLost(job, _) => format!("the reservation of {job} is lost"),
        JobNotice::Unanswered(job, reason) => {
            format!("the handler of {job} does not answer: {}", cancelled_by(*reason))
        }
        JobNotice::CancelledByOperator { job, has_handler: true } => format!("an operator cancels {job}"),
        JobNotice::CancelledByOperator {
            job,
            has_handler: false,
        } => format!("an operator cancels {job} before its start"),
        JobNotice::TimedOut(job, _) => format!("{job} timed out"),
        JobNotice::TimeoutPassed(job, _) => format!("the timeout of {job} is over, and it goes on"),
        JobNotice::Dropped(job, why) => format!("{job} is dropped: {why:?}"),
        JobNotice::CheckpointNotSaved(job, failure) => {
            format!("a checkpoint of {job} is lost: {failure:?}")
        }
        JobNotice::CheckpointTooLarge { job, is_saved: false } => {
            format!("a checkpoint of {job} is lost: it is too large")
        }
        JobNotice::CheckpointTooLarge { job, is_saved: true } => {
            format!("the checkpoint of {job} is left out: it is too large")
        }
        JobNotice::NamedAgain(job) => format!("{job} is named again and kept"),
        JobNotice::AnswerMended(job, why) => format!("the answer for {job} is mended: {why}"),
        JobNotice::ResultDropped(job) => format!("the result of {job} is dropped"),
        JobNotice::NoHandler { job, waits, .. } => {
            let waits = waits.map(|time| format!(": it waits {}", seconds(time)));
            let then = waits.unwrap_or_else(|| ", and it holds the last credit".to_owned());
            format!("nobody takes {job} of type {}{then}", job.kind)
        }
        JobNotice::RunsAlone(job) => format!("{job} runs alone"),
        JobNotice::JobsDied { death, jobs } => ends::died(death, jobs),
    }
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
        CapacityNews::TooManyAskedFor { asked, allowed } => {
            format!("{asked} jobs are asked for, {allowed} are allowed")
        }
    }
}

fn outage(outage: &Trouble) -> String {
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
