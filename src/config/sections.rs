//! The typed configuration, section by section. Each field stands beside the key that fills it. The
//! row of that key explains it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::environment::Environment;
use super::keys;
use super::settings::Settings;
use super::values::duration::Bytes;
use super::values::enums::{ExecInput, ExecLeftovers, ExecOutput, GatewayAllow, LogFormat, Mode};
use super::values::exec::{ExecRoutes, Redactions, Verdicts};
use super::values::limits::{MemoryLimit, Nice, Percent, Rlimits, Uids};
use super::values::lists::Rewrites;
use super::values::log_levels::LogLevels;
use super::values::loopback::Loopback;
use super::values::network::{BackendUrl, Header, Listen, Secret};
use super::values::proxy::Proxy;
use super::values::user::UserSpec;
use ojs_lifecycle::api::{Limits, Restart, TransitionSignals};
use ojs_values::exit::RemapExit;
use ojs_values::signal::Signal;

/// Sections, each with a function that fills every field with the value behind its `=`.
macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) {
        $($(#[$field_doc:meta])* $field:ident: $field_type:ty = $value:expr,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $field_type,)* }

        impl $name {
            pub(super) fn of($($given: $type),*) -> Self {
                Self { $($field: $value,)* }
            }
        }
    )*};
}

sections! {
    /// The whole configuration.
    Config(settings: Settings, warnings: Vec<String>, environment: &Environment<'_>) {
        mode: Mode = settings.value(&keys::MODE),
        init: Init = Init::of(&settings),
        shutdown: Shutdown = Shutdown::of(&settings),
        process: Process = Process::of(&settings),
        log: Log = Log::of(&settings),
        backend: Backend = Backend::of(&settings),
        worker: Worker = Worker::of(&settings),
        gateway: Gateway = Gateway::of(&settings),
        exec: Exec = Exec::of(&settings),
        /// Signals for a worker that knows no protocol.
        signals: TransitionSignals = signals(&settings),
        otel: Otel = Otel::of(&settings),
        health: Health = Health::of(&settings),
        paths: Paths = Paths::of(&settings, environment),
        /// Each key with its value and source.
        settings: Settings = settings,
        /// Complete sentences about settings that are allowed but probably not meant.
        warnings: Vec<String> = warnings,
    }

    /// The init itself.
    Init(settings: &Settings) {
        subreaper: bool = settings.value(&keys::SUBREAPER),
        parent_death_signal: Option<Signal> = settings.value(&keys::PARENT_DEATH_SIGNAL),
        warn_on_reap: bool = settings.value(&keys::WARN_ON_REAP),
        process_group: bool = settings.value(&keys::PROCESS_GROUP),
        remap_exit: RemapExit = settings.value(&keys::REMAP_EXIT),
        rewrite: Rewrites = settings.value(&keys::REWRITE),
    }

    /// How the child ends.
    Shutdown(settings: &Settings) {
        limits: Limits = limits(settings),
        cancel_grace: Duration = settings.value(&keys::CANCEL_GRACE),
        term_delay: Duration = settings.value(&keys::TERM_DELAY),
    }

    /// The user that the child runs as.
    Process(settings: &Settings) {
        user: Option<UserSpec> = settings.value(&keys::USER),
    }

    /// Level and format of the log.
    Log(settings: &Settings) {
        /// `None`: text on a terminal, else JSON.
        format: Option<LogFormat> = settings.value(&keys::LOG_FORMAT),
        /// `-v` is counted in.
        level: LogLevels = settings.value(&keys::LOG_LEVEL),
    }

    /// The connection to the backend.
    Backend(settings: &Settings) {
        /// Always set when the mode is not none.
        url: Option<BackendUrl> = settings.value(&keys::URL),
        /// Read in place of `auth_token` where both are set.
        auth_token_file: Option<PathBuf> = settings.value(&keys::AUTH_TOKEN_FILE),
        auth_token: Option<Secret> = settings.value(&keys::AUTH_TOKEN),
        pass_token: bool = settings.value(&keys::PASS_TOKEN),
        headers: Vec<Header> = settings.value(&keys::HEADERS),
        /// `None`: connections lead directly to the backend.
        proxy: Option<Proxy> = proxy(settings),
        /// `None`: the public roots.
        ca_file: Option<PathBuf> = settings.value(&keys::CA_FILE),
        /// Set exactly when `key_file` is.
        cert_file: Option<PathBuf> = settings.value(&keys::CERT_FILE),
        key_file: Option<PathBuf> = settings.value(&keys::KEY_FILE),
        connect_timeout: Duration = settings.value(&keys::CONNECT_TIMEOUT),
        request_timeout: Duration = settings.value(&keys::REQUEST_TIMEOUT),
    }

    /// The worker and its jobs.
    Worker(settings: &Settings) {
        /// There is at least one.
        queues: Vec<String> = settings.value(&keys::QUEUES),
        /// True if `queues` is set: in mode gateway only then they restrict the worker's requests.
        queues_are_explicit: bool = settings.is_set(&keys::QUEUES),
        concurrency: u32 = settings.value(&keys::CONCURRENCY),
        /// True if `concurrency` is set: in mode gateway only then it caps the worker's requests.
        concurrency_is_explicit: bool = settings.is_set(&keys::CONCURRENCY),
        labels: Vec<String> = settings.value(&keys::LABELS),
        /// Used until the registration recommends another one; never above a third of
        /// `visibility_timeout`.
        heartbeat_interval: Duration = heartbeat_interval(settings),
        /// True if `heartbeat_interval` is set: then no recommendation changes it.
        heartbeat_interval_is_explicit: bool = settings.is_set(&keys::HEARTBEAT_INTERVAL),
        visibility_timeout: Duration = settings.value(&keys::VISIBILITY_TIMEOUT),
        timeout_grace: Duration = settings.value(&keys::TIMEOUT_GRACE),
        socket_users: Vec<u32> = settings.value(&keys::SOCKET_USERS),
        /// `None`: it does not matter.
        memory_gate: Option<Percent> = settings.value(&keys::MEMORY_GATE).0,
        max_memory: Option<MemoryLimit> = settings.value(&keys::MAX_MEMORY),
        type_wait: Duration = settings.value(&keys::TYPE_WAIT),
        /// Copies of COMMAND, at least one.
        processes: u32 = settings.value(&keys::PROCESSES),
        restart: Restart = settings.value(&keys::RESTART),
        /// Its unit is the byte.
        max_frame: u64 = settings.value(&keys::MAX_FRAME).0,
    }

    /// The gateway, for workers that were built on an SDK.
    Gateway(settings: &Settings) {
        listen: Loopback = settings.value(&keys::GATEWAY_LISTEN),
        allow: GatewayAllow = settings.value(&keys::GATEWAY_ALLOW),
    }

    /// One process for each job.
    Exec(settings: &Settings) {
        routes: ExecRoutes = settings.value(&keys::EXEC_ROUTES),
        input: ExecInput = settings.value(&keys::EXEC_INPUT),
        output: ExecOutput = settings.value(&keys::EXEC_OUTPUT),
        /// Its unit is the byte; a frame can hold as much.
        output_limit: u64 = output_limit(settings).0,
        /// `None`: the directory of ojs-init.
        directory: Option<PathBuf> = settings.value(&keys::EXEC_DIRECTORY),
        timeout: Option<Duration> = settings.value(&keys::EXEC_TIMEOUT),
        leftovers: ExecLeftovers = settings.value(&keys::EXEC_LEFTOVERS),
        exit: Verdicts = settings.value(&keys::EXEC_EXIT),
        redact: Redactions = settings.value(&keys::EXEC_REDACT),
        max_memory: Option<MemoryLimit> = settings.value(&keys::EXEC_MAX_MEMORY),
        /// `None`: the value of ojs-init.
        nice: Option<Nice> = settings.value(&keys::EXEC_NICE),
        rlimits: Rlimits = settings.value(&keys::EXEC_RLIMITS),
        /// There are at least as many as jobs may run at a time.
        users: Option<Uids> = settings.value(&keys::EXEC_USERS),
    }

    /// Traces of jobs.
    Otel(settings: &Settings) {
        /// `None`: no spans are recorded.
        endpoint: Option<BackendUrl> = collector(settings),
        headers: Vec<Header> = settings.value(&keys::OTEL_HEADERS).0,
        /// True if all SDKs are switched off; then there is no `endpoint`.
        is_disabled: bool = settings.value(&keys::OTEL_SDK_DISABLED),
        /// The attributes of all spans; the name of the service is among them.
        resource: Vec<(String, String)> = resource(settings),
    }

    /// The health endpoints.
    Health(settings: &Settings) {
        /// `None`: the default address with the agent, nowhere without.
        listen: Option<Listen> = settings.value(&keys::LISTEN),
    }

    /// Files and directories, as written.
    Paths(settings: &Settings, environment: &Environment<'_>) {
        /// `None`: the first candidate that works.
        runtime_dir: Option<PathBuf> = settings.value(&keys::RUNTIME_DIR),
        /// `XDG_RUNTIME_DIR`, one of the candidates.
        user_runtime_dir: Option<PathBuf> =
            environment.of_others("XDG_RUNTIME_DIR").map(|bytes| PathBuf::from(OsStr::from_bytes(bytes))),
        /// `None`: the default when it exists.
        termination_log: Option<PathBuf> = settings.value(&keys::TERMINATION_LOG),
    }
}

impl Backend {
    /// Whether connections to the backend are encrypted.
    pub fn is_https(&self) -> bool {
        self.url.as_ref().is_some_and(BackendUrl::is_https)
    }

    /// Host of the backend, without brackets, and port.
    pub fn host_and_port(&self) -> (&str, u16) {
        self.url.as_ref().map_or(("", 0), BackendUrl::host_and_port)
    }
}

impl Config {
    /// True if there is nothing to run without COMMAND.
    pub fn needs_command(&self) -> bool {
        self.mode != Mode::Exec || self.exec.routes.0.is_empty()
    }
}

fn proxy(settings: &Settings) -> Option<Proxy> {
    settings.value(&keys::PROXY)?.0
}

fn collector(settings: &Settings) -> Option<BackendUrl> {
    let endpoint = settings.value(&keys::OTEL_ENDPOINT);
    endpoint.filter(|_| !settings.value(&keys::OTEL_SDK_DISABLED))?.0
}

/// The attribute with the name of the service.
const SERVICE_NAME: &str = "service.name";

fn resource(settings: &Settings) -> Vec<(String, String)> {
    let mut attributes = settings.value(&keys::OTEL_RESOURCE_ATTRIBUTES).0;
    let is_name = |(name, _): &(String, String)| name == SERVICE_NAME;
    let name = match settings.value(&keys::OTEL_SERVICE_NAME) {
        None if attributes.iter().any(is_name) => return attributes,
        // OpenTelemetry wants the name of the program behind it.
        None => "unknown_service:ojs-init".to_owned(),
        Some(name) => name,
    };
    attributes.retain(|attribute| !is_name(attribute));
    attributes.insert(0, (SERVICE_NAME.to_owned(), name));
    attributes
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        grace_period: settings.value(&keys::GRACE_PERIOD),
        grace_period_is_explicit: settings.is_set(&keys::GRACE_PERIOD),
        termination_grace_period: settings.value(&keys::TERMINATION_GRACE_PERIOD),
        stop_margin: settings.value(&keys::STOP_MARGIN),
        prestop_time: settings.value(&keys::PRESTOP_TIME),
    }
}

/// Default time between heartbeats, unless a third of the visibility timeout is less.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

fn heartbeat_interval(settings: &Settings) -> Duration {
    let most = settings.value(&keys::VISIBILITY_TIMEOUT) / 3;
    settings
        .value(&keys::HEARTBEAT_INTERVAL)
        .unwrap_or(HEARTBEAT_INTERVAL.min(most))
}

/// Default of the largest result, unless a frame must be smaller.
const OUTPUT_LIMIT: Bytes = Bytes(1 << 20);

fn output_limit(settings: &Settings) -> Bytes {
    let most = settings.value(&keys::MAX_FRAME);
    let usual = if most < OUTPUT_LIMIT { most } else { OUTPUT_LIMIT };
    settings.value(&keys::EXEC_OUTPUT_LIMIT).unwrap_or(usual)
}

fn signals(settings: &Settings) -> TransitionSignals {
    TransitionSignals {
        on_quiet: settings.value(&keys::ON_QUIET),
        on_resume: settings.value(&keys::ON_RESUME),
        on_terminate: settings.value(&keys::ON_TERMINATE),
    }
}
