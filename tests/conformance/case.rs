//! Cases, and what a case has at hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::init::{Ask, Init, Kind};
use crate::namespace::Launch;

/// As what the init runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Process 1 of a PID namespace of its own.
    Pid1,
    /// An ordinary process.
    Process,
}

impl Mode {
    /// The word in the names of the tests and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid1 => "pid1",
            Self::Process => "process",
        }
    }
}

/// Why a case did not pass.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The init does not keep the promise.
    Fail(String),
    /// The case says nothing about this init, because of that.
    NotApplicable(String),
}

/// How a case went.
pub type Verdict = Result<(), Trouble>;

/// A failure with that reason.
pub fn fail<T>(reason: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Fail(reason.into()))
}

/// Fails with a formatted reason unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return $crate::case::fail(format!($($reason)+));
        }
    };
}
pub(crate) use ensure;

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Fail(error.to_string())
    }
}

impl From<nix::errno::Errno> for Trouble {
    fn from(error: nix::errno::Errno) -> Self {
        Self::Fail(error.to_string())
    }
}

impl From<String> for Trouble {
    fn from(error: String) -> Self {
        Self::Fail(error)
    }
}

impl From<&str> for Trouble {
    fn from(error: &str) -> Self {
        Self::Fail(error.to_owned())
    }
}

/// One promise.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The promise as a sentence.
    pub name: &'static str,
    /// As what the init runs for it.
    pub modes: &'static [Mode],
    /// The rights that the init must have for it.
    pub needs: &'static [Ask],
    /// Named exceptions: this init does not have the behaviour on purpose, or cannot be compared.
    pub exempt: &'static [(Kind, &'static str)],
    /// Whether it starts processes of other users, which a user namespace does not allow.
    pub wants_other_users: bool,
    /// After this long whatever it started is killed.
    pub limit: Duration,
    /// The case itself.
    pub run: fn(&Ctx) -> Verdict,
}

/// Both modes.
pub const BOTH: &[Mode] = &[Mode::Pid1, Mode::Process];
/// Only as process 1.
pub const PID1: &[Mode] = &[Mode::Pid1];
/// Only as an ordinary process.
pub const PROCESS: &[Mode] = &[Mode::Process];

impl Case {
    /// A case without needs and exceptions.
    pub const fn new(name: &'static str, modes: &'static [Mode], run: fn(&Ctx) -> Verdict) -> Self {
        Self {
            name,
            modes,
            needs: &[],
            exempt: &[],
            wants_other_users: false,
            limit: Duration::from_secs(25),
            run,
        }
    }

    /// Only for inits that have this.
    pub const fn needs(self, needs: &'static [Ask]) -> Self {
        Self { needs, ..self }
    }

    /// Not for these inits, for the reason that stands in the table.
    pub const fn exempt(self, exempt: &'static [(Kind, &'static str)]) -> Self {
        Self { exempt, ..self }
    }

    /// Only for the real root.
    pub const fn with_other_users(self) -> Self {
        Self {
            wants_other_users: true,
            ..self
        }
    }

    /// Another hard limit.
    pub const fn limit(self, seconds: u64) -> Self {
        Self {
            limit: Duration::from_secs(seconds),
            ..self
        }
    }

    /// Why the case says nothing about this init, when that is known beforehand.
    pub fn not_for(&self, init: &Init) -> Option<String> {
        let exempt = self
            .exempt
            .iter()
            .find(|(kind, _)| *kind == init.kind)
            .map(|(_, reason)| (*reason).to_owned());
        let lacks = || {
            self.needs
                .iter()
                .find(|ask| init.say(**ask).is_none())
                .map(|ask| format!("no {}", ask.name()))
        };
        exempt.or_else(lacks)
    }
}

/// A case whose name is that of its function.
macro_rules! case {
    ($function:ident, $modes:expr) => {
        $crate::case::Case::new(stringify!($function), $modes, $function)
    };
}
pub(crate) use case;

/// The things that a case has at hand.
#[derive(Debug, Clone)]
pub struct Ctx {
    /// The init under test.
    pub init: Init,
    /// As what it runs.
    pub mode: Mode,
    /// The case's own directory.
    pub dir: PathBuf,
    /// The probe's program.
    pub probe: PathBuf,
    /// An entry of the environment that only this case's processes have.
    pub marker: String,
    /// How long the case waits for what must happen at once.
    pub patience: Duration,
    /// More rounds where chance plays a part.
    pub thorough: bool,
}

impl Ctx {
    /// A path in the case's directory.
    pub fn at(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The init with these options, to be completed and started.
    pub fn launch(&self, asks: &[Ask]) -> Result<Launch<'_>, Trouble> {
        let mut launch = Launch::new(self);
        for &ask in asks {
            let said = self
                .init
                .say(ask)
                .ok_or_else(|| Trouble::NotApplicable(format!("no {}", ask.name())))?;
            launch.say(ask, said);
        }
        Ok(launch)
    }

    /// As `launch`, leaving out what this init has no option for.
    pub fn launch_as_far_as_possible(&self, asks: &[Ask]) -> Result<Launch<'_>, Trouble> {
        let known: Vec<Ask> = asks
            .iter()
            .copied()
            .filter(|&ask| self.init.say(ask).is_some())
            .collect();
        self.launch(&known)
    }

    /// The command line of a probe; file names are those of the case's directory.
    pub fn probe(&self, what: &str, file: &str, options: &[&str]) -> Vec<OsString> {
        let words = [
            self.probe.clone().into_os_string(),
            "--probe".into(),
            what.into(),
            self.at(file).into(),
        ];
        words.into_iter().chain(options.iter().map(OsString::from)).collect()
    }

    /// Whether the init is process 1.
    pub fn is_pid1(&self) -> bool {
        self.mode == Mode::Pid1
    }

    /// The directory as a path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
