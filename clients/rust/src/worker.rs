//! A worker: its handlers, and how it runs.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use log::Level;
use serde::de::DeserializeOwned;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Result, RunError};
use crate::job::Job;
use crate::output::Output;
use crate::registry::{Middleware, Next, Registry, ANY_TYPE, MOST_CONCURRENCY, MOST_TYPES};
use crate::session::Session;
use crate::{logging, panics};

const SOCKET_VARIABLE: &str = "OJS_SOCKET";
const MODE_VARIABLE: &str = "OJS_MODE";
const MOST_NAME_BYTES: usize = 1024;
const CUT_OFF_STATUS: u8 = 128 + 15;

/// Options of a [`Worker`]. The default is right for most.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most jobs at once, where that is less than what ojs-init allows; nothing: as many as it
    /// allows.
    pub concurrency: Option<usize>,
    /// For tests; nothing: `OJS_SOCKET`.
    pub socket_path: Option<PathBuf>,
    /// Whether SIGTERM and SIGINT are the worker's; `true`.
    pub handle_signals: bool,
    /// How long handlers may take to end after SIGTERM, for ojs-init kills soon after it: 500 ms;
    /// nothing: for ever.
    pub stop_grace: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        let stop_grace = Some(Duration::from_millis(500));
        Options { concurrency: None, socket_path: None, handle_signals: true, stop_grace }
    }
}

/// Has handlers, and runs them for the jobs that ojs-init gives it.
pub struct Worker {
    registry: Arc<Registry>,
    stopper: Stopper,
}

impl Default for Worker {
    fn default() -> Worker {
        Worker::new()
    }
}

impl Worker {
    /// With as many jobs at once as ojs-init says.
    #[must_use]
    pub fn new() -> Worker {
        Worker::with(Options::default())
    }

    /// With options.
    ///
    /// # Panics
    /// One is out of range.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic)] // a mistake in the program, met at its start
    pub fn with(options: Options) -> Worker {
        if let Some(concurrency) = options.concurrency.filter(|wanted| !(1..=MOST_CONCURRENCY).contains(wanted)) {
            panic!("Options::concurrency is {concurrency}; it is 1 to {MOST_CONCURRENCY}, or None for what ojs-init allows");
        }
        let registry = Registry { options, handlers: BTreeMap::new(), middleware: Vec::new() };
        Worker { registry: Arc::new(registry), stopper: Stopper::default() }
    }

    /// Registers the handler of a job type; `"*"` is for all types that have none. What it returns
    /// is the job's result, `()` for none.
    ///
    /// # Panics
    /// The type is no name, or has a handler already.
    #[track_caller]
    pub fn handle<T, H>(&mut self, kind: &str, handler: H) -> &mut Worker
    where
        T: Serialize,
        H: Fn(&Job) -> Result<T> + Send + Sync + 'static,
    {
        self.register(kind, Arc::new(move |job| Output::of(&handler(job)?)))
    }

    /// Registers a handler whose arguments have types of their own: a tuple, a struct or a `Vec`
    /// takes them in their order; where there is only one, it may be the type itself, or an object
    /// with the fields of a struct. Arguments that do not fit fail the job for good
    /// (`InvalidArgs`); the message quotes no value.
    ///
    /// ```no_run
    /// let mut worker = ojs_worker::Worker::new();
    /// worker.handle_typed("email.send", |job, (to, body): (String, String)| {
    ///     println!("{body} to {to} for {}", job.id());
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Panics
    /// As for [`Worker::handle`].
    #[track_caller]
    pub fn handle_typed<A, T, H>(&mut self, kind: &str, handler: H) -> &mut Worker
    where
        A: DeserializeOwned,
        T: Serialize,
        H: Fn(&Job, A) -> Result<T> + Send + Sync + 'static,
    {
        self.register(kind, Arc::new(move |job| Output::of(&handler(job, job.args()?)?)))
    }

    #[track_caller]
    #[allow(clippy::panic)] // a mistake in the program, met at its start
    fn register(&mut self, kind: &str, handler: crate::registry::Handler) -> &mut Worker {
        let registry = Arc::make_mut(&mut self.registry);
        if kind.is_empty() || kind.len() > MOST_NAME_BYTES {
            panic!("a job type has 1 to {MOST_NAME_BYTES} bytes; this has {}", kind.len());
        }
        if registry.handlers.contains_key(kind) {
            panic!("{kind:?} has a handler already");
        }
        if registry.handlers.len() >= MOST_TYPES {
            panic!("more than {MOST_TYPES} job types; use {ANY_TYPE:?}");
        }
        registry.handlers.insert(kind.to_owned(), handler);
        self
    }

    /// Puts middleware around all handlers, also those that are registered later: the first one is
    /// the outermost. What belongs to one job it keeps with [`Job::keep`].
    ///
    /// ```no_run
    /// # let mut worker = ojs_worker::Worker::new();
    /// worker.wrap(|job, next| {
    ///     let began = std::time::Instant::now();
    ///     let result = next.run(job);
    ///     log::info!("took {:?}", began.elapsed());
    ///     result
    /// });
    /// ```
    pub fn wrap<M>(&mut self, middleware: M) -> &mut Worker
    where
        M: Fn(&Job, Next<'_>) -> Result<Output> + Send + Sync + 'static,
    {
        let middleware: Middleware = Arc::new(middleware);
        Arc::make_mut(&mut self.registry).middleware.push(middleware);
        self
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    /// Ends the worker from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Takes jobs until ojs-init, a signal or a [`Stopper`] says that it is enough, and what is
    /// held is finished. The process has to end then: ojs-init judges it by its connection, which
    /// stays open until that. [`Worker::main`] does all of it.
    ///
    /// # Errors
    /// Each is a reason to end with a status that is not 0.
    pub fn run(self) -> Result<(), RunError> {
        if self.registry.handlers.is_empty() {
            return Err(RunError::NoHandler);
        }
        let path = self
            .registry
            .options
            .socket_path
            .clone()
            .or_else(|| std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
        let Some(path) = path else {
            let mode = std::env::var(MODE_VARIABLE).unwrap_or_default();
            let what = if ["gateway", "exec", "none"].contains(&mode.as_str()) {
                format!(
                    "{SOCKET_VARIABLE} is not set, because ojs-init runs in mode {mode}: leave {MODE_VARIABLE} out, or set it to socket"
                )
            } else {
                format!("{SOCKET_VARIABLE} is not set; start the program with: ojs-init -- PROGRAM")
            };
            return Err(RunError::NotUnderOjsInit(what));
        };
        panics::install();
        let system = |error: std::io::Error| RunError::System(error.to_string());
        // Before we connect: from then on SIGTERM may come.
        let wanted: &[c_int] = if self.registry.options.handle_signals { &[SIGTERM, SIGINT] } else { &[] };
        let mut signals = Signals::new(wanted).map_err(system)?;
        let connected = UnixStream::connect(&path).and_then(|socket| Ok((socket.try_clone()?, socket)));
        let (ours, socket) = connected.map_err(|error| {
            let path = path.display();
            RunError::NotUnderOjsInit(format!("cannot connect to {path} ({SOCKET_VARIABLE}): {error}"))
        })?;
        let session = Session::new(self.registry(), ours, false);
        session.start(socket).map_err(system)?;
        self.stopper.set(&session);
        let told = Arc::clone(&session);
        // Signals stay ours when this returns: the SIGTERM that ojs-init sends at the end may be
        // late.
        let listen = move || signals.forever().for_each(|_| told.on_signal());
        thread::Builder::new().name("ojs-signals".to_owned()).spawn(listen).map_err(system)?;
        session.serve()
    }

    /// [`Worker::run`], and the status for `main` to return: 0, or 143 when a signal has cut off
    /// jobs, or 1 for any other error, which is logged.
    pub fn main(self) -> ExitCode {
        match self.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(RunError::CutOff) => ExitCode::from(CUT_OFF_STATUS),
            Err(error) => {
                logging::say(Level::Error, None, &error.to_string(), None);
                ExitCode::FAILURE
            }
        }
    }
}

/// Ends a worker from another thread.
#[derive(Clone, Default)]
pub struct Stopper {
    session: Arc<OnceLock<Arc<Session>>>,
    is_wanted: Arc<Mutex<bool>>,
}

impl Stopper {
    /// Lets [`Worker::run`] end: no more jobs are taken, those that are held go on.
    pub fn stop(&self) {
        let mut is_wanted = self.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        *is_wanted = true;
        if let Some(session) = self.session.get() {
            session.stop();
        }
    }

    fn set(&self, session: &Arc<Session>) {
        let is_wanted = self.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let session = self.session.get_or_init(|| Arc::clone(session));
        if *is_wanted {
            session.stop();
        }
    }
}
