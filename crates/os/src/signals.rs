//! Signals are never handled, only blocked and fetched one at a time.
//!
//! No handler means no code that runs at any moment. A signal stays pending in the kernel until the
//! loop asks for it. So no signal is lost from the first instructions on: during the start, a fork,
//! or other work. The child gets the mask and the dispositions that this process was started with.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;

use ojs_values::signal::Signal;

/// Size of the kernel's signal set in bytes; the C library's own type is larger and hides signals
/// 32 to 34.
pub(crate) const KERNEL_SET_BYTES: usize = 8;

/// Longest wait in seconds, about a century: the kernel refuses numbers that it cannot add to its
/// clock.
const LONGEST_WAIT_SECONDS: u64 = 1 << 32;

/// The signals of musl's threads: timer, cancel, synchronous call.
const LIBRARY_SIGNALS: [i32; 3] = [32, 33, 34];

/// Signals fetched from the kernel ahead of time, one bit each.
static SET_ASIDE: AtomicU64 = AtomicU64::new(0);

/// The mask that the program which exec'ed this one had set: the mask before this program's first
/// instruction.
static INHERITED_MASK: AtomicU64 = AtomicU64::new(0);

/// Whether SIGCHLD was ignored when this program was exec'ed.
static CHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// A disposition in the kernel's layout: handler, flags, restorer, mask.
type KernelAction = [usize; 4];

/// The dispositions of [`LIBRARY_SIGNALS`] before this process changed them; empty until then.
static LIBRARY_ACTIONS: OnceLock<[KernelAction; LIBRARY_SIGNALS.len()]> = OnceLock::new();

/// The signals that are ignored, one bit each.
static IGNORED: OnceLock<u64> = OnceLock::new();

/// The signal with the highest number.
const LAST_SIGNAL: i32 = 64;

/// A set of signals, one bit each, as the kernel expects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalSet(pub(crate) u64);

impl SignalSet {
    /// Every signal; the kernel itself leaves out KILL and STOP.
    pub const ALL: Self = Self(u64::MAX);

    /// The set of these signals.
    pub fn of(signals: &[Signal]) -> Self {
        Self(signals.iter().fold(0, |set, signal| set | 1 << (signal.number() - 1)))
    }

    /// The mask this process was started with.
    pub fn inherited() -> Self {
        Self(INHERITED_MASK.load(Ordering::Relaxed))
    }

    /// This set and this signal.
    pub fn with(self, signal: Signal) -> Self {
        Self(self.0 | Self::of(&[signal]).0)
    }

    /// Makes this the mask of the calling thread. A plain system call: usable between fork and
    /// exec.
    pub fn set_as_mask(self) {
        // SAFETY: both set pointers are valid for the size given; the old set is not asked for.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                &raw const self.0,
                ptr::null_mut::<u64>(),
                KERNEL_SET_BYTES,
            );
        }
    }
}

/// Blocks every signal and remembers the mask as it was. Runs as a constructor, before `main` (see
/// `os::entry`), so it does nothing that needs a runtime.
///
/// The faults (SEGV, BUS, FPE, ILL, TRAP, SYS) are blocked too. The kernel delivers a real fault
/// regardless of the mask. A fault signal that a process *sends* is like any other signal and has
/// to be forwarded.
pub extern "C" fn block_all_at_load() {
    let SignalSet(all) = SignalSet::ALL;
    let mut before: u64 = 0;
    // SAFETY: both set pointers are valid for the size given.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            &raw mut before,
            KERNEL_SET_BYTES,
        );
    }
    INHERITED_MASK.store(before, Ordering::Relaxed);
}

/// Gives SIGCHLD its default disposition. Some callers leave it ignored: then the kernel itself
/// would reap, so the child's status would be lost and no SIGCHLD would arrive.
pub fn expect_children() {
    let before = set_disposition(libc::SIGCHLD, libc::SIG_DFL);
    CHLD_WAS_IGNORED.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Restores the mask and the dispositions that this process was started with. For the child,
/// between fork and exec.
pub fn restore_inherited() {
    if CHLD_WAS_IGNORED.load(Ordering::Relaxed) {
        set_disposition(libc::SIGCHLD, libc::SIG_IGN);
    }
    // An ignored signal stays ignored over exec, and a thread may have been started before this
    // child.
    if let Some(actions) = LIBRARY_ACTIONS.get() {
        for (number, action) in LIBRARY_SIGNALS.into_iter().zip(actions) {
            kernel_action(number, Some(action));
        }
    }
    SignalSet::inherited().set_as_mask();
}

/// Gives a job's process the defaults that every program expects: no signal is ignored or blocked,
/// regardless of this process's start. For the child, between fork and exec; call [`learn_ignored`]
/// first.
pub(crate) fn restore_defaults() {
    let ignored = IGNORED.get().copied().unwrap_or_default();
    for number in (1..=LAST_SIGNAL).filter(|number| ignored & 1 << (number - 1) != 0) {
        kernel_action(number, Some(&[libc::SIG_DFL, 0, 0, 0]));
    }
    SignalSet(0).set_as_mask();
}

/// Finds once which signals are ignored. All others have their default disposition, because exec
/// resets handlers, and ojs-init installs none.
pub(crate) fn learn_ignored() {
    IGNORED.get_or_init(|| {
        let is_ignored = |number: &i32| {
            // Some of the time these are ignored by ourselves.
            LIBRARY_SIGNALS.contains(number) || kernel_action(*number, None).first() == Some(&libc::SIG_IGN)
        };
        let ignored = (1..=LAST_SIGNAL).filter(is_ignored);
        ignored.fold(0, |set, number| set | 1 << (number - 1))
    });
}

/// Sets a disposition that is no function (default or ignore) and returns the one before.
fn set_disposition(signal: i32, disposition: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: an all-zero sigaction is valid (no flags, empty mask); both pointers are valid;
    // SIG_DFL and SIG_IGN are no code that could run.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = disposition;
        libc::sigaction(signal, &raw const new, &raw mut old);
        old.sa_sigaction
    }
}

/// Fetches the next pending signal of `set`, waiting at most `timeout` (for ever without one).
///
/// `None`: the wait timed out or was interrupted. Drops SIGPIPE and SIGXFSZ that this process's own
/// write caused, because no process sent them.
///
/// # Errors
///
/// The kernel's error; the only known cause is a seccomp filter that forbids `rt_sigtimedwait`.
pub fn wait(set: SignalSet, timeout: Option<Duration>) -> io::Result<Option<Signal>> {
    if let Some(signal) = take_set_aside(set) {
        return Ok(Some(signal));
    }
    wait_in_kernel(set, timeout)
}

fn wait_in_kernel(set: SignalSet, timeout: Option<Duration>) -> io::Result<Option<Signal>> {
    let limit = timeout.map(timespec);
    // SAFETY: zero is a valid siginfo_t; it is only written by the kernel.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: set, info and limit are valid for the call; a null limit means no limit.
    let number = unsafe {
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            &raw const set.0,
            &raw mut info,
            limit.as_ref().map_or(ptr::null(), ptr::from_ref),
            KERNEL_SET_BYTES,
        )
    };
    let signal = match Errno::result(number) {
        Ok(number) => i32::try_from(number).ok().and_then(Signal::from_number),
        Err(Errno::EAGAIN | Errno::EINTR) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(signal) = signal else { return Ok(None) };
    // SAFETY: the two signals that this is read for always carry the sender's pid, and the others
    // at worst a number with another meaning.
    let sender = unsafe { info.si_pid() };
    Ok(Some(signal).filter(|signal| !is_self_inflicted(*signal, sender.unsigned_abs())))
}

/// Starts a thread without losing a signal to the C library. When musl starts one it unblocks the
/// real-time signals that it uses itself. A signal that is pending or arrives then would end this
/// process.
///
/// Pending ones are set aside for the next [`wait`] or
/// [`SignalFd::take`](crate::signal_fd::SignalFd::take). One that arrives in the few microseconds
/// until the mask is complete again is dropped.
pub(crate) fn around_thread_start<T>(start: impl FnOnce() -> T) -> T {
    let wanted = SignalSet(LIBRARY_SIGNALS.iter().fold(0, |set, number| set | 1 << (number - 1)));
    while let Ok(Some(signal)) = wait_in_kernel(wanted, Some(Duration::ZERO)) {
        SET_ASIDE.fetch_or(1 << (signal.number() - 1), Ordering::Relaxed);
    }
    LIBRARY_ACTIONS.get_or_init(|| LIBRARY_SIGNALS.map(|number| kernel_action(number, None)));
    // Blocked, an ignored signal still arrives at `wait`.
    for number in LIBRARY_SIGNALS {
        kernel_action(number, Some(&[libc::SIG_IGN, 0, 0, 0]));
    }
    let result = start();
    SignalSet::ALL.set_as_mask();
    result
}

/// The next signal of `set` that was set aside.
pub(crate) fn take_set_aside(set: SignalSet) -> Option<Signal> {
    let waiting = SET_ASIDE.load(Ordering::Relaxed) & set.0;
    if waiting == 0 {
        return None;
    }
    let lowest = waiting.trailing_zeros();
    SET_ASIDE.fetch_and(!(1 << lowest), Ordering::Relaxed);
    Signal::from_number(lowest.cast_signed() + 1)
}

/// Whether a signal waits that no descriptor shows: the loop must fetch it before it sleeps.
pub fn has_set_aside() -> bool {
    SET_ASIDE.load(Ordering::Relaxed) != 0
}

/// Sets a disposition that the C library does not allow to set, and returns the one before; `None`
/// sets nothing. A plain system call: usable between fork and exec.
fn kernel_action(number: i32, action: Option<&KernelAction>) -> KernelAction {
    let mut before: KernelAction = [0; 4];
    // SAFETY: both pointers are valid for the call. An action is SIG_IGN, SIG_DFL or an action that
    // the kernel itself returned before, so it installs no code that was not installed already.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            number,
            action.map_or(ptr::null(), ptr::from_ref),
            &raw mut before,
            KERNEL_SET_BYTES,
        );
    }
    before
}

/// Whether the kernel raised this signal because of a call of this process.
pub(crate) fn is_self_inflicted(signal: Signal, sender: u32) -> bool {
    matches!(signal, Signal::PIPE | Signal::XFSZ) && sender == std::process::id()
}

/// A duration as the kernel expects it.
fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().min(LONGEST_WAIT_SECONDS).cast_signed(),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
