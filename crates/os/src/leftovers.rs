//! The processes that a job has left behind, by proofs: session, mark, user.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use crate::clock;
use crate::errno::errno;
use crate::pidfd::ProcessWatch;
use crate::process::{self, ExitProgress, Pid};
use crate::reaper;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Most bytes of an environment that are searched. The kernel allows 6 MiB including the arguments;
/// a job's mark is near its end.
const MOST_ENVIRONMENT: u64 = 8 << 20;

/// Bytes of an environment that are read at once: as many as the standard library asks for at the
/// most.
const ENVIRONMENT_AT_ONCE: usize = 8 << 10;

/// Most threads whose environment is read if the first one has ended. All threads of a process have
/// one environment.
const MOST_THREADS: usize = 16;

/// Longest life of the process that signals as another user. Its two system calls need a fraction
/// of a millisecond, unless another process has stopped it.
const KILLER_LIMIT: Duration = Duration::from_millis(100);

/// The pause between two looks for its end where the kernel cannot report it.
const KILLER_PAUSE: Duration = Duration::from_millis(1);

/// The session of this process, by its leader's number. `None`: the process has ended.
pub fn session(pid: Pid) -> Option<i32> {
    // SAFETY: takes a number.
    let session = unsafe { libc::getsid(pid.number()) };
    (session > 0).then_some(session)
}

/// The mark in a process's environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkSeen {
    Yes,
    /// The environment has no mark, or may not be read because it is another user's.
    No,
    /// The process shows no environment: it has none, or is about to execute another program.
    Hidden,
    /// The process shows none because it is ending or has ended.
    Ending,
}

/// Whether this process was started with this entry (`NAME=value`) in its environment.
pub fn mark(pid: Pid, mark: &[u8]) -> MarkSeen {
    match mark_of_thread(pid, mark) {
        (seen, ExitProgress::No | ExitProgress::Whole) => seen,
        (MarkSeen::Yes, ExitProgress::FirstThread) => MarkSeen::Yes,
        // The first thread shows no environment any more. The others do, and all have one
        // environment.
        (MarkSeen::No | MarkSeen::Hidden | MarkSeen::Ending, ExitProgress::FirstThread) => {
            let seen = process::threads(pid, MOST_THREADS)
                .into_iter()
                .map(|thread| mark_of_thread(thread, mark))
                .find(|(seen, ending)| *seen == MarkSeen::Yes || *seen == MarkSeen::No && *ending == ExitProgress::No);
            seen.map_or(MarkSeen::Hidden, |(seen, _)| seen)
        }
    }
}

/// The mark in the environment of one thread, and how much of its process is on its way out.
fn mark_of_thread(thread: Pid, mark: &[u8]) -> (MarkSeen, ExitProgress) {
    let environment = environment(thread);
    let ending = process::ending(thread);
    let hidden = match ending {
        ExitProgress::No | ExitProgress::FirstThread => MarkSeen::Hidden,
        ExitProgress::Whole => MarkSeen::Ending,
    };
    let seen = match environment {
        Ok(environment) => match has_mark(&environment, mark) {
            Some(true) => MarkSeen::Yes,
            Some(false) if ending == ExitProgress::No => MarkSeen::No,
            // A process that has written its title over the environment still shows all bytes.
            None if ending == ExitProgress::No && is_whole(thread, &environment) => MarkSeen::No,
            Some(false) | None => hidden,
        },
        // Newer kernels return this error for an ending process, too.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => hidden,
        Err(_) => MarkSeen::No,
    };
    (seen, ending)
}

/// Whether these are as many bytes as the kernel has of its environment. The kernel shows that
/// number for most processes.
fn is_whole(pid: Pid, environment: &[u8]) -> bool {
    let bytes = process::environment_bytes(pid).and_then(|bytes| usize::try_from(bytes).ok());
    !environment.is_empty() && bytes == Some(environment.len())
}

/// The environment as the kernel shows it.
fn environment(pid: Pid) -> io::Result<Vec<u8>> {
    // One read gets the whole environment, or nothing.
    let mut environment = Vec::with_capacity(ENVIRONMENT_AT_ONCE);
    let file = File::open(format!("/proc/{pid}/environ"))?;
    file.take(MOST_ENVIRONMENT).read_to_end(&mut environment)?;
    Ok(environment)
}

/// Whether this environment has the mark. `None`: the environment is cut, because its last byte is
/// not zero. The kernel shows only the first part while a process executes another program, or
/// ends.
fn has_mark(environment: &[u8], mark: &[u8]) -> Option<bool> {
    let has_mark = environment.split(|byte| *byte == 0).any(|entry| entry == mark);
    (has_mark || environment.last() == Some(&0)).then_some(has_mark)
}

/// Whether the process runs as this user, or could again.
pub fn runs_as(pid: Pid, user: u32) -> bool {
    process::users_of(pid).is_ok_and(|users| users.contains(&user))
}

/// Ends all visible processes of this user with one signal, which also reaches processes that fork
/// meanwhile. Only jobs may run as this user. The kernel does not report whether there was a
/// process.
///
/// # Errors
///
/// No process can be started, or this process may not change to that user. EINTR: the process that
/// signals was ended itself, so the caller looks again.
pub fn end_all_of(user: u32) -> io::Result<()> {
    // A copy of this process rather than one that shares its memory while it waits, as other
    // children do: as that user it can be stopped by the processes that it shall end. SAFETY:
    // numbers and null pointers; what the copy does is system calls only.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    let pid = match i32::try_from(pid) {
        Ok(0) => kill_all(user),
        Ok(pid @ 1..) => Pid::new(pid),
        Ok(_) | Err(_) => return Err(io::Error::last_os_error()),
    };
    let ended = match end_in_time(pid)? {
        Some(ended) => Some(ended),
        None => {
            let _ = process::signal(pid, Signal::KILL);
            reaper::wait_for(pid)?.map(|(ended, _)| ended)
        }
    };
    match ended {
        Some(Ended::Exited(0)) => Ok(()),
        Some(Ended::Exited(errno)) => Err(io::Error::from_raw_os_error(errno.into())),
        // The signal may have come before its own one, by one of its targets or for lack of time.
        Some(Ended::Signalled(_)) | None => Err(io::Error::from_raw_os_error(libc::EINTR)),
    }
}

/// How this child ends within [`KILLER_LIMIT`].
fn end_in_time(pid: Pid) -> io::Result<Option<Ended>> {
    let limit = clock::monotonic() + KILLER_LIMIT;
    let watch = ProcessWatch::of(pid).ok();
    loop {
        if let Some((ended, _)) = reaper::reap(pid)? {
            return Ok(Some(ended));
        }
        let left = limit.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Ok(None);
        }
        match watch.as_ref().and_then(ProcessWatch::as_fd) {
            Some(descriptor) => {
                let mut waiting = [PollFd::new(descriptor, PollFlags::POLLIN)];
                let _ = poll(&mut waiting, clock::poll_timeout(left));
            }
            // Without pidfds, or without a descriptor that is free.
            None => clock::pause(KILLER_PAUSE),
        }
    }
}

/// Runs in a copy of this process that may lack other threads: system calls only. Its exit status
/// is the errno of the call that failed.
fn kill_all(user: u32) -> ! {
    // SAFETY: setresuid and kill take numbers; as that user the signal reaches only that user's
    // processes. _exit runs no other code of this program.
    unsafe {
        let is_refused = libc::syscall(libc::SYS_setresuid, user, user, user) != 0;
        let has_failed = is_refused || libc::syscall(libc::SYS_kill, -1, libc::SIGKILL) != 0;
        let is_nobody_there = !is_refused && errno() == libc::ESRCH;
        libc::_exit(if has_failed && !is_nobody_there { errno() } else { 0 })
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
    use std::process::{Child, Command, Stdio};

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
        // The parent continues before the kernel shows the environment of its child.
        while mark(pid(&child), b"OJS_JOB_ID=a=b") != MarkSeen::Yes {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert_eq!(mark(pid(&child), b"OJS_JOB_ID=a"), MarkSeen::No);
        assert_eq!(session(pid(&child)), session(Pid::own()));
        child.kill().unwrap();
        while !reaper::has_ended(pid(&child)) {
            std::thread::yield_now();
        }
        assert_eq!(
            mark(pid(&child), b"OJS_JOB_ID=a=b"),
            MarkSeen::Ending,
            "it is not reaped"
        );
        child.wait().unwrap();
        assert_eq!(session(pid(&child)), None);
        assert_eq!(mark(pid(&child), b"OJS_JOB_ID=a=b"), MarkSeen::Ending, "it is gone");
    }

    #[test]
    fn an_environment_that_is_cut_short_says_of_no_mark_that_it_is_not_there() {
        assert_eq!(has_mark(b"A=1\0B=2\0", b"B=2"), Some(true));
        assert_eq!(has_mark(b"A=1\0B=2\0", b"B=3"), Some(false));
        assert_eq!(has_mark(b"A=1\0B=", b"B=2"), None);
        assert_eq!(has_mark(b"", b"B=2"), None);
    }

    #[test]
    fn a_process_without_any_environment_hides_what_it_is() {
        let mut child = sleeps().env_clear().spawn().unwrap();
        // Until its program is executed the child shows its parent's environment.
        while mark(pid(&child), b"OJS_JOB_ID=a") != MarkSeen::Hidden {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process that runs this script; returns after the script has printed that it is ready.
    fn python(script: &str, mark: &str) -> Child {
        let mut command = Command::new("python3");
        command.args(["-S", "-E", "-c", script]).env_clear();
        let mut child = command
            .env("PATH", "/usr/bin:/bin")
            .env("OJS_JOB_ID", mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        child
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_known_by_its_other_threads() {
        let script = "import ctypes, os, threading, time
def other():
    while open('/proc/self/stat').read().rsplit(')', 1)[1].split()[0] != 'Z': time.sleep(0.001)
    os.write(1, b'.')
    time.sleep(60)
threading.Thread(target=other).start()
# The system call that ends one thread.
ctypes.CDLL(None).syscall({'x86_64': 60}.get(os.uname().machine, 93), 0)";
        let mut child = python(script, "a");
        assert_eq!(mark(pid(&child), b"OJS_JOB_ID=a"), MarkSeen::Yes);
        assert_eq!(mark(pid(&child), b"OJS_JOB_ID=b"), MarkSeen::No);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_has_written_a_title_over_its_environment_hides_nothing() {
        let script = "import ctypes, os, time
fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, ord('t'), end - start)
os.write(1, b'.')
time.sleep(60)";
        let mut child = python(script, "a");
        assert_eq!(mark(pid(&child), b"OJS_JOB_ID=a"), MarkSeen::No);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_end_is_seen_before_anybody_reaps_it_and_tells_what_it_took() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        while !reaper::has_ended(pid(&child)) {
            std::thread::yield_now();
        }
        let (ended, usage) = reaper::reap(pid(&child)).unwrap().unwrap();
        assert_eq!(ended, ojs_values::exit::Ended::Exited(7));
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
