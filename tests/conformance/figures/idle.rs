//! The cost of an init while nothing happens.

use std::time::Duration;

use super::{Contestant, Figure};
use crate::case::Trouble;
use crate::support::proc;
use crate::support::wait::pause;

/// The first second belongs to the start.
const START: Duration = Duration::from_secs(1);

/// How long wakeups are counted.
const IDLE: Duration = Duration::from_secs(10);

/// Memory and wakeups of all contestants, at the same time.
pub fn measure(contestants: &[Contestant]) -> Result<Vec<Figure>, Trouble> {
    let mut running = Vec::new();
    for contestant in contestants.iter().filter(|contestant| contestant.kind.is_some()) {
        running.push(contestant.launch()?.command(&["sleep", "60"]).start()?);
    }
    pause(START);
    let pids: Vec<i32> = running.iter().map(|init| init.pid).collect();
    let before: Vec<u64> = pids.iter().map(|&pid| switches(pid)).collect();
    pause(IDLE);
    let wakeups: Vec<u64> = pids
        .iter()
        .zip(&before)
        .map(|(&pid, before)| switches(pid) - before)
        .collect();
    let memory = |name: &str| -> Vec<Option<f64>> {
        let values = pids.iter().map(|&pid| proc::memory_kib(pid, name).map(small));
        with_gaps(contestants, values)
    };
    Ok(vec![
        Figure {
            what: "KiB resident while idle",
            values: memory("Rss"),
            complaint: None,
        },
        Figure {
            what: "KiB private dirty while idle",
            values: memory("Private_Dirty"),
            complaint: None,
        },
        Figure {
            what: "wakeups in 10 s while idle",
            values: with_gaps(contestants, wakeups.iter().map(|&count| Some(small(count)))),
            complaint: None,
        },
    ])
}

/// A gap for the column without an init.
fn with_gaps(contestants: &[Contestant], mut values: impl Iterator<Item = Option<f64>>) -> Vec<Option<f64>> {
    contestants
        .iter()
        .map(|contestant| contestant.kind.and_then(|_| values.next().flatten()))
        .collect()
}

fn small(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How often the process went to sleep until now: once for each time that something woke it.
fn switches(pid: i32) -> u64 {
    proc::status_field(pid, "voluntary_ctxt_switches")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
