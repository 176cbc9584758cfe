//! Every setting and option in one table. The command line, the environment, the TOML file, `config
//! show`, the help and the pages of settings all read it, so none of them can contradict another.
//!
//! A new key is a row here, and the field that it fills in [`super::sections`]. A key for the
//! machine alone fills a field of its options instead (docs/changing.md). A row is:
//!
//! ```text
//! NAME: type of its values [which of them it accepts] = default, "the default in words, where no value says it";
//!     name in the file, long flag and its letter, [environment variables];
//!     "What it means, in one sentence";
//! ```
//!
//! `_` stands for a name that the key does not have; a table has neither flag nor variable.
//! [`super::values`] defines the accepted values of each type.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::key::{Group, Key, Row, Scope, Values};
use super::values::duration::{Bytes, TimeOrOff};
use super::values::enums::{ExecInput, ExecLeftovers, ExecOutput, GatewayAllow, LogFormat, Mode, RecycleOverlap};
use super::values::exec::{ExecRoutes, Redactions, Verdicts};
use super::values::limits::MAX_PROCESSES;
use super::values::limits::{MemoryLimit, MemoryShare, Nice, Percent, Rlimits, Uids};
use super::values::lists::Rewrites;
use super::values::log_levels::LogLevels;
use super::values::loopback::Loopback;
use super::values::network::{BackendUrl, Header, Listen, Secret};
use super::values::otel::{Collector, CollectorHeaders, ResourceAttributes};
use super::values::proxy::ProxySetting;
use super::values::scalars::{Count, Signals};
use super::values::user::UserSpec;
use super::values::{Notation, Value};
use ojs_lifecycle::api::{FinalState, LEAST_LIMIT, Leftovers, MAX_CONCURRENCY, Restart, StopSignal, Wake};
use ojs_values::exit::RemapExit;
use ojs_values::signal::Signal;

/// Longest duration of any setting: 7 days. More is a wrong unit, not a wish.
const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Durations that may be zero.
const ANY_DURATION: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;

/// Periods and timeouts: at least 10 ms. Less would be a busy loop.
const PERIOD: RangeInclusive<Duration> = Duration::from_millis(10)..=MAX_DURATION;

/// Ages of a worker at which it is recycled: at least 1 s, because each start costs capacity.
const AGE: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_DURATION;

/// The time that an orchestrator may allow from its first step to its SIGKILL.
const LIMIT: RangeInclusive<Duration> = LEAST_LIMIT..=MAX_DURATION;

/// Limits of a frame on the worker socket: 4 KiB to 1 GiB.
const FRAME_BYTES: RangeInclusive<Bytes> = Bytes(4 << 10)..=Bytes(1 << 30);

/// Limits of a job's result: 1 KiB to 1 GiB.
const OUTPUT_BYTES: RangeInclusive<Bytes> = Bytes(1 << 10)..=Bytes(1 << 30);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// `None` for a part that a row leaves out or spells `_`.
macro_rules! optional {
    () => {
        None
    };
    (_) => {
        None
    };
    ($given:literal) => {
        Some($given)
    };
}

macro_rules! keys {
    ($(in $group:ident, $scope:ident {$(
        $name:ident: $type:ty $([$limits:expr])? = $default:expr $(, $words:literal)?;
        $toml:tt, $flag:tt $($short:literal)?, [$($env:literal),*];
        $help:literal;
    )*})*) => {
        /// Positions in [`KEYS`].
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the rows")]
        enum Position { $($($name,)*)* }

        $($(
            #[doc = $help]
            pub static $name: Key<$type> = Key {
                row: Row {
                    position: Position::$name as usize,
                    group: Group::$group,
                    scope: Scope::$scope,
                    toml: optional!($toml),
                    flag: optional!($flag),
                    short: optional!($($short)?),
                    env: &[$($env),*],
                    default_words: optional!($($words)?),
                    help: if Scope::$scope.is_built_in() { $help } else { "" },
                    notation: if Scope::$scope.is_built_in() { &<$type>::NOTATION } else { &Notation::ABSENT },
                    values: if Scope::$scope.is_built_in() {
                        &Values {
                            limited: || <$type>::limited(&$name.limits),
                            read: |texts| Ok(Arc::new(<$type>::read(texts, &$name.limits)?)),
                            default_shown: || ($name.default)().show(),
                            quotable: <$type>::quotable,
                        }
                    } else {
                        &Values::ABSENT
                    },
                },
                limits: ($($limits)?),
                default: || $default,
            };
        )*)*

        /// The table, in the order of the help and of `config show`.
        pub static KEYS: [&Row; [$($(Position::$name,)*)*].len()] = [$($(&$name.row,)*)*];
    };
}

keys! {
    in Init, Always {
        NO_AGENT: bool = false;
            _, "no-agent", ["OJS_INIT_NO_AGENT"];
            "Plain init: no backend, no sockets, signals forwarded as they come; the same as --mode none";
    }

    in Init, FullBuild {
        CONFIG_FILE: Option<PathBuf> = None;
            _, "config", ["OJS_INIT_CONFIG"];
            "Configuration file in TOML; without this option /etc/ojs-init.toml when that exists";
    }

    in Init, Always {
        SUBREAPER: bool = false;
            _, "subreaper" 's', ["OJS_INIT_SUBREAPER"];
            "Be a subreaper, so that orphans come to us; done anyway when not PID 1";
        PARENT_DEATH_SIGNAL: Option<Signal> [Signals::Any] = None;
            _, "parent-death-signal" 'p', ["OJS_INIT_PARENT_DEATH_SIGNAL"];
            "Signal that we get when our parent dies";
        VERBOSE: Count = Count(0);
            _, "verbose" 'v', ["OJS_INIT_VERBOSE"];
            "Log more; repeat it for still more; in the environment a number";
        WARN_ON_REAP: bool = false;
            _, "warn-on-reap" 'w', ["OJS_INIT_WARN_ON_REAP"];
            "Warn when an orphan is reaped";
        PROCESS_GROUP: bool = false;
            _, "process-group" 'g', ["OJS_INIT_PROCESS_GROUP"];
            "Send forwarded signals to COMMAND's whole process group";
        REMAP_EXIT: RemapExit = RemapExit::default();
            _, "remap-exit" 'e', ["OJS_INIT_REMAP_EXIT"];
            "Exit status of COMMAND that becomes 0; may be repeated";
        REWRITE: Rewrites = Rewrites::new();
            _, "rewrite" 'r', ["OJS_INIT_REWRITE"];
            "Forward signal FROM as TO, or drop it when TO is 0; may be repeated";
        USER: Option<UserSpec> = None, "unchanged";
            "process.user", "user", ["OJS_USER"];
            "User, and after a colon group, that COMMAND runs as: names or numbers";
    }

    in Shutdown, Always {
        GRACE_PERIOD: Duration [ANY_DURATION] = secs(30);
            "shutdown.grace_period", "grace-period", ["OJS_SHUTDOWN_GRACE_PERIOD", "OJS_GRACE_PERIOD", "OJS_SHUTDOWN_TIMEOUT"];
            "Longest drain after the first stop signal; 0s means none. A plain init waits for ever unless this or the \
             termination grace period is set";
        TERMINATION_GRACE_PERIOD: Option<Duration> [LIMIT] = None, "guessed with the agent";
            "shutdown.termination_grace_period", "termination-grace-period", ["OJS_TERMINATION_GRACE_PERIOD"];
            "What the orchestrator allows from its first step to SIGKILL: always the limit when set";
        PRESTOP_TIME: Duration [ANY_DURATION] = Duration::ZERO;
            "shutdown.prestop_time", "prestop-time", ["OJS_PRESTOP_TIME"];
            "Time that a preStop hook which tells us nothing (sleep 5) has already used";
        STOP_MARGIN: Option<Duration> [ANY_DURATION] = None, "5s or half the limit";
            "shutdown.stop_margin", "stop-margin", ["OJS_STOP_MARGIN"];
            "Time kept back for the stop phase before the limit: at most half of it; one that is too small is raised";
    }

    in Shutdown, Agent {
        CANCEL_GRACE: Duration [ANY_DURATION] = secs(1);
            "shutdown.cancel_grace", "cancel-grace", ["OJS_CANCEL_GRACE"];
            "From cancel to SIGKILL in the stop phase, as far as the margin leaves that";
        TERM_DELAY: Duration [ANY_DURATION] = Duration::ZERO;
            "shutdown.term_delay", "term-delay", ["OJS_TERM_DELAY"];
            "Pause between not ready and the first step of the drain; counts against the limit";
        SIGINT: StopSignal = StopSignal::Graceful;
            "shutdown.sigint", "sigint", ["OJS_SIGINT"];
            "What SIGINT does: graceful as SIGTERM, stop the jobs now, or exit at once";
        SIGQUIT: StopSignal = StopSignal::Graceful;
            "shutdown.sigquit", "sigquit", ["OJS_SIGQUIT"];
            "What SIGQUIT does, in the same words";
        INTERRUPTED_EXIT: u8 [0..=u8::MAX] = 0;
            "shutdown.interrupted_exit", "interrupted-exit", ["OJS_INTERRUPTED_EXIT"];
            "Exit status of a shutdown that cut jobs off";
    }

    in Log, Always {
        LOG_FORMAT: Option<LogFormat> = None, "text on a tty, else json";
            "log.format", "format", ["OJS_LOG_FORMAT"];
            "Shape of the log records on standard error";
        LOG_LEVEL: LogLevels = LogLevels::all(Level::Info);
            "log.level", "level", ["OJS_LOG_LEVEL"];
            "Least severe record that is written; each -v goes one step further";
    }

    in Worker, Always {
        MODE: Mode = Mode::USUAL;
            "worker.mode", "mode", ["OJS_MODE"];
            "How jobs reach COMMAND: socket, gateway (it speaks HTTP), exec (a process for each job), or none (a plain init)";
    }

    in Worker, Agent {
        QUEUES: Vec<String> = vec!["default".to_owned()];
            "worker.queues", "queues", ["OJS_QUEUES", "OJS_QUEUE"];
            "Queues to fetch from, highest priority first, with commas between; unset in mode gateway: as the SDK asks";
        CONCURRENCY: u32 [1..=MAX_CONCURRENCY] = 10;
            "worker.concurrency", "concurrency", ["OJS_CONCURRENCY"];
            "Most jobs active at once, over all connections; unset in mode gateway: as the SDK asks";
        LABELS: Vec<String> = Vec::new();
            "worker.labels", "labels", ["OJS_LABELS"];
            "Labels of this worker, with commas between";
        POLL_INTERVAL: Duration [PERIOD] = secs(1);
            "worker.poll_interval", "poll-interval", ["OJS_POLL_INTERVAL"];
            "Pause after a fetch that brought no job";
        POLL_INTERVAL_MAX: Duration [PERIOD] = secs(10);
            "worker.poll_interval_max", "poll-interval-max", ["OJS_POLL_INTERVAL_MAX"];
            "What that pause grows to while event streams have told of every job that polls found";
        WAKE: Wake = Wake::Auto;
            "worker.wake", "wake", ["OJS_WAKE"];
            "Where the backend streams events, a job that becomes available ends the pause: auto, or off";
        HEARTBEAT_INTERVAL: Option<Duration> [PERIOD] = None, "5s, or as registered";
            "worker.heartbeat_interval", "heartbeat-interval", ["OJS_HEARTBEAT_INTERVAL"];
            "Time between heartbeats; at most a third of the visibility timeout";
        VISIBILITY_TIMEOUT: Duration [PERIOD] = secs(120);
            "worker.visibility_timeout", "visibility-timeout", ["OJS_VISIBILITY_TIMEOUT"];
            "How long a job stays reserved after a heartbeat, unless its envelope names a longer time";
        RESTART: Restart = Restart::Hung;
            "worker.restart", "restart", ["OJS_RESTART"];
            "Whether a worker that ended is started again; hung: one that ojs-init itself had to end";
        SERVER_RESUME: bool = false;
            "worker.server_resume", "server-resume", ["OJS_SERVER_RESUME"];
            "Let the backend lift a quiet that the backend made";
        TIMEOUT_GRACE: Duration [ANY_DURATION] = secs(30);
            "worker.timeout_grace", "timeout-grace", ["OJS_TIMEOUT_GRACE"];
            "From a job's timeout to the end of the process that holds it";
        READY_TIMEOUT: Duration [PERIOD] = secs(60);
            "worker.ready_timeout", "ready-timeout", ["OJS_READY_TIMEOUT"];
            "Warn when the worker has not said ready by then";
        MEMORY_GATE: MemoryShare [Percent(10)..=Percent(99)] = MemoryShare(None);
            "worker.memory_gate", "memory-gate", ["OJS_WORKER_MEMORY_GATE"];
            "Share of the container's memory limit above which no job is fetched, until it is 5 points below";
        MAX_JOBS: Option<u32> [1..=u32::MAX] = None;
            "worker.max_jobs", "max-jobs", ["OJS_WORKER_MAX_JOBS"];
            "Recycle the worker after so many jobs, less up to a fifth by chance";
        MAX_MEMORY: Option<MemoryLimit> = None;
            "worker.max_memory", "max-memory", ["OJS_WORKER_MAX_MEMORY"];
            "Recycle the worker when it uses more memory with all its descendants: bytes, or a share of the container's limit";
        MAX_AGE: Option<Duration> [AGE] = None;
            "worker.max_age", "max-age", ["OJS_WORKER_MAX_AGE"];
            "Recycle the worker so long after it was ready, less up to a fifth by chance";
        EXIT_WHEN_IDLE: TimeOrOff [PERIOD] = TimeOrOff(None);
            "worker.exit_when_idle", "exit-when-idle", ["OJS_EXIT_WHEN_IDLE"];
            "End as after SIGTERM when FETCHes have found no job for so long and none is active; off: never";
        ONCE: bool = false;
            _, "once", ["OJS_INIT_ONCE"];
            "Take one job, then end: status 0 if it was acknowledged, else 1; the concurrency is 1";
        MAX_FRAME: Bytes [FRAME_BYTES] = Bytes(4 << 20);
            "worker.max_frame", "max-frame", ["OJS_MAX_FRAME"];
            "Largest frame on the worker socket; mode gateway: longest body of an ACK, FAIL, FETCH or heartbeat";
    }

    in Worker, OwnWorker {
        PROCESSES: u32 [1..=MAX_PROCESSES] = 1;
            "worker.processes", "processes", ["OJS_PROCESSES"];
            "Copies of COMMAND that run side by side, each with its number in OJS_PROCESS_INDEX";
        RECYCLE_OVERLAP: RecycleOverlap = RecycleOverlap::Auto;
            "worker.recycle_overlap", "recycle-overlap", ["OJS_WORKER_RECYCLE_OVERLAP"];
            "Socket: start the next worker before the recycled one ends: auto (if there is memory for two), on or off";
        TYPE_WAIT: Duration [ANY_DURATION] = secs(5);
            "worker.type_wait", "type-wait", ["OJS_TYPE_WAIT"];
            "How long a job whose type no connection takes waits for one that may still come, from the last ready on";
        SOCKET_USERS: Vec<u32> = Vec::new();
            "worker.socket_users", "socket-users", ["OJS_SOCKET_USERS"];
            "Further uids that may connect to the worker socket, with commas between";
    }

    in Worker, Gateway {
        GATEWAY_LISTEN: Loopback = Loopback(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
            "gateway.listen", "gateway-listen", ["OJS_GATEWAY_LISTEN"];
            "Gateway: where it listens, on the loopback alone; port 0 for any free one";
        GATEWAY_ALLOW: GatewayAllow = GatewayAllow::Worker;
            "gateway.allow", "gateway-allow", ["OJS_GATEWAY_ALLOW"];
            "Gateway: who may use it: worker (COMMAND and its descendants), uid (whoever runs as the same user) or any";
        TELL_WORKER: bool = false;
            "gateway.tell_worker", "gateway-tell-worker", ["OJS_GATEWAY_TELL_WORKER"];
            "Gateway: let the worker's own heartbeats see quiet and terminate";
        ENFORCE_TIMEOUTS: bool = false;
            "gateway.enforce_timeouts", "gateway-enforce-timeouts", ["OJS_GATEWAY_ENFORCE_TIMEOUTS"];
            "Gateway: end the process of a job that has used up its timeout, instead of a warning";
    }

    in Exec, Exec {
        EXEC_ROUTES: ExecRoutes = ExecRoutes::default();
            "exec.routes", _, [];
            "Programs by the types of their jobs; COMMAND is run for all others, and may be left out";
        EXEC_INPUT: ExecInput = ExecInput::Envelope;
            "exec.input", "exec-input", ["OJS_EXEC_INPUT"];
            "What a job's process reads: envelope (the whole job), args (its arguments), or none; argv: the arguments are further words of the command";
        EXEC_OUTPUT: ExecOutput = ExecOutput::Result;
            "exec.output", "exec-output", ["OJS_EXEC_OUTPUT"];
            "What its standard output is: the job's result, or lines for the log";
        EXEC_OUTPUT_LIMIT: Option<Bytes> [OUTPUT_BYTES] = None, "1MiB, at most worker.max_frame";
            "exec.output_limit", "exec-output-limit", ["OJS_EXEC_OUTPUT_LIMIT"];
            "Largest result; a job that writes more has failed";
        EXEC_DIRECTORY: Option<PathBuf> = None, "unchanged";
            "exec.directory", "exec-directory", ["OJS_EXEC_DIRECTORY"];
            "Working directory of each job's process";
        EXEC_TIMEOUT: Option<Duration> [PERIOD] = None;
            "exec.timeout", "exec-timeout", ["OJS_EXEC_TIMEOUT"];
            "Longest run of a job that has no timeout of its own";
        EXEC_LEFTOVERS: ExecLeftovers = ExecLeftovers::End;
            "exec.leftovers", "exec-leftovers", ["OJS_EXEC_LEFTOVERS"];
            "What becomes of processes that a job leaves behind: end them before its outcome is told, or keep them";
        EXEC_EXIT: Verdicts = Verdicts::default();
            "exec.exit", _, [];
            "What an exit status or a signal means for the job";
        EXEC_REDACT: Redactions = Redactions::default();
            "exec.redact", "exec-redact", ["OJS_EXEC_REDACT"];
            "Variables whose values are struck out of what is told and logged of a job's standard error";
        EXEC_MAX_MEMORY: Option<MemoryLimit> = None;
            "exec.max_memory", "exec-max-memory", ["OJS_EXEC_MAX_MEMORY"];
            "A job that takes more memory with all its processes is ended, and has failed";
        EXEC_NICE: Option<Nice> [Nice(-20)..=Nice(19)] = None, "unchanged";
            "exec.nice", "exec-nice", ["OJS_EXEC_NICE"];
            "Niceness of each job's process";
        EXEC_RLIMITS: Rlimits = Rlimits::default();
            "exec.rlimits", _, [];
            "Limits of the kernel for each job's process";
        EXEC_USERS: Option<Uids> = None;
            "exec.users", "exec-users", ["OJS_EXEC_USERS"];
            "As root: one user for each job that runs at a time, so that nothing of one job can be left or seen";
    }

    in Backend, Agent {
        URL: Option<BackendUrl> = None;
            "backend.url", "url", ["OJS_URL", "OJS_BACKEND_URL", "OJS_SERVER_URL"];
            "Backend, needed with the agent: http or https; a path prefix is kept, /ojs/v1 is added";
        AUTH_TOKEN_FILE: Option<PathBuf> = None;
            "backend.auth_token_file", "auth-token-file", ["OJS_AUTH_TOKEN_FILE"];
            "File with the bearer token; read again when it changes. OJS_AUTH_TOKEN holds the token itself";
        AUTH_TOKEN: Option<Secret> = None;
            _, _, ["OJS_AUTH_TOKEN"];
            "The bearer token itself";
        PASS_TOKEN: bool = false;
            "backend.pass_token", "pass-token", ["OJS_PASS_TOKEN"];
            "Leave the token in COMMAND's environment";
        FINAL_STATE: FinalState = FinalState::Terminate;
            "backend.final_state", "final-state", ["OJS_FINAL_STATE"];
            "State in the last heartbeat";
        HEADERS: Vec<Header> = Vec::new();
            "backend.headers", "headers", ["OJS_INIT_HEADERS"];
            "Extra header 'Name: value' for each request, its value a secret: rather in the environment, one a line";
        PROXY: Option<ProxySetting> = None, "as HTTPS_PROXY says";
            "backend.proxy", "proxy", ["OJS_PROXY"];
            "HTTP proxy in front of the backend, its credentials a secret; without it HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY \
             exempts the backend; off: none";
        CA_FILE: Option<PathBuf> = None, "public roots";
            "backend.ca_file", "ca-file", ["OJS_TLS_CA_FILE"];
            "Certificates that the backend's must go back to, in PEM";
        CERT_FILE: Option<PathBuf> = None;
            "backend.cert_file", "cert-file", ["OJS_TLS_CERT_FILE"];
            "Our own certificate for mutual TLS, in PEM; needs --key-file";
        KEY_FILE: Option<PathBuf> = None;
            "backend.key_file", "key-file", ["OJS_TLS_KEY_FILE"];
            "The key of our own certificate, in PEM; needs --cert-file";
        CONNECT_TIMEOUT: Duration [PERIOD] = secs(5);
            "backend.connect_timeout", "connect-timeout", ["OJS_CONNECT_TIMEOUT"];
            "Longest wait for a connection to the backend";
        REQUEST_TIMEOUT: Duration [PERIOD] = secs(10);
            "backend.request_timeout", "request-timeout", ["OJS_REQUEST_TIMEOUT"];
            "Longest wait for an answer of the backend";
        LEFTOVERS: Leftovers = Leftovers::Fail;
            "backend.leftovers", "leftovers", ["OJS_LEFTOVERS"];
            "What becomes of a job that a shutdown cut off, or that an operator cancelled";
        SHUTDOWN_ERROR_TYPE: String = "ShutdownError".to_owned();
            "backend.shutdown_error_type", "shutdown-error-type", ["OJS_INIT_SHUTDOWN_ERROR_TYPE"];
            "Error type in the FAIL of such a job";
        SHUTDOWN_ERROR_CODE: String = "shutdown".to_owned();
            "backend.shutdown_error_code", "shutdown-error-code", ["OJS_INIT_SHUTDOWN_ERROR_CODE"];
            "Error code in the FAIL of such a job";
    }

    in Traces, Agent {
        OTEL_ENDPOINT: Option<Collector> = None;
            "otel.endpoint", "otel-endpoint", ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
            "Where spans of jobs are sent as OTLP over HTTP, a whole URL; or off, whatever other variables say";
        OTEL_ALL: Option<Collector> = None;
            _, _, ["OTEL_EXPORTER_OTLP_ENDPOINT"];
            "The same for all signals, without the variable for traces: /v1/traces is added";
        OTEL_HEADERS: CollectorHeaders = CollectorHeaders::default();
            "otel.headers", "otel-headers", ["OTEL_EXPORTER_OTLP_HEADERS"];
            "Headers for the collector, their values secrets: rather in the environment";
        OTEL_SERVICE_NAME: Option<String> = None, "unknown_service:ojs-init";
            "otel.service_name", "otel-service-name", ["OTEL_SERVICE_NAME"];
            "The service that the spans belong to";
        OTEL_RESOURCE_ATTRIBUTES: ResourceAttributes = ResourceAttributes::default();
            "otel.resource_attributes", "otel-resource-attributes", ["OTEL_RESOURCE_ATTRIBUTES"];
            "Further attributes of all spans";
        OTEL_SDK_DISABLED: bool = false;
            _, _, ["OTEL_SDK_DISABLED"];
            "No spans, here and in the SDKs of COMMAND";
    }

    in Operation, OwnWorker {
        ON_QUIET: Option<Signal> [Signals::Catchable] = None;
            "signals.on_quiet", "on-quiet", ["OJS_ON_QUIET"];
            "Signal for the worker when no new jobs will come";
        ON_RESUME: Option<Signal> [Signals::Catchable] = None;
            "signals.on_resume", "on-resume", ["OJS_ON_RESUME"];
            "Signal for the worker when jobs come again";
        ON_TERMINATE: Option<Signal> [Signals::Catchable] = None;
            "signals.on_terminate", "on-terminate", ["OJS_ON_TERMINATE"];
            "Signal for the worker when the drain begins";
    }

    in Operation, Agent {
        LISTEN: Option<Listen> = None, "[::]:8081";
            "health.listen", "listen", ["OJS_HEALTH_LISTEN"];
            "Address of the health endpoints, or off; where there is no IPv6, 0.0.0.0:8081";
        RUNTIME_DIR: Option<PathBuf> = None, "chosen at start";
            "paths.runtime_dir", "runtime-dir", ["OJS_RUNTIME_DIR"];
            "Directory for the sockets";
        TERMINATION_LOG: Option<PathBuf> = None, "/dev/termination-log";
            "paths.termination_log", "termination-log", ["OJS_TERMINATION_LOG"];
            "File that gets a summary of the shutdown, when it exists; or off";
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
