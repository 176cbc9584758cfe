//! The loop that mode exec is compared with: it starts one process, waits for its end, and starts
//! the next.
//!
//! `--seconds N --command PATH`; prints how many processes it was, and the nanoseconds that they
//! took.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ojs_bench::{Trouble, required};

fn main() -> Result<(), Trouble> {
    let seconds: f64 = required("--seconds")?;
    let path: String = required("--command")?;
    let window = Duration::from_secs_f64(seconds);
    let began = Instant::now();
    let mut count: u64 = 0;
    while began.elapsed() < window {
        let status = Command::new(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("{path}: {status}").into());
        }
        count += 1;
    }
    println!("{count} {}", began.elapsed().as_nanos());
    Ok(())
}
