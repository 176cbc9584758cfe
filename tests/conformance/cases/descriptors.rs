//! Descriptors: the child has exactly the caller's, the init keeps none of them.

use super::Report;
use crate::case::{BOTH, Case, Ctx, Trouble, Verdict, case, ensure};
use crate::support::proc;
use crate::support::wait::wait_until;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(the_child_has_exactly_the_descriptors_of_the_caller, BOTH),
    case!(the_init_keeps_no_inherited_descriptor_open, BOTH),
    case!(with_descriptors_0_to_2_closed_the_child_runs, BOTH),
    case!(descriptors_that_were_closed_are_closed_in_the_child, BOTH),
    case!(with_standard_input_closed_the_child_has_the_rest, BOTH),
];

/// The child's descriptors after these steps, with the init and without.
fn with_and_without(ctx: &Ctx, steps: &[&str]) -> Result<(Report, Report), Trouble> {
    let report = |without: bool| -> Result<Report, Trouble> {
        let mut launch = ctx.launch(&[])?.report(&["exit=0"]);
        for step in steps {
            launch = launch.step(*step);
        }
        let mut init = if without { launch.without_init() } else { launch }.start()?;
        init.ends_with(0)?;
        let report = Report(init.file("report")?);
        std::fs::remove_file(ctx.at("report"))?;
        Ok(report)
    };
    Ok((report(false)?, report(true)?))
}

fn the_child_has_exactly_the_descriptors_of_the_caller(ctx: &Ctx) -> Verdict {
    let (with, without) = with_and_without(ctx, &["open=17", "open=42"])?;
    let (got, expected) = (with.descriptors(), without.descriptors());
    ensure!(expected.len() >= 5, "the test itself passes on only {expected:?}");
    ensure!(got == expected, "the child has {got:?}, not {expected:?}");
    Ok(())
}

fn the_init_keeps_no_inherited_descriptor_open(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.step("open=17").step("open=42").actor(&[]).start()?;
    init.ready("log")?;
    let pid = init.init_pid()?;
    let kept = || -> Vec<i32> {
        proc::descriptors(pid)
            .into_iter()
            .filter(|(_, link)| link.to_string_lossy().contains("/open-"))
            .map(|(number, _)| number)
            .collect()
    };
    // An init lets go after it has started the child, which may be ready first.
    ensure!(
        wait_until(ctx.patience, || kept().is_empty()),
        "still open in the init: {:?}",
        kept()
    );
    Ok(())
}

fn with_descriptors_0_to_2_closed_the_child_runs(ctx: &Ctx) -> Verdict {
    let launch = ctx.launch(&[])?.step("close=0").step("close=1").step("close=2");
    let mut init = launch.actor(&["exit-on=15:7"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn descriptors_that_were_closed_are_closed_in_the_child(ctx: &Ctx) -> Verdict {
    let (with, without) = with_and_without(ctx, &["close=0", "close=1", "close=2", "open=17"])?;
    let (got, expected) = (with.descriptors(), without.descriptors());
    ensure!(got == expected, "the child has {got:?}, not {expected:?}");
    Ok(())
}

fn with_standard_input_closed_the_child_has_the_rest(ctx: &Ctx) -> Verdict {
    let (with, without) = with_and_without(ctx, &["close=0"])?;
    let (got, expected) = (with.descriptors(), without.descriptors());
    ensure!(got == expected, "the child has {got:?}, not {expected:?}");
    Ok(())
}
