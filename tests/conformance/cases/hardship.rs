//! Places where nothing is as usual: no rights, no writable file, no process to be had.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::case::{BOTH, Case, Ctx, PID1, Trouble, Verdict, case, ensure};
use crate::namespace::{Launch, Running};
use crate::support::proc;
use crate::support::sys::{self, Ended};
use crate::support::wait::wait_until;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(any_user_without_capabilities_is_enough, BOTH).with_other_users(),
    case!(a_read_only_root_is_enough, PID1),
    case!(when_no_process_can_be_created_it_says_so_and_ends, BOTH).with_other_users(),
    case!(when_processes_can_be_created_again_the_child_starts, BOTH).with_other_users(),
    case!(a_sigterm_while_it_waits_for_a_process_is_not_lost, BOTH).with_other_users(),
];

fn any_user_without_capabilities_is_enough(ctx: &Ctx) -> Verdict {
    let bare = [
        "/usr/bin/setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
    ];
    let orphans = if ctx.is_pid1() { "orphans=10" } else { "orphans=0" };
    let launch = ctx
        .launch(&[])?
        .through(&bare)
        .actor(&[orphans, "release-on=10", "exit-on=15:7"]);
    let mut init = launch.start()?;
    let child = init.ready("log")?;
    let user = proc::status_field(child, "Uid").unwrap_or_default();
    ensure!(
        user.split_whitespace().all(|id| id == "65534"),
        "the test itself runs as {user}"
    );
    init.signal(libc::SIGUSR1)?;
    super::reaping::only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn a_read_only_root_is_enough(ctx: &Ctx) -> Verdict {
    let launch = ctx.launch(&[])?.step("read-only");
    launch
        .shell("touch a-file 2> /dev/null && exit 9; sleep 0.01 & wait; exit 7")
        .start()?
        .ends_with(7)
}

/// A user of its own for each case: the limit counts all processes of a user.
static NEXT_USER: AtomicU32 = AtomicU32::new(0);

/// The init as a user that may have two processes, and the other one.
fn at_the_limit(ctx: &Ctx) -> Result<(Launch<'_>, Running<'_>), Trouble> {
    let user = 300_000 + std::process::id() % 100_000 * 100 + NEXT_USER.fetch_add(1, Ordering::Relaxed) % 100;
    let user = format!("user={user}");
    let other = ctx.launch(&[])?.without_init().step(&user);
    let mut other = other.command(&ctx.probe("report", "other", &[])).start()?;
    other.file("other")?;
    Ok((ctx.launch(&[])?.step("processes=2").step(user), other))
}

fn when_no_process_can_be_created_it_says_so_and_ends(ctx: &Ctx) -> Verdict {
    let (launch, _other) = at_the_limit(ctx)?;
    let mut init = launch.shell("exit 0").start()?;
    let ended = init.wait_at_most(Duration::from_secs(15))?;
    ensure!(matches!(ended, Ended::Code(1..)), "ends with {ended:?}");
    ensure!(!init.stderr().is_empty(), "says nothing");
    Ok(())
}

fn when_processes_can_be_created_again_the_child_starts(ctx: &Ctx) -> Verdict {
    let (launch, mut other) = at_the_limit(ctx)?;
    let mut init = launch.shell("exit 7").start()?;
    let gone = wait_until(Duration::from_millis(700), || !matches!(init.is_running(), Ok(true)));
    ensure!(!gone, "it gave up at once: {:?}", init.wait());
    sys::send(other.pid, libc::SIGKILL)?;
    other.wait()?;
    init.ends_with(7)
}

fn a_sigterm_while_it_waits_for_a_process_is_not_lost(ctx: &Ctx) -> Verdict {
    let (launch, mut other) = at_the_limit(ctx)?;
    let mut init = launch.command(&["sleep", "30"]).start()?;
    if wait_until(Duration::from_millis(300), || !matches!(init.is_running(), Ok(true))) {
        return Err(Trouble::NotApplicable("it does not wait".to_owned()));
    }
    init.signal(libc::SIGTERM)?;
    sys::send(other.pid, libc::SIGKILL)?;
    other.wait()?;
    let ended = init.wait()?;
    ensure!(matches!(ended, Ended::Code(1..)), "ends with {ended:?}");
    Ok(())
}
