//! `docker-compose`, with the repository's own file and with those of the specification and its
//! website.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ojs_devserver::{JobState, Options, Server};
use serde_json::Value;

use crate::container::{Container, KILLED, Over, TELLING, busy_with, errors, settled_after, told};
use crate::docker_engine::said;
use crate::support::wait::{now, pause, wait_until};
use crate::{PATIENCE, engine, images, in_full, looks_until, measured, root};

/// Every test of this file.
pub const ALL: [(&str, fn()); 3] = [
    (
        "docker_compose_down_finishes_the_jobs_of_both_example_workers",
        examples,
    ),
    (
        "the_specification_s_compose_file_has_the_drain_that_it_promises",
        specification,
    ),
    ("the_website_s_compose_file_drains_25_s_of_its_30_s", website),
];

/// A project of Compose. Dropping it takes it down.
struct Project {
    name: &'static str,
    files: Vec<PathBuf>,
    variables: Vec<(&'static str, String)>,
}

impl Project {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = engine().client("docker-compose");
        command.args(["--project-name", self.name]);
        for file in &self.files {
            command.arg("--file").arg(file);
        }
        command.args(words).envs(self.variables.clone()).output().unwrap()
    }

    /// Its output; it must have worked.
    fn does(&self, words: &[&str]) -> String {
        said(words, &self.run(words))
    }

    /// The container of a service.
    fn container(&self, service: &str) -> String {
        self.does(&["ps", "--quiet", service])
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", String::from_utf8_lossy(&self.run(&["logs", "--no-color"]).stdout));
        }
        self.run(&["down", "--timeout", "1"]);
    }
}

/// Between two questions to a backend that is about to go.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// How many jobs the backend at this address has in each state; `None`: it does not say.
fn counts(address: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /ojs/v1/jobs?limit=1 HTTP/1.0\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str::<Value>(body)
        .ok()
        .map(|body| body["counts"].clone())
}

fn examples() {
    let _ = (*images::NODE, *images::DEVSERVER);
    let project = Project {
        name: "examples",
        files: vec![root().join("docker/compose.yaml")],
        // The engine takes one that nobody has.
        variables: vec![("OJS_DEVSERVER_PORT", "0".to_owned())],
    };
    project.does(&["up", "--detach", "--no-build"]);
    let address = &project.does(&["port", "devserver", "8080"]);
    assert!(
        looks_until(PATIENCE, || counts(address).is_some()),
        "the published port"
    );
    let backend = project.container("devserver");
    for (kind, arguments, queue) in [
        ("email.send", r#"["a@b.c",8]"#, "mail"),
        ("image.resize", r#"["cat.png",8]"#, "pictures"),
    ] {
        let words = ["exec", &backend, "/ojs-devserver", "enqueue", kind, arguments];
        engine().docker(&[&words[..], &["--count", "3", "--queue", queue]].concat());
    }
    let are_active = looks_until(PATIENCE, || counts(address).is_some_and(|counts| counts["active"] == 6));
    assert!(are_active, "{:?}", counts(address));
    let workers = ["worker-python", "worker-node"].map(|service| Container {
        name: project.container(service),
    });
    // Jobs that ojs-init has and its worker has not would go back at once. Asked in this order,
    // since one that is done in between would stand for one that is on its way.
    let are_held = looks_until(PATIENCE, || {
        let active = counts(address).and_then(|counts| counts["active"].as_u64());
        active == Some(workers.iter().map(Container::held).sum::<usize>() as u64)
    });
    assert!(are_held, "{:?}", workers.each_ref().map(Container::held));
    // The exit statuses are told before the containers are removed.
    let waiting = workers.each_ref().map(Container::waits);
    let began = now();
    let is_over = AtomicBool::new(false);
    // The backend goes last, and then nobody can ask it any more.
    let watch = || {
        let mut last = Value::Null;
        while !is_over.load(Ordering::Relaxed) {
            last = counts(address).unwrap_or(last);
            pause(ASKED_EVERY);
        }
        last
    };
    let down = std::thread::scope(|scope| {
        let last = scope.spawn(watch);
        let over = Over(&is_over);
        project.does(&["down"]);
        drop(over);
        last.join().unwrap()
    });
    let took = began.elapsed();
    assert_eq!(down["completed"], 6, "{down}");
    for status in waiting {
        assert_eq!(status.join().unwrap(), 0);
    }
    assert!(took < Duration::from_secs(25), "{took:?}");
    measured(
        "docker/compose.yaml, 6 jobs of 8 s",
        &format!("down after {took:.2?}, status 0"),
    );
}

/// Lines that the specification's and the website's files do not have, because they are everybody's
/// own.
fn beside(name: &str, service: &[&str]) -> PathBuf {
    let path = engine().at(name);
    let lines: Vec<String> = service.iter().map(|line| format!("    {line}\n")).collect();
    std::fs::write(&path, format!("services:\n  worker:\n{}", lines.concat())).unwrap();
    path
}

/// `down` of a file whose worker has a job that never ends: what it exits with, and when its jobs
/// were cut off.
fn down(name: &'static str, file: &str, more: &[&str], drain: Duration, limit: Duration) {
    let server = Server::start(Options::default()).unwrap();
    let url = format!("OJS_URL: '{}'", server.url());
    let always = [
        "network_mode: host",
        "environment:",
        "  OJS_HEALTH_LISTEN: 'off'",
        "  DEAF: '1'",
    ];
    let url = format!("  {url}");
    let lines = [&more[..1], &always, &[&url], &more[1..]].concat();
    let project = Project {
        name,
        files: vec![
            root().join("tests/containers/specifications").join(file),
            beside(&format!("{name}.yaml"), &lines),
        ],
        variables: Vec::new(),
    };
    project.does(&["up", "--detach", "--no-build"]);
    let worker = Container {
        name: project.container("worker"),
    };
    let shortly_before = (drain - Duration::from_secs(1)).as_secs_f64();
    let jobs = busy_with(
        &server,
        &worker,
        &[("stuck", 0.0), ("obeys", 0.0), ("sleep", shortly_before)],
    );
    let waiting = worker.waits();
    let asked = server.now_ms();
    // Compose removes the containers and the network after that, which takes time of its own.
    let (status, gone) = std::thread::scope(|scope| {
        scope.spawn(|| project.does(&["down"]));
        let is_gone = wait_until(limit + PATIENCE, || waiting.is_finished());
        let gone = server.now_ms();
        assert!(is_gone, "still there: {}", worker.log());
        (waiting.join().unwrap(), gone)
    });
    let sigterm = told(&server, asked);
    let took = Duration::from_secs_f64((gone - sigterm) / 1e3);
    let drained = settled_after(&server, sigterm, &jobs[1], "nack");
    measured(
        &format!("{file}, drain {drain:?}, limit {limit:?}, a stuck job"),
        &format!("jobs cut off after {drained:.2?}, gone after {took:.2?}, status {status}"),
    );
    assert_ne!(status, KILLED);
    assert_eq!(status, 0);
    assert!(took < limit, "{took:?}");
    assert!(drained + TELLING > drain, "{drained:?}");
    assert_eq!(errors(&server, &jobs[0]), ["ShutdownError"]);
    assert_eq!(server.job(&jobs[2]).unwrap().state, JobState::Completed);
}

/// As `docker-compose config` understands it, a file says this of its worker.
fn says(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/containers/specifications").join(file)).unwrap();
    let (_, rest) = text.split_once(&format!("{name}: ")).unwrap();
    rest.lines().next().unwrap().to_owned()
}

/// The specification's file to the letter; what stands in it is more than the grace period by 10 s.
/// Unless all is wanted the grace period is 8 s instead of 80.
fn specification() {
    assert_eq!(says("compose.yaml", "stop_grace_period"), "90s");
    let drain = Duration::from_secs(if in_full() { 80 } else { 8 });
    let set = format!("  OJS_SHUTDOWN_GRACE_PERIOD: '{}s'", drain.as_secs());
    let more = ["entrypoint: []", &set];
    down(
        "specification",
        "compose.yaml",
        &more,
        drain,
        drain + Duration::from_secs(10),
    );
}

fn website() {
    assert_eq!(says("website-compose.yaml", "stop_grace_period"), "30s");
    let more = ["image: myapp/ojs-worker:latest", "  OJS_GRACE_PERIOD: '25s'"];
    let limit = Duration::from_secs(30);
    down("website", "website-compose.yaml", &more, Duration::from_secs(25), limit);
}
