//! Running cases: one directory, one marker and one hard limit for each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::case::{BOTH, Case, Ctx, Mode, Trouble, Verdict, fail};
use crate::cases;
use crate::init::{Init, Kind};
use crate::namespace::{copy_for_all, sweep};
use crate::support::temp::TempDir;
use crate::table::Results;

/// How long a case of ours waits for what must happen at once; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The limit for the others in the table, where hanging is an expected answer.
const PATIENCE_IN_TABLE: Duration = Duration::from_secs(4);

/// For the control, where every case is expected to fail.
const SHORT_PATIENCE: Duration = Duration::from_millis(700);

/// Cases that a program which only execs its command, and is no init at all, must not pass.
const CONTROLS: [&str; 10] = [
    "sigterm_ends_the_child_and_gives_143",
    "a_hundred_orphans_are_reaped",
    "the_status_is_right_when_everything_ends_at_the_same_time",
    "with_the_group_option_every_member_gets_it",
    "the_init_does_not_hold_the_working_directory",
    "the_init_keeps_no_inherited_descriptor_open",
    "a_leftover_gets_time_to_clean_up",
    "a_stopped_child_ends_on_sigterm",
    "an_orphan_killed_by_a_signal_changes_nothing",
    "a_sigterm_between_fork_and_exec_is_not_lost",
];

/// Where everything of one run lives.
#[derive(Debug)]
pub struct Workshop {
    dir: TempDir,
    probe: PathBuf,
    thorough: bool,
    in_table: bool,
    next: AtomicUsize,
}

impl Workshop {
    /// Sets it up: a copy of this binary is the probe, because the build directory may be closed to
    /// other users.
    pub fn open(in_table: bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let base = std::env::temp_dir().join(format!("ojs-conformance-{}", std::process::id()));
        let dir = TempDir::new(base).map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        let probe = copy_for_all(&own, &dir.path().join("probe"))?;
        let thorough = in_table || std::env::var_os("CONFORMANCE_THOROUGH").is_some();
        Ok(Self {
            dir,
            probe,
            thorough,
            in_table,
            next: AtomicUsize::new(0),
        })
    }

    /// All of them, in the order of the table.
    pub fn inits(&self) -> Result<Vec<Init>, String> {
        Kind::ALL.iter().map(|&kind| self.init(kind)).collect()
    }

    /// An init of that kind, reachable for every user.
    pub fn init(&self, kind: Kind) -> Result<Init, String> {
        let mut init = Init::find(kind)?;
        if kind == Kind::Ojs {
            init.program = copy_for_all(&init.program, &self.dir.path().join(kind.name()))?;
        }
        Ok(init)
    }

    /// The things that a case has at hand, in a directory of its own.
    pub fn context(&self, init: &Init, mode: Mode, name: &str) -> Result<(Ctx, TempDir), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.path().join(format!("{number}-{name}"));
        let dir = TempDir::new(path).map_err(|error| error.to_string())?;
        let ctx = Ctx {
            init: init.clone(),
            mode,
            dir: dir.path().to_owned(),
            probe: self.probe.clone(),
            marker: format!("CONFORMANCE_CASE={}-{number}", std::process::id()),
            patience: PATIENCE,
            thorough: self.thorough,
        };
        Ok((ctx, dir))
    }

    /// Runs one case, at most as long as it may take; then everything that it started is killed.
    pub fn run(&self, case: &Case, init: &Init, mode: Mode) -> Verdict {
        let ours = init.kind == Kind::Ojs || !self.in_table;
        self.run_with_patience(case, init, mode, if ours { PATIENCE } else { PATIENCE_IN_TABLE })
    }

    fn run_with_patience(&self, case: &Case, init: &Init, mode: Mode, patience: Duration) -> Verdict {
        if case.wants_other_users && !may_be_anybody() {
            return fail("cannot be tested here: it starts processes of other users, which needs the real root");
        }
        let (mut ctx, dir) = self.context(init, mode, case.name)?;
        ctx.patience = patience;
        let marker = ctx.marker.clone();
        let (sender, receiver) = mpsc::channel();
        let body = case.run;
        let worker = std::thread::spawn(move || {
            let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&ctx)));
            let _ = sender.send(verdict.unwrap_or_else(|_| fail("the case itself panicked")));
        });
        let verdict = receiver.recv_timeout(case.limit).unwrap_or_else(|_| {
            sweep(&marker);
            fail(format!("hangs: not done after {} s", case.limit.as_secs()))
        });
        if worker.is_finished() || matches!(verdict, Ok(())) {
            let _ = worker.join();
        }
        drop(dir);
        verdict
    }
}

/// Whether this process can become another user: not in a user namespace that maps only one.
fn may_be_anybody() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace()
        .nth(2)
        .and_then(|count| count.parse::<u64>().ok())
        .is_some_and(|count| count > 1_000_000)
}

/// The suite as ordinary tests against one init: whether it passes, and what each case found.
pub fn run(arguments: &Arguments, workshop: &Arc<Workshop>) -> Result<(bool, Results), String> {
    let name = std::env::var("INIT_UNDER_TEST").unwrap_or_else(|_| Kind::Ojs.name().to_owned());
    let kind = Kind::named(&name).ok_or_else(|| format!("INIT_UNDER_TEST: no such init: {name}"))?;
    let init = workshop.init(kind)?;
    let found = Arc::new(Mutex::new(Results::new()));
    let mut trials = Vec::new();
    for (number, case) in cases::all().enumerate() {
        for &mode in BOTH.iter().filter(|mode| case.modes.contains(mode)) {
            let (workshop, init, found) = (Arc::clone(workshop), init.clone(), Arc::clone(&found));
            let not_for = case.not_for(&init);
            let label = not_for.clone().unwrap_or_default();
            let trial = Trial::test(format!("{}::{}", case.name, mode.name()), move || {
                let verdict = workshop.run(case, &init, mode);
                let outcome = match &verdict {
                    Ok(()) => Ok(()),
                    Err(Trouble::Fail(reason) | Trouble::NotApplicable(reason)) => Err(Failed::from(reason)),
                };
                if let Ok(mut found) = found.lock() {
                    found.insert((number, mode, init.kind), verdict);
                }
                outcome
            });
            trials.push(trial.with_ignored_flag(not_for.is_some()).with_kind(label));
        }
    }
    trials.push(control(workshop));
    let is_good = !libtest_mimic::run(arguments, trials).has_failed();
    let found = found.lock().map(|mut found| std::mem::take(&mut *found));
    Ok((is_good, found.unwrap_or_default()))
}

/// The suite's own test: cases that cannot fail would prove nothing.
fn control(workshop: &Arc<Workshop>) -> Trial {
    let workshop = Arc::clone(workshop);
    Trial::test("the_suite_notices_a_program_that_is_no_init", move || {
        let no_init = Init {
            kind: Kind::Catatonit,
            program: PathBuf::from("/usr/bin/env"),
        };
        let passes = |name: &&str| {
            let case = cases::all().find(|case| case.name == *name);
            case.is_none_or(|case| {
                workshop
                    .run_with_patience(case, &no_init, Mode::Pid1, SHORT_PATIENCE)
                    .is_ok()
            })
        };
        let passed: Vec<&str> = CONTROLS.iter().filter(|name| passes(name)).copied().collect();
        if passed.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(format!("it passes {passed:?}")))
        }
    })
}
