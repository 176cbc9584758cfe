//! Threads beside the one that has the loop.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use crate::signals::{self, SignalSet};

/// Starts a thread that receives no signal: the loop receives all of them. The thread is never
/// joined.
///
/// # Errors
///
/// No thread can be started, as at a limit of processes or of memory.
pub fn spawn(name: impl Into<String>, stack_bytes: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    let work = move || {
        SignalSet::ALL.set_as_mask();
        work();
    };
    signals::around_thread_start(|| thread.spawn(work)).map(drop)
}

/// Ends a wait of the loop.
pub type LoopWake = Arc<dyn Fn() + Send + Sync>;

/// A thread that does the same work each time it is asked, because the work may block and the loop
/// may not. Without this value the thread ends, after the work that is under way.
#[derive(Debug)]
pub struct Helper<R> {
    questions: Sender<()>,
    results: Receiver<Option<R>>,
}

impl<R: Send + 'static> Helper<R> {
    /// Starts the thread, and asks it once. `wake` wakes the loop for each result.
    ///
    /// # Errors
    ///
    /// As of [`spawn`].
    pub fn start(
        name: &str,
        stack_bytes: usize,
        wake: LoopWake,
        mut work: impl FnMut() -> R + Send + 'static,
    ) -> io::Result<Self> {
        let ((questions, asked), (sender, results)) = (mpsc::channel(), mpsc::channel());
        let thread = move || {
            while asked.recv().is_ok() {
                let result = panic::catch_unwind(AssertUnwindSafe(&mut work)).ok();
                let is_last = result.is_none();
                if sender.send(result).is_err() {
                    return;
                }
                wake();
                if is_last {
                    return;
                }
            }
        };
        spawn(name, stack_bytes, thread)?;
        let helper = Self { questions, results };
        helper.ask();
        Ok(helper)
    }

    /// Asks for another result. Returns false if the thread has ended.
    pub fn ask(&self) -> bool {
        self.questions.send(()).is_ok()
    }

    /// The next result, if it is there within `wait`. `Some(None)`: a panic of the work has ended
    /// the thread.
    pub fn take(&self, wait: Duration) -> Option<Option<R>> {
        // The clock is not read without a wait, because the loop takes results in each turn.
        if wait.is_zero() {
            self.results.try_recv().ok()
        } else {
            self.results.recv_timeout(wait).ok()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its thread has failed")]
mod tests {
    use super::*;
    use ojs_values::signal::Signal;

    #[test]
    fn a_helper_answers_each_question_and_wakes_the_loop_if_a_panic_ends_it() {
        let (told, hears) = mpsc::channel();
        let wake: LoopWake = Arc::new(move || told.send(()).unwrap_or_default());
        let mut left = [1, 2].into_iter();
        let work = move || left.next().unwrap_or_else(|| panic::resume_unwind(Box::new(())));
        let helper = Helper::start("helper", 256 << 10, wake, work).unwrap();
        for result in [Some(1), Some(2), None] {
            hears.recv().unwrap();
            assert_eq!(helper.take(Duration::ZERO), Some(result));
            assert_eq!(helper.take(Duration::ZERO), None);
            helper.ask();
        }
    }

    #[test]
    fn a_thread_has_its_name_and_takes_no_signal() {
        let (told, hears) = mpsc::channel();
        let look = move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let name = thread::current().name().unwrap_or_default().to_owned();
            told.send((name, status)).unwrap();
        };
        spawn("lookout", 256 << 10, look).unwrap();
        let (name, status) = hears.recv().unwrap();
        assert_eq!(name, "lookout");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        for signal in [Signal::TERM, Signal::INT, Signal::CHLD, Signal::PIPE] {
            assert_ne!(blocked & SignalSet::of(&[signal]).0, 0, "{signal}");
        }
    }
}
