//! A worker: its handlers, and how it runs.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::{env, io};

use serde::{Serialize, de::DeserializeOwned};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::registry::{Next, Output, Registry};
use crate::{error::Result, job::Job, link::spawn, session::Session};

/// Options of a [`Worker`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The most jobs at once, 1 to 10,000. ojs-init's own limit counts if it is less; `None` means
    /// that limit.
    pub concurrency: Option<usize>,
}

/// Has handlers, and runs them for the jobs that ojs-init hands over.
#[derive(Default)]
pub struct Worker {
    pub(crate) registry: Arc<Registry>,
}

impl Worker {
    /// Takes as many jobs at once as ojs-init allows.
    pub fn new() -> Worker {
        Worker::default()
    }

    /// With options.
    ///
    /// # Panics
    /// An option is out of range.
    pub fn with(Options { concurrency }: Options) -> Worker {
        let is_possible = concurrency.is_none_or(|most| (1..=10_000).contains(&most));
        assert!(is_possible, "Options::concurrency is {concurrency:?}: it is 1 to 10000, or None for ojs-init's limit");
        Worker { registry: Arc::new(Registry { concurrency, ..Registry::default() }) }
    }

    /// Registers the handler of a job type; `"*"` stands for all types without one. It returns the
    /// job's result, or `()` for none.
    ///
    /// # Panics
    /// The type has 0 or more than 1024 bytes, or a handler already.
    pub fn handle<T, H>(&mut self, kind: &str, handler: H) -> &mut Worker
    where
        T: Serialize,
        H: Fn(&Job) -> Result<T> + Send + Sync + 'static,
    {
        let handlers = &mut Arc::make_mut(&mut self.registry).handlers;
        assert!((1..=1024).contains(&kind.len()), "a job type has 1 to 1024 bytes, not {}", kind.len());
        assert!(!handlers.contains_key(kind), "the job type {kind:?} has a handler already");
        handlers.insert(kind.to_owned(), Arc::new(move |job| Ok(Output::of_result(&handler(job)?))));
        self
    }

    /// Registers a handler whose arguments have types. A tuple, a struct or a `Vec` takes them in
    /// their order; a single argument may also be the type itself, or an object with the fields of a
    /// struct. Arguments that do not fit fail the job for good (`InvalidArgs`).
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
    pub fn handle_typed<A, T, H>(&mut self, kind: &str, handler: H) -> &mut Worker
    where
        A: DeserializeOwned,
        T: Serialize,
        H: Fn(&Job, A) -> Result<T> + Send + Sync + 'static,
    {
        self.handle(kind, move |job| handler(job, job.args()?))
    }

    /// Shares a value with the handlers that are registered on what this returns. They get it as
    /// their second parameter.
    ///
    /// ```no_run
    /// # struct Mailer;
    /// # impl Mailer { fn send(&self, to: &str) -> std::io::Result<()> { Ok(()) } }
    /// let mut worker = ojs_worker::Worker::new();
    /// worker.with_state(Mailer).handle_typed("email.send", |_job, mailer, to: String| Ok(mailer.send(&to)?));
    /// ```
    pub fn with_state<S: Send + Sync + 'static>(&mut self, state: S) -> WithState<'_, S> {
        WithState { worker: self, state: Arc::new(state) }
    }

    /// Puts middleware around all handlers, also around those that are registered later. The first
    /// one is the outermost. It sees each failure of a handler once, also panics and arguments that
    /// do not fit, but no job type without a handler.
    ///
    /// ```no_run
    /// # let mut worker = ojs_worker::Worker::new();
    /// worker.wrap(|job, next| {
    ///     let began = std::time::Instant::now();
    ///     let result = next.run(job);
    ///     tracing::info!("took {:?}", began.elapsed());
    ///     result
    /// });
    /// ```
    pub fn wrap<M>(&mut self, middleware: M) -> &mut Worker
    where
        M: Fn(&Job, Next<'_>) -> Result<Output> + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.registry).middleware.push(Arc::new(middleware));
        self
    }

    /// Takes jobs until ojs-init or SIGTERM ends the worker and the jobs that are held are answered.
    /// The process has to end then, because ojs-init judges it by its connection. [`Worker::main`]
    /// does that.
    ///
    /// # Errors
    /// Each is a reason to end the process with a status other than 0. After
    /// `ErrorKind::ConnectionAborted`, which means that ojs-init closed the connection, handlers may
    /// still run.
    pub fn run(self) -> io::Result<()> {
        if self.registry.handlers.is_empty() {
            return Err(io::Error::other("the worker has no handler: register one with `handle` before `run`"));
        }
        let path = env::var_os("OJS_SOCKET").filter(|path| !path.is_empty()).ok_or_else(no_socket)?;
        // Before the connection, because SIGTERM may come from then on.
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let refused = |error: io::Error| format!("cannot connect to ojs-init at {}: {error}", path.to_string_lossy());
        let socket = UnixStream::connect(&path).map_err(|error| io::Error::other(refused(error)))?;
        let session = Session::start(self.registry, socket)?;
        let signalled = Arc::clone(&session);
        // The thread goes on after this function: the SIGTERM at the end may be late.
        spawn("ojs-signals", move || signals.forever().for_each(|_| signalled.on_signal()))?;
        session.serve()
    }

    /// [`Worker::run`] for `fn main`: the status is 0, or 1 after an error, which
    /// is printed to standard error. If
    /// ojs-init closed the connection while jobs were held, the process ends here, whatever their
    /// handlers do.
    pub fn main(self) -> ExitCode {
        let Err(failure) = self.run() else { return ExitCode::SUCCESS };
        // Also where no subscriber is, and also where nobody reads it.
        let _ = writeln!(io::stderr(), "ojs-worker: {failure}");
        if failure.kind() == io::ErrorKind::ConnectionAborted {
            process::exit(1);
        }
        ExitCode::FAILURE
    }
}

fn no_socket() -> io::Error {
    let mode = env::var("OJS_MODE").unwrap_or_default();
    io::Error::other(if ["gateway", "exec", "none"].contains(&mode.as_str()) {
        format!("OJS_SOCKET is not set, because ojs-init runs in mode {mode}: leave OJS_MODE out, or set it to socket")
    } else {
        format!("OJS_SOCKET is not set. Run the worker as: ojs-init -- {}", env::args().next().unwrap_or_default())
    })
}

/// Registers handlers that share a value: see [`Worker::with_state`].
pub struct WithState<'a, S> {
    pub(crate) worker: &'a mut Worker,
    pub(crate) state: Arc<S>,
}

impl<S: Send + Sync + 'static> WithState<'_, S> {
    /// [`Worker::handle_typed`] with the shared value.
    ///
    /// # Panics
    /// As for [`Worker::handle`].
    pub fn handle_typed<A, T, H>(&mut self, kind: &str, handler: H) -> &mut Self
    where
        A: DeserializeOwned,
        T: Serialize,
        H: Fn(&Job, &S, A) -> Result<T> + Send + Sync + 'static,
    {
        let state = Arc::clone(&self.state);
        self.worker.handle_typed(kind, move |job, args| handler(job, &state, args));
        self
    }
}
