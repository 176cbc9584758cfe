//! `-r FROM:TO`: one signal arrives as another.

use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::{Ask, Kind};
use crate::namespace::list;
use crate::support::sys::Ended;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(a_rewritten_signal_arrives_as_the_other, BOTH).needs(&[Ask::Rewrite("15:3")]),
    case!(signals_without_a_rule_stay_as_they_are, BOTH).needs(&[Ask::Rewrite("15:3")]),
    case!(two_signals_can_be_swapped, BOTH).needs(&[Ask::Rewrite("1:31")]),
    case!(a_signal_rewritten_to_0_is_dropped, BOTH).needs(&[Ask::Rewrite("10:0")]),
    case!(stop_signals_can_be_rewritten, BOTH)
        .needs(&[Ask::Rewrite("20:10")])
        .exempt(&[(Kind::DumbInit, "named exception: it stops itself")]),
    case!(signals_can_be_rewritten_by_name, BOTH).needs(&[Ask::RewriteByName("TERM:QUIT")]),
    case!(real_time_signals_can_be_rewritten, BOTH).needs(&[Ask::RewriteByName("40:41")]),
    case!(a_malformed_rewrite_is_an_error_and_starts_nothing, PROCESS).needs(&[Ask::Rewrite("15:3")]),
];

/// With these rules, the signals sent arrive as those expected; USR2 ends the exchange.
fn arrive(ctx: &Ctx, rules: &[Ask], sent: &[i32], expected: &[i32]) -> Verdict {
    let mut init = ctx.launch(rules)?.actor(&["exit-on=12:7"]).start()?;
    init.ready("log")?;
    let mut seen = 0;
    for &signal in sent {
        init.signal(signal)?;
        // One at a time, so that the order is ours; what is dropped cannot be waited for.
        if expected.get(seen).is_some() && expected.len() == sent.len() {
            seen = init.logs("log", seen + 1)?.len();
        }
    }
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let mut logged = init.logged("log");
    let last = logged.pop();
    ensure!(last == Some(libc::SIGUSR2), "the last one was {last:?}");
    ensure!(
        logged == expected,
        "arrived: {}; expected {}",
        list(&logged),
        list(expected)
    );
    Ok(())
}

fn a_rewritten_signal_arrives_as_the_other(ctx: &Ctx) -> Verdict {
    arrive(ctx, &[Ask::Rewrite("15:3")], &[15], &[3])
}

fn signals_without_a_rule_stay_as_they_are(ctx: &Ctx) -> Verdict {
    arrive(ctx, &[Ask::Rewrite("15:3")], &[1, 2, 3, 10, 28], &[1, 2, 3, 10, 28])
}

fn two_signals_can_be_swapped(ctx: &Ctx) -> Verdict {
    arrive(
        ctx,
        &[Ask::Rewrite("1:31"), Ask::Rewrite("31:1")],
        &[1, 31, 15],
        &[31, 1, 15],
    )
}

fn a_signal_rewritten_to_0_is_dropped(ctx: &Ctx) -> Verdict {
    arrive(ctx, &[Ask::Rewrite("10:0")], &[10, 10], &[])
}

fn stop_signals_can_be_rewritten(ctx: &Ctx) -> Verdict {
    let rules = [Ask::Rewrite("20:10"), Ask::Rewrite("21:15"), Ask::Rewrite("22:1")];
    arrive(ctx, &rules, &[20, 21, 22], &[10, 15, 1])
}

fn signals_can_be_rewritten_by_name(ctx: &Ctx) -> Verdict {
    let rules = [
        Ask::RewriteByName("TERM:QUIT"),
        Ask::RewriteByName("SIGHUP:USR1"),
        Ask::RewriteByName("int:SIGWINCH"),
    ];
    arrive(ctx, &rules, &[15, 1, 2], &[3, 10, 28])
}

fn real_time_signals_can_be_rewritten(ctx: &Ctx) -> Verdict {
    arrive(
        ctx,
        &[Ask::RewriteByName("40:15"), Ask::RewriteByName("15:64")],
        &[40, 15],
        &[15, 64],
    )
}

fn a_malformed_rewrite_is_an_error_and_starts_nothing(ctx: &Ctx) -> Verdict {
    let malformed = [
        "", "xxx", "15", "15:", ":15", "15:3x", "15:3:1", "abc:def", "15:-1", "-1:15", "0:15", "65:15", "15:65", "15,3",
    ];
    for rule in malformed {
        let mut init = ctx.launch(&[])?.options(&["-r", rule]).shell("touch started").start()?;
        let ended = init.wait()?;
        ensure!(matches!(ended, Ended::Code(1..)), "{rule:?}: ends with {ended:?}");
        ensure!(!init.stderr().is_empty(), "{rule:?}: says nothing");
        ensure!(!ctx.dir().join("started").exists(), "{rule:?}: the command was started");
    }
    Ok(())
}
