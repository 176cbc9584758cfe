//! Steps of every subcommand: find the instance, connect to it, report errors.

use std::ffi::OsStr;
use std::time::Duration;

use crate::config::Paths;
use crate::daemon::log::report::report;
use crate::daemon::runtime::candidate::candidates;
use crate::daemon::runtime::instances::{self, Instance};
use ojs_os::socket::Stream;
use ojs_values::exit::Exit;

/// Longest search for the instance.
pub(super) const FIND_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for an answer that is due at once.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Status of a subcommand whose request was not accepted.
pub(super) const NOT_TAKEN: Exit = Exit::Status(1);

/// The places of instances, and other faults of the configuration; or why the places are unknown.
pub(super) type Places = Result<(Paths, Vec<String>), String>;

/// Which instance is asked.
#[derive(Debug)]
pub(super) struct Target {
    /// The places of instances.
    pub places: Places,
    /// The pid of the instance, if it is given.
    pub pid: Option<i32>,
}

/// A search for the instance of a target, once the places are known.
#[derive(Debug)]
pub(super) struct InstanceSearch {
    paths: Paths,
    pid: Option<i32>,
}

impl Target {
    /// Reports faults of the configuration that do not matter here.
    pub(super) fn warned(self) -> Result<InstanceSearch, String> {
        let (paths, warnings) = self.places?;
        for warning in warnings {
            report(&format!("{warning}; going on without it"));
        }
        Ok(InstanceSearch { paths, pid: self.pid })
    }
}

impl InstanceSearch {
    /// Finds the instance within [`FIND_WITHIN`] or less.
    pub(super) fn find(&self, limit: Duration) -> Result<Instance, String> {
        instances::find(&candidates(&self.paths), self.pid, limit).map_err(|error| error.to_string())
    }
}

/// Abilities of the user's terminal that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terminal {
    pub has_colour: bool,
    pub moves_cursor: bool,
}

impl Terminal {
    /// Reads these variables of the environment; an empty one counts as not set
    /// (<https://no-color.org>).
    pub fn of(term: &OsStr, no_color: &OsStr) -> Self {
        let moves_cursor = term != "dumb";
        Self {
            has_colour: moves_cursor && no_color.is_empty(),
            moves_cursor,
        }
    }
}

/// The kernel closes the connection when this process has ended with its exit status. The instance
/// waits for that close before its SIGKILL.
pub(super) fn connect(search: &InstanceSearch, limit: Duration) -> Result<&'static Stream, String> {
    Ok(Box::leak(Box::new(search.find(limit)?.stream)))
}

/// Reports the error.
pub(super) fn failed(message: &str, exit: Exit) -> Exit {
    report(message);
    exit
}
