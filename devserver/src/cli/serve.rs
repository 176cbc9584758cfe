//! `ojs-devserver serve`

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{SigSet, Signal};

use super::duration::duration;
use super::failure::Failure;
use crate::{Dialect, Options, Server};

/// How many heartbeats should fit into the time after which a worker is declared dead (worker
/// protocol 10.3).
const BEATS_IN_TIMEOUT: u32 = 3;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen; port 0: any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Allow an address that other machines can reach
    #[arg(long)]
    allow_remote: bool,
    /// Write the URL to this file when it can be reached
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// How to speak with workers: spec, go, integer, strict or protocol
    #[arg(long, value_name = "DIALECT", default_value_t)]
    dialect: Dialect,
    /// Demand this bearer token of everything but the health check
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// How long a job is reserved when neither it nor the worker says so
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    visibility_timeout: Duration,
    /// How often workers are told to beat
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    heartbeat_interval: Duration,
    /// How long a worker may be silent before it is declared dead
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    heartbeat_timeout: Duration,
    /// Most jobs; beyond it finished ones are forgotten, and no more taken when none is finished
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number)]
    max_jobs: usize,
    /// Most events that GET /dev/events remembers; older ones are forgotten
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number)]
    max_events: usize,
    /// Most connections at once; more wait in the kernel
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = number)]
    max_connections: usize,
}

fn number(text: &str) -> Result<usize, String> {
    let given = text.parse().ok().filter(|given| (1..=10_000_000).contains(given));
    given.ok_or_else(|| "a whole number from 1 to 10000000".to_owned())
}

/// Serves until SIGINT or SIGTERM.
pub(super) fn run(serve: &Serve) -> Result<(), Failure> {
    // Block the signals before the first thread starts, so that no thread is interrupted in place
    // of this one.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGINT);
    stop.add(Signal::SIGTERM);
    stop.thread_block()
        .map_err(|error| format!("cannot block signals: {error}"))?;
    let server = Server::start(Options {
        listen: serve.listen,
        allow_remote: serve.allow_remote,
        dialect: serve.dialect,
        token: serve.token.clone(),
        visibility_timeout: serve.visibility_timeout,
        heartbeat_interval: serve.heartbeat_interval,
        heartbeat_timeout: serve.heartbeat_timeout,
        max_jobs: serve.max_jobs,
        max_events: serve.max_events,
        max_connections: serve.max_connections,
        ..Options::default()
    })
    .map_err(|error| error.to_string())?;
    if serve.heartbeat_timeout < serve.heartbeat_interval * BEATS_IN_TIMEOUT {
        tell("the heartbeat timeout is shorter than three intervals: a brief delay will kill workers");
    }
    tell(&format!(
        "{} listens on {} and speaks {}. A development tool: jobs live in memory and end with it",
        env!("CARGO_PKG_VERSION"),
        server.url(),
        serve.dialect
    ));
    if let Some(file) = &serve.port_file {
        write_whole(file, &format!("{}\n", server.url()))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    stop.wait()
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    if let Some(file) = &serve.port_file {
        // A client that connects now is refused. The file may already be removed.
        let _ = fs::remove_file(file);
    }
    Ok(())
}

fn tell(message: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(io::stderr(), "ojs-devserver: {message}");
}

/// Writes a file so that no reader ever sees a part of it.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = file.with_file_name(name);
    fs::write(&part, text)?;
    fs::rename(&part, file)
}
