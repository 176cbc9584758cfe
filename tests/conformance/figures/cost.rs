//! The price of an init: system calls, instructions, page faults.

use super::{Contestant, Figure};
use crate::case::{Trouble, ensure};
use crate::cases::is_static;
use crate::support::proc;
use crate::support::sys::Ended;
use crate::support::trace::{Trace, count_instructions};
use crate::support::wait::wait_until;

/// Signals and orphans of one measurement.
const TIMES: u32 = 20;

/// Most instructions that a start may take, for a static build.
const MOST_INSTRUCTIONS: f64 = 150_000.0;

/// The cost of one init.
#[derive(Debug, Default)]
struct Cost {
    calls: f64,
    mask_at: f64,
    faults: f64,
    instructions: f64,
    per_signal: f64,
    per_orphan: f64,
}

/// All figures of this kind.
pub fn measure(contestants: &[Contestant]) -> Result<Vec<Figure>, Trouble> {
    let mut costs = Vec::new();
    for contestant in contestants {
        costs.push(if contestant.kind.is_some() {
            Some(cost_of(contestant)?)
        } else {
            None
        });
    }
    let figure = |what, value: fn(&Cost) -> f64| Figure {
        what,
        values: costs.iter().map(|cost| cost.as_ref().map(value)).collect(),
        complaint: None,
    };
    let mut instructions = figure("instructions from exec to exit (PTRACE_SINGLESTEP)", |cost| {
        cost.instructions
    });
    let ours = contestants
        .iter()
        .zip(&costs)
        .find(|(contestant, _)| contestant.is_ours());
    if let Some((contestant, Some(cost))) = ours {
        let too_many = is_static(&contestant.ctx.init.program) && cost.instructions >= MOST_INSTRUCTIONS;
        instructions.complaint = too_many.then(|| format!("{} instructions to start and end", cost.instructions));
    }
    Ok(vec![
        instructions,
        figure("system calls from exec to exit", |cost| cost.calls),
        figure("the signal mask is set by system call number", |cost| cost.mask_at),
        figure("page faults from exec to exit", |cost| cost.faults),
        figure("system calls for each forwarded signal", |cost| cost.per_signal),
        figure("system calls for each reaped orphan", |cost| cost.per_orphan),
    ])
}

fn cost_of(contestant: &Contestant) -> Result<Cost, Trouble> {
    let mut cost = Cost::default();
    life(contestant, &mut cost)?;
    cost.instructions = instructions(contestant)?;
    cost.per_signal = calls_for_each(contestant, &["orphans=0"])?;
    cost.per_orphan = calls_for_each(contestant, &["orphans=1", "wave-on=10"])? - cost.per_signal;
    Ok(cost)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn close_gate(contestant: &Contestant) {
    // There is none the first time.
    let _ = std::fs::remove_file(contestant.ctx.at("gate"));
}

fn life(contestant: &Contestant, cost: &mut Cost) -> Result<(), Trouble> {
    close_gate(contestant);
    let mut init = contestant.launch()?.held().command(&["true"]).start()?;
    init.trace(|trace| {
        let ended = trace.run_until(contestant.ctx.patience, |_| false);
        ensure!(ended, "{} does not end when it is traced", contestant.name);
        let calls = trace.take_calls();
        let mask = calls.iter().position(|&call| call == libc::SYS_rt_sigprocmask);
        cost.calls = number(calls.len());
        cost.mask_at = number(mask.map_or(0, |index| index + 1));
        cost.faults = number(usize::try_from(trace.faults()).unwrap_or(usize::MAX));
        Ok(())
    })
}

fn instructions(contestant: &Contestant) -> Result<f64, Trouble> {
    close_gate(contestant);
    let mut init = contestant.launch()?.held().command(&["true"]).start()?;
    let gate = contestant.ctx.at("gate");
    let program = contestant.ctx.init.program.clone();
    let (steps, ended) = count_instructions(init.pid, &program, || {
        let _ = std::fs::write(&gate, "open");
    })?;
    init.was_reaped(ended);
    ensure!(
        ended == Ended::Code(0),
        "{} ends with {ended:?} in single steps",
        contestant.name
    );
    Ok(number(usize::try_from(steps).unwrap_or(usize::MAX)))
}

/// System calls of the init for each SIGUSR1 to an actor with these options.
fn calls_for_each(contestant: &Contestant, options: &[&str]) -> Result<f64, Trouble> {
    close_gate(contestant);
    let ctx = &contestant.ctx;
    let _ = std::fs::remove_file(ctx.at("log"));
    let _ = std::fs::remove_file(ctx.at("log.ready"));
    let mut init = contestant.launch()?.held().actor(options).start()?;
    let pid = init.pid;
    init.trace(|trace| {
        let there = trace.run_until(ctx.patience, |_| ctx.dir().join("log.ready").exists());
        ensure!(
            there && trace.ended().is_none(),
            "{} does not start when it is traced",
            contestant.name
        );
        settle(trace);
        trace.take_calls();
        for round in 1..=TIMES {
            crate::support::sys::send(pid, libc::SIGUSR1)?;
            let done = || {
                let log = std::fs::read_to_string(ctx.at("log")).unwrap_or_default();
                log.lines().count() >= usize::try_from(round).unwrap_or(0) && proc::children(pid).len() == 1
            };
            ensure!(
                trace.run_until(ctx.patience, |_| done()),
                "{} lost signal {round}",
                contestant.name
            );
            settle(trace);
        }
        Ok(number(trace.take_calls().len()) / f64::from(TIMES))
    })
}

/// Lets the init come to rest: no system call for a while.
fn settle(trace: &mut Trace) {
    wait_until(std::time::Duration::from_secs(1), || {
        let before = trace.calls().len();
        trace.run_until(std::time::Duration::from_millis(20), |_| false);
        trace.calls().len() == before
    });
}
