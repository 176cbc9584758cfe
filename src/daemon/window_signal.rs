//! SIGWINCH without a terminal. Some images (httpd, php:apache) use it as their STOPSIGNAL, and a
//! worker that gets it continues until its SIGKILL.

use std::io::{self, IsTerminal};

use log::warn;

use ojs_values::signal::Signal;

/// Warns of the first SIGWINCH, unless there is a terminal whose size may have changed.
#[derive(Debug)]
pub(super) struct WindowSignal {
    may_warn: bool,
}

impl WindowSignal {
    /// Looks for a terminal among the standard descriptors.
    pub(super) fn look() -> Self {
        let has_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        Self {
            may_warn: !has_terminal,
        }
    }

    /// The worker gets this signal.
    pub(super) fn passed_on(&mut self, signal: Signal) {
        if signal == Signal::WINCH && std::mem::take(&mut self.may_warn) {
            warn!("SIGWINCH is passed on to the worker; if it is this image's STOPSIGNAL: -r WINCH:TERM");
        }
    }
}
