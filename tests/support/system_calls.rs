//! How often an init asks the kernel for what, counted by strace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Init, PATIENCE};
use crate::support::namespace::spawn;
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// A count that goes on until it is ended.
pub struct SystemCalls {
    strace: i32,
    summary: PathBuf,
}

impl SystemCalls {
    /// Counts what all threads of the init do from here on, and not what its worker does.
    pub fn count(init: &Init, summary: &Path) -> Self {
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-c", "-U", "calls,name", "-o"])
            .arg(summary)
            .args(["-p", &init.pid.to_string()]);
        let strace = spawn(command);
        let is_traced = |task: &PathBuf| {
            let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
            proc::field_of(&status, "TracerPid").is_none_or(|tracer| tracer.trim() != "0")
        };
        let attached = wait_until(PATIENCE, || tasks(init).iter().all(is_traced));
        assert!(attached, "strace does not trace the init: {}", init.story());
        Self {
            strace,
            summary: summary.to_owned(),
        }
    }

    /// The calls so far, by their names.
    pub fn end(self) -> BTreeMap<String, u32> {
        // The tracer lets go of the init and writes what it has counted.
        sys::send(self.strace, libc::SIGINT).unwrap();
        sys::reap(self.strace, true).unwrap();
        let text = std::fs::read_to_string(self.summary).unwrap();
        let pairs = text.lines().filter_map(|line| line.trim().split_once(' '));
        let counted = pairs.filter_map(|(calls, name)| Some((name.trim().to_owned(), calls.parse().ok()?)));
        counted.collect()
    }
}

/// The threads of the init.
pub fn tasks(init: &Init) -> Vec<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", init.pid)).unwrap();
    tasks.filter_map(|task| Some(task.ok()?.path())).collect()
}
