//! Directives of the server in its answers to heartbeats, and what workers make of them: which of
//! them come back from quiet, and which end.

use std::path::Path;
use std::time::Duration;

use ojs_devserver::{Dialect, Directive, JobState, Options, Server};

use crate::run::{self, Front, Plan, sleep};
use crate::sdk::Kind;
use crate::support::namespace::spawn;
use crate::support::sys::{self, Ended};
use crate::support::temp::TempDir;
use crate::support::wait::{wait_for, wait_until};

/// Longest that something is waited for that has to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long is watched what must not happen: some heartbeats, and many polls.
const WATCHED: Duration = Duration::from_millis(1000);

/// A job that is there all the while: some SDKs say nothing when they are idle.
const JOB_MS: u64 = 4000;

/// Wishes of the server that a worker follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Obeys {
    /// The worker asks for no jobs when it is to be quiet.
    pub quiet: bool,
    /// The worker asks for jobs again when it is to run.
    pub running: bool,
    /// When it is to terminate it ends, with status 0 and its job acknowledged.
    pub terminate: bool,
}

/// The wishes that the SDK follows.
pub fn expected(kind: Kind) -> Obeys {
    match kind {
        // The worker goes on beating without end.
        Kind::Go => Obeys {
            quiet: true,
            running: true,
            terminate: false,
        },
        Kind::JavaScript | Kind::Python | Kind::Ruby | Kind::Rust | Kind::Java => Obeys {
            quiet: true,
            running: false,
            terminate: true,
        },
        // Its heartbeats have no worker id, and are refused.
        Kind::Php => Obeys {
            quiet: false,
            running: true,
            terminate: false,
        },
    }
}

/// Has the server say quiet, running and terminate, one after the other.
pub fn play(kind: Kind, dir: &Path) -> Obeys {
    let server = Server::start(Options {
        dialect: Dialect::Spec,
        heartbeat_timeout: Duration::from_secs(600),
        ..Options::default()
    })
    .unwrap();
    let dir = TempDir::new(dir.to_owned()).unwrap();
    server.enqueue(&sleep(JOB_MS)).unwrap();
    let pid = spawn(run::command(
        kind,
        Front::Without,
        Plan::Terminated,
        &server,
        dir.path(),
    ));
    Watched { server: &server, pid }.obeys()
}

struct Watched<'a> {
    server: &'a Server,
    pid: i32,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if sys::reap(self.pid, false).is_ok_and(|ended| ended.is_none()) {
            let _ = sys::send(self.pid, libc::SIGKILL);
            let _ = sys::reap(self.pid, true);
        }
    }
}

impl Watched<'_> {
    fn obeys(&self) -> Obeys {
        let is_there = self.server.wait(PATIENCE, |server| server.count(JobState::Active) == 1);
        assert!(is_there, "it takes no job");
        let quiet = self.tell(Directive::Quiet) && !self.fetches();
        let running = self.tell(Directive::Run) && self.fetches() || !quiet;
        self.tell(Directive::Terminate);
        let ended = wait_for(PATIENCE / 6, || sys::reap(self.pid, false).ok().flatten());
        Obeys {
            quiet,
            running,
            terminate: ended == Some(Ended::Code(0)) && self.server.count(JobState::Completed) == 1,
        }
    }

    fn count(&self, operation: &str) -> usize {
        let events = self.server.events();
        events
            .iter()
            .filter(|event| event.operation == operation && event.worker.is_some())
            .count()
    }

    /// Whether the worker has an id by which it can be told, and has heard of it.
    fn tell(&self, directive: Directive) -> bool {
        let ids = wait_for(WATCHED * 3, || {
            Some(self.server.workers()).filter(|ids| !ids.is_empty())
        });
        let Some(ids) = ids else { return false };
        let before = self.count("heartbeat");
        ids.iter().all(|id| self.server.direct(id, directive).is_ok())
            && wait_until(WATCHED * 3, || self.count("heartbeat") > before + 1)
    }

    /// Whether it asks for jobs.
    fn fetches(&self) -> bool {
        let fetches = || {
            let events = self.server.events();
            events.iter().filter(|event| event.operation == "fetch").count()
        };
        let before = fetches();
        wait_until(WATCHED, || fetches() > before + 1)
    }
}
