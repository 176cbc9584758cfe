//! The token: always the newest one, and nowhere but in the header.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ojs_lifecycle::api::{Failure, Reply};

use crate::backend::{Backend, Endpoint};
use crate::rig::*;
use crate::support::temp::TempDir;
use crate::support::under_test;
use crate::support::wait::{Stopwatch, wait_until};

fn directory(backend: &Backend) -> TempDir {
    let name = format!("ojs-token-{}-{}", std::process::id(), backend.address().port());
    TempDir::new(std::env::temp_dir().join(name)).unwrap()
}

fn rig(backend: &Backend, file: &Path) -> Rig {
    let mut settings = settings(&backend.url());
    settings.backend.auth_token_file = Some(file.to_owned());
    Rig::new(settings)
}

/// Asks again and again, until an answer is as expected.
fn ask_until(rig: &mut Rig, expected: impl Fn(&Reply) -> bool) {
    assert!(wait_until(PATIENCE, || expected(&rig.ask(beat()))));
}

/// Asks until the backend gets this token.
fn uses(rig: &mut Rig, backend: &Backend, token: &str) {
    let header = format!("Bearer {token}");
    let is_used = |_: &Reply| tokens(backend).last() == Some(&header);
    ask_until(rig, is_used);
}

fn tokens(backend: &Backend) -> Vec<String> {
    let records = backend.records();
    let token = |record: &crate::backend::Record| record.request.header("authorization").unwrap().to_owned();
    records.iter().map(token).collect()
}

#[test]
fn the_token_is_what_its_file_holds_but_for_blanks_around_it() {
    let backend = Backend::start();
    let directory = directory(&backend);
    let file = directory.path().join("token");
    let mut rig = rig(&backend, &file);
    for text in ["plain", "  blanks ", "newline\n", "windows\r\n", "\nseveral\n\n"] {
        std::fs::write(&file, text).unwrap();
        uses(&mut rig, &backend, text.trim());
    }
}

/// As a kubelet does it: a directory for each version, `..data` points to the newest, `token` into
/// `..data`.
fn rotate(directory: &Path, version: u32, token: &str) {
    let name = format!("..version-{version}");
    std::fs::create_dir(directory.join(&name)).unwrap();
    std::fs::write(directory.join(&name).join("token"), token).unwrap();
    symlink(&name, directory.join("..data_tmp")).unwrap();
    std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    if version > 1 {
        std::fs::remove_dir_all(directory.join(format!("..version-{}", version - 1))).unwrap();
    }
}

#[test]
fn a_token_that_was_rotated_is_used_at_once_and_the_old_one_never_again() {
    let backend = Backend::start();
    let directory = directory(&backend);
    symlink("..data/token", directory.path().join("token")).unwrap();
    let mut rig = rig(&backend, &directory.path().join("token"));
    for (version, token) in [(1, "one"), (2, "two"), (3, "three")] {
        rotate(directory.path(), version, token);
        let began = Stopwatch::start();
        uses(&mut rig, &backend, token);
        assert!(began.elapsed() < SLACK);
        for call in [beat(), fetch(1), look("a")] {
            rig.ask(call);
        }
    }
    let mut used = tokens(&backend);
    used.dedup();
    assert_eq!(used, ["one", "two", "three"].map(|token| format!("Bearer {token}")));
}

#[test]
fn without_a_token_nothing_is_sent_and_one_line_says_so() {
    let backend = Backend::start();
    let directory = directory(&backend);
    let file = directory.path().join("token");
    let mut rig = rig(&backend, &file);
    let no_credentials = failed(Failure::NoCredentials);
    for (_, call) in one_of_each() {
        assert_eq!(rig.ask(call), no_credentials, "a file that is not there");
    }
    let huge = "x".repeat((64 << 10) + 1);
    for unusable in ["", " \n", "two words", "\u{fc}", "a\0b", &huge] {
        std::fs::write(&file, "here").unwrap();
        ask_until(&mut rig, |reply| matches!(reply, Reply::HeartbeatOk { .. }));
        std::fs::write(&file, unusable).unwrap();
        ask_until(&mut rig, |reply| *reply == no_credentials);
    }
    std::fs::write(&file, "here").unwrap();
    ask_until(&mut rig, |reply| matches!(reply, Reply::HeartbeatOk { .. }));
    std::fs::remove_file(&file).unwrap();
    ask_until(&mut rig, |reply| *reply == no_credentials);
    assert!(tokens(&backend).iter().all(|token| token == "Bearer here"));

    let log = LOG.lock().unwrap().clone();
    let path = file.display().to_string();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("WARN") && line.contains(&path))
        .collect();
    let [line] = lines.as_slice() else { panic!("{lines:#?}") };
    assert!(
        line.contains("backend.auth_token_file = ") && line.contains("cannot be read: No such file"),
        "{line}"
    );
}

#[test]
fn while_the_token_file_cannot_be_read_the_last_token_counts() {
    let backend = Backend::start();
    let directory = directory(&backend);
    let file = directory.path().join("token");
    std::fs::write(&file, "last").unwrap();
    let mut rig = rig(&backend, &file);
    rig.ask(beat());
    std::fs::remove_file(&file).unwrap();
    // A read of its first byte fails with EIO, as of a network file system that is gone.
    symlink("/proc/self/mem", &file).unwrap();
    ask_until(&mut rig, |reply| {
        assert!(matches!(reply, Reply::HeartbeatOk { .. }));
        is_logged(0, &[&file.display().to_string(), "cannot be read now"])
    });
    assert!(tokens(&backend).iter().all(|token| token == "Bearer last"));
}

#[test]
fn a_token_file_that_is_a_pipe_holds_up_nobody() {
    let backend = Backend::start();
    let directory = directory(&backend);
    let file = directory.path().join("token");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(rig(&backend, &file).ask(beat()), failed(Failure::NoCredentials));
}

#[test]
fn each_kind_of_bad_token_file_is_told_apart() {
    let huge = "x".repeat((64 << 10) + 1);
    let cases = [
        ("", "is empty"),
        ("hunter2 hunter3", "holds what no header can carry"),
        (&huge, "larger than 64 KiB"),
    ];
    for (text, expected) in cases {
        let backend = Backend::start();
        let directory = directory(&backend);
        let file: PathBuf = directory.path().join("token");
        std::fs::write(&file, text).unwrap();
        assert_eq!(rig(&backend, &file).ask(beat()), failed(Failure::NoCredentials));
        assert!(is_logged(0, &[&file.display().to_string(), expected]), "{expected}");
    }
    assert!(!LOG.lock().unwrap().contains("hunter2 hunter3"));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for a process"
)]
fn the_running_init_shows_its_token_at_no_level_and_to_no_child() {
    const SECRET: &str = "hunter2-in-the-file";
    let backend = Backend::start();
    let directory = directory(&backend);
    let file = directory.path().join("token");
    std::fs::write(&file, SECRET).unwrap();
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "[backend.headers]\nX-Api-Key = \"hunter2-in-a-header\"\n").unwrap();
    for own in [
        ("OJS_AUTH_TOKEN_FILE", file.to_str().unwrap()),
        ("OJS_AUTH_TOKEN", SECRET),
    ] {
        backend.once(Endpoint::Register, crate::backend::Behaviour::status(401));
        backend.once(Endpoint::Heartbeat, crate::backend::Behaviour::Close);
        let before = backend.records().len();
        let child = Command::new(under_test::init())
            .args([
                "--config",
                config.to_str().unwrap(),
                "--",
                "sh",
                "-c",
                "env >&2; sleep 1.5",
            ])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("OJS_URL", backend.url())
            .env("OJS_RUNTIME_DIR", directory.path().join("run"))
            .env("OJS_HEALTH_LISTEN", "off")
            .env("OJS_LOG_LEVEL", "trace")
            .env("RUST_LOG", "trace")
            .env("OJS_HEARTBEAT_INTERVAL", "200ms")
            .env(own.0, own.1)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&child.stdout),
            String::from_utf8_lossy(&child.stderr)
        );
        let records = backend.records();
        let sent = records.get(before..).unwrap();
        assert!(
            sent.iter().any(|record| record.endpoint == Endpoint::Heartbeat),
            "{said}"
        );
        for record in sent {
            assert_eq!(
                record.request.header("authorization"),
                Some("Bearer hunter2-in-the-file")
            );
            assert_eq!(record.request.header("x-api-key"), Some("hunter2-in-a-header"));
        }
        assert!(
            said.contains("/ojs/v1/workers/heartbeat"),
            "the log must be at its finest: {said}"
        );
        let leaks: Vec<&str> = said.lines().filter(|line| line.contains("hunter2")).collect();
        assert!(leaks.is_empty(), "{leaks:#?}");
    }
}
