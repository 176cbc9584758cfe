//! Threads beside the one that has the loop.

use std::io;
use std::thread;

use crate::os::signals::{self, SignalSet};

/// Starts a thread that takes no signal: all of them are for the loop. Nobody waits for its end.
///
/// # Errors
///
/// There is no thread to be had, as at a limit of processes or of memory.
pub fn spawn(name: impl Into<String>, stack_bytes: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    let work = move || {
        SignalSet::ALL.set_as_mask();
        work();
    };
    signals::around_thread_start(|| thread.spawn(work)).map(drop)
}
