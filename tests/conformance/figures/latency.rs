//! How much later things happen because there is an init.

use std::io::{PipeReader, Read};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::statistics::{judge, median};
use super::{Contestant, Figure, Tolerance};
use crate::case::Trouble;
use crate::support::sys;
use crate::support::wait::pause;

/// Starts of each contestant.
const LIVES: usize = 300;

/// Signals to each contestant.
const SIGNALS: usize = 500;

fn number(pipe: &mut PipeReader) -> Result<u64, Trouble> {
    let mut bytes = [0; 8];
    pipe.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn microseconds(nanoseconds: u64) -> f64 {
    f64::from(u32::try_from(nanoseconds).unwrap_or(u32::MAX)) / 1000.0
}

fn probe(contestant: &Contestant, what: &str) -> Vec<std::ffi::OsString> {
    contestant.ctx.probe(what, "unused", &[])
}

/// From the exec of the init to the first instruction of the child, and from the child's end to the
/// init's.
pub fn of_life(contestants: &[Contestant], tolerance: Tolerance) -> Result<Vec<Figure>, Trouble> {
    let mut starts = vec![Vec::new(); contestants.len()];
    let mut ends = vec![Vec::new(); contestants.len()];
    for _ in 0..LIVES {
        for ((contestant, starts), ends) in contestants.iter().zip(&mut starts).zip(&mut ends) {
            let (mut reader, writer) = std::io::pipe()?;
            let launch = contestant.launch()?.step("stamp").stdout(writer);
            let mut init = launch.command(&probe(contestant, "stamp-life")).start()?;
            let gone = init.wait_without_pause()?;
            starts.push(microseconds(number(&mut reader)?));
            ends.push(microseconds(gone.saturating_sub(number(&mut reader)?)));
        }
    }
    let without = contestants.iter().position(|contestant| contestant.kind.is_none());
    let floor = without
        .and_then(|index| starts.get(index))
        .map_or(0.0, |starts| median(starts));
    Ok(vec![
        Figure {
            what: "us from exec to the child's first instruction, over no init",
            values: starts.iter().map(|rounds| Some(median(rounds) - floor)).collect(),
            complaint: judge(contestants, &starts, floor, tolerance.start, "us to start the child"),
        },
        Figure {
            what: "us from the child's end to the init's, as its parent sees it",
            values: ends.iter().map(|rounds| Some(median(rounds))).collect(),
            complaint: judge(contestants, &ends, 0.0, tolerance.end, "us to end after the child"),
        },
    ])
}

/// Keeps this thread, and what it starts, on one processor.
fn stay_on_one_processor() -> Result<(), Trouble> {
    let mut only = CpuSet::new();
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let first = (0..CpuSet::count())
        .find(|&number| allowed.is_set(number).unwrap_or(false))
        .unwrap_or(0);
    only.set(first)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}

/// From kill(2) to the child having the signal.
///
/// On one processor: to wake another one takes longer than all the rest, and who has to do it is
/// chance.
pub fn of_signals(contestants: &[Contestant], tolerance: Tolerance) -> Result<Figure, Trouble> {
    let measured = std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            stay_on_one_processor()?;
            rounds_of_signals(contestants)
        });
        pinned.join()
    });
    let rounds = measured.unwrap_or_else(|_| crate::case::fail("the measuring thread panicked"))?;
    Ok(Figure {
        what: "us from kill to the signal being in the child, one processor",
        values: rounds.iter().map(|rounds| Some(median(rounds))).collect(),
        complaint: judge(contestants, &rounds, 0.0, tolerance.signal, "us to forward a signal"),
    })
}

fn rounds_of_signals(contestants: &[Contestant]) -> Result<Vec<Vec<f64>>, Trouble> {
    let mut running = Vec::new();
    for contestant in contestants {
        let (mut reader, writer) = std::io::pipe()?;
        let init = contestant
            .launch()?
            .stdout(writer)
            .command(&probe(contestant, "stamp-signals"))
            .start()?;
        number(&mut reader)?;
        running.push((init, reader));
    }
    let mut rounds = vec![Vec::new(); contestants.len()];
    for _ in 0..SIGNALS {
        for ((init, reader), rounds) in running.iter_mut().zip(&mut rounds) {
            // The init has to be back in its wait, or a part of the last round would be measured.
            pause(std::time::Duration::from_micros(300));
            let sent = sys::monotonic_ns();
            init.signal(libc::SIGUSR1)?;
            rounds.push(microseconds(number(reader)?.saturating_sub(sent)));
        }
    }
    Ok(rounds)
}
