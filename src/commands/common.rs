//! What every subcommand does: find the instance, connect to it, say what went wrong.

use std::ffi::OsStr;
use std::time::Duration;

use crate::config::Paths;
use crate::daemon::log::report::report;
use crate::daemon::runtime::candidate::candidates;
use crate::daemon::runtime::instances;
use crate::exit::Exit;
use crate::os::socket::Stream;

/// Longest search for the instance.
pub(super) const FIND_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for an answer that is due at once.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Status of a subcommand whose request was not taken.
pub(super) const NOT_TAKEN: Exit = Exit::Status(1);

/// Where instances may be, and what else is wrong with the configuration; or why nobody knows.
pub type Places = Result<(Paths, Vec<String>), String>;

/// What the user's terminal can do, or is wanted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    pub has_colour: bool,
    pub moves_cursor: bool,
}

impl Terminal {
    /// What these variables of the environment say; empty ones say nothing (<https://no-color.org>).
    #[must_use]
    pub fn of(term: &OsStr, no_color: &OsStr) -> Self {
        let moves_cursor = term != "dumb";
        Self {
            has_colour: moves_cursor && no_color.is_empty(),
            moves_cursor,
        }
    }
}

/// The connection is closed by the kernel, when we have ended and our exit status stands: that is what the instance waits
/// for before its SIGKILL.
pub(super) fn connect(paths: &Paths, limit: Duration) -> Result<&'static Stream, String> {
    let instance = instances::the_only(&candidates(paths), limit).map_err(|error| error.to_string())?;
    Ok(Box::leak(Box::new(instance.stream)))
}

/// Says what is wrong and does not matter here.
pub(super) fn warned((paths, warnings): (Paths, Vec<String>)) -> Paths {
    for warning in warnings {
        report(&format!("{warning}; going on without it"));
    }
    paths
}

/// Says what went wrong.
pub(super) fn failed(message: &str, exit: Exit) -> Exit {
    report(message);
    exit
}
