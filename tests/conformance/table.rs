//! Every case against every init, side by side, in one table; then the figures.
//!
//! The run fails when ojs-init fails a case, or lacks a behaviour that one of the others has and
//! that is no exception of the case. It also fails when a figure is out of its bounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use crate::case::{BOTH, Case, Mode, Trouble, Verdict};
use crate::cases;
use crate::figures::{self, Tolerance};
use crate::init::{Init, Kind};
use crate::suite::Workshop;

/// Cases that run at the same time.
const WORKERS: usize = 12;

/// Longest reason that is printed.
const REASON: usize = 110;

type Key = (usize, Mode, Kind);
/// The findings of each case, by its number.
pub type Results = BTreeMap<Key, Verdict>;

/// Prints the table and the figures; true when ojs-init is as it should be. What is `known` is not
/// run again.
pub fn run(workshop: &Workshop, known: Results, tolerance: Tolerance) -> Result<bool, String> {
    let inits = workshop.inits()?;
    let cases: Vec<&Case> = cases::all().collect();
    let results = run_all(workshop, &inits, &cases, known);
    print(&cases, &results);
    let complaints = complaints(&cases, &results);
    println!();
    if complaints.is_empty() {
        println!("ojs-init fails no case and lacks nothing that one of the others has.");
    }
    for complaint in &complaints {
        println!("BAD: {complaint}");
    }
    println!();
    let figures_are_good = figures::measure(workshop, &inits, tolerance)?;
    Ok(complaints.is_empty() && figures_are_good)
}

fn run_all(workshop: &Workshop, inits: &[Init], cases: &[&Case], known: Results) -> Results {
    let mut queue = VecDeque::new();
    for (number, case) in cases.iter().enumerate() {
        for &mode in BOTH.iter().filter(|mode| case.modes.contains(mode)) {
            let unknown = inits
                .iter()
                .filter(|init| !known.contains_key(&(number, mode, init.kind)));
            queue.extend(unknown.map(|init| (number, *case, mode, init)));
        }
    }
    let (queue, results) = (Mutex::new(queue), Mutex::new(known));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().map(|mut queue| queue.pop_front());
                    let Ok(Some((number, case, mode, init))) = next else {
                        break;
                    };
                    let verdict = match case.not_for(init) {
                        Some(reason) => Err(Trouble::NotApplicable(reason)),
                        None => workshop.run(case, init, mode),
                    };
                    if let Ok(mut results) = results.lock() {
                        results.insert((number, mode, init.kind), verdict);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn word(verdict: Option<&Verdict>) -> &'static str {
    match verdict {
        Some(Ok(())) => "pass",
        Some(Err(Trouble::Fail(_))) => "FAIL",
        Some(Err(Trouble::NotApplicable(_))) => "n/a",
        None => "not run",
    }
}

fn reason(verdict: Option<&Verdict>) -> Option<String> {
    match verdict? {
        Ok(()) => None,
        Err(Trouble::Fail(reason) | Trouble::NotApplicable(reason)) => {
            Some(reason.replace('\n', " ").chars().take(REASON).collect())
        }
    }
}

fn print(cases: &[&Case], results: &Results) {
    println!(
        "{:<80} {:<8} {:<10} {:<10} {:<10} {:<10}",
        "case", "mode", "ojs-init", "tini", "dumb-init", "catatonit"
    );
    for (number, case) in cases.iter().enumerate() {
        let row = |mode: Mode| Kind::ALL.map(|kind| word(results.get(&(number, mode, kind))));
        let same = case.modes.len() == 2 && row(Mode::Pid1) == row(Mode::Process);
        for &mode in case.modes.iter().take(if same { 1 } else { 2 }) {
            let [ojs, tini, dumb_init, catatonit] = row(mode);
            let label = if same { "both" } else { mode.name() };
            println!(
                "{:<80} {label:<8} {ojs:<10} {tini:<10} {dumb_init:<10} {catatonit:<10}",
                case.name.replace('_', " ")
            );
            for kind in Kind::ALL {
                if let Some(reason) = reason(results.get(&(number, mode, kind))) {
                    println!("      {}: {reason}", kind.name());
                }
            }
        }
    }
    println!();
    for kind in Kind::ALL {
        let count = |wanted: &str| {
            results
                .iter()
                .filter(|((_, _, k), v)| *k == kind && word(Some(v)) == wanted)
                .count()
        };
        println!(
            "{:<10} {:>4} pass {:>4} FAIL {:>4} n/a",
            kind.name(),
            count("pass"),
            count("FAIL"),
            count("n/a")
        );
    }
}

/// The complaints about ojs-init.
fn complaints(cases: &[&Case], results: &Results) -> Vec<String> {
    let mut found = Vec::new();
    for ((number, mode, kind), verdict) in results.iter().filter(|((_, _, kind), _)| *kind == Kind::Ojs) {
        let Some(case) = cases.get(*number) else { continue };
        let has_it = |other: &Kind| matches!(results.get(&(*number, *mode, *other)), Some(Ok(())));
        let excepted = case.exempt.iter().any(|(exempt, _)| exempt == kind);
        match verdict {
            Err(Trouble::Fail(reason)) => found.push(format!("fails {} ({}): {reason}", case.name, mode.name())),
            Err(Trouble::NotApplicable(reason)) if !excepted => {
                if let Some(other) = Kind::ALL.iter().find(|other| has_it(other)) {
                    found.push(format!(
                        "lacks {} ({}), which {} has: {reason}",
                        case.name,
                        mode.name(),
                        other.name()
                    ));
                }
            }
            Ok(()) | Err(Trouble::NotApplicable(_)) => {}
        }
    }
    found
}
