//! Frames of PID 1, and their handling.

use std::time::Duration;

use log::{debug, warn};

use crate::daemon::log::remedy::remedy;
use crate::runner::connection::ReadState;
use crate::runner::job::{JobNumber, RunningJob, Stage};
use crate::runner::outcome::{EndedFor, JobOutcome, not_started};
use crate::runner::start::ProcessNotStarted;
use crate::runner::state::{PostponedJob, Runner, RunnerTimer, RunnerTokenOwner};
use ojs_lifecycle::api::{CancelReason, JobError, Moment, SHORTAGE_WINDOW, shortage_pause, time_to_kill};
use ojs_os::errno::meaning;
use ojs_wire::runner::frames::{self, JobFacts, JobOrder, Told};

/// Most reads of the connection in a turn; then it is the jobs' turn.
const MOST_READS: usize = 4;

/// From the start of a job to the first look at its memory.
const FIRST_MEMORY_LOOK: Duration = Duration::from_millis(100);

impl Runner {
    /// Reads frames of PID 1. Returns true if PID 1 has closed the connection.
    pub fn listen(&mut self, now: Moment) -> bool {
        for _ in 0..MOST_READS {
            let mut told = Vec::new();
            let state = self.connection.read(&mut |line| told.extend(frames::decode(line)));
            for told in told {
                self.obey(told, now);
            }
            match state {
                ReadState::More => {}
                ReadState::Empty => {
                    self.hears = false;
                    return false;
                }
                ReadState::Closed => return true,
            }
        }
        false
    }

    fn obey(&mut self, told: Told, now: Moment) {
        match told {
            Told::Job(order) => self.take_job(order, now),
            Told::Cancel { job, reason, grace } => self.cancel(&job, reason, grace, now),
            Told::Saved { job } => self.saved(&job, now),
            Told::Refused { job, why } => {
                debug!("a frame was refused: {why}");
                // The refused frame may be a checkpoint, so the next one may be sent.
                job.into_iter().for_each(|job| self.saved(&job, now));
            }
            Told::Ping { id } => self.connection.send(&frames::pong(id)),
        }
    }

    fn take_job(&mut self, order: JobOrder, now: Moment) {
        let Some(facts) = order.facts() else {
            warn!(
                "a job whose envelope has no id is ignored, as it cannot be answered; report it with the lines before it"
            );
            return;
        };
        if self.by_id.contains_key(&facts.id) {
            warn!(
                "job {} is here already, and ignored the second time; report it with the lines before it",
                facts.id
            );
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.by_id.insert(facts.id.clone(), number);
        let deadline = self.starter.deadline(&facts);
        let started = self.starter.start(number, &order, &facts, deadline.as_deref());
        let JobFacts { id, kind, .. } = facts;
        let waiting = PostponedJob {
            order,
            id,
            kind,
            deadline,
            since: now,
            pauses: 0,
        };
        self.go_on(number, waiting, started, now);
    }

    /// Tries again to start the process of a job, after a shortage.
    pub fn try_again(&mut self, number: JobNumber, waiting: PostponedJob, now: Moment) {
        let facts = waiting.order.facts().unwrap_or_default();
        let deadline = waiting.deadline.as_deref();
        let started = self.starter.start(number, &waiting.order, &facts, deadline);
        self.go_on(number, waiting, started, now);
    }

    /// Watches the process of a job that was started. Otherwise fails the job, gives it back, or
    /// waits for the next try.
    fn go_on(
        &mut self,
        number: JobNumber,
        mut waiting: PostponedJob,
        started: Result<RunningJob, ProcessNotStarted>,
        now: Moment,
    ) {
        let error = match started {
            Ok(job) => return self.begin(number, job, now),
            Err(error) => error,
        };
        let id = &waiting.id;
        let outcome = match error {
            ProcessNotStarted::NoHandler => {
                let message = format!("no command takes jobs of type {:?} (exec.routes)", waiting.kind);
                JobOutcome::failure("handler_not_found", &message, true)
            }
            // PID 1 logs this failure, with the job and its new state.
            ProcessNotStarted::Refused(why) => JobOutcome::failure("not_started", &why, true),
            ProcessNotStarted::Shortage(error) if waiting.since.elapsed(now) >= SHORTAGE_WINDOW => {
                warn!(
                    "job {id} is given back: it could not be started for {} s: {}; {}",
                    SHORTAGE_WINDOW.as_secs(),
                    meaning(&error),
                    remedy(&error)
                );
                JobOutcome::Release {
                    reason: "no process".to_owned(),
                    after_ms: 0,
                }
            }
            ProcessNotStarted::Shortage(error) => {
                if waiting.pauses == 0 {
                    warn!(
                        "job {id} waits, since it cannot be started now: {}; {}",
                        meaning(&error),
                        remedy(&error)
                    );
                }
                let due = now.after(shortage_pause(waiting.pauses));
                self.timers.arm(RunnerTimer::Start(number), due);
                waiting.pauses += 1;
                self.waiting.insert(number, waiting);
                return;
            }
        };
        self.by_id.remove(&waiting.id);
        self.tell(&waiting.id, outcome);
    }

    fn begin(&mut self, number: JobNumber, job: RunningJob, now: Moment) {
        self.leaders.insert(job.process.pid());
        let end = job.process.descriptor();
        let is_watched = end.is_some_and(|descriptor| self.watch(descriptor, RunnerTokenOwner::End(number)).is_ok());
        self.has_unwatched |= !is_watched;
        for (stream, descriptor) in job.streams.descriptors() {
            if let Err(error) = self.watch(descriptor, RunnerTokenOwner::Stream(number, stream)) {
                warn!(
                    "job {}: cannot watch its {}: {error}; it is read when the job ends, so a job that writes much may hang; {}",
                    job.subject.id.0,
                    stream.name(),
                    remedy(&error)
                );
            }
        }
        self.jobs.insert(number, job);
        if self.starter.settings.max_memory().is_some() {
            self.timers
                .arm_at_latest(RunnerTimer::Memory, now.after(FIRST_MEMORY_LOOK));
        }
    }

    fn cancel(&mut self, id: &str, reason: CancelReason, grace: Duration, now: Moment) {
        // An answered job is not known any more.
        let Some(number) = self.by_id.get(id).copied() else {
            return;
        };
        if self.waiting.remove(&number).is_some() {
            self.by_id.remove(id);
            self.disarm(number);
            let outcome = not_started(self.starter.settings.leftovers, reason);
            return self.tell(id, outcome);
        }
        self.ask_to_end(number, EndedFor::Cancel(reason), grace, now);
    }

    /// Asks a job to end. Kills it before `grace` ends, because its answer is due then.
    pub fn ask_to_end(&mut self, number: JobNumber, cause: EndedFor, grace: Duration, now: Moment) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        job.blame(cause);
        let answer_by = now.after(grace);
        job.answer_by = Some(job.answer_by.map_or(answer_by, |before| before.min(answer_by)));
        match job.stage {
            Stage::Running => {
                job.streams.end_channel();
                job.process.ask_to_end();
                job.stage = Stage::AskedToEnd;
            }
            Stage::AskedToEnd => {}
            Stage::Killed | Stage::Clearing { .. } => return,
        }
        let kill = now.after(time_to_kill(grace));
        self.timers.arm_at_latest(RunnerTimer::Kill(number), kill);
    }

    fn saved(&mut self, id: &str, now: Moment) {
        let Some(number) = self.by_id.get(id).copied() else {
            return;
        };
        if let Some(job) = self.jobs.get_mut(&number) {
            job.news.saved();
            self.send_news(number, now);
        }
    }

    /// Sends the news of a job, if the pause since the last ones has passed.
    pub fn send_news(&mut self, number: JobNumber, now: Moment) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        if let Some(next) = job.news.send(&job.subject.id.0, &mut self.connection, now) {
            self.timers.arm_at_latest(RunnerTimer::News(number), next);
        }
    }

    /// Reports the outcome of a job to PID 1.
    pub fn tell(&mut self, id: &str, outcome: JobOutcome) {
        let frame = match &outcome {
            JobOutcome::Ack { result } => frames::ack(id, result.as_deref()),
            JobOutcome::Release { reason, after_ms } => frames::release(id, reason, *after_ms),
            JobOutcome::Fail(error) => frames::fail(id, error),
            JobOutcome::CutOff => return,
        };
        if self.connection.takes(&frame) {
            return self.connection.send(&frame);
        }
        let shorter = match outcome {
            JobOutcome::Ack { .. } => {
                JobOutcome::failure("result_too_large", "the result is longer than worker.max_frame", false)
            }
            // Leaves the type out to keep the frame short.
            JobOutcome::Fail(error) => JobOutcome::Fail(JobError {
                code: Some(error.code.unwrap_or("failed".into())),
                retryable: error.retryable,
                ..JobError::new("")
            }),
            JobOutcome::Release { .. } | JobOutcome::CutOff => JobOutcome::CutOff,
        };
        self.connection.send(&match shorter {
            JobOutcome::Fail(error) => frames::fail(id, &error),
            JobOutcome::Ack { .. } | JobOutcome::Release { .. } | JobOutcome::CutOff => frames::release(id, "", 0),
        });
    }
}
