//! Whom a signal reaches: the direct child, or its whole group.

use crate::case::{BOTH, Case, Ctx, Verdict, case, ensure};
use crate::init::Ask;
use crate::namespace::list;
use crate::support::proc;
use crate::support::sys;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(by_default_only_the_direct_child_gets_a_signal, BOTH).needs(&[Ask::OnlyTheChild]),
    case!(with_the_group_option_every_member_gets_it, BOTH).needs(&[Ask::Group]),
    case!(the_group_option_ends_a_chain_whose_head_ignores_the_signal, BOTH).needs(&[Ask::Group]),
    case!(the_group_option_can_come_from_the_environment, BOTH).needs(&[Ask::GroupByEnvironment]),
    case!(the_child_leads_a_process_group_of_its_own, BOTH),
];

/// A child with five companions in its group, as a pipeline would have.
const TEAM: usize = 6;

fn logs_of_companions() -> impl Iterator<Item = String> {
    (1..TEAM).map(|number| format!("log.{number}"))
}

fn by_default_only_the_direct_child_gets_a_signal(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::OnlyTheChild])?.actor(&["team=6"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGUSR1)?;
    init.logs("log", 1)?;
    for log in logs_of_companions() {
        // A second signal shows that the first would have been logged by now.
        let companion = init.ready(&log)?;
        sys::send(companion, libc::SIGUSR2)?;
        let logged = init.logs(&log, 1)?;
        ensure!(logged == [libc::SIGUSR2], "a companion got {}", list(&logged));
    }
    Ok(())
}

fn with_the_group_option_every_member_gets_it(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Group])?.actor(&["team=6"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGUSR1)?;
    for log in logs_of_companions().chain(["log".to_owned()]) {
        let logged = init.logs(&log, 1)?;
        ensure!(logged == [libc::SIGUSR1], "{log}: {}", list(&logged));
    }
    Ok(())
}

fn chain_ends(ctx: &Ctx, ask: Ask) -> Verdict {
    let words = ctx.probe("chain", "chain", &[]);
    let mut init = ctx.launch(&[ask])?.command(&words).start()?;
    init.ready("chain")?;
    init.signal(libc::SIGUSR1)?;
    init.ends_with(5)
}

fn the_group_option_ends_a_chain_whose_head_ignores_the_signal(ctx: &Ctx) -> Verdict {
    chain_ends(ctx, Ask::Group)
}

fn the_group_option_can_come_from_the_environment(ctx: &Ctx) -> Verdict {
    chain_ends(ctx, Ask::GroupByEnvironment)
}

fn the_child_leads_a_process_group_of_its_own(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[]).start()?;
    let child = init.ready("log")?;
    let group = proc::stat(child).map(|stat| stat.group);
    ensure!(group == Some(child), "it is in group {group:?}");
    Ok(())
}
