//! The descendants of ojs-init, found from ojs-init downwards. This costs as much as the worker has
//! processes; other processes of the machine cost nothing. The walk is split into steps, because a
//! worker may have many.

use std::collections::BTreeSet;
use std::io;

use ojs_os::child_lists;
use ojs_os::process::{Numbers, Pid};

/// One walk. A process that starts or ends meanwhile may hide another one from it. Two walks with
/// equal results have found all.
#[derive(Debug)]
pub(super) struct FamilyWalk {
    found: BTreeSet<Pid>,
    /// Processes whose children are not listed yet.
    left: Vec<Pid>,
    /// The process whose threads are read. Each thread has the children that it has started.
    open: Option<(Pid, Numbers)>,
}

impl FamilyWalk {
    /// Begins with ojs-init itself, because it adopts the worker's orphans.
    pub(super) fn begin() -> Self {
        Self {
            found: BTreeSet::new(),
            left: vec![Pid::own()],
            open: None,
        }
    }

    /// Lists the threads of one process, or the children of one thread. Returns false if none are
    /// left.
    ///
    /// # Errors
    ///
    /// There is no descriptor left, for example.
    pub(super) fn step(&mut self) -> io::Result<bool> {
        let Some((pid, threads)) = &mut self.open else {
            let Some(pid) = self.left.pop() else { return Ok(false) };
            self.open = child_lists::threads_of(pid)?.map(|threads| (pid, threads));
            return Ok(true);
        };
        let Some(thread) = threads.next() else {
            self.open = None;
            return Ok(true);
        };
        for child in child_lists::children_of_thread(*pid, thread)? {
            if self.found.insert(child) {
                self.left.push(child);
            }
        }
        Ok(true)
    }

    /// The found processes.
    pub(super) fn found(&self) -> &BTreeSet<Pid> {
        &self.found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its processes has failed")]
mod tests {
    use super::*;
    use ojs_os::process;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
    fn children_are_found_and_theirs_whichever_thread_has_started_them() {
        let start = || std::process::Command::new("sh").args(["-c", "sleep 60; true"]).spawn();
        let mut child = std::thread::spawn(move || start().unwrap()).join().unwrap();
        let pid = process::descendants(1000).unwrap();
        let parent = pid.into_iter().find(|pid| pid.number() == child.id().cast_signed());
        let has_child = |pid: Pid| {
            let mut family = FamilyWalk::begin();
            while family.step().unwrap() {}
            let of_it = |other: &&Pid| process::parent_of(**other).is_ok_and(|of| of == process::Parent::Is(pid));
            assert!(family.found().contains(&pid), "{family:?}");
            assert!(!family.found().contains(&Pid::own()) && !family.found().contains(&Pid::INIT));
            family.found().iter().find(of_it).copied()
        };
        // The shell needs a moment to start its child.
        let grandchild = std::iter::repeat_with(|| has_child(parent.unwrap())).find_map(|found| found);
        process::signal(grandchild.unwrap(), ojs_values::signal::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}
