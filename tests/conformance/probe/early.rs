//! Facts that a probe was started with, taken before the runtime of Rust can change them.
//!
//! The runtime ignores SIGPIPE, handles SIGSEGV and SIGBUS and opens `/dev/null` at free
//! descriptors 0 to 2. A probe has to report what it got, so a constructor looks first.

use std::sync::OnceLock;

use crate::support::{proc, sys};

/// The state of the process at its first instruction that is ours.
#[derive(Debug)]
pub struct Early {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub started_ns: u64,
    /// `/proc/self/status`, only for probes.
    pub status: String,
    /// Descriptors as `number link`, only for probes.
    pub descriptors: Vec<String>,
}

static EARLY: OnceLock<Early> = OnceLock::new();

// SAFETY: the loader calls each pointer of this section once, after the C library has set itself up
// and before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static CONSTRUCTOR: extern "C" fn() = capture;

extern "C" fn capture() {
    let started_ns = sys::monotonic_ns();
    let is_probe =
        std::fs::read("/proc/self/cmdline").is_ok_and(|line| line.split(|&b| b == 0).any(|a| a == b"report"));
    let (status, descriptors) = if is_probe {
        (read_status(), read_descriptors())
    } else {
        Default::default()
    };
    let _ = EARLY.set(Early {
        started_ns,
        status,
        descriptors,
    });
}

fn read_status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

fn read_descriptors() -> Vec<String> {
    let own = format!("/proc/{}/fd", std::process::id());
    let shown = proc::descriptors("self").into_iter();
    shown
        .filter(|(_, link)| link.as_os_str() != own.as_str())
        .map(|(number, link)| format!("{number} {}", link.display()))
        .collect()
}

/// The captured state.
pub fn early() -> &'static Early {
    EARLY.get_or_init(|| Early {
        started_ns: sys::monotonic_ns(),
        status: String::new(),
        descriptors: Vec::new(),
    })
}
