//! Every system call of a process with all its threads, as `strace -f` would show it, but where the
//! test can count.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::proc;
use super::sys::{self, Ended};
use super::wait::{now, pause};

/// `PTRACE_GET_SYSCALL_INFO`, which not every C library names.
const GET_SYSCALL_INFO: u32 = 0x420e;

/// A process that is being traced. Only the thread that seized it may use this.
#[derive(Debug)]
pub struct Trace {
    leader: i32,
    threads: BTreeSet<i32>,
    started: bool,
    calls: Vec<i64>,
    faults_at_exec: u64,
    faults_at_exit: u64,
    ended: Option<Ended>,
}

/// Instructions in user mode from the exec of `program` to the end of the process, one step at a
/// time.
///
/// Only its first thread is counted, and each turn of a repeated string instruction counts as one.
pub fn count_instructions(pid: i32, program: &Path, open_gate: impl FnOnce()) -> io::Result<(u64, Ended)> {
    request(
        libc::PTRACE_SEIZE,
        pid,
        usize::try_from(libc::PTRACE_O_TRACEEXEC).unwrap_or(0),
    )?;
    request(libc::PTRACE_INTERRUPT, pid, 0)?;
    open_gate();
    let (mut steps, mut stepping) = (0, false);
    loop {
        let Some(status) = wait_traced(pid, true)? else {
            continue;
        };
        if !libc::WIFSTOPPED(status) {
            return Ok((steps, Ended::from_wait(status)));
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        stepping |= event == libc::PTRACE_EVENT_EXEC && proc::image(pid).as_deref() == Some(program);
        steps += u64::from(stepping && event == 0 && signal == libc::SIGTRAP);
        let deliver = if event == 0 && signal != libc::SIGTRAP {
            signal
        } else {
            0
        };
        let how = if stepping {
            libc::PTRACE_SINGLESTEP
        } else {
            libc::PTRACE_CONT
        };
        request(how, pid, usize::try_from(deliver).unwrap_or(0))?;
    }
}

/// One ptrace request without memory of ours.
fn request(request: u32, thread: i32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests used here reads or writes memory of this process.
    let result = unsafe { libc::ptrace(request, thread, 0usize, data) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The number of the system call that a stopped thread enters; `None` when it leaves one.
fn entered_call(thread: i32) -> Option<i64> {
    let mut info = [0u64; 16];
    let bytes = std::mem::size_of_val(&info);
    // SAFETY: the kernel writes at most `bytes` bytes into the array.
    let result = unsafe { libc::ptrace(GET_SYSCALL_INFO, thread, bytes, info.as_mut_ptr()) };
    // The first byte says which kind of stop it is, and entry is 1; the number follows three words.
    let [head, _, _, number, ..] = info;
    (result > 0 && head & 0xff == 1).then_some(number.cast_signed())
}

fn event_message(thread: i32) -> io::Result<u64> {
    let mut message = 0u64;
    // SAFETY: the kernel writes one word to the live integer.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, thread, 0usize, &raw mut message) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(message)
    }
}

/// The act of a traced thread; `None` when nothing yet.
pub fn wait_traced(thread: i32, block: bool) -> io::Result<Option<i32>> {
    let mut status = 0;
    let options = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    // SAFETY: the pointer is to a live integer.
    match unsafe { libc::waitpid(thread, &raw mut status, options) } {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some(status)),
    }
}

impl Trace {
    /// Takes hold of a process that has one thread and will exec what is to be traced.
    pub fn seize(pid: i32) -> io::Result<Self> {
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_TRACEEXIT;
        request(libc::PTRACE_SEIZE, pid, usize::try_from(options).unwrap_or(0))?;
        request(libc::PTRACE_INTERRUPT, pid, 0)?;
        Ok(Self {
            leader: pid,
            threads: BTreeSet::from([pid]),
            started: false,
            calls: Vec::new(),
            faults_at_exec: 0,
            faults_at_exit: 0,
            ended: None,
        })
    }

    /// The numbers of the system calls since the exec, or since they were last taken.
    pub fn take_calls(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.calls)
    }

    /// The same, without taking them.
    pub fn calls(&self) -> &[i64] {
        &self.calls
    }

    /// How it ended.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Page faults from the exec to the exit.
    pub fn faults(&self) -> u64 {
        self.faults_at_exit.saturating_sub(self.faults_at_exec)
    }

    /// Lets the process run until the condition holds or it has ended; false when patience is over
    /// first.
    pub fn run_until(&mut self, patience: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let deadline = now() + patience;
        loop {
            let idle = !self.turn();
            if self.ended.is_some() || condition(self) {
                return true;
            }
            if now() >= deadline {
                return false;
            }
            if idle {
                pause(Duration::from_micros(50));
            }
        }
    }

    /// Kills the process if it still runs and waits for its end.
    pub fn finish(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            let _ = sys::send(self.leader, libc::SIGKILL);
            self.run_until(Duration::from_secs(10), |_| false);
        }
        self.ended
    }

    /// Looks once at each thread; whether anything had happened.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        for thread in self.threads.clone() {
            match wait_traced(thread, false) {
                Ok(Some(status)) => {
                    busy = true;
                    self.happened(thread, status);
                }
                Ok(None) => {}
                Err(_) => {
                    self.threads.remove(&thread);
                }
            }
        }
        busy
    }

    fn happened(&mut self, thread: i32, status: i32) {
        if !libc::WIFSTOPPED(status) {
            self.threads.remove(&thread);
            if thread == self.leader {
                self.ended = Some(Ended::from_wait(status));
            }
            return;
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let mut deliver = 0;
        match event {
            0 if signal == libc::SIGTRAP | 0x80 => self.at_call(thread),
            0 => deliver = signal,
            libc::PTRACE_EVENT_EXEC => {
                // The process may still be on its way to the launcher; only what follows its last
                // exec counts.
                self.started = true;
                self.calls.clear();
                self.faults_at_exec = faults(thread);
            }
            libc::PTRACE_EVENT_EXIT if thread == self.leader => self.faults_at_exit = faults(thread),
            libc::PTRACE_EVENT_CLONE => {
                let new = event_message(thread).ok().and_then(|new| i32::try_from(new).ok());
                self.threads.extend(new);
            }
            _ => {}
        }
        // The thread may have been killed meanwhile; its end is seen at the next look.
        let _ = request(libc::PTRACE_SYSCALL, thread, usize::try_from(deliver).unwrap_or(0));
    }

    fn at_call(&mut self, thread: i32) {
        if let Some(number) = entered_call(thread).filter(|_| self.started) {
            self.calls.push(number);
        }
    }
}

fn faults(pid: i32) -> u64 {
    proc::stat(pid).map_or(0, |stat| stat.faults)
}

/// How long a thread of another process is on the processor from one wait for events to the next:
/// its turns. Only the thread that attached this may use it.
#[derive(Debug)]
pub struct Turns {
    thread: i32,
    /// Processor time at the beginning of this turn, in nanoseconds.
    began: Option<u64>,
    turns: Vec<Duration>,
}

/// Lets it run on unwatched. A thread that is still watched cannot be ended as a child is: its
/// stops look like its end.
impl Drop for Turns {
    fn drop(&mut self) {
        let has_stopped = request(libc::PTRACE_INTERRUPT, self.thread, 0).is_ok()
            && wait_traced(self.thread, true).is_ok_and(|status| status.is_some_and(|status| libc::WIFSTOPPED(status)));
        if has_stopped {
            let _ = request(libc::PTRACE_DETACH, self.thread, 0);
        }
    }
}

impl Turns {
    /// Follows the first thread of that process from now on.
    pub fn attach(pid: i32) -> io::Result<Self> {
        let options = usize::try_from(libc::PTRACE_O_TRACESYSGOOD).unwrap_or(0);
        request(libc::PTRACE_SEIZE, pid, options)?;
        request(libc::PTRACE_INTERRUPT, pid, 0)?;
        Ok(Self {
            thread: pid,
            began: None,
            turns: Vec::new(),
        })
    }

    /// Lets it run until the condition holds; false when patience is over first.
    pub fn run_until(&mut self, patience: Duration, mut condition: impl FnMut() -> bool) -> io::Result<bool> {
        let deadline = now() + patience;
        loop {
            match wait_traced(self.thread, false)? {
                Some(status) if libc::WIFSTOPPED(status) => self.stopped(status)?,
                Some(_) => return Ok(false),
                None if condition() => return Ok(true),
                None if now() >= deadline => return Ok(false),
                None => pause(Duration::from_micros(50)),
            }
        }
    }

    fn stopped(&mut self, status: i32) -> io::Result<()> {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let is_call = event == 0 && signal == libc::SIGTRAP | 0x80;
        let waits = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
        if is_call && entered_call(self.thread).is_some_and(|call| waits.contains(&call)) {
            let began = self.began.take();
            let turn = began.map(|began| self.processor_ns().saturating_sub(began));
            self.turns.extend(turn.map(Duration::from_nanos));
            // The wait itself is none of it; what comes behind it begins with the stop at its end.
            request(libc::PTRACE_SYSCALL, self.thread, 0)?;
            return Ok(());
        }
        if is_call && self.began.is_none() {
            self.began = Some(self.processor_ns());
        }
        let deliver = if event == 0 && !is_call { signal } else { 0 };
        request(libc::PTRACE_SYSCALL, self.thread, usize::try_from(deliver).unwrap_or(0))
    }

    /// Processor time of the thread until now; it is stopped, so the kernel has counted all of it.
    fn processor_ns(&self) -> u64 {
        let path = format!("/proc/{}/task/{}/schedstat", self.thread, self.thread);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    }

    /// The turns so far. Being watched costs time at each system call: they are rather shorter.
    pub fn turns(&self) -> &[Duration] {
        &self.turns
    }
}
