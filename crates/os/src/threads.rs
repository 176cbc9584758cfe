//! Threads beside the one that has the loop.

use std::io;
use std::thread;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its thread has failed")]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use ojs_values::signal::Signal;

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
