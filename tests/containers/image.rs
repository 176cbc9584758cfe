//! The images themselves.

use std::collections::BTreeSet;
use std::process::Command;

use ojs_devserver::{JobState, Options, Server};
use serde_json::Value;

use crate::container::{Start, become_state};
use crate::{PATIENCE, engine, images, looks_until, root};

/// Every test of this file.
pub const ALL: [(&str, fn()); 3] = [
    ("the_image_is_one_static_binary_with_labels", one_file),
    ("the_example_workers_do_their_jobs_and_are_healthy", examples),
    ("nothing_but_sources_is_sent_to_the_builder", context),
];

/// What an image says about itself.
fn config(image: &str) -> Value {
    let text = engine().docker(&["image", "inspect", "--format", "{{json .Config}}", image]);
    serde_json::from_str(&text).unwrap()
}

/// The files of an image that a container has from it and not from the engine.
fn files(image: &str) -> BTreeSet<String> {
    let container = Start::of(image).option("--network=none").words(&["--version"]).start();
    let archive = engine().at("files.tar");
    let path = images::text(&archive);
    engine().docker(&["export", "--output", path, &container.name]);
    let listed = Command::new("tar").args(["-tvf", path]).output().unwrap();
    // The engine makes mount points for /dev, /proc, /sys and a few files of /etc.
    let theirs = ["dev/", "proc/", "sys/", "etc/", ".dockerenv"];
    let text = String::from_utf8(listed.stdout).unwrap();
    let name = |line: &str| line.split_whitespace().nth(5).unwrap_or_default().to_owned();
    let names = text.lines().map(name);
    names
        .filter(|name| !theirs.iter().any(|theirs| name.starts_with(theirs)))
        .collect()
}

fn one_file() {
    assert_eq!(files(images::INIT), BTreeSet::from(["ojs-init".to_owned()]));
    let config = config(images::INIT);
    assert_eq!(config["Entrypoint"], serde_json::json!(["/ojs-init"]));
    assert_ne!(config["User"].as_str().unwrap_or("0"), "0");
    let label = |name: &str| {
        config["Labels"][format!("org.opencontainers.image.{name}")]
            .as_str()
            .unwrap_or("")
    };
    assert_eq!(label("revision"), "0123abc");
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(label("licenses"), env!("CARGO_PKG_LICENSE"));
    for name in ["title", "description", "source", "created"] {
        assert_ne!(label(name), "", "{name}");
    }
}

fn examples() {
    let server = Server::start(Options::default()).unwrap();
    for (image, job) in [
        (images::PYTHON, r#"{"type":"email.send","args":["a@b.c",0.1]}"#),
        (*images::NODE, r#"{"type":"image.resize","args":["cat.png"]}"#),
    ] {
        let config = config(image);
        assert_eq!(config["Entrypoint"], serde_json::json!(["/ojs-init", "--"]), "{image}");
        assert_ne!(config["User"].as_str().unwrap_or("0"), "0", "{image}");
        assert_eq!(config["Healthcheck"]["Test"][1], "/ojs-init", "{image}");
        let worker = Start::of(image)
            .option("--network=host")
            .option("--read-only")
            .option("--health-interval=1s")
            .with("OJS_URL", &server.url())
            .with("OJS_HEALTH_LISTEN", "127.0.0.1:0")
            .start();
        let before = server.count(JobState::Completed);
        server.enqueue(job).unwrap();
        become_state(&server, JobState::Completed, before + 1);
        worker.health_becomes("healthy");
        assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
    }
    assert!(looks_until(PATIENCE, || server.workers().is_empty()));
}

/// What the repository's `.dockerignore` lets through.
fn context() {
    let context = engine().at("context");
    std::fs::create_dir(&context).unwrap();
    let dockerfile = context.join("Dockerfile");
    std::fs::write(&dockerfile, format!("FROM {}\nCOPY . /context\n", images::INIT)).unwrap();
    let words = [
        "build",
        "--quiet",
        "--tag",
        "context",
        "--file",
        images::text(&dockerfile),
    ];
    engine().docker(&[&words[..], &[images::text(root())]].concat());
    let all = files("context");
    let has = |start: &str| all.iter().any(|name| name.starts_with(&format!("context/{start}")));
    for wanted in [
        "src/main.rs",
        "Cargo.lock",
        ".cargo/config.toml",
        "devserver/src/lib.rs",
    ] {
        assert!(has(wanted), "{wanted}: {all:?}");
    }
    for unwanted in ["target/debug", ".git", "tests", "docs"] {
        assert!(!has(unwanted), "{unwanted}");
    }
}
