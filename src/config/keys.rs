//! Every setting and option in one table. The command line, the environment, the TOML file, `config show` and the
//! help are all read from it, so none of them can disagree with another.

use std::time::Duration;

use super::choice::{Choice, FinalState, Leftovers, LogFormat, LogLevel, Mode, Restart, StopSignalAction};
use crate::lifecycle::shutdown::budget::LEAST_LIMIT;

/// Longest duration that any setting takes: 7 days. More is a wrong unit, not a wish.
pub const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Shortest period of anything that repeats or times out: 10 ms. Less would be a busy loop.
pub const MIN_PERIOD: Duration = Duration::from_millis(10);

/// Most jobs that one worker may hold at once.
pub const MAX_CONCURRENCY: u64 = 10_000;

/// Limits of a frame on the worker socket, in bytes: 4 KiB to 1 GiB.
pub const FRAME_BYTES: (u64, u64) = (4 << 10, 1 << 30);

/// One setting or option.
#[derive(Debug)]
pub struct Key {
    /// Which one; also the position in [`KEYS`].
    pub id: KeyId,
    /// Heading in the help.
    pub group: Group,
    /// Whether it means anything without the agent.
    pub scope: Scope,
    /// `section.name` in the file; options of the init alone have none.
    pub toml: Option<&'static str>,
    /// Long flag without the dashes; what must not be seen in a process list has none.
    pub flag: Option<&'static str>,
    /// Letter of the short flag.
    pub short: Option<char>,
    /// What values look like.
    pub kind: Kind,
    /// Environment variables; the first one that is set wins.
    pub env: &'static [&'static str],
    /// What holds when nobody sets it.
    pub default: DefaultText,
    /// One sentence without its full stop.
    pub help: &'static str,
}

/// What holds when nobody sets a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultText {
    /// A value that could be written out just so.
    Value(&'static str),
    /// Words for people: nothing, or what is worked out later.
    Words(&'static str),
}

impl DefaultText {
    /// The text for help and `config show`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Value(text) | Self::Words(text) => text,
        }
    }
}

/// Heading in the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The init itself.
    Init,
    /// How COMMAND ends.
    Shutdown,
    /// What the log says.
    Log,
    /// The connection to the backend.
    Backend,
    /// The worker and its jobs.
    Worker,
    /// Health, files, signals to the worker.
    Operation,
}

impl Group {
    /// The heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Init => "Init",
            Self::Shutdown => "Shutdown",
            Self::Log => "Log",
            Self::Backend => "Backend (agent)",
            Self::Worker => "Worker (agent)",
            Self::Operation => "Operation (agent)",
        }
    }
}

/// Whether a key means anything without the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In every mode.
    Always,
    /// Only with the agent: without effect in mode none.
    Agent,
}

/// What values of a key look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// true or false.
    Switch,
    /// A flag that counts how often it is given.
    Count,
    /// A short text.
    Text,
    /// A file or directory.
    Path,
    /// A duration, from and to.
    Duration(Duration, Duration),
    /// Bytes, from and to.
    Size(u64, u64),
    /// A whole number, from and to.
    Number(u64, u64),
    /// One signal.
    Signal,
    /// One signal that a process can handle, which excludes KILL and STOP.
    CatchableSignal,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Names, none empty.
    Names,
    /// Numeric user ids.
    Uids,
    /// Exit statuses.
    Statuses,
    /// `FROM:TO` pairs of signals.
    Rewrites,
    /// HTTP headers.
    Headers,
    /// Base URL of a backend.
    Url,
    /// Address to listen on, or off.
    Listen,
    /// User and group.
    User,
    /// Never shown.
    Secret,
}

/// `_` is no name, anything else is one.
macro_rules! optional {
    (_) => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

macro_rules! keys {
    ($($id:ident: $group:ident, $scope:ident, $toml:tt, $flag:tt, $short:tt, $kind:expr,
        [$($env:literal),*], $default:expr, $help:literal;)*) => {
        /// Name of one row of [`KEYS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KeyId { $(#[doc = $help] $id,)* }

        /// How many keys there are.
        pub const COUNT: usize = [$(KeyId::$id,)*].len();

        /// The table, in the order of the help and of `config show`.
        pub static KEYS: [Key; COUNT] = [$(Key {
            id: KeyId::$id, group: Group::$group, scope: Scope::$scope, toml: optional!($toml), flag: optional!($flag),
            short: optional!($short), kind: $kind, env: &[$($env),*], default: $default, help: $help,
        },)*];
    };
}

use DefaultText::{Value, Words};

const ANY_DURATION: Kind = Kind::Duration(Duration::ZERO, MAX_DURATION);
const LIMIT: Kind = Kind::Duration(LEAST_LIMIT, MAX_DURATION);
const PERIOD: Kind = Kind::Duration(MIN_PERIOD, MAX_DURATION);
const UNSET: DefaultText = Words("none");
const OFF: DefaultText = Value("false");

keys! {
    NoAgent: Init, Always, _, "no-agent", _, Kind::Switch, ["OJS_INIT_NO_AGENT"], OFF,
        "Plain init: no backend, no sockets, signals forwarded as they come; the same as --mode none";
    ConfigFile: Init, Always, _, "config", _, Kind::Path, ["OJS_INIT_CONFIG"],
        UNSET,
        "Configuration file in TOML; without this option /etc/ojs-init.toml when that exists";
    Subreaper: Init, Always, _, "subreaper", 's', Kind::Switch, ["OJS_INIT_SUBREAPER"], OFF,
        "Be a subreaper, so that orphans come to us; done anyway when not PID 1";
    ParentDeathSignal: Init, Always, _, "parent-death-signal", 'p', Kind::Signal,
        ["OJS_INIT_PARENT_DEATH_SIGNAL"], UNSET,
        "Signal that we get when our parent dies";
    Verbose: Init, Always, _, "verbose", 'v', Kind::Count, ["OJS_INIT_VERBOSE"], Value("0"),
        "Log more; repeat it for still more; in the environment a number";
    WarnOnReap: Init, Always, _, "warn-on-reap", 'w', Kind::Switch, ["OJS_INIT_WARN_ON_REAP"], OFF,
        "Warn when an orphan is reaped";
    ProcessGroup: Init, Always, _, "process-group", 'g', Kind::Switch, ["OJS_INIT_PROCESS_GROUP"], OFF,
        "Send forwarded signals to COMMAND's whole process group";
    RemapExit: Init, Always, _, "remap-exit", 'e', Kind::Statuses, ["OJS_INIT_REMAP_EXIT"], UNSET,
        "Exit status of COMMAND that becomes 0; may be repeated";
    Rewrite: Init, Always, _, "rewrite", 'r', Kind::Rewrites, ["OJS_INIT_REWRITE"], UNSET,
        "Forward signal FROM as TO, or drop it when TO is 0; may be repeated";
    User: Init, Always, "process.user", "user", _, Kind::User, ["OJS_USER"], Words("unchanged"),
        "User, and after a colon group, that COMMAND runs as: names or numbers";

    GracePeriod: Shutdown, Always, "shutdown.grace_period", "grace-period", _, ANY_DURATION,
        ["OJS_SHUTDOWN_GRACE_PERIOD", "OJS_GRACE_PERIOD", "OJS_SHUTDOWN_TIMEOUT"], Value("30s"),
        "Longest drain after the first stop signal; 0s means none. A plain init waits for ever unless this or \
         the termination grace period is set";
    TerminationGracePeriod: Shutdown, Always, "shutdown.termination_grace_period", "termination-grace-period", _,
        LIMIT, ["OJS_TERMINATION_GRACE_PERIOD"], Words("guessed with the agent"),
        "What the orchestrator allows from its first step to SIGKILL: always the limit when set";
    PrestopTime: Shutdown, Always, "shutdown.prestop_time", "prestop-time", _, ANY_DURATION, ["OJS_PRESTOP_TIME"],
        Value("0s"),
        "Time that a preStop hook which tells us nothing (sleep 5) has already used";
    StopMargin: Shutdown, Always, "shutdown.stop_margin", "stop-margin", _, ANY_DURATION, ["OJS_STOP_MARGIN"],
        Words("5s or half the limit"),
        "Time kept back for the stop phase before the limit: at most half of it; one that is too small is raised";
    CancelGrace: Shutdown, Agent, "shutdown.cancel_grace", "cancel-grace", _, ANY_DURATION, ["OJS_CANCEL_GRACE"],
        Value("1s"),
        "From cancel to SIGKILL in the stop phase, as far as the margin leaves that";
    TermDelay: Shutdown, Agent, "shutdown.term_delay", "term-delay", _, ANY_DURATION, ["OJS_TERM_DELAY"],
        Value("0s"),
        "Pause between not ready and the first step of the drain; counts against the limit";
    Sigint: Shutdown, Agent, "shutdown.sigint", "sigint", _, Kind::Choice(StopSignalAction::NAMES), ["OJS_SIGINT"],
        Value("graceful"),
        "What SIGINT does: graceful as SIGTERM, stop the jobs now, or exit at once";
    Sigquit: Shutdown, Agent, "shutdown.sigquit", "sigquit", _, Kind::Choice(StopSignalAction::NAMES),
        ["OJS_SIGQUIT"], Value("graceful"),
        "What SIGQUIT does, in the same words";
    InterruptedExit: Shutdown, Agent, "shutdown.interrupted_exit", "interrupted-exit", _, Kind::Number(0, 255),
        ["OJS_INTERRUPTED_EXIT"], Value("0"),
        "Exit status of a shutdown that cut jobs off";

    LogFormat: Log, Always, "log.format", "format", _, Kind::Choice(LogFormat::NAMES), ["OJS_LOG_FORMAT"],
        Words("text on a tty, else json"),
        "Shape of the log records on standard error";
    LogLevel: Log, Always, "log.level", "level", _, Kind::Choice(LogLevel::NAMES), ["OJS_LOG_LEVEL"], Value("info"),
        "Least severe record that is written; each -v goes one step further";

    Mode: Worker, Always, "worker.mode", "mode", _, Kind::Choice(Mode::NAMES), ["OJS_MODE"], Value("socket"),
        "How jobs reach COMMAND: socket, or none (a plain init); gateway and exec come in a later version";
    Queues: Worker, Agent, "worker.queues", "queues", _, Kind::Names, ["OJS_QUEUES", "OJS_QUEUE"], Value("default"),
        "Queues to fetch from, highest priority first, with commas between";
    Concurrency: Worker, Agent, "worker.concurrency", "concurrency", _, Kind::Number(1, MAX_CONCURRENCY),
        ["OJS_CONCURRENCY"], Value("10"),
        "Most jobs active at once, over all connections";
    Labels: Worker, Agent, "worker.labels", "labels", _, Kind::Names, ["OJS_LABELS"], UNSET,
        "Labels of this worker, with commas between";
    PollInterval: Worker, Agent, "worker.poll_interval", "poll-interval", _, PERIOD, ["OJS_POLL_INTERVAL"],
        Value("1s"),
        "Pause after a fetch that brought no job";
    HeartbeatInterval: Worker, Agent, "worker.heartbeat_interval", "heartbeat-interval", _, PERIOD,
        ["OJS_HEARTBEAT_INTERVAL"], Words("5s, or as registered"),
        "Time between heartbeats; at most a third of the visibility timeout";
    VisibilityTimeout: Worker, Agent, "worker.visibility_timeout", "visibility-timeout", _, PERIOD,
        ["OJS_VISIBILITY_TIMEOUT"], Value("2m"),
        "How long a job stays reserved after a heartbeat, unless its envelope names a longer time";
    Restart: Worker, Agent, "worker.restart", "restart", _, Kind::Choice(Restart::NAMES), ["OJS_RESTART"],
        Value("hung"),
        "Whether a worker that ended is started again; hung: one that ojs-init itself had to end";
    ServerResume: Worker, Agent, "worker.server_resume", "server-resume", _, Kind::Switch, ["OJS_SERVER_RESUME"], OFF,
        "Let the backend lift a quiet that the backend made";
    TimeoutGrace: Worker, Agent, "worker.timeout_grace", "timeout-grace", _, ANY_DURATION, ["OJS_TIMEOUT_GRACE"],
        Value("30s"),
        "From a job's timeout to the end of the process that holds it";
    SocketUsers: Worker, Agent, "worker.socket_users", "socket-users", _, Kind::Uids, ["OJS_SOCKET_USERS"], UNSET,
        "Further uids that may connect to the worker socket, with commas between";
    ReadyTimeout: Worker, Agent, "worker.ready_timeout", "ready-timeout", _, PERIOD, ["OJS_READY_TIMEOUT"],
        Value("1m"),
        "Warn when the worker has not said ready by then";
    TypeWait: Worker, Agent, "worker.type_wait", "type-wait", _, ANY_DURATION, ["OJS_TYPE_WAIT"],
        Value("5s"),
        "How long a job whose type no connection takes waits for one that may still come, from the last ready on";
    MaxFrame: Worker, Agent, "worker.max_frame", "max-frame", _, Kind::Size(FRAME_BYTES.0, FRAME_BYTES.1),
        ["OJS_MAX_FRAME"], Value("4MiB"),
        "Largest frame on the worker socket";
    TellWorker: Worker, Agent, "gateway.tell_worker", "gateway-tell-worker", _, Kind::Switch,
        ["OJS_GATEWAY_TELL_WORKER"], OFF,
        "Gateway: let the worker's own heartbeats see quiet and terminate";

    Url: Backend, Agent, "backend.url", "url", _, Kind::Url, ["OJS_URL", "OJS_BACKEND_URL", "OJS_SERVER_URL"],
        Words("none"),
        "Backend, needed with the agent: http or https; a path prefix is kept, /ojs/v1 is added";
    AuthTokenFile: Backend, Agent, "backend.auth_token_file", "auth-token-file", _, Kind::Path,
        ["OJS_AUTH_TOKEN_FILE"], UNSET,
        "File with the bearer token; read again when it changes. OJS_AUTH_TOKEN holds the token itself";
    AuthToken: Backend, Agent, _, _, _, Kind::Secret, ["OJS_AUTH_TOKEN"], UNSET,
        "The bearer token itself";
    PassToken: Backend, Agent, "backend.pass_token", "pass-token", _, Kind::Switch, ["OJS_PASS_TOKEN"], OFF,
        "Leave the token in COMMAND's environment";
    FinalState: Backend, Agent, "backend.final_state", "final-state", _, Kind::Choice(FinalState::NAMES),
        ["OJS_FINAL_STATE"], Value("terminate"),
        "State in the last heartbeat";
    Headers: Backend, Agent, "backend.headers", "headers", _, Kind::Headers, ["OJS_INIT_HEADERS"], UNSET,
        "Extra header 'Name: value' for each request, its value a secret: rather in the environment, one a line";
    CaFile: Backend, Agent, "backend.ca_file", "ca-file", _, Kind::Path, ["OJS_TLS_CA_FILE"], Words("public roots"),
        "Certificates that the backend's must go back to, in PEM";
    CertFile: Backend, Agent, "backend.cert_file", "cert-file", _, Kind::Path, ["OJS_TLS_CERT_FILE"], UNSET,
        "Our own certificate for mutual TLS, in PEM; needs --key-file";
    KeyFile: Backend, Agent, "backend.key_file", "key-file", _, Kind::Path, ["OJS_TLS_KEY_FILE"], UNSET,
        "The key of our own certificate, in PEM; needs --cert-file";
    ConnectTimeout: Backend, Agent, "backend.connect_timeout", "connect-timeout", _, PERIOD,
        ["OJS_CONNECT_TIMEOUT"], Value("5s"),
        "Longest wait for a connection to the backend";
    RequestTimeout: Backend, Agent, "backend.request_timeout", "request-timeout", _, PERIOD,
        ["OJS_REQUEST_TIMEOUT"], Value("10s"),
        "Longest wait for an answer of the backend";
    Leftovers: Backend, Agent, "backend.leftovers", "leftovers", _, Kind::Choice(Leftovers::NAMES),
        ["OJS_LEFTOVERS"], Value("fail"),
        "What becomes of a job that a shutdown cut off";
    ShutdownErrorType: Backend, Agent, "backend.shutdown_error_type", "shutdown-error-type", _, Kind::Text,
        ["OJS_INIT_SHUTDOWN_ERROR_TYPE"], Value("ShutdownError"),
        "Error type in the FAIL of such a job";
    ShutdownErrorCode: Backend, Agent, "backend.shutdown_error_code", "shutdown-error-code", _, Kind::Text,
        ["OJS_INIT_SHUTDOWN_ERROR_CODE"], Value("shutdown"),
        "Error code in the FAIL of such a job";

    OnQuiet: Operation, Agent, "signals.on_quiet", "on-quiet", _, Kind::CatchableSignal, ["OJS_ON_QUIET"], UNSET,
        "Signal for the worker when no new jobs will come";
    OnResume: Operation, Agent, "signals.on_resume", "on-resume", _, Kind::CatchableSignal, ["OJS_ON_RESUME"], UNSET,
        "Signal for the worker when jobs come again";
    OnTerminate: Operation, Agent, "signals.on_terminate", "on-terminate", _, Kind::CatchableSignal, ["OJS_ON_TERMINATE"],
        UNSET,
        "Signal for the worker when the drain begins";
    Listen: Operation, Agent, "health.listen", "listen", _, Kind::Listen, ["OJS_HEALTH_LISTEN"],
        Words("[::]:8081"),
        "Address of the health endpoints, or off; where there is no IPv6, 0.0.0.0:8081";
    RuntimeDir: Operation, Agent, "paths.runtime_dir", "runtime-dir", _, Kind::Path, ["OJS_RUNTIME_DIR"],
        Words("chosen at start"),
        "Directory for the sockets";
    TerminationLog: Operation, Agent, "paths.termination_log", "termination-log", _, Kind::Path,
        ["OJS_TERMINATION_LOG"], Words("/dev/termination-log"),
        "File that gets a summary of the shutdown, when it exists; or off";
}

impl KeyId {
    /// The row of this key.
    #[must_use]
    pub fn key(self) -> &'static Key {
        &KEYS[self as usize]
    }
}

impl Key {
    /// The name in errors and in `config show`: that of the file, else that of the flag or of the variable.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.toml.or(self.flag).unwrap_or(self.env[0])
    }

    /// Section and name in the file.
    #[must_use]
    pub fn parts(&self) -> Option<(&'static str, &'static str)> {
        self.toml.and_then(|name| name.split_once('.'))
    }

    /// Whether the flag may be given more than once, each time with a further value.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        matches!(self.kind, Kind::Statuses | Kind::Rewrites | Kind::Headers)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_stands_where_its_name_says() {
        for (position, key) in KEYS.iter().enumerate() {
            assert_eq!(key.id as usize, position);
            assert_eq!(key.id.key().id, key.id);
        }
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut seen = BTreeSet::new();
        for key in &KEYS {
            let names = key.toml.into_iter().map(|name| format!("toml {name}"));
            let names = names.chain(key.flag.into_iter().map(|name| format!("--{name}")));
            let names = names.chain(key.short.into_iter().map(|letter| format!("-{letter}")));
            for name in names.chain(key.env.iter().map(|name| (*name).to_owned())) {
                assert!(seen.insert(name.clone()), "{name}");
            }
        }
    }

    #[test]
    fn a_flag_is_named_after_the_last_part_of_its_key_and_of_gateway_exec_and_otel_after_the_section_too() {
        for key in &KEYS {
            let Some((section, name)) = key.parts() else { continue };
            let (flag, variable) = (key.flag.unwrap().replace('-', "_"), key.env.first().unwrap());
            if ["gateway", "exec", "otel"].contains(&section) {
                assert_eq!(flag, format!("{section}_{name}"));
                assert_eq!(*variable, format!("OJS_{}", flag.to_uppercase()));
            } else {
                assert_eq!(flag, name);
            }
        }
    }

    #[test]
    fn a_key_without_a_name_in_the_ecosystem_has_the_variable_of_its_flag() {
        for key in &KEYS {
            assert!(!key.env.is_empty());
            for name in key.env.iter().filter(|name| name.starts_with("OJS_INIT_")) {
                let flag = key.flag.unwrap().to_uppercase().replace('-', "_");
                assert_eq!(*name, format!("OJS_INIT_{flag}"));
            }
        }
    }

    #[test]
    fn a_secret_has_neither_flag_nor_name_in_the_file() {
        for key in KEYS.iter().filter(|key| key.kind == Kind::Secret) {
            assert_eq!((key.flag, key.toml), (None, None));
        }
    }
}
