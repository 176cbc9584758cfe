//! The names of the subcommands, and the usage of those that have their own.

/// The subcommand for the processes of jobs.
pub(super) const JOB: &str = "job";

/// Its usage.
pub(super) const JOB_USAGE: &str = "ojs-init job progress FRACTION [MESSAGE] | checkpoint JSON |\n                    heartbeat | cancelled | arg PATH";

/// Makes the name, the usage and the beginning of the help of each subcommand from its row.
macro_rules! orders {
    ($($name:literal $arguments:literal $about:literal;)*) => {
        &[$(($name, concat!("ojs-init ", $name, " ", $arguments), $about)),*]
    };
}

/// Each subcommand for a running instance, with its usage and the beginning of its help.
pub(super) const ORDERS: &[(&str, &str, &str)] = orders! {
    "quiet" "[OPTIONS]"
        "Take no new jobs; active ones go on (as SIGTSTP)";
    "resume" "[OPTIONS]"
        "Take jobs again after quiet (as SIGCONT)";
    "terminate" "[OPTIONS]"
        "Finish the active jobs and end (as SIGTERM)";
    "stop" "[OPTIONS]"
        "Do not wait for the active jobs any longer (as a second SIGTERM)";
    "recycle" "[OPTIONS]"
        "Drain the worker and start it again; ojs-init goes on";
    "prestop" "[--for TIME | --until-idle] [OPTIONS]"
        "For a preStop hook: start the orchestrator's clock, quiet, wait";
    "status" "[--json] [--watch] [OPTIONS]"
        "Show state, time left, jobs, worker and backend";
    "jobs" "[--json] [OPTIONS]"
        "Show each active job: its state, its holder, its progress and its timeout";
    "cancel" "JOB [OPTIONS]"
        "Cancel one active job here: its handler is told to stop, or its process ends";
    "health" "[live|ready] [OPTIONS]"
        "For a HEALTHCHECK or an exec probe: say whether it is well, and if not, why";
};

/// The names of all subcommands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let others = ["run", "config", JOB, "completions", "help"];
    others.into_iter().chain(ORDERS.iter().map(|(name, ..)| *name))
}

/// The separate usage of the subcommand of this name, if it has one.
pub(super) fn usage(name: &str) -> Option<&'static str> {
    if name == JOB {
        return Some(JOB_USAGE);
    }
    let found = ORDERS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, usage, _)| *usage)
}
