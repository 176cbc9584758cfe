//! One container, from its start to its removal.

use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ojs_devserver::{JobState, Server};
use serde_json::Value;

use crate::support::wait::{now, wait_until};
use crate::{PATIENCE, engine, images, looks_until, root};

/// The seccomp profile that ships. Every container has it.
const PROFILE: &str = "packaging/seccomp/ojs-init.json";

/// The status of a process that SIGKILL ended.
pub const KILLED: i64 = 137;

/// Says when it goes that a thread which belongs to a test is to end, also of one that fails.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A container that is being put together.
pub struct Start {
    options: Vec<String>,
    image: String,
    words: Vec<String>,
    /// The seccomp profile, if it is not the one that ships.
    profile: Option<String>,
}

impl Start {
    /// A container of an image.
    pub fn of(image: &str) -> Self {
        Self {
            options: Vec::new(),
            image: image.to_owned(),
            words: Vec::new(),
            profile: None,
        }
    }

    /// The worker of these tests at this backend, in the network of this machine.
    pub fn worker(server: &Server) -> Self {
        Self::of(images::TEST)
            .option("--network=host")
            .with("OJS_URL", &server.url())
            .with("OJS_HEALTH_LISTEN", "off")
    }

    /// An example at this backend, in the network of this machine: it may write nowhere, and its
    /// health is looked at each second.
    pub fn example(image: &str, server: &Server) -> Self {
        Self::of(image)
            .option("--network=host")
            .option("--read-only")
            .option("--health-interval=1s")
            .with("OJS_URL", &server.url())
            .with("OJS_HEALTH_LISTEN", "127.0.0.1:0")
    }

    /// Sets a variable.
    pub fn with(self, name: &str, value: &str) -> Self {
        self.option(&format!("--env={name}={value}"))
    }

    /// An option of `docker run`.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Another seccomp profile than the one that ships.
    pub fn with_profile(mut self, profile: &str) -> Self {
        self.profile = Some(profile.to_owned());
        self
    }

    /// The command that is run instead of the image's.
    pub fn words(mut self, words: &[&str]) -> Self {
        self.words = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Starts it.
    #[track_caller]
    pub fn start(self) -> Container {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ojs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let profile = self
            .profile
            .unwrap_or_else(|| images::text(&root().join(PROFILE)).to_owned());
        let profile = format!("--security-opt=seccomp={profile}");
        let mut words = vec!["run", "--detach", "--name", &name, &profile];
        words.extend(self.options.iter().map(String::as_str));
        words.push(&self.image);
        words.extend(self.words.iter().map(String::as_str));
        engine().docker(&words);
        Container { name }
    }
}

/// A container that runs, or has run. Dropping it removes it.
pub struct Container {
    pub name: String,
}

/// How one ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub status: i64,
    pub took: Duration,
}

impl Container {
    /// The engine's knowledge of it.
    pub fn state(&self) -> Value {
        let text = engine().docker(&["inspect", "--format", "{{json .State}}", &self.name]);
        serde_json::from_str(&text).unwrap()
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.state()["Running"] == true
    }

    /// The pid of its first process, as this machine sees it. It must run: the engine says 0 of one
    /// that does not, and a signal to that would be one to ourselves.
    #[track_caller]
    pub fn pid(&self) -> i32 {
        let pid = self.state()["Pid"].as_i64().unwrap().try_into().unwrap();
        assert!(pid > 0, "it does not run: {}", self.log());
        pid
    }

    /// The output of its health check.
    pub fn health(&self) -> String {
        self.state()["Health"]["Status"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until its health check says that.
    pub fn health_becomes(&self, expected: &str) {
        let is_so = looks_until(PATIENCE, || self.health() == expected);
        assert!(is_so, "{} instead of {expected}: {}", self.state(), self.log());
    }

    /// Its exit status, when it has ended.
    pub fn status(&self) -> Option<i64> {
        let state = self.state();
        (state["Running"] == false).then(|| state["ExitCode"].as_i64().unwrap())
    }

    /// Standard output and error of everything in it.
    pub fn log(&self) -> String {
        let output = engine().try_docker(&["logs", &self.name]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Waits until the log has this.
    pub fn logs(&self, text: &str) {
        let said = looks_until(PATIENCE, || self.log().contains(text));
        assert!(said, "{text:?} is not in the log: {}", self.log());
    }

    /// `docker kill --signal`.
    pub fn signal(&self, signal: &str) {
        engine().docker(&["kill", "--signal", signal, &self.name]);
    }

    /// `docker exec`, whatever comes of it.
    pub fn exec(&self, words: &[&str]) -> Output {
        engine().try_docker(&[&["exec", &self.name], words].concat())
    }

    /// How many jobs its worker has in its hands.
    pub fn held(&self) -> usize {
        let output = self.exec(&["/ojs-init", "status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["held"].as_u64().unwrap_or(0).try_into().unwrap()
    }

    /// `docker exec` in the background.
    pub fn start_exec(&self, words: &[String]) -> JoinHandle<Output> {
        let (name, words) = (self.name.clone(), words.to_vec());
        std::thread::spawn(move || {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            engine().try_docker(&[&["exec", &name], &words[..]].concat())
        })
    }

    /// `docker stop`, with its options.
    pub fn stop(&self, options: &[&str]) -> Ended {
        let began = now();
        engine().docker(&[&["stop"], options, &[&self.name]].concat());
        self.ended_since(began)
    }

    /// `docker wait` in the background: its exit status when it has ended.
    pub fn waits(&self) -> JoinHandle<i64> {
        let name = self.name.clone();
        std::thread::spawn(move || engine().docker(&["wait", &name]).parse().unwrap())
    }

    /// Waits for its end.
    pub fn ends(&self, patience: Duration) -> Ended {
        let began = now();
        let waiting = self.waits();
        let is_over = wait_until(patience, || waiting.is_finished());
        assert!(is_over, "still there after {patience:?}: {}", self.log());
        self.ended_since(began)
    }

    fn ended_since(&self, began: Instant) -> Ended {
        let took = began.elapsed();
        let status = self.status().unwrap();
        Ended { status, took }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = engine().try_docker(&["inspect", "--format", "{{json .State}}", &self.name]);
            println!(
                "{}\n{}\n{}",
                self.name,
                String::from_utf8_lossy(&state.stdout),
                self.log()
            );
        }
        engine().try_docker(&["rm", "--force", "--volumes", &self.name]);
    }
}

/// A job of the tests' worker, made available; it is tried again as often as needed, soon.
pub fn enqueue(server: &Server, kind: &str, argument: f64) -> String {
    let retry = r#"{"max_attempts":100,"initial_interval_ms":100,"max_interval_ms":100}"#;
    let job = format!(r#"{{"type":"{kind}","args":[{argument}],"retry":{retry}}}"#);
    server.enqueue(&job).unwrap()
}

/// Waits until so many jobs are in a state.
#[track_caller]
pub fn become_state(server: &Server, state: JobState, count: usize) {
    let is_so = server.wait(PATIENCE, |server| server.count(state) == count);
    assert!(
        is_so,
        "{} instead of {count} are {state:?}: {:#?}",
        server.count(state),
        server.jobs()
    );
}

/// A job of each kind, all with this worker; their ids.
pub fn busy_with(server: &Server, worker: &Container, kinds: &[(&str, f64)]) -> Vec<String> {
    let ids: Vec<String> = kinds
        .iter()
        .map(|(kind, argument)| enqueue(server, kind, *argument))
        .collect();
    become_held(server, worker, ids.len());
    ids
}

/// Waits until so many jobs were taken, and those that are not done yet are in the hands of this
/// worker's handlers. A job that ojs-init has and they have not goes back at once when it is told
/// to stop.
#[track_caller]
pub fn become_held(server: &Server, worker: &Container, count: usize) {
    become_state(server, JobState::Active, count);
    let are_held = looks_until(PATIENCE, || {
        // Asked in this order, since one that is done in between would stand for one that is on its
        // way.
        let active = server.count(JobState::Active);
        worker.held() == active
    });
    assert!(are_held, "{} are held: {}", worker.held(), worker.log());
}

/// The names of the errors of a job, the first one first.
pub fn errors(server: &Server, job: &str) -> Vec<String> {
    let errors = server.job(job).unwrap().errors;
    let name = |error: &String| {
        let error: Value = serde_json::from_str(error).unwrap();
        error["type"]
            .as_str()
            .or(error["code"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    errors.iter().map(name).collect()
}

/// The time that may pass, on a machine that starts a dozen containers, between the signal and the
/// heartbeat that tells of it.
pub const TELLING: Duration = Duration::from_millis(500);

/// The time that the engine's client may take, beside others, to find out that a container has
/// ended.
pub const CLIENT: Duration = Duration::from_millis(800);

/// When the backend first heard of the end, by its clock; `None`: not yet.
pub fn first_told(server: &Server, from: f64) -> Option<f64> {
    let events = server.events();
    let is_first = |event: &&ojs_devserver::Event| {
        event.operation == "heartbeat" && event.ms >= from && event.state.as_deref() != Some("running")
    };
    let event = events.iter().find(is_first)?;
    Some(event.arrived_ms.unwrap_or(event.ms))
}

/// The same, of a worker that has ended: it is told at once.
pub fn told(server: &Server, from: f64) -> f64 {
    first_told(server, from).unwrap_or_else(|| panic!("it was never told: {:#?}", server.events()))
}

/// A job was cut off by the shutdown, and the backend was told.
#[track_caller]
pub fn was_cut_off(server: &Server, worker: &Container, job: &str) {
    assert_eq!(errors(server, job), ["ShutdownError"], "{}", worker.log());
}

/// How long after a moment of the server's clock the first request of this kind about this job had
/// arrived.
pub fn settled_after(server: &Server, from: f64, job: &str, operation: &str) -> Duration {
    let events = server.events();
    let of_it = |event: &&ojs_devserver::Event| {
        event.operation == operation && event.ms >= from && event.jobs.iter().any(|id| id == job)
    };
    let event = events.iter().find(of_it);
    let event = event.unwrap_or_else(|| panic!("no {operation} of {job}: {:#?}", server.jobs()));
    Duration::from_secs_f64((event.arrived_ms.unwrap_or(event.ms) - from).max(0.0) / 1e3)
}
