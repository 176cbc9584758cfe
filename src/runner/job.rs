//! One job: its process and its state.

use std::path::PathBuf;

use crate::runner::news::UnsentNews;
use crate::runner::outcome::EndedFor;
use crate::runner::process::JobProcess;
use crate::runner::streams::JobStreams;
use ojs_lifecycle::api::{CancelReason, Moment, Subject};

/// The number of a job of this runner; never used twice.
pub type JobNumber = u64;

/// A job whose process was started.
#[derive(Debug)]
pub struct RunningJob {
    pub subject: Subject,
    pub stage: Stage,
    pub process: JobProcess,
    pub streams: JobStreams,
    pub news: UnsentNews,
    /// Why it has to end, once it has.
    pub cause: Option<EndedFor>,
    /// The kernel's counter of kills for want of memory, before the process was started.
    pub kills_before: u64,
    /// The process has ended, and another process that traces it has not seen that yet.
    pub is_withheld: bool,
    /// When PID 1 expects its outcome.
    pub answer_by: Option<Moment>,
    pub started: Moment,
    pub belongings: Belongings,
}

/// Things that a job has to itself, and gives back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Belongings {
    /// Its directory for temporary files.
    pub temporary: Option<PathBuf>,
    /// The user that only this job runs as.
    pub user: Option<u32>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Running,
    /// The process group got its SIGTERM.
    AskedToEnd,
    /// The process group got its SIGKILL.
    Killed,
    /// Its process has ended and is not reaped, because its leftovers are ended first.
    Clearing {
        since: Moment,
        passes: u32,
    },
}

impl RunningJob {
    /// Whether its process has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Clearing { .. })
    }

    /// Notes why the job has to end. Its cancellation or loss replaces every other cause; otherwise
    /// the first cause stays.
    pub fn blame(&mut self, cause: EndedFor) {
        let is_last_word = matches!(
            cause,
            EndedFor::Cancel(CancelReason::Cancelled | CancelReason::Operator | CancelReason::Lost)
        );
        if self.cause.is_none() || is_last_word {
            self.cause = Some(cause);
        }
    }
}
