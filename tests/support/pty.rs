//! A terminal of the test's own: we are the person who types.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::wait::wait_until;

/// Our end of the terminal.
#[derive(Debug)]
pub struct Terminal {
    ours: File,
    seen: Vec<u8>,
}

impl Terminal {
    /// A new terminal, and the end that a process gets.
    pub fn open() -> io::Result<(Self, OwnedFd)> {
        let pair = nix::pty::openpty(None, None)?;
        fcntl(pair.master.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // Neither end may leak into the processes that other cases start at the same moment.
        for end in [pair.master.as_fd(), pair.slave.as_fd()] {
            fcntl(end, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
        }
        Ok((
            Self {
                ours: File::from(pair.master),
                seen: Vec::new(),
            },
            pair.slave,
        ))
    }

    /// Types this.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.ours.write_all(text.as_bytes())
    }

    /// Waits until this text was shown.
    pub fn shows(&mut self, text: &str, patience: Duration) -> bool {
        wait_until(patience, || {
            self.read_more();
            self.text().contains(text)
        })
    }

    /// All that was shown until now.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// The screen with what has come by now.
    pub fn more(&mut self) -> String {
        self.read_more();
        self.text()
    }

    /// From here on only what comes then counts.
    pub fn forget(&mut self) {
        self.read_more();
        self.seen.clear();
    }

    /// Gives it so many columns and lines. Who has it as the controlling terminal gets SIGWINCH.
    pub fn resize(&self, columns: u16, lines: u16) {
        super::sys::set_terminal_size(self.ours.as_fd(), columns, lines).unwrap();
    }

    fn read_more(&mut self) {
        let mut buffer = [0; 4096];
        // Both "nothing yet" and "the other end is gone" mean that there is nothing more to see
        // now.
        while let Ok(count @ 1..) = self.ours.read(&mut buffer) {
            self.seen.extend(buffer.iter().take(count));
        }
    }
}
