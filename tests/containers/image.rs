//! The images themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ojs_devserver::{JobState, Options, Server};
use serde_json::Value;

use crate::container::{Start, become_state};
use crate::docker_engine::said;
use crate::{PATIENCE, engine, images, looks_until, measured, root};

/// Every test of this file.
pub const ALL: [(&str, fn()); 3] = [
    ("the_image_is_one_static_binary_with_labels", one_file),
    ("the_example_workers_do_their_jobs_and_are_healthy", examples),
    ("nothing_but_sources_is_sent_to_the_builder", context),
];

/// Images that are built from the sources, which takes minutes and the crates' registry.
pub const FROM_SOURCES: [(&str, fn()); 1] = [(
    "the_image_from_the_sources_is_the_same_twice_and_lists_its_crates_in_the_binary",
    from_sources,
)];

/// Longest that a build may take that compiles.
const BUILD_SECONDS: &str = "1800";

/// The labels of an image.
fn config(image: &str) -> Value {
    let text = engine().docker(&["image", "inspect", "--format", "{{json .Config}}", image]);
    serde_json::from_str(&text).unwrap()
}

/// The files of an image that a container has from it and not from the engine.
fn files(image: &str) -> BTreeSet<String> {
    let container = Start::of(image).option("--network=none").words(&["--version"]).start();
    let archive = engine().at(&format!("{}.tar", container.name));
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
        let worker = Start::example(image, &server).start();
        let before = server.count(JobState::Completed);
        server.enqueue(job).unwrap();
        become_state(&server, JobState::Completed, before + 1);
        worker.health_becomes("healthy");
        assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
    }
    assert!(looks_until(PATIENCE, || server.workers().is_empty()));
}

/// Files that the repository's `.dockerignore` lets through.
fn context() {
    let dockerfile = images::context(images::INIT, &["COPY . /context"]).join("Dockerfile");
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
        "crates/lifecycle/src/lib.rs",
        "Cargo.lock",
        ".cargo/config.toml",
        "devserver/src/lib.rs",
        "bench/Cargo.toml",
        "packaging/Cargo.toml",
    ] {
        assert!(has(wanted), "{wanted}: {all:?}");
    }
    for unwanted in [
        "target/debug",
        ".git",
        "tests",
        "crates/lifecycle/tests",
        "docs",
        "bench/runs",
        "packaging/nfpm.yaml",
    ] {
        assert!(!has(unwanted), "{unwanted}");
    }
}

/// The image from the sources, with cargo's files in this place; where its binary was put.
fn build(cargo_home: &str, tag: &str) -> PathBuf {
    let base = format!("{tag}-base");
    let home = format!("ENV CARGO_HOME={cargo_home}");
    let path = "ENV PATH=/rust/bin:/usr/local/bin:/usr/bin:/bin";
    images::made_from(*images::RUST_BASE, &[&home, path], &base);
    let dockerfile = root().join("docker/Dockerfile");
    let mut client = engine().patient_client(with_buildkit(), BUILD_SECONDS);
    client
        .env("DOCKER_BUILDKIT", "1")
        .args([
            "build",
            "--no-cache",
            "--progress=plain",
            "--network=host",
            "--file",
            images::text(&dockerfile),
        ])
        .args([
            "--build-arg",
            &format!("RUST_IMAGE={base}"),
            "--build-arg",
            "SOURCE_DATE_EPOCH=1700000000",
        ])
        .args(["--tag", tag])
        .arg(root());
    said(&["build", tag], &client.output().unwrap());
    let binary = engine().at(&format!("{tag}.bin"));
    let container = Start::of(tag).option("--network=none").words(&["--version"]).start();
    let from = format!("{}:/ojs-init", container.name);
    engine().docker(&["cp", &from, images::text(&binary)]);
    binary
}

/// A client that can build with BuildKit: the classic builder carries out the stages that nobody
/// needs as well. A newer one wants a plugin for that, Debian's has it built in.
fn with_buildkit() -> &'static str {
    let context = images::context("scratch", &["LABEL tried=yes"]);
    let can = |program: &&str| {
        let mut client = engine().client(program);
        client
            .env("DOCKER_BUILDKIT", "1")
            .args(["build", "--quiet", images::text(&context)]);
        client.output().unwrap().status.success()
    };
    let found = ["docker", "/usr/bin/docker"].into_iter().find(can);
    found.expect("BuildKit: install Docker's plugin buildx, Debian's package docker-buildx")
}

/// The layers of an image, by their digests: names, times, rights and content of all files.
fn layers(image: &str) -> String {
    engine().docker(&["image", "inspect", "--format", "{{json .RootFS.Layers}}", image])
}

fn from_sources() {
    let first = build("/usr/local/cargo", "first");
    let second = build("/another/place", "second");
    let [first, second] = [first, second].map(|path| std::fs::read(path).unwrap());
    assert!(first == second, "the binaries are different");
    assert_eq!(layers("first"), layers("second"));
    assert_eq!(files("first"), BTreeSet::from(["ojs-init".to_owned()]));
    for place in ["/usr/local/cargo", "/another/place", "/build/"] {
        let is_in = first.windows(place.len()).any(|bytes| bytes == place.as_bytes());
        assert!(!is_in, "{place} is in the binary");
    }
    let listed = crates(&engine().at("first.bin"));
    for wanted in ["ojs-init", "rustls", "mio"] {
        assert!(listed.contains(wanted), "{wanted}: {listed:?}");
    }
    assert!(!listed.contains("proptest"), "what only tests need");
    measured(
        "the image from the sources, twice",
        &format!("the same {} bytes; {} crates listed", first.len(), listed.len()),
    );
}

/// The crates that a binary lists: zlib, JSON.
fn crates(binary: &Path) -> BTreeSet<String> {
    let section = binary.with_extension("section");
    let dump = format!("--dump-section=.dep-v0={}", section.display());
    let dumped = Command::new("objcopy")
        .arg(dump)
        .arg(binary)
        .arg("/dev/null")
        .output()
        .unwrap();
    said(&["objcopy"], &dumped);
    let program = "import sys, zlib; print(zlib.decompress(open(sys.argv[1], 'rb').read()).decode())";
    let text = Command::new("python3")
        .args(["-c", program])
        .arg(&section)
        .output()
        .unwrap();
    let list: Value = serde_json::from_str(&said(&["python3"], &text)).unwrap();
    let packages = list["packages"].as_array().unwrap().iter();
    packages
        .map(|package| package["name"].as_str().unwrap().to_owned())
        .collect()
}
