//! The agent: from the configuration to a running loop, and from its end to an exit status.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};
use mio::net::TcpListener;
use mio::{Poll, Waker};

use crate::config::{Config, Mode, Value, keys};
use crate::daemon::backend::client::Backend;
use crate::daemon::backend::lookup::loop_wake;
use crate::daemon::backend::settings::BackendSettings;
use crate::daemon::control::Control;
use crate::daemon::descendants::{self, Descendants};
use crate::daemon::event_loop::{EventLoop, now};
use crate::daemon::exec;
use crate::daemon::gateway::caller::Callers;
use crate::daemon::gateway::{self, FetchRules, Gateway, environment};
use crate::daemon::interface::Interface;
use crate::daemon::log::narrate::Narrator;
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::report::report;
use crate::daemon::log::sink::LogHandle;
use crate::daemon::log::termination::TerminationLog;
use crate::daemon::memory_watch::MemoryWatch;
use crate::daemon::options::{self, announce};
use crate::daemon::prepare::{become_init, install_log, keep_memory_to_ourselves};
use crate::daemon::probes::links::ProbeLinks;
use crate::daemon::probes::listener;
use crate::daemon::runtime::admission::Allowed;
use crate::daemon::runtime::candidate::candidates;
use crate::daemon::runtime::dir::RuntimeDir;
use crate::daemon::start::{self, StartFailure};
use crate::daemon::surroundings::surroundings;
use crate::daemon::tokens::TokenOwner;
use crate::daemon::traces::exporter::{Exporter, HEADERS_VARIABLE};
use crate::daemon::two_workers::TwoWorkers;
use crate::daemon::window_signal::WindowSignal;
use crate::daemon::worker_usage::UsageReader;
use crate::daemon::workers::processes::Processes;
use crate::daemon::workers::socket::WorkerSocket;
use ojs_lifecycle::api::{Moment, time_to_kill};
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::view::metrics::Metrics;
use ojs_os::cgroup::OomKills;
use ojs_os::child::ChildPlan;
use ojs_os::clock;
use ojs_os::entry::Environ;
use ojs_os::image;
use ojs_os::init;
use ojs_os::open_files::{OpenFiles, raise_open_files_limit};
use ojs_os::signal_fd::SignalFd;
use ojs_os::signals::{self, SignalSet};
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::backend::request::Identity;
use ojs_wire::operator::status_line::InstanceInfo;
use ojs_wire::termination_log;
use ojs_wire::worker::HelloContext;

/// The variable with the path of the worker socket.
const SOCKET_VARIABLE: &str = "OJS_SOCKET";

/// These hold the token, headers and a proxy's credentials, all secret. The worker gets none of
/// them unless backend.pass_token is set.
const SECRET_VARIABLES: [&str; 3] = ["OJS_AUTH_TOKEN", "OJS_INIT_HEADERS", "OJS_PROXY"];

/// Runs `command` as a supervised worker, with the agent in front of it, until it is time to exit.
#[must_use]
pub fn run(config: &Config, command: &[OsString], environ: &mut Environ) -> Exit {
    init::reserve_std_fds();
    let log = install_log(config, environ);
    let mut exit_by = None;
    let exit = match set_up(config, command, environ, &log) {
        Ok((event_loop, directory)) => {
            let exit = supervise(event_loop, &mut exit_by);
            let path = directory.path().to_owned();
            if let Err(error) = directory.remove() {
                let path = path.display();
                warn!("cannot remove the runtime directory {path}: {error}; the next start of ojs-init removes it");
            }
            exit
        }
        Err(StartFailure { message, exit }) => {
            report(&message);
            let mut termination_log = TerminationLog::open(config);
            termination_log.write(termination_log::not_started(&message, exit.code()));
            termination_log.finish();
            exit
        }
    };
    log.flush(exit_by.map(|limit| limit.remaining(now())));
    exit
}

/// Runs the loop. A bug in it must not leave a worker without its init, so ojs-init stops the
/// worker first and then reports the bug. In a shutdown `exit_by` becomes the orchestrator's limit.
fn supervise(event_loop: EventLoop, exit_by: &mut Option<Moment>) -> Exit {
    let event_loop = RefCell::new(event_loop);
    let result = panic::catch_unwind(AssertUnwindSafe(|| event_loop.borrow_mut().run()));
    let exit = match result {
        Ok(Ok(exit)) => Some(exit),
        Ok(Err(error)) => {
            let remedy = remedy(&error);
            report(&format!(
                "cannot wait for events: {error}; stopping the worker; {remedy}"
            ));
            None
        }
        // The panic hook has reported it.
        Err(_) => None,
    };
    if let Ok(mut event_loop) = event_loop.try_borrow_mut() {
        if exit.is_none() {
            event_loop.kill_everything();
            let text = termination_log::broken(Exit::Internal.code());
            event_loop.termination_log.write(text);
        }
        event_loop.termination_log.finish();
        *exit_by = event_loop.exit_by();
    }
    descendants::kill_all_generations(exit_by.map(|limit| limit.remaining(now())));
    exit.unwrap_or(Exit::Internal)
}

fn set_up(
    config: &Config,
    command: &[OsString],
    environ: &mut Environ,
    &log: &LogHandle,
) -> Result<(EventLoop, RuntimeDir), StartFailure> {
    signals::expect_children();
    let credentials = start::credentials(&config.process)?;
    become_init(config, environ);
    let faults = exec::check(config, command, environ, credentials.as_ref());
    faults.into_iter().next().map_or(Ok(()), Err)?;
    let mut options = options::options(config, surroundings(environ), seed());
    let memory = MemoryWatch::of(config);
    options.memory_gate = options.memory_gate.filter(|_| memory.is_some());
    announce(&options.times, config.shutdown.limits.grace_period_is_explicit);

    let probe_listener = listener::listen(config)?;
    let allowed = Allowed::new(credentials.clone(), &config.worker.socket_users);
    let directory = open_directory(config, &allowed)?;

    let poll = Poll::new().map_err(failed("cannot create an epoll descriptor"))?;
    let probes = watch_probes(probe_listener, &poll)?;
    let control = open_control(&directory, allowed.own(), &poll)?;
    let way = way(config, allowed, &directory, environ, &poll)?;
    let signals = SignalFd::new(SignalSet::ALL).map_err(failed("cannot create a signal descriptor"))?;
    let waker = waker(&poll)?;
    let (backend, traces) = start_clients(config, &waker)?;

    // The secrets were read by the configuration; from here on only the requests to the backend
    // have them.
    let mut plan = plan(config, command, environ, &way.variables)?;
    plan.credentials = credentials;
    plan.open_files = way.open_files;
    hide_secrets(environ);
    init::detach_stdin_tty();
    let facts = facts(config, command);
    let event_loop = EventLoop {
        machine: Lifecycle::new(options, now()),
        poll,
        signals,
        processes: Processes::default(),
        interface: way.interface,
        control,
        backend,
        traces,
        probes,
        metrics: Metrics::new(now(), clock::since_1970()),
        usage: UsageReader::new(config.own_program().is_some(), loop_wake(waker)),
        plan,
        program: started_program(config, &facts),
        narrator: narrator(config, &facts),
        facts,
        started_at: now(),
        polled_at: now(),
        log,
        worker: None,
        two: TwoWorkers::of(config),
        oom_kills: OomKills::find(),
        memory,
        memory_look_at: None,
        descendants: Descendants::default(),
        inbox: Default::default(),
        answers: Default::default(),
        heard: Default::default(),
        termination_log: TerminationLog::open(config),
        warn_on_reap: config.init.warn_on_reap,
        window: WindowSignal::look(),
        process_group: config.init.process_group,
        has_more: false,
        reaps_again: false,
        has_signals: true,
    };
    Ok((event_loop, directory))
}

/// The interface through which the worker's programs connect, and its facts for them.
struct Way {
    interface: Interface,
    /// Variables for the worker's environment.
    variables: Vec<(&'static str, OsString)>,
    /// The limit that the worker would have without ojs-init. None: the limit of ojs-init.
    open_files: Option<OpenFiles>,
}

fn way(
    config: &Config,
    allowed: Allowed,
    directory: &RuntimeDir,
    environ: &Environ,
    poll: &Poll,
) -> Result<Way, StartFailure> {
    let mut way = match config.mode {
        Mode::Gateway => gateway_way(config, &allowed, environ, poll)?,
        Mode::Exec | Mode::Socket | Mode::None => socket_way(config, allowed, directory, poll)?,
    };
    if config.own_program().is_some() {
        way.variables.push(exec::variable(config)?);
    }
    Ok(way)
}

/// The worker's programs speak the protocol of the worker socket.
fn socket_way(config: &Config, allowed: Allowed, directory: &RuntimeDir, poll: &Poll) -> Result<Way, StartFailure> {
    let listener = directory
        .worker_socket()
        .map_err(|error| no_place(config, error.to_string()))?;
    let variables = vec![(SOCKET_VARIABLE, listener.path().as_os_str().to_owned())];
    let hello = HelloContext {
        concurrency: config.worker.concurrency,
        queues: config.worker.queues.iter().map(|queue| queue.as_str().into()).collect(),
        max_frame: most_bytes(config),
    };
    let socket = WorkerSocket::new(listener, allowed, hello, poll.registry())
        .map_err(failed("cannot watch the worker socket"))?;
    Ok(Way {
        interface: Interface::Socket(Box::new(socket)),
        variables,
        open_files: None,
    })
}

/// The worker's programs speak HTTP, as if ojs-init were the backend.
fn gateway_way(config: &Config, allowed: &Allowed, environ: &Environ, poll: &Poll) -> Result<Way, StartFailure> {
    // Connections and processes use a descriptor each, and the usual limit is made for much smaller
    // programs.
    let raised = raise_open_files_limit();
    let open_files = raised
        .inspect_err(|error| {
            warn!("gateway: cannot raise the limit of open files: {error}; raise it for the container (ulimit -n)");
        })
        .ok();
    let listening = listen_for_gateway(config)?;
    let uid = allowed.other_child().map_or(allowed.own(), |child| child.uid);
    let callers =
        Callers::new(config.gateway.allow, uid).map_err(failed("there is no randomness for the worker's bearer"))?;
    let known = |name: &str| environ.value(name);
    let variables = environment::variables(listening.1, callers.bearer(), known);
    info!("gateway: listening on {}", listening.1);
    let fetches = FetchRules {
        within: config.backend.request_timeout,
        has_to_name_queues: options::set_queues(config).is_none(),
    };
    let gateway = Gateway::new(listening, callers, most_bytes(config), fetches, poll.registry())
        .map_err(failed("cannot watch the gateway's socket"))?;
    Ok(Way {
        interface: Interface::Gateway(Box::new(gateway)),
        variables,
        open_files,
    })
}

/// The listener for the worker's programs, and its address.
pub(super) fn listen_for_gateway(config: &Config) -> Result<(TcpListener, SocketAddr), StartFailure> {
    gateway::listener::listen(config.gateway.listen.0).map_err(|error| {
        let setting = config.settings.describe(&keys::GATEWAY_LISTEN);
        let message =
            format!("{setting}: cannot listen there: {error}; set another address, or port 0 for any free one");
        StartFailure::new(Exit::Usage, message)
    })
}

/// Of a frame of the worker, or of a body.
fn most_bytes(config: &Config) -> usize {
    usize::try_from(config.worker.max_frame).unwrap_or(usize::MAX)
}

fn open_directory(config: &Config, allowed: &Allowed) -> Result<RuntimeDir, StartFailure> {
    RuntimeDir::open(&candidates(&config.paths), allowed).map_err(|error| no_place(config, error.to_string()))
}

/// A place from the configuration is an error of the configuration; one that ojs-init chose is not.
fn no_place(config: &Config, message: String) -> StartFailure {
    let is_named = config.paths.runtime_dir.is_some();
    StartFailure::new(if is_named { Exit::Usage } else { Exit::Internal }, message)
}

/// Opens the control socket, for the subcommands.
fn open_control(directory: &RuntimeDir, own: u32, poll: &Poll) -> Result<Control, StartFailure> {
    // The worker socket is in the same directory, so a failure here is not the place's.
    let listener = directory
        .control_socket()
        .map_err(|error| StartFailure::new(Exit::Internal, error))?;
    Control::new(listener, own, poll.registry()).map_err(failed("cannot watch the control socket"))
}

fn hide_secrets(environ: &mut Environ) {
    for name in SECRET_VARIABLES.into_iter().chain([HEADERS_VARIABLE]) {
        environ.overwrite(name);
    }
    keep_memory_to_ourselves();
}

/// The child, but for its user.
pub(super) fn plan(
    config: &Config,
    command: &[OsString],
    environ: &Environ,
    variables: &[(&str, OsString)],
) -> Result<ChildPlan, StartFailure> {
    let secrets: &[&str] = if config.backend.pass_token {
        &[]
    } else {
        &SECRET_VARIABLES
    };
    let set: Vec<(&str, &OsStr)> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_os_str()))
        .collect();
    let plan = match config.own_program() {
        Some(program) => {
            let message =
                "mode exec and worker.processes run ojs-init once more, and its own file is not found: mount /proc";
            let own_file = image::own_file().ok_or_else(|| StartFailure::new(Exit::Internal, message))?;
            ChildPlan::new(&exec::arguments(program, command), environ).map(|plan| plan.executing(own_file))
        }
        None => ChildPlan::new(command, environ),
    };
    let plan = plan.and_then(|plan| plan.with_environment(&set, secrets));
    let mut plan = plan.map_err(start::nul_byte)?;
    // The SIGKILL of PID 1 ends all processes. Outside PID 1 a worker would continue with jobs that
    // get no heartbeats any more.
    let is_alone = !init::is_pid_1() && config.init.parent_death_signal.is_none() && config.mode != Mode::Exec;
    plan.at_our_end = is_alone.then_some(Signal::TERM);
    Ok(plan)
}

fn watch_probes(listener: Option<TcpListener>, poll: &Poll) -> Result<Option<ProbeLinks>, StartFailure> {
    let probes = listener.map(|listener| ProbeLinks::new(listener, poll.registry()));
    probes.transpose().map_err(failed("cannot watch the health endpoints"))
}

/// Wakes the loop from the threads that block in its place.
fn waker(poll: &Poll) -> Result<Arc<Waker>, StartFailure> {
    let waker = Waker::new(poll.registry(), TokenOwner::Threads.token());
    waker.map(Arc::new).map_err(failed("cannot create an event descriptor"))
}

/// Starts the clients of the backend and of the collector of traces, on the loop.
fn start_clients(config: &Config, waker: &Arc<Waker>) -> Result<(Backend, Option<Box<Exporter>>), StartFailure> {
    let settings = BackendSettings {
        backend: config.backend.clone(),
        url_setting: config.settings.describe(&keys::URL),
        identity: identity(config),
        max_frame: config.worker.max_frame,
    };
    let backend = Backend::start(settings, Arc::clone(waker)).map_err(|error| StartFailure::new(Exit::Usage, error))?;
    let proxy = config.backend.proxy.as_ref().map_or(String::new(), |proxy| {
        let source = config.settings.source(&keys::PROXY);
        format!(", through the proxy {} ({source})", proxy.place())
    });
    info!(
        "backend: {}{proxy}",
        config.backend.url.as_ref().map_or("", |url| url.as_str())
    );
    let traces = Exporter::start(config, waker, now()).map_err(|error| StartFailure::new(Exit::Internal, error))?;
    Ok((backend, traces))
}

fn facts(config: &Config, command: &[OsString]) -> InstanceInfo {
    let grace = config.worker.timeout_grace;
    InstanceInfo {
        pid: std::process::id(),
        program: match config.mode {
            Mode::Exec => exec::shown_program(config, command),
            Mode::Socket | Mode::Gateway | Mode::None => command
                .first()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
        },
        mode: config.mode.show(),
        kill_lead: match config.mode {
            Mode::Exec => grace.saturating_sub(time_to_kill(grace)),
            Mode::Socket | Mode::Gateway | Mode::None => Duration::ZERO,
        },
        url: config.backend.url.as_ref().map_or("", |url| url.as_str()).to_owned(),
        queues: config.worker.queues.clone(),
        labels: config.worker.labels.clone(),
        caller_proof: None,
        backend_error: None,
        worker_jobs: 0,
        usage: None,
        timers: 0,
    }
}

/// The narrator of the log, which names only configured values.
fn narrator(config: &Config, facts: &InstanceInfo) -> Narrator {
    let (concurrency, queues) = (options::set_concurrency(config), options::set_queues(config));
    Narrator::new(concurrency, queues, &facts.url, config.mode == Mode::Socket)
}

/// The name of the child in a message that it could not be started.
fn started_program(config: &Config, facts: &InstanceInfo) -> String {
    match config.own_program() {
        Some(_) => exec::OWN_NAME.to_owned(),
        None => facts.program.clone(),
    }
}

fn identity(config: &Config) -> Identity {
    Identity {
        hostname: nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        pid: std::process::id(),
        queues: config.worker.queues.clone(),
        concurrency: options::concurrency(config),
        labels: config.worker.labels.clone(),
        started_at: clock::wall().to_string(),
    }
}

/// Seed of random pauses: it need not be secret, only different from those of other workers.
fn seed() -> u64 {
    let time = clock::monotonic();
    u64::from(time.subsec_nanos()) << 32 | u64::from(std::process::id()) ^ time.as_secs()
}

/// A failed system call of the start: its purpose, and the advice.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StartFailure {
    move |error| StartFailure::new(Exit::Internal, format!("{what}: {error}; {}", remedy(&error)))
}
