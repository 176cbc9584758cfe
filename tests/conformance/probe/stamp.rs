//! Probes that tell the time of their own life: for the latencies.

use std::io::Write;

use super::early::early;
use crate::support::sys;

fn say(numbers: &[u64]) -> Result<(), String> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let mut output = std::io::stdout().lock();
    output
        .write_all(&bytes)
        .and_then(|()| output.flush())
        .map_err(|error| error.to_string())
}

/// How long after the exec of the init this process started to run, and when it ends, as near as it
/// can tell.
pub fn life() -> Result<i32, String> {
    let started = std::env::var("STARTED")
        .ok()
        .and_then(|text| text.parse::<u64>().ok())
        .ok_or("no STARTED")?;
    let took = early().started_ns.saturating_sub(started);
    say(&[took, sys::monotonic_ns()])?;
    sys::leave(0)
}

/// When each SIGUSR1 arrived; one zero first, to say that it may be sent.
pub fn signals() -> Result<i32, String> {
    let wanted = sys::bit(libc::SIGUSR1) | sys::bit(libc::SIGTERM);
    sys::set_mask(wanted).map_err(|error| error.to_string())?;
    say(&[0])?;
    loop {
        match sys::take_signal(wanted, None).map_err(|error| error.to_string())? {
            Some(libc::SIGTERM) => return Ok(0),
            Some(_) => say(&[sys::monotonic_ns()])?,
            None => {}
        }
    }
}
