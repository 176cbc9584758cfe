//! The controlling terminal, if this process has one and may hand it over.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::process::Pid;

/// The controlling terminal, if this process's group has its foreground: a background job must not
/// use a terminal that another group uses.
pub fn foreground_terminal() -> Option<OwnedFd> {
    let terminal = controlling_terminal()?;
    // SAFETY: an open descriptor; both calls return numbers.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(terminal.as_raw_fd()), libc::getpgrp()) };
    // In a PID namespace whose creator still holds the terminal both read 0, the number for
    // "outside". Then the foreground is the caller's group, and this process may pass it on.
    (foreground == own).then_some(terminal)
}

/// Makes this process's group the foreground of the controlling terminal again, if the group that
/// `child` leads still has it. Otherwise a script that runs later in this group would be in the
/// background of a group that no longer exists. If another group has the foreground by now, it
/// keeps it: for example a shell that put this group into the background.
pub fn take_back(child: Pid) {
    // SAFETY: an open descriptor; returns a number.
    let is_childs = |terminal: &OwnedFd| unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) } == child.number();
    if let Some(terminal) = controlling_terminal().filter(is_childs) {
        // SAFETY: an open descriptor and a number. SIGTTOU is blocked, so this does not stop the
        // process; a failure leaves the terminal unchanged.
        unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpgrp()) };
    }
}

/// Columns and lines of the terminal behind this descriptor. `None` if it has none or one of them
/// is 0.
pub fn size(of: BorrowedFd<'_>) -> Option<(u16, u16)> {
    // SAFETY: zero is a valid winsize, which is plain numbers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and `size` is valid to write to; a descriptor that is no terminal
    // gives an error.
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
        // SAFETY: numbers only; a descriptor that is closed or no terminal of this process gives an
        // error.
        if unsafe { libc::tcgetpgrp(descriptor) } < 0 {
            return None;
        }
        // SAFETY: the descriptor is open (it just answered) and borrowed only for this call.
        unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().ok()
    })
}
