//! The real binary as PID 1 of a fresh PID namespace, with a backend in front of it and a worker
//! behind it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Endpoint, Outcome, Record};
use crate::support::namespace::{spawn, spawn_as_pid_1};
use crate::support::sys::{self, Ended};
use crate::support::temp::TempDir;
use crate::support::under_test;
use crate::support::wait::{Stopwatch, now, wait_for, wait_until};
use crate::support::{proc, wait};

/// Longest that anything may take which does happen. Much more than it needs: the machine may be
/// busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Two stop signals of one kind that are so far apart are two requests; within 100 ms they are one.
const ANOTHER_REQUEST: Duration = Duration::from_millis(150);

/// How long something is watched that must not happen.
pub const WATCH: Duration = Duration::from_millis(300);

/// Everything of one test: it goes away with it.
pub struct Stage {
    pub backend: Backend,
    dir: TempDir,
}

impl Stage {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ojs-ws-{}-{number}", std::process::id()));
        let dir = TempDir::new(path).unwrap();
        // As /tmp: some workers run as other users, and none may replace what belongs to others.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        Self {
            backend: Backend::start(),
            dir,
        }
    }

    /// A file of this test.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes jobs `first`, `first+1` ... available.
    pub fn enqueue(&self, jobs: impl IntoIterator<Item = u32>) {
        for number in jobs {
            self.backend.enqueue(&job(number, ""));
        }
    }

    /// The init with a raw worker that executes this script.
    pub fn worker(&self, script: &str) -> Start<'_> {
        let raw = root().join("tests/support/raw_worker.py");
        let words: [OsString; 5] = ["python3".into(), "-S".into(), "-E".into(), raw.into(), script.into()];
        self.command(&words)
    }

    /// The init with this command.
    pub fn command<S: Into<OsString> + Clone>(&self, words: &[S]) -> Start<'_> {
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("OJS_URL", self.backend.url()),
            ("OJS_RUNTIME_DIR", self.at("run").display().to_string()),
            ("OJS_HEALTH_LISTEN", "off".to_owned()),
            ("OJS_POLL_INTERVAL", "50ms".to_owned()),
            ("OJS_TERMINATION_GRACE_PERIOD", "40s".to_owned()),
            ("OJS_LOG_LEVEL", "debug".to_owned()),
            ("OJS_LOG_FORMAT", "text".to_owned()),
            ("OJS_TERMINATION_LOG", String::new()),
        ];
        Start {
            stage: self,
            name: "init",
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            before: Vec::new(),
            command: words.iter().cloned().map(Into::into).collect(),
        }
    }

    /// The outcomes of a job so far.
    pub fn outcomes(&self, job: &str) -> Vec<Outcome> {
        self.backend.outcomes().remove(job).unwrap_or_default()
    }

    /// Waits until every job has an outcome, which must be one only.
    pub fn wait_for_outcomes(&self) {
        self.wait_for_outcomes_for(PATIENCE);
    }

    /// The same, where all of them together may take longer than anything else does.
    pub fn wait_for_outcomes_for(&self, patience: Duration) {
        let all = || self.backend.outcomes().values().all(|outcomes| !outcomes.is_empty());
        assert!(wait_until(patience, all), "{:?}", self.backend.outcomes());
        self.backend.assert_one_outcome_each();
    }

    /// Waits until this is what became of a job.
    pub fn becomes(&self, job: &str, expected: &[Outcome]) {
        let has_become = wait_until(PATIENCE, || self.outcomes(job) == expected);
        assert!(has_become, "{job}: {:?} instead of {expected:?}", self.outcomes(job));
    }

    /// Waits for the one FAIL of a job and returns its error.
    pub fn failure(&self, job: &str) -> serde_json::Value {
        wait_until(PATIENCE, || !self.outcomes(job).is_empty());
        let outcomes = self.outcomes(job);
        let [Outcome::Failed(error)] = outcomes.as_slice() else {
            panic!("{job}: {outcomes:?}")
        };
        error.clone()
    }

    /// When its outcome reached the backend.
    pub fn settled_at(&self, job: &str) -> Instant {
        let of_it = |record: &&Record| {
            matches!(record.endpoint, Endpoint::Ack | Endpoint::Nack) && record.job().as_deref() == Some(job)
        };
        self.backend.records().iter().find(of_it).unwrap().at
    }

    /// The states that the heartbeats have said until now, repetitions left out.
    pub fn states(&self) -> Vec<String> {
        let beats = self.backend.records_of(Endpoint::Heartbeat);
        let mut states: Vec<String> = beats.iter().filter_map(|beat| beat.text("state")).collect();
        states.dedup();
        states
    }

    /// Waits until the heartbeats have said exactly these states, repetitions left out.
    pub fn states_become(&self, expected: &[&str]) {
        let reached = wait_until(PATIENCE, || self.states() == expected);
        assert!(reached, "{:?} instead of {expected:?}", self.states());
    }

    /// Requests so far to this endpoint.
    pub fn count(&self, endpoint: Endpoint) -> usize {
        self.backend.records_of(endpoint).len()
    }

    /// Waits for so many more requests to this endpoint.
    pub fn wait_for_more(&self, endpoint: Endpoint, more: usize) {
        let before = self.count(endpoint);
        self.backend.wait_for_count(endpoint, before + more, PATIENCE);
    }

    /// Watches that no FETCH comes any more, but for one that may have been on its way. Polls are
    /// much closer together.
    pub fn fetches_have_stopped(&self) {
        let most = self.count(Endpoint::Fetch) + 1;
        never("a FETCH", || self.count(Endpoint::Fetch) > most);
    }

    /// Makes jobs available and watches that nobody asks for them. A FETCH that was on its way came
    /// before.
    pub fn are_not_fetched(&self, jobs: impl IntoIterator<Item = u32>) {
        self.fetches_have_stopped();
        let before = self.count(Endpoint::Fetch);
        self.enqueue(jobs);
        never("a FETCH", || self.count(Endpoint::Fetch) > before);
    }

    /// The time between two requests to this endpoint that half of `count` further ones stay below:
    /// a busy machine makes single ones late.
    pub fn usual_gap(&self, endpoint: Endpoint, count: usize) -> Duration {
        let before = self.count(endpoint);
        self.backend.wait_for_count(endpoint, before + count + 1, PATIENCE);
        let at: Vec<Instant> = self
            .backend
            .records_of(endpoint)
            .iter()
            .map(|record| record.at)
            .collect();
        let mut gaps: Vec<Duration> = at[before..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort();
        gaps[gaps.len() / 2]
    }
}

/// An envelope with further fields, which begin with a comma.
pub fn job(number: u32, more: &str) -> String {
    format!(r#"{{"id":"j{number}","type":"t","queue":"default","args":[],"attempt":0{more}}}"#)
}

/// The sources.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A moment that a script noted with `time.monotonic_ns()`.
pub fn moment(noted: &str) -> Instant {
    let then: u64 = noted.parse().unwrap();
    now() - Duration::from_nanos(sys::monotonic_ns().saturating_sub(then))
}

/// A start that is being put together.
pub struct Start<'a> {
    stage: &'a Stage,
    name: &'a str,
    variables: BTreeMap<OsString, OsString>,
    before: Vec<OsString>,
    command: Vec<OsString>,
}

impl<'a> Start<'a> {
    /// Sets a variable.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets a variable for each pair.
    pub fn with_all(self, pairs: &[(&str, &str)]) -> Self {
        pairs.iter().fold(self, |start, (name, value)| start.with(name, value))
    }

    /// A program that execs the init, with its arguments.
    pub fn through(mut self, words: &[&str]) -> Self {
        self.before.extend(words.iter().map(OsString::from));
        self
    }

    /// Another name for its files, where a test has several.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    /// Starts it as PID 1 of a namespace.
    pub fn start(self) -> Init {
        self.start_by(spawn_as_pid_1)
    }

    /// Starts it as a process like any other: nothing ends with it but what it ends itself.
    pub fn start_outside_a_namespace(self) -> Init {
        self.start_by(spawn)
    }

    fn start_by(self, spawn: fn(Command) -> i32) -> Init {
        let files = [
            self.stage.at(&format!("{}.log", self.name)),
            self.stage.at(&format!("{}.notes", self.name)),
        ];
        let [log, notes] = files;
        let mut words = self.before.into_iter().chain([under_test::init().into()]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .arg("--")
            .args(&self.command)
            .env_clear()
            .envs(&self.variables)
            .env("NOTES", &notes)
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(File::create(&log).unwrap()));
        Init {
            pid: spawn(command),
            log,
            notes,
            ended: None,
        }
    }
}

/// An init that runs, or has run. Dropping it ends everything in its namespace.
pub struct Init {
    pub pid: i32,
    log: PathBuf,
    notes: PathBuf,
    ended: Option<Ended>,
}

impl Init {
    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        sys::send(self.pid, signal).unwrap();
    }

    /// Sends it a signal after a stop signal that it has read: late enough to be another request.
    pub fn signal_again(&self, signal: i32) {
        wait::pause(ANOTHER_REQUEST);
        self.signal(signal);
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = sys::reap(self.pid, false).unwrap();
        }
        self.ended.is_none()
    }

    /// Waits for its end, which must be this exit status; how long that took, less what the machine
    /// withheld.
    pub fn ends_with(&mut self, status: i32) -> Duration {
        let began = Stopwatch::start();
        let is_over = wait_until(PATIENCE, || !self.is_running());
        assert!(is_over, "still there after {PATIENCE:?}: {}", self.story());
        assert_eq!(self.ended, Some(Ended::Code(status)), "{}", self.story());
        began.elapsed()
    }

    /// Whether it has come to its end by itself, with this exit status.
    #[allow(dead_code, reason = "for who judges without ending the test")]
    pub fn has_ended_with(&self, status: i32) -> bool {
        self.ended == Some(Ended::Code(status))
    }

    /// SIGTERM, and the end with status 0.
    pub fn stops(&mut self) {
        self.signal(libc::SIGTERM);
        self.ends_with(0);
    }

    /// The log of the init, and the standard error of its worker.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How long ago something was last written to its log.
    pub fn silent_for(&self) -> Duration {
        let written = std::fs::metadata(&self.log).and_then(|log| log.modified()).unwrap();
        written.elapsed().unwrap_or_default()
    }

    /// The warnings and errors in its log.
    pub fn complaints(&self) -> Vec<String> {
        let is_complaint = |line: &&str| line.contains(" ojs-init: warn: ") || line.contains(" ojs-init: error: ");
        let log = self.log();
        log.lines().filter(is_complaint).map(str::to_owned).collect()
    }

    /// Waits until the log has this.
    pub fn logs(&mut self, text: &str) {
        let said = wait_until(PATIENCE, || self.log().contains(text));
        assert!(said, "{text:?} is not in the log: {}", self.story());
    }

    /// The notes of its worker, line by line.
    pub fn notes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.notes).unwrap_or_default();
        // The last line may still be on its way.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    /// Has a worker that obeys say this: the type of a frame, the job, further fields as JSON.
    pub fn order(&self, order: &str) {
        let mut path = self.notes.clone().into_os_string();
        path.push(".orders");
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// Waits until the worker has noted this line.
    pub fn notes_line(&mut self, line: &str) {
        self.notes_times(line, 1);
    }

    /// Waits until the worker has noted this line so many times.
    pub fn notes_times(&mut self, line: &str, times: usize) {
        let count = |init: &Self| init.notes().iter().filter(|noted| *noted == line).count();
        let noted = wait_until(PATIENCE, || count(self) >= times);
        assert!(noted, "{line:?} was not noted {times} times: {}", self.story());
    }

    /// Waits for a note that begins with this word, and returns the rest of it.
    pub fn noted(&mut self, word: &str) -> String {
        let prefix = format!("{word} ");
        let found = wait_for(PATIENCE, || {
            self.notes()
                .iter()
                .find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        });
        found.unwrap_or_else(|| panic!("no note {word:?}: {}", self.story()))
    }

    /// The pid as we see it of a process that calls itself `inner`.
    pub fn outer_pid(&self, inner: &str) -> i32 {
        let inner: i32 = inner.parse().unwrap();
        let is_it = |pid: &i32| proc::inner_pid(*pid) == Some(inner);
        proc::descendants(self.pid).into_iter().find(is_it).unwrap()
    }

    /// A number in KiB of its `/proc/PID/status`.
    pub fn memory_kib(&self, name: &str) -> u64 {
        let text = proc::status_field(self.pid, name).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Everything that may tell what went wrong.
    pub fn story(&self) -> String {
        let log = self.log();
        let from = log.len().saturating_sub(8000);
        let log = log.get(from..).unwrap_or(&log);
        let notes = self.notes();
        let notes = notes.get(notes.len().saturating_sub(60)..).unwrap_or_default();
        format!("\nended: {:?}\nlog: {log}\nnotes: {notes:#?}", self.ended)
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if self.is_running() {
            // The kernel ends everything else in the namespace before it lets go of its first
            // process.
            let _ = sys::send(self.pid, libc::SIGKILL);
            let _ = sys::reap(self.pid, true);
        }
        if std::thread::panicking() {
            println!("{}", self.story());
        }
    }
}

/// Watches for a short time that something does not happen.
pub fn never(what: &str, mut happened: impl FnMut() -> bool) {
    assert!(!wait::wait_until(WATCH, &mut happened), "{what}");
}
