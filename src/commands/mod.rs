//! The subcommands: another program of the same binary. It finds the instance that runs in this
//! container, asks it over its control socket, says what it was told, and ends. One of them is for
//! jobs, and asks nobody.

mod ask;
mod common;
mod job;
mod operate;
mod status;
mod watch;

pub use common::{Places, Target, Terminal};
pub use job::tell;

use crate::cli::Order;
use ojs_lifecycle::api::OperatorRequest;
use ojs_os::clock;
use ojs_values::exit::Exit;

/// Carries out a subcommand.
#[must_use]
pub fn run(order: Order, target: Target, terminal: Terminal) -> Exit {
    let begin = clock::monotonic();
    let request = match order {
        Order::Quiet => OperatorRequest::Quiet,
        Order::Resume => OperatorRequest::Resume,
        Order::Terminate => OperatorRequest::Terminate,
        Order::Stop => OperatorRequest::Stop,
        Order::Prestop(wait) => return operate::prestop(wait, target, begin),
        Order::Status {
            as_json,
            watches: false,
        } => return status::status(as_json, target, terminal),
        Order::Status { as_json, watches: true } => return watch::run(as_json, target, terminal),
        Order::Health(of) => return status::health(of, target, begin),
    };
    operate::operate(request, target)
}
