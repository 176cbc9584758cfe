//! The controlling terminal, if there is one and it is ours to hand over.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::process::Pid;

/// Our controlling terminal, provided that our process group has its foreground: a background job
/// must not take the terminal from whoever uses it.
#[must_use]
pub fn foreground_terminal() -> Option<OwnedFd> {
    let terminal = controlling_terminal()?;
    // SAFETY: an open descriptor; both calls return numbers.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(terminal.as_raw_fd()), libc::getpgrp()) };
    // In a PID namespace whose creator still holds the terminal both read 0, the number for
    // "outside": then it is the caller's own group and may pass it on.
    (foreground == own).then_some(terminal)
}

/// Takes the foreground of the controlling terminal for our own process group again, if the group
/// that `child` leads still has it. Else a script that runs after us in our group would find itself
/// in the background of a group that no longer exists. If somebody else has it by now, a shell that
/// put us into the background for instance, it is theirs.
pub fn take_back(child: Pid) {
    // SAFETY: an open descriptor; returns a number.
    let is_childs = |terminal: &OwnedFd| unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) } == child.number();
    if let Some(terminal) = controlling_terminal().filter(is_childs) {
        // SAFETY: an open descriptor and a number. SIGTTOU is blocked, so this does not stop us; a
        // failure leaves the terminal as it is.
        unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpgrp()) };
    }
}

/// Columns and lines of the terminal behind this descriptor, where it says so; none of them is 0.
#[must_use]
pub fn size(of: BorrowedFd<'_>) -> Option<(u16, u16)> {
    // SAFETY: zero is a valid winsize, which is plain numbers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and `size` is valid to write to; what is no terminal gives an
    // error.
    let result = unsafe { libc::ioctl(of.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

fn controlling_terminal() -> Option<OwnedFd> {
    match File::options().read(true).write(true).open("/dev/tty") {
        Ok(terminal) => return Some(terminal.into()),
        // The kernel's answer of a process that has none.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return None,
        // No /dev/tty in this root, or no right to it: the terminal may be one of the standard
        // descriptors.
        Err(_) => {}
    }
    [
        io::stdin().as_raw_fd(),
        io::stdout().as_raw_fd(),
        io::stderr().as_raw_fd(),
    ]
    .into_iter()
    .find_map(|descriptor| {
        // SAFETY: numbers only; a descriptor that is closed or no terminal of ours gives an error.
        if unsafe { libc::tcgetpgrp(descriptor) } < 0 {
            return None;
        }
        // SAFETY: the descriptor is open (it just answered) and borrowed only for this call.
        unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().ok()
    })
}
