//! The children of this process, for frequent questions.

use std::fs::File;
use std::io;

use crate::child_lists;
use crate::process::{self, Pid};
use crate::reaper;

/// The children of the thread that opens it, zombies too. Adopted orphans become children of the
/// process's first thread.
const CHILDREN: &str = "/proc/thread-self/children";

/// Most reads of the list for one answer. Each further read needs a child that ended meanwhile.
const MOST_LOOKS: u32 = 8;

/// Most children that one look without a list reaps. The next look reaps further ones.
const MOST_UNLISTED: usize = 1024;

/// The kernel's list of this process's children. Only the first thread, which starts them, may open
/// and read it.
#[derive(Debug)]
pub struct OwnChildren {
    /// `None`: this kernel has no such list, or `/proc` has other numbers.
    list: Option<File>,
    buffer: Vec<u8>,
}

impl OwnChildren {
    /// The list of this thread's children.
    pub fn open() -> Self {
        Self {
            list: process::check_proc().and_then(|()| File::open(CHILDREN)).ok(),
            buffer: Vec::new(),
        }
    }

    /// The children of this process that have not ended, without the known ones. Unknown ones that
    /// have ended are reaped, and passed to `is_reaped`: their numbers are free from then on.
    ///
    /// # Errors
    ///
    /// `/proc` is missing, or shows another PID namespace. Unknown children that have ended are
    /// reaped even so.
    pub fn living_but(
        &mut self,
        is_known: impl Fn(Pid) -> bool,
        mut is_reaped: impl FnMut(Pid),
    ) -> io::Result<Vec<Pid>> {
        let mut living = Vec::new();
        for _ in 0..MOST_LOOKS {
            let children = match self.children() {
                Ok(children) => children,
                Err(error) => {
                    reap_unlisted(is_known, is_reaped);
                    return Err(error);
                }
            };
            let strangers = || children.iter().filter(|pid| !is_known(**pid));
            // A child stays one until this process reaps it.
            living = strangers()
                .copied()
                .filter(|pid| {
                    let lives = matches!(reaper::reap(*pid), Ok(None));
                    if !lives {
                        is_reaped(*pid);
                    }
                    lives
                })
                .collect();
            // A process that has ended since the list was read has left children that are not on
            // it.
            if living.len() == strangers().count() {
                break;
            }
        }
        Ok(living)
    }

    fn children(&mut self) -> io::Result<Vec<Pid>> {
        match &self.list {
            Some(list) => child_lists::read(list, &mut self.buffer),
            None => process::children_and_zombies(),
        }
    }
}

/// Reaps unknown children that have ended, where none can be listed. Stops at a known one, because
/// the kernel names that one until its owner has reaped it.
fn reap_unlisted(is_known: impl Fn(Pid) -> bool, mut is_reaped: impl FnMut(Pid)) {
    for _ in 0..MOST_UNLISTED {
        let Some(pid) = reaper::ended_child().filter(|pid| !is_known(*pid)) else {
            return;
        };
        if !matches!(reaper::reap(pid), Ok(Some(_))) {
            return;
        }
        is_reaped(pid);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its processes has failed")]
#[allow(clippy::disallowed_methods, reason = "children of the test, which has no reaper")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_listed_as_long_as_it_lives_unless_it_is_known() {
        let mut children = OwnChildren::open();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id().cast_signed());
        assert_eq!(children.living_but(|_| false, |_| {}).unwrap(), [pid], "of this thread");
        assert_eq!(children.living_but(|known| known == pid, |_| {}).unwrap(), []);
        child.kill().unwrap();
        let mut reaped = Vec::new();
        while !children
            .living_but(|_| false, |pid| reaped.push(pid))
            .unwrap()
            .is_empty()
        {
            std::thread::yield_now();
        }
        assert!(child.wait().is_err(), "it was reaped");
        assert_eq!(reaped, [pid], "nobody else was");
    }

    #[test]
    fn a_kernel_without_a_list_of_children_has_them_found_and_reaped_all_the_same() {
        let mut children = OwnChildren {
            list: None,
            buffer: Vec::new(),
        };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id().cast_signed());
        // Other tests of this program have children, too.
        let mut named = None;
        let mut is_there = || {
            children
                .living_but(|known| known != pid, |reaped| named = Some(reaped))
                .unwrap()
                == [pid]
        };
        assert!(is_there());
        child.kill().unwrap();
        while is_there() {
            std::thread::yield_now();
        }
        assert!(child.wait().is_err(), "it was reaped");
        assert_eq!(named, Some(pid));
    }
}
