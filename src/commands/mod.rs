//! The subcommands: another program of the same binary. It finds the instance that runs in this
//! container, sends it one request over its control socket, prints the reply, and ends.
//!
//! The subcommand `job` is different: the process of a job runs it, and it sends no request to an
//! instance.
//!
//! | subcommand | file |
//! |---|---|
//! | `quiet`, `resume`, `terminate`, `stop`, `prestop` | `operate` |
//! | `status`, `health` | `status`; `status --watch`: `watch` |
//! | `jobs`, `cancel` | `jobs` |
//! | `job` | `job` |
//!
//! The folder may use `cli`, `config`, `wire`, `os`, `lifecycle::api`, `daemon::log` and
//! `daemon::runtime`; it does not know the loop. Start with `common` and `ask`: every subcommand
//! uses both.

mod ask;
mod common;
mod job;
mod jobs;
mod operate;
mod status;
mod watch;

use common::{Target, Terminal};
pub use job::tell;

use crate::cli::Order;
use crate::config::{self, Environment, Flags};
use ojs_lifecycle::api::OperatorRequest;
use ojs_os::clock;
use ojs_os::entry::Environ;
use ojs_values::exit::Exit;

/// Carries out a subcommand. The flags name the places of instances, and `pid` one of them.
pub fn run(order: Order, flags: &Flags, pid: Option<i32>, environ: &Environ) -> Exit {
    let environment = Environment::from_entries(environ.entries());
    let places = config::load_paths(flags, &environment).map_err(|error| error.to_string());
    let value = |name| environ.value(name).unwrap_or_default();
    let terminal = Terminal::of(value("TERM"), value("NO_COLOR"));
    carry_out(order, Target { places, pid }, terminal)
}

fn carry_out(order: Order, target: Target, terminal: Terminal) -> Exit {
    let begin = clock::monotonic();
    let request = match order {
        Order::Quiet => OperatorRequest::Quiet,
        Order::Resume => OperatorRequest::Resume,
        Order::Terminate => OperatorRequest::Terminate,
        Order::Stop => OperatorRequest::Stop,
        Order::Recycle => OperatorRequest::Recycle,
        Order::Prestop(wait) => return operate::prestop(wait, target, begin),
        Order::Status {
            as_json,
            watches: false,
        } => return status::status(as_json, target, terminal),
        Order::Status { as_json, watches: true } => return watch::run(as_json, target, terminal),
        Order::Health(of) => return status::health(of, target, begin),
        Order::Jobs { as_json } => return jobs::list(as_json, target),
        Order::Cancel { job } => return jobs::cancel(&job, target),
    };
    operate::operate(&request, target)
}
