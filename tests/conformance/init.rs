//! The inits: where each is, and how to say to each what a case asks for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Something that a case asks of an init beyond "run this".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Adopt orphans although not process 1.
    Subreaper,
    /// The same, asked for in the environment.
    SubreaperByEnvironment,
    /// Get this signal when the parent dies.
    ParentDeath(&'static str),
    /// Say more, that many times.
    Verbose(usize),
    /// Warn when an adopted process is reaped.
    WarnOnReap,
    /// Forward to the child's whole group.
    Group,
    /// The same, asked for in the environment.
    GroupByEnvironment,
    /// Forward to the direct child only.
    OnlyTheChild,
    /// This status of the child becomes 0.
    RemapExit(u8),
    /// Signal FROM arrives as TO, both numbers.
    Rewrite(&'static str),
    /// The same, by name.
    RewriteByName(&'static str),
    /// SIGKILL this long after SIGTERM; leftovers get as long.
    Grace(&'static str),
    /// The time that the orchestrator allows in all.
    Limit(&'static str),
    /// SIGTERM to the child's group when the main child ends.
    TermLeftovers,
    /// A command without `--` before it.
    BareCommand,
}

impl Ask {
    /// The word for an init that lacks it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subreaper => "option to become a subreaper",
            Self::SubreaperByEnvironment => "variable to become a subreaper",
            Self::ParentDeath(_) => "signal for the death of the parent",
            Self::Verbose(_) => "verbose option",
            Self::WarnOnReap => "warning on reaping",
            Self::Group => "option for the whole group",
            Self::GroupByEnvironment => "variable for the whole group",
            Self::OnlyTheChild => "way to reach the child alone",
            Self::RemapExit(_) => "remapping of exit codes",
            Self::Rewrite(_) => "rewriting of signals",
            Self::RewriteByName(_) => "rewriting of signals by name",
            Self::Grace(_) => "grace period",
            Self::Limit(_) => "limit for the whole stop",
            Self::TermLeftovers => "SIGTERM for leftovers",
            Self::BareCommand => "command without a double dash",
        }
    }
}

/// Arguments and environment that say one `Ask`.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Options, before the `--`.
    pub arguments: Vec<OsString>,
    /// Entries `NAME=value`.
    pub environment: Vec<String>,
}

impl Said {
    fn arguments(words: &[&str]) -> Option<Self> {
        Some(Self {
            arguments: words.iter().map(OsString::from).collect(),
            environment: Vec::new(),
        })
    }

    fn environment(entry: &str) -> Option<Self> {
        Some(Self {
            arguments: Vec::new(),
            environment: vec![entry.to_owned()],
        })
    }

    fn nothing() -> Option<Self> {
        Some(Self::default())
    }
}

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Ours.
    Ojs,
    /// krallin/tini.
    Tini,
    /// Yelp/dumb-init.
    DumbInit,
    /// openSUSE/catatonit.
    Catatonit,
}

impl Kind {
    /// All that the table compares, ours first.
    pub const ALL: [Self; 4] = [Self::Ojs, Self::Tini, Self::DumbInit, Self::Catatonit];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ojs => "ojs-init",
            Self::Tini => "tini",
            Self::DumbInit => "dumb-init",
            Self::Catatonit => "catatonit",
        }
    }

    /// The one with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An init to be tested.
#[derive(Debug, Clone)]
pub struct Init {
    /// The kind of init.
    pub kind: Kind,
    /// The path of its program.
    pub program: PathBuf,
}

impl Init {
    /// Finds it: ours where cargo or `BINARY_UNDER_TEST` says, the others where Debian puts them.
    pub fn find(kind: Kind) -> Result<Self, String> {
        let program = match kind {
            Kind::Ojs => std::env::var_os("BINARY_UNDER_TEST")
                .map(PathBuf::from)
                .or_else(|| option_env!("CARGO_BIN_EXE_ojs-init").map(PathBuf::from))
                .ok_or("BINARY_UNDER_TEST does not say where ojs-init is")?,
            Kind::Tini | Kind::DumbInit | Kind::Catatonit => Path::new("/usr/bin").join(kind.name()),
        };
        match program.canonicalize() {
            Ok(program) => Ok(Self { kind, program }),
            Err(error) => Err(format!("{}: {}: {error}", kind.name(), program.display())),
        }
    }

    /// Words before the options.
    pub fn prefix(&self, bare: bool) -> Vec<OsString> {
        let words: &[&str] = match (self.kind, bare) {
            (Kind::Ojs, true) => &["run", "--no-agent"],
            (Kind::Ojs, false) => &["--no-agent"],
            (Kind::Tini | Kind::DumbInit | Kind::Catatonit, _) => &[],
        };
        words.iter().map(OsString::from).collect()
    }

    /// How to ask for it; `None` when this init has no such thing.
    pub fn say(&self, ask: Ask) -> Option<Said> {
        match self.kind {
            Kind::Ojs => ojs(ask),
            Kind::Tini => tini(ask),
            Kind::DumbInit => dumb_init(ask),
            Kind::Catatonit => catatonit(ask),
        }
    }
}

fn ojs(ask: Ask) -> Option<Said> {
    match ask {
        Ask::Subreaper => Said::arguments(&["-s"]),
        Ask::ParentDeath(signal) => Said::arguments(&["-p", signal]),
        Ask::Verbose(times) => Said::arguments(&[format!("-{}", "v".repeat(times)).as_str()]),
        Ask::WarnOnReap => Said::arguments(&["-w"]),
        Ask::Group => Said::arguments(&["-g"]),
        Ask::GroupByEnvironment => Said::environment("OJS_INIT_PROCESS_GROUP=true"),
        Ask::SubreaperByEnvironment => Said::environment("OJS_INIT_SUBREAPER=true"),
        Ask::RemapExit(status) => Said::arguments(&["-e", &status.to_string()]),
        Ask::Rewrite(rule) | Ask::RewriteByName(rule) => Said::arguments(&["-r", rule]),
        Ask::Grace(time) => Said::arguments(&["--grace-period", time]),
        Ask::Limit(time) => Said::arguments(&["--termination-grace-period", time]),
        Ask::TermLeftovers => Said::arguments(&["--grace-period", "2s"]),
        Ask::OnlyTheChild | Ask::BareCommand => Said::nothing(),
    }
}

fn tini(ask: Ask) -> Option<Said> {
    match ask {
        Ask::Subreaper => Said::arguments(&["-s"]),
        Ask::ParentDeath(signal) => Said::arguments(&["-p", signal]),
        Ask::Verbose(times) => Said::arguments(&[format!("-{}", "v".repeat(times)).as_str()]),
        Ask::WarnOnReap => Said::arguments(&["-w"]),
        Ask::Group => Said::arguments(&["-g"]),
        Ask::GroupByEnvironment => Said::environment("TINI_KILL_PROCESS_GROUP=1"),
        Ask::SubreaperByEnvironment => Said::environment("TINI_SUBREAPER=1"),
        Ask::RemapExit(status) => Said::arguments(&["-e", &status.to_string()]),
        Ask::OnlyTheChild | Ask::BareCommand => Said::nothing(),
        Ask::Rewrite(_) | Ask::RewriteByName(_) | Ask::Grace(_) | Ask::Limit(_) | Ask::TermLeftovers => None,
    }
}

fn dumb_init(ask: Ask) -> Option<Said> {
    match ask {
        Ask::Verbose(_) => Said::arguments(&["-v"]),
        Ask::OnlyTheChild => Said::arguments(&["-c"]),
        Ask::Rewrite(rule) => Said::arguments(&["-r", rule]),
        Ask::Group | Ask::TermLeftovers | Ask::BareCommand => Said::nothing(),
        Ask::Subreaper
        | Ask::SubreaperByEnvironment
        | Ask::ParentDeath(_)
        | Ask::WarnOnReap
        | Ask::GroupByEnvironment
        | Ask::RemapExit(_)
        | Ask::RewriteByName(_)
        | Ask::Grace(_)
        | Ask::Limit(_) => None,
    }
}

fn catatonit(ask: Ask) -> Option<Said> {
    match ask {
        Ask::Group => Said::arguments(&["-g"]),
        Ask::OnlyTheChild | Ask::BareCommand => Said::nothing(),
        Ask::Subreaper
        | Ask::SubreaperByEnvironment
        | Ask::ParentDeath(_)
        | Ask::Verbose(_)
        | Ask::WarnOnReap
        | Ask::GroupByEnvironment
        | Ask::RemapExit(_)
        | Ask::Rewrite(_)
        | Ask::RewriteByName(_)
        | Ask::Grace(_)
        | Ask::Limit(_)
        | Ask::TermLeftovers => None,
    }
}
