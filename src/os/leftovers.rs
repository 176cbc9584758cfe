//! What processes of a job have left behind, by proofs: which session, which mark, which user.

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;

use crate::os::errno::errno;
use crate::os::process::Pid;
use crate::os::reaper;

/// Most bytes of an environment that are looked through. The kernel takes 6 MiB with the arguments; a job's mark is near its end.
const MOST_ENVIRONMENT: u64 = 8 << 20;

/// Stack of the process that signals as another user, in bytes. What runs on it is two system calls.
const STACK_BYTES: usize = 8 * 1024;

/// The session of this process, by its leader's number. None: it is gone.
#[must_use]
pub fn session(pid: Pid) -> Option<i32> {
    // SAFETY: takes a number.
    let session = unsafe { libc::getsid(pid.number()) };
    (session > 0).then_some(session)
}

/// Whether this process was started with this entry (`NAME=value`) in its environment. False also where it cannot be read:
/// it is gone, or another user's.
#[must_use]
pub fn has_mark(pid: Pid, mark: &[u8]) -> bool {
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let mut environment = Vec::new();
    let read = file.take(MOST_ENVIRONMENT).read_to_end(&mut environment);
    read.is_ok() && environment.split(|byte| *byte == 0).any(|entry| entry == mark)
}

/// Whether the process runs as this user, or could again.
#[must_use]
pub fn runs_as(pid: Pid, user: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let mut ids = ids.into_iter().flat_map(str::split_ascii_whitespace);
    ids.any(|id| id.parse() == Ok(user))
}

/// Ends all that runs as this user and that we see, in one blow: who forks meanwhile is hit as well. The user must be nobody's
/// but a job's. The kernel does not tell whether there was anybody.
///
/// # Errors
///
/// There is no process to be had, or we may not change to that user.
pub fn end_all_of(user: u32) -> io::Result<()> {
    let mut order = KillOrder {
        user,
        is_refused: 0,
        errno: 0,
    };
    let mut stack = [MaybeUninit::<u8>::uninit(); STACK_BYTES];
    // SAFETY: as in `child`: the aligned top of the stack, and both outlive the child, for which CLONE_VFORK makes us wait.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES);
        let top = top.sub(top.addr() % 16);
        libc::clone(
            kill_all,
            top.cast::<c_void>(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut order).cast::<c_void>(),
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    reaper::wait_for(Pid::new(pid))?;
    // SAFETY: plain integers; volatile, because another process wrote them.
    let (is_refused, errno) = unsafe {
        (
            (&raw const order.is_refused).read_volatile(),
            (&raw const order.errno).read_volatile(),
        )
    };
    match (is_refused, errno) {
        (0, 0 | libc::ESRCH) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(errno)),
    }
}

struct KillOrder {
    user: u32,
    /// The user could not be changed.
    is_refused: c_int,
    errno: c_int,
}

/// Runs in our memory: system calls only.
extern "C" fn kill_all(argument: *mut c_void) -> c_int {
    // SAFETY: a pointer to the order, which nobody else touches until this process has ended. setresuid and kill take numbers;
    // as that user the signal reaches nobody else's processes. _exit runs nothing of the parent's.
    unsafe {
        let order = argument.cast::<KillOrder>();
        let user = (*order).user;
        if libc::syscall(libc::SYS_setresuid, user, user, user) != 0 {
            (&raw mut (*order).is_refused).write_volatile(1);
            (&raw mut (*order).errno).write_volatile(errno());
        } else if libc::syscall(libc::SYS_kill, -1, libc::SIGKILL) != 0 {
            (&raw mut (*order).errno).write_volatile(errno());
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its processes has failed")]
#[allow(
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "children of the test, which it reaps itself"
)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;

    fn pid(child: &Child) -> Pid {
        Pid::new(child.id().cast_signed())
    }

    fn sleeps() -> Command {
        let mut command = Command::new("sleep");
        command.arg("60");
        command
    }

    #[test]
    fn a_child_is_known_by_its_mark_and_its_session() {
        let mut child = sleeps().env("OJS_JOB_ID", "a=b").spawn().unwrap();
        assert!(has_mark(pid(&child), b"OJS_JOB_ID=a=b"));
        assert!(!has_mark(pid(&child), b"OJS_JOB_ID=a"));
        assert_eq!(session(pid(&child)), session(Pid::own()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(session(pid(&child)), None);
    }

    #[test]
    fn an_end_is_seen_before_anybody_reaps_it_and_tells_what_it_took() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        while !reaper::has_ended(pid(&child)) {
            std::thread::yield_now();
        }
        let (ended, usage) = reaper::reap(pid(&child)).unwrap().unwrap();
        assert_eq!(ended, crate::exit::Ended::Exited(7));
        assert!(usage.max_rss_bytes > 100_000, "{usage:?}");
        assert!(!reaper::has_ended(pid(&child)));
    }

    #[test]
    fn all_of_a_user_are_ended_and_nobody_else() {
        if !nix::unistd::getuid().is_root() {
            return;
        }
        let user = 81_900;
        let mut others = sleeps().spawn().unwrap();
        let mut its: Vec<Child> = (0..3).map(|_| sleeps().uid(user).spawn().unwrap()).collect();
        assert!(its.iter().all(|child| runs_as(pid(child), user)) && !runs_as(pid(&others), user));
        end_all_of(user).unwrap();
        for child in &mut its {
            assert!(!child.wait().unwrap().success());
        }
        end_all_of(user).unwrap();
        assert!(others.try_wait().unwrap().is_none());
        others.kill().unwrap();
        others.wait().unwrap();
    }
}
