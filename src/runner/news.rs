//! Progress, checkpoints and heartbeats of a job on their way to PID 1: the newest of each kind,
//! and not too often.

use std::time::Duration;

use log::warn;

use crate::runner::connection::InitConnection;
use ojs_lifecycle::api::Moment;
use ojs_wire::runner::frames;
use ojs_wire::runner::job_lines::{self, JobLine};

/// The least time between two frames about one job. News in between replaces the waiting ones.
const PAUSE: Duration = Duration::from_millis(100);

/// Most letters of a line that are logged. The longest accepted word, `checkpoint`, has ten.
const MOST_LETTERS: usize = 12;

/// News of a job that were not sent to PID 1 yet: at most one of each kind.
#[derive(Debug, Default)]
pub struct UnsentNews {
    progress: Option<UnsentProgress>,
    /// JSON.
    checkpoint: Option<String>,
    is_alive: bool,
    /// A checkpoint is on its way to the backend; the next one waits for the answer.
    is_saving: bool,
    /// Time of the next allowed frame.
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
            Err(why) => self.complain(job, first_letters(line), why),
        }
    }

    /// A line of the job that begins with this word cannot be used; logged once for each job.
    pub fn complain(&mut self, job: &str, word: &str, why: &str) {
        if !std::mem::replace(&mut self.has_complained, true) {
            warn!(
                "job {job}: a line on OJS_JOB_FD is ignored, further ones without a word: it begins with {word:?}, and {why}; \
                 accepted: progress NUMBER [TEXT], checkpoint JSON, heartbeat"
            );
        }
    }

    /// The backend has saved the checkpoint, or refuses it.
    pub fn saved(&mut self) {
        self.is_saving = false;
    }

    /// Sends the news that may be sent now. Returns the time of the next call if some are left that
    /// only wait for the pause.
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
            self.send_if_short(job, "progress", &frame, connection);
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
            self.is_saving = self.send_if_short(job, "checkpoint", &frames::checkpoint(job, &state), connection);
        }
    }

    fn send_if_short(&mut self, job: &str, word: &str, frame: &[u8], connection: &mut InitConnection) -> bool {
        let is_short = connection.takes(frame);
        if is_short {
            connection.send(frame);
        } else {
            self.complain(job, word, "it is longer than worker.max_frame");
        }
        is_short
    }
}

/// The letters at the beginning of a line, for the log. Not more of it: the line may hold arguments
/// of the job, or a secret.
pub fn first_letters(line: &[u8]) -> &str {
    let is_letter = |byte: &&u8| byte.is_ascii_alphabetic();
    let count = line.iter().take(MOST_LETTERS).take_while(is_letter).count();
    let letters = line.get(..count).unwrap_or_default();
    str::from_utf8(letters).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::first_letters;

    #[test]
    fn the_log_has_no_more_of_a_line_than_its_first_letters() {
        assert_eq!(first_letters(b"progres 0.5 half"), "progres");
        assert_eq!(first_letters(br#"{"token": "x"}"#), "");
        assert_eq!(first_letters(b"ghp_5hunter2"), "ghp");
        assert_eq!(first_letters(b"AVeryLongSecretOfLettersAlone"), "AVeryLongSec");
        assert_eq!(first_letters("ärger".as_bytes()), "");
    }
}
