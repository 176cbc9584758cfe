//! Probes that tell the time of their own life: for the latencies.

use std::io::Write;

use super::early::early;
use crate::support::sys;

fn say(nanoseconds: u64) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    output
        .write_all(&nanoseconds.to_ne_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| error.to_string())
}

/// When this process started to run.
pub fn start() -> Result<i32, String> {
    say(early().started_ns).map(|()| 0)
}

/// When this process ends, as near as it can tell.
pub fn exit() -> Result<i32, String> {
    say(sys::monotonic_ns())?;
    sys::leave(0)
}

/// When each SIGUSR1 arrived; one zero first, to say that it may be sent.
pub fn signals() -> Result<i32, String> {
    let wanted = sys::bit(libc::SIGUSR1) | sys::bit(libc::SIGTERM);
    sys::set_mask(wanted).map_err(|error| error.to_string())?;
    say(0)?;
    loop {
        match sys::take_signal(wanted, None).map_err(|error| error.to_string())? {
            Some(libc::SIGTERM) => return Ok(0),
            Some(_) => say(sys::monotonic_ns())?,
            None => {}
        }
    }
}
