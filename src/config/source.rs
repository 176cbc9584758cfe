//! Sources of values.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag; its long name without the dashes.
    CommandLine(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// The TOML file.
    File {
        /// The name under which it was opened.
        path: Arc<Path>,
        /// The line, counted from 1.
        line: usize,
    },
    Default,
}

impl Source {
    /// Precedence of the source: the lowest wins.
    pub fn rank(&self) -> u8 {
        match self {
            Self::CommandLine(_) => 0,
            Self::Environment(_) => 1,
            Self::File { .. } => 2,
            Self::Default => 3,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine(flag) => write!(f, "command line --{flag}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}
