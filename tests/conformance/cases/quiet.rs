//! Costs nothing when nothing happens, and does not grow.

use std::path::Path;
use std::time::Duration;

use crate::case::{BOTH, Case, Ctx, PID1, Verdict, case, ensure};
use crate::support::proc;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(an_idle_init_makes_no_system_call_in_ten_seconds, BOTH).limit(40),
    case!(signals_are_blocked_among_the_first_system_calls, PID1),
    case!(memory_does_not_grow_with_orphans_and_signals, PID1).limit(60),
];

/// The first second belongs to the start.
const START: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

fn an_idle_init_makes_no_system_call_in_ten_seconds(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.held().command(&["sleep", "60"]).start()?;
    init.trace(|trace| {
        trace.run_until(START, |_| false);
        let start = trace.take_calls();
        ensure!(!start.is_empty(), "the test itself saw no system call at all");
        ensure!(trace.ended().is_none(), "it has ended: {:?}", trace.ended());
        trace.run_until(IDLE, |_| false);
        let calls = trace.take_calls();
        let first = calls.first();
        ensure!(
            calls.is_empty(),
            "{} system calls, the first is number {first:?}",
            calls.len()
        );
        Ok(())
    })
}

/// Whether the program needs a loader, whose system calls come before the program's own.
pub fn is_static(program: &Path) -> bool {
    // An interpreter is named in a program header; its path is the only text of that form near the
    // start.
    let head = std::fs::read(program).unwrap_or_default();
    let head = head.get(..4096).unwrap_or(&head);
    !head.windows(4).any(|window| window == b"/ld-")
}

fn signals_are_blocked_among_the_first_system_calls(ctx: &Ctx) -> Verdict {
    // The loader of a dynamic program, and the runtime of a debug build, have work of their own
    // before.
    let most = if is_static(&ctx.init.program) { 5 } else { 60 };
    let mut init = ctx.launch(&[])?.held().shell("exit 0").start()?;
    init.trace(|trace| {
        trace.run_until(ctx.patience, |_| false);
        let calls = trace.take_calls();
        let position = calls
            .iter()
            .position(|&call| call == libc::SYS_rt_sigprocmask)
            .map(|index| index + 1);
        ensure!(
            position.is_some_and(|position| position <= most),
            "the mask is set by call {position:?}, not by {most}"
        );
        Ok(())
    })
}

fn memory_does_not_grow_with_orphans_and_signals(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[])?
        .actor(&["orphans=1000", "wave-on=10", "exit-on=15:7"])
        .start()?;
    let child = init.ready("log")?;
    let pid = init.init_pid()?;
    let mut logged = 0;
    let mut sizes = Vec::new();
    // The first round touches what is needed at all; only what comes on top is growth.
    for waves in [1, 5] {
        for _ in 0..waves {
            init.signal(libc::SIGUSR1)?;
            logged += 1;
            init.logs("log", logged)?;
        }
        // Orphans that still live would each hold a copy of what an init sends to the whole group.
        super::reaping::only_child_is_left(ctx, &init, child)?;
        for _ in 0..waves * 400 {
            init.signal(40)?;
        }
        logged += waves * 400;
        init.logs("log", logged)?;
        // Pages of the program itself come in at their first use, sixteen at a time: they are no
        // growth.
        sizes.push(proc::memory_kib(pid, "Anonymous").ok_or("no memory figures")?);
    }
    let [before, after] = sizes.as_slice() else {
        return Err("no sizes".into());
    };
    ensure!(*after <= before + 16, "from {before} KiB to {after} KiB");
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}
