//! The figures for programs: the conditions that all rows share, the rows of the table, and curves
//! for a picture, FETCHes for each job over the number of workers.

use crate::fleet_model::{Account, Conditions};
use crate::request::Mode;
use crate::table::milliseconds;

/// The curves are those of so many jobs a second, and of a stream for each queue.
const JOBS_OF_CURVES: f64 = 5.0;

/// A row of the table.
pub type Row = (Mode, Conditions, Account);

fn row((mode, conditions, account): &Row) -> String {
    let each = |count| number(account.for_each_job(count));
    let pick_up = |share| number(account.pick_up(share).map(milliseconds));
    object(&[
        ("mode", format!("\"{}\"", mode.name())),
        ("workers", conditions.workers.to_string()),
        ("jobs_a_second", conditions.jobs_a_second.to_string()),
        ("measured_s", conditions.measured.as_secs_f64().to_string()),
        ("jobs", account.jobs.to_string()),
        ("fetches_for_each_job", each(account.fetches())),
        ("woken_fetches_for_each_job", each(account.woken_fetches)),
        ("polls_for_each_job", each(account.polls)),
        ("other_fetches_for_each_job", each(account.other_fetches)),
        ("woken_fetches", account.woken_fetches.to_string()),
        ("polls", account.polls.to_string()),
        ("other_fetches", account.other_fetches.to_string()),
        ("empty_fetches", account.empty_fetches.to_string()),
        ("heartbeats", account.heartbeats.to_string()),
        ("other_requests", account.other_requests.to_string()),
        ("pick_up_median_ms", pick_up(0.5)),
        ("pick_up_p99_ms", pick_up(0.99)),
        (
            "idle_requests_a_second_of_one_worker",
            account.idle_requests_a_second().to_string(),
        ),
        ("busiest_worker_over_mean", number(account.busiest_over_mean())),
        ("requests_a_second", account.requests_a_second().to_string()),
        ("jobs_lost_on_the_way", account.lost.to_string()),
        ("jobs_not_done_once", account.wrong.to_string()),
    ])
}

/// All of it.
pub fn page(base: &Conditions, rows: &[Row]) -> String {
    let conditions = object(&[
        ("concurrency", base.concurrency.to_string()),
        ("handler_ms", milliseconds(base.handler).to_string()),
        ("service_ms", milliseconds(base.service).to_string()),
        ("way_ms", milliseconds(base.way).to_string()),
        ("fan_out_ms", milliseconds(base.fan_out).to_string()),
        ("warm_up_s", base.warm_up.as_secs_f64().to_string()),
        ("seed", base.seed.to_string()),
    ]);
    let curves = [
        curve("simulated: all FETCHes", rows, Account::fetches),
        curve("simulated: woken by events", rows, |account| account.woken_fetches),
    ];
    let rows: Vec<String> = rows.iter().map(row).collect();
    let (curves, rows) = (curves.join(",\n"), rows.join(",\n"));
    format!("{{\"conditions\": {conditions},\n\"series\": [\n{curves}\n],\n\"rows\": [\n{rows}\n]}}\n")
}

fn curve(label: &str, rows: &[Row], fetches: impl Fn(&Account) -> u64) -> String {
    let is_of_it = |(mode, conditions, _): &&Row| {
        let distance = (conditions.jobs_a_second - JOBS_OF_CURVES).abs();
        *mode == Mode::Streams && distance < f64::EPSILON
    };
    let points = rows.iter().filter(is_of_it).filter_map(|(_, conditions, account)| {
        let fetches = account.for_each_job(fetches(account))?;
        Some(format!("[{}, {fetches:.2}]", conditions.workers))
    });
    let points = format!("[{}]", points.collect::<Vec<_>>().join(", "));
    object(&[("label", format!("\"{label}\"")), ("points", points)])
}

fn object(fields: &[(&str, String)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("\"{name}\": {value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
}
