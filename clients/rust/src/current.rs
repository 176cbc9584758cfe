//! Which job a thread works on: libraries log without knowing.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::job::Job;

thread_local! {
    static JOB: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// As long as it lives, what its thread logs is about a job.
#[must_use = "what is logged is about the job as long as this lives"]
pub struct Guard {
    before: Option<Job>,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

pub(crate) fn enter(job: &Job) -> Guard {
    let before = JOB.try_with(|current| current.replace(Some(job.clone()))).ok().flatten();
    Guard { before, not_send: PhantomData }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let before = self.before.take();
        // The job may be the last of its clones: it is dropped outside.
        let _ended = JOB.try_with(|current| current.replace(before));
    }
}

/// The job of this thread.
pub(crate) fn job() -> Option<Job> {
    JOB.try_with(|current| current.try_borrow().ok().and_then(|job| job.clone())).ok().flatten()
}
