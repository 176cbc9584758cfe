//! Requests of signals, operators and the backend, and their times.

use std::time::Duration;

use ojs_lifecycle::api::{Directive, OperatorRequest, Probe};
use ojs_values::signal::Signal;

use super::chance::Chance;
use super::plan::Twist;

/// Separates the chance of cancels from that of the plan, so the other twists of all seeds stay
/// unchanged.
const APART: u64 = 0x0CA2_CE15;

/// An operator cancels jobs, by their ids or the beginning of one, in one run of three.
fn cancels(seed: u64, horizon: u64, twists: &mut Vec<Twist>) {
    let mut chance = Chance::new(seed ^ APART);
    if !chance.one_in(3) {
        return;
    }
    for _ in 0..=chance.below(4) {
        let job = match chance.below(10) {
            0 => "j".to_owned(),
            1 => "no such job".to_owned(),
            _ => format!("j{}", chance.below(8)),
        };
        let request = if chance.one_in(8) {
            OperatorRequest::Jobs
        } else {
            OperatorRequest::Cancel(job.into())
        };
        twists.push(Twist::Ask(chance.below(horizon + 3_000), request));
    }
}

pub fn asks(seed: u64, chance: &mut Chance, horizon: u64, twists: &mut Vec<Twist>) {
    cancels(seed, horizon, twists);
    let signals = [
        Signal::TERM,
        Signal::INT,
        Signal::QUIT,
        Signal::TSTP,
        Signal::CONT,
        Signal::TSTP,
        Signal::HUP,
    ];
    let requests = [
        OperatorRequest::Quiet,
        OperatorRequest::Resume,
        OperatorRequest::Terminate,
        OperatorRequest::Stop,
        OperatorRequest::Prestop,
        OperatorRequest::Wait {
            until_idle: true,
            most: Duration::from_secs(30),
        },
        OperatorRequest::Wait {
            until_idle: false,
            most: Duration::from_millis(900),
        },
        OperatorRequest::Status { until_end: false },
        OperatorRequest::Status { until_end: true },
        OperatorRequest::Health(Probe::Ready),
    ];
    let burst = chance.below(horizon);
    for _ in 0..chance.below(5) {
        let at = if chance.one_in(3) { burst } else { chance.below(horizon) };
        let twist = match chance.below(5) {
            0 | 1 => Twist::Signal(at, *chance.pick(&signals)),
            2 => Twist::Ask(at, chance.pick(&requests).clone()),
            3 => Twist::Directive(
                at,
                *chance.pick(&[
                    None,
                    Some(Directive::Run),
                    Some(Directive::Quiet),
                    Some(Directive::Terminate),
                ]),
            ),
            _ => Twist::Signal(at, Signal::TERM),
        };
        twists.push(twist);
        if chance.one_in(4) {
            twists.push(Twist::Signal(at + chance.below(1_500), Signal::TERM));
        }
    }
    if chance.one_in(6) {
        twists.push(Twist::Signal(horizon + chance.below(3_000), Signal::TERM));
    }
    if chance.one_in(3) {
        for _ in 0..3 {
            twists.push(Twist::Stall(chance.below(horizon + 3_000), 1 + chance.below(50)));
            twists.push(Twist::NewToken(chance.below(horizon + 3_000)));
        }
    }
}
