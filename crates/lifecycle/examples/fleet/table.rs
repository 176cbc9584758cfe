//! The table for people.

use std::time::Duration;

use crate::fleet_model::{Account, Conditions};
use crate::request::Mode;

/// The heading of the rows of one kind of backend.
pub fn head(mode: Mode, base: &Conditions) {
    let what = match mode {
        Mode::Streams => "An event stream of each queue",
        Mode::Together => "One event stream for all queues, which names no job",
        Mode::Polls => "No event streams",
        Mode::Slow => "An event stream of each queue, and 200 ms more for each answer",
    };
    println!(
        "\n{what}; {:?} a request, {:?} each way, {:?} to the next stream, handlers of {:?}:\n",
        base.service, base.way, base.fan_out, base.handler,
    );
    println!("                       FETCHes for each job          pick-up in ms  idle requests  busiest   requests");
    println!("workers jobs/s     all  wake-up    poll   other     median       p99   a s, worker     mean        a s");
}

/// One row.
pub fn row(conditions: &Conditions, account: &Account) {
    let each = |count| decimal(account.for_each_job(count), 2);
    let pick_up = |share| decimal(account.pick_up(share).map(milliseconds), 1);
    println!(
        "{:>7} {:>6} {:>7} {:>8} {:>7} {:>7} {:>10} {:>9} {:>13.2} {:>8} {:>10.0}",
        conditions.workers,
        conditions.jobs_a_second,
        each(account.fetches()),
        each(account.woken_fetches),
        each(account.polls),
        each(account.other_fetches),
        pick_up(0.5),
        pick_up(0.99),
        account.idle_requests_a_second(),
        decimal(account.busiest_over_mean(), 1),
        account.requests_a_second(),
    );
}

/// A time as a number.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn decimal(number: Option<f64>, places: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.places$}"))
}
