//! A worker that is done with each job at once, or after `--hold-ms`: it costs next to nothing, so
//! that what is seen is what ojs-init costs. `--connections` connections take `--concurrency` jobs
//! between them.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ojs_bench::{Stamps, Trouble, job_id, option, required};

/// A thread does little more than read and write.
const STACK_BYTES: usize = 64 << 10;

fn main() -> Result<(), Trouble> {
    let connections: usize = required("--connections")?;
    let concurrency: usize = required("--concurrency")?;
    let hold = Duration::from_millis(option("--hold-ms")?.unwrap_or_default());
    let socket = env::var("OJS_SOCKET")?;
    let stamps = Arc::new(Stamps::asked_for()?);
    let mut threads = Vec::new();
    for number in 0..connections.max(1) {
        let stream = UnixStream::connect(&socket)?;
        let share = concurrency / connections + usize::from(number < concurrency % connections);
        let stamps = Arc::clone(&stamps);
        let work = move || work(&stream, share, hold, &stamps);
        threads.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?);
    }
    for thread in threads {
        // An error of one of them is that ojs-init has closed its connection.
        let _ = thread.join();
    }
    Ok(())
}

/// Takes jobs on one connection until it is closed.
fn work(stream: &UnixStream, share: usize, hold: Duration, stamps: &Stamps) -> Result<(), Trouble> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream.try_clone()?;
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    writeln!(
        writer,
        r#"{{"type":"ready","protocol":1,"concurrency":{share},"ok":false,"client":"echo"}}"#
    )?;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let read = stamps.now();
        if line.starts_with(br#"{"type":"job""#) {
            let job = job_id(&line).ok_or("a job without an id")?;
            if !hold.is_zero() {
                stamps.note(job, read, 0)?;
                thread::sleep(hold);
            }
            let answer = format!("{{\"type\":\"ack\",\"job_id\":\"{job}\"}}\n");
            let answered = stamps.now();
            writer.write_all(answer.as_bytes())?;
            stamps.note(job, read, answered)?;
        } else if let Some(ping) = line.strip_prefix(br#"{"type":"ping","id":"#) {
            let mut answer = br#"{"type":"pong","id":"#.to_vec();
            answer.extend_from_slice(ping);
            writer.write_all(&answer)?;
        }
    }
}
