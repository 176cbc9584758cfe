//! Progress, checkpoints and heartbeats of a job on their way to PID 1: the newest of each kind,
//! and not too often.

use std::time::Duration;

use log::warn;

use crate::runner::connection::InitConnection;
use ojs_lifecycle::api::Moment;
use ojs_wire::runner::frames;
use ojs_wire::runner::job_lines::{self, JobLine};

/// The least time between two frames about the same job. What comes sooner replaces what waits.
const PAUSE: Duration = Duration::from_millis(100);

/// News of a job that PID 1 has not heard yet: at most one of each kind.
#[derive(Debug, Default)]
pub struct UnsentNews {
    progress: Option<UnsentProgress>,
    /// JSON.
    checkpoint: Option<String>,
    is_alive: bool,
    /// A checkpoint is on its way to the backend; the next one waits for the answer.
    is_saving: bool,
    /// Not before this.
    next: Option<Moment>,
    has_complained: bool,
}

#[derive(Debug)]
struct UnsentProgress {
    fraction: String,
    message: Option<String>,
}

impl UnsentNews {
    /// The job wrote this line.
    pub fn take_line(&mut self, job: &str, line: &[u8]) {
        match job_lines::decode(line) {
            Ok(JobLine::Progress { fraction, message }) => {
                self.progress = Some(UnsentProgress {
                    fraction,
                    message: message.map(str::to_owned),
                });
            }
            Ok(JobLine::Checkpoint { state }) => self.checkpoint = Some(state.to_owned()),
            Ok(JobLine::Heartbeat) => self.is_alive = true,
            Err(why) => self.complain(job, why),
        }
    }

    /// A line of the job cannot be used; said once for each job.
    pub fn complain(&mut self, job: &str, why: &str) {
        if !std::mem::replace(&mut self.has_complained, true) {
            warn!(
                "job {job}: a line on OJS_JOB_FD is ignored, further ones without a word: {why}; accepted: progress NUMBER \
                 [TEXT], checkpoint JSON, heartbeat"
            );
        }
    }

    /// The backend has the checkpoint, or will not take it.
    pub fn saved(&mut self) {
        self.is_saving = false;
    }

    /// Sends what may be sent now. When to come again, if something is left that only waits for the
    /// time.
    pub fn send(&mut self, job: &str, connection: &mut InitConnection, now: Moment) -> Option<Moment> {
        let has_any = self.progress.is_some() || self.is_alive || (self.checkpoint.is_some() && !self.is_saving);
        if !has_any {
            return None;
        }
        let is_early = self.next.is_some_and(|next| now < next);
        if is_early {
            return self.next;
        }
        let next = now.after(PAUSE);
        if connection.is_crowded() {
            return Some(next);
        }
        self.next = Some(next);
        if !self.is_saving {
            self.send_checkpoint(job, connection);
        }
        if let Some(progress) = self.progress.take() {
            let frame = frames::progress(job, &progress.fraction, progress.message.as_deref());
            self.send_if_short(job, &frame, connection);
        }
        if std::mem::take(&mut self.is_alive) {
            connection.send(&frames::heartbeat(job));
        }
        None
    }

    /// The job has ended, and will be tried again: its last checkpoint has to be known before its
    /// outcome.
    pub fn send_last(&mut self, job: &str, connection: &mut InitConnection) {
        self.send_checkpoint(job, connection);
    }

    fn send_checkpoint(&mut self, job: &str, connection: &mut InitConnection) {
        if let Some(state) = self.checkpoint.take() {
            self.is_saving = self.send_if_short(job, &frames::checkpoint(job, &state), connection);
        }
    }

    fn send_if_short(&mut self, job: &str, frame: &[u8], connection: &mut InitConnection) -> bool {
        let is_short = connection.takes(frame);
        if is_short {
            connection.send(frame);
        } else {
            self.complain(job, "it is longer than worker.max_frame");
        }
        is_short
    }
}
