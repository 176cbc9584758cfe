//! The draw of the end: with what it is asked for, and what follows.

use super::kinds::Occasion;
use super::plan::{Ask, TWINS_MS};

/// With what the end is asked for, and what follows.
pub fn asks(
    between: &mut impl FnMut(u64, u64) -> u64,
    occasion: Occasion,
    deadline: i64,
    signal: i32,
) -> (Vec<Ask>, Vec<(i64, Ask)>) {
    let mut at = |low: i64, high: i64| low + i64::try_from(between(0, u64::try_from(high - low).unwrap())).unwrap();
    let stop = Ask::Signal(signal);
    let more = match occasion {
        Occasion::Again => match at(0, 2) {
            0 => vec![(deadline + at(-5, 5)).max(0)],
            _ => vec![at(0, deadline.max(1))],
        },
        Occasion::Late => {
            let second = deadline + at(0, 2000);
            match at(0, 3) {
                0 => vec![second, second + at(0, 1500)],
                _ => vec![second],
            }
        }
        Occasion::Directive => match at(0, 1) {
            0 => vec![at(0, 800)],
            _ => Vec::new(),
        },
        Occasion::Operator => return operator(&mut at, deadline, stop),
        Occasion::Twin => vec![at(0, TWINS_MS)],
        Occasion::Timeout => return (vec![Ask::Expiry(signal)], Vec::new()),
        Occasion::Start
        | Occasion::Fetch
        | Occasion::Ack
        | Occasion::Busy
        | Occasion::Idle
        | Occasion::Deadline
        | Occasion::Quiet => Vec::new(),
    };
    (vec![stop], more.into_iter().map(|ms| (ms, stop)).collect())
}

/// The requests of somebody who has the control commands, with or without an orchestrator that ends
/// the container.
fn operator(at: &mut impl FnMut(i64, i64) -> i64, deadline: i64, signal: Ask) -> (Vec<Ask>, Vec<(i64, Ask)>) {
    let terminate = Ask::Command(&["terminate"]);
    let stop = Ask::Command(&["stop"]);
    let hook = |words| vec![Ask::Command(words), signal];
    match at(0, 10) {
        0 => (vec![terminate], Vec::new()),
        1 => (vec![terminate], vec![(at(0, deadline + 500), signal)]),
        2 => (vec![terminate], vec![(at(0, deadline.max(1)), stop)]),
        3 => (vec![Ask::Command(&["quiet"]), terminate], Vec::new()),
        4 | 5 => (vec![stop], Vec::new()),
        6 | 7 => (vec![signal], vec![(at(0, deadline + 500), stop)]),
        8 => (hook(&["prestop", "--for", "300ms"]), Vec::new()),
        9 => (hook(&["prestop", "--until-idle"]), vec![(at(0, 800), stop)]),
        _ => (hook(&["prestop", "--until-idle"]), Vec::new()),
    }
}
