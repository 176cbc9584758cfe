//! The command line and the configuration from outside: the real binary, its output and its status.
//!
//! Every wrong input has in common: one message on standard error, status 2, and COMMAND never
//! runs.

mod check;
mod job;
mod mistakes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for each test, removed at the end.
struct Scene {
    directory: PathBuf,
    variables: Vec<(String, String)>,
}

/// The output of a run.
struct Outcome {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Scene {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("ojs-init-cli-{}-{number}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self {
            directory,
            variables: Vec::new(),
        }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn file(&self, text: &str) -> String {
        let path = self.path("ojs-init.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs ojs-init with these arguments and only these variables.
    fn run(&self, args: &[&str]) -> Outcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ojs-init"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir(&self.directory);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.output().unwrap().into()
    }

    /// Runs ojs-init with these options before `-- touch MARKER`, and says whether the marker is
    /// there.
    fn supervise(&self, options: &[&str]) -> (Outcome, bool) {
        let marker = self.path("marker");
        let args = [options, &["--", "touch", marker.to_str().unwrap()]].concat();
        let outcome = self.run(&args);
        (outcome, Path::new(&marker).exists())
    }

    /// Asserts that these options are refused with these words, and returns the message.
    #[track_caller]
    fn assert_refused(&self, options: &[&str], words: &[&str]) -> String {
        let (outcome, has_run) = self.supervise(options);
        assert_eq!(
            (outcome.status, has_run),
            (Some(2), false),
            "{options:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "");
        if let Some(message) = outcome.stderr.strip_prefix("ojs-init: ") {
            // A subcommand that supervises nothing has a person before it.
            let is_subcommand = |word: &&str| ["status", "config"].contains(word);
            assert!(options.iter().any(is_subcommand), "{options:?}: {message}");
            assert!(!message.contains("ojs-init: "), "one error: {message}");
            assert_says(message, words);
            return message.to_owned();
        }
        // Nobody asked for text, and this is no terminal: it is one record, as every line of the
        // log would be.
        let record: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
        assert_eq!(record["severity"], "FATAL", "{record}");
        let message = record["message"].as_str().unwrap().to_owned();
        assert_says(&message, words);
        message
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Outcome {
    /// Standard output of a run that had to succeed.
    #[track_caller]
    fn printed(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

/// The row of a key in `config show`, its blanks folded.
fn row(shown: &str, key: &str) -> String {
    let row = shown.lines().find(|line| line.split_whitespace().next() == Some(key));
    row.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_command_runs_after_good_options_in_both_forms() {
    let (outcome, has_run) = Scene::new().supervise(&["--no-agent"]);
    assert_eq!((outcome.status, has_run), (Some(0), true), "{}", outcome.stderr);
    let (outcome, has_run) = Scene::new().supervise(&["run", "--no-agent", "-e", "3"]);
    assert_eq!((outcome.status, has_run), (Some(0), true), "{}", outcome.stderr);
    let outcome = Scene::new().run(&["run", "--no-agent", "sh", "-c", "exit 3"]);
    assert_eq!(outcome.status, Some(3));
}

#[test]
fn arguments_of_the_command_are_its_own() {
    let printed = Scene::new().run(&["--no-agent", "--", "echo", "--", "-v", "--help"]);
    assert_eq!(printed.stdout, "-- -v --help\n");
}

#[test]
fn a_wrong_command_line_is_refused() {
    let scene = Scene::new();
    scene.assert_refused(
        &["--grace-perod", "5s"],
        &["--grace-perod", "did you mean --grace-period?", "Usage:"],
    );
    scene.assert_refused(&["-x"], &["-x", "Usage:"]);
    scene.assert_refused(&["--user"], &["--user", "value"]);
    scene.assert_refused(&["--user=a", "--user=b"], &["--user", "multiple times"]);
    scene.assert_refused(&["node"], &["unexpected word node"]);
    scene.assert_refused(&["-v", "status"], &["unknown option -v", "ojs-init status [--json]"]);
    scene.assert_refused(
        &["status", "--watch", "now"],
        &["unexpected word now", "ojs-init status [--json] [--watch]"],
    );
    scene.assert_refused(&["config", "edit"], &["edit", "check, show"]);
}

#[test]
fn without_a_command_there_is_a_usage_error() {
    for args in [
        &[][..],
        &["--no-agent"],
        &["--no-agent", "--"],
        &["run"],
        &["run", "--no-agent", "--"],
    ] {
        let outcome = Scene::new().run(args);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_says(
            &outcome.stderr,
            &["COMMAND", "Usage: ojs-init [OPTIONS] -- COMMAND [ARG]..."],
        );
    }
}

#[test]
fn a_forgotten_double_dash_is_explained() {
    let outcome = Scene::new().run(&["node", "worker.js"]);
    assert_eq!(outcome.status, Some(2));
    assert_says(&outcome.stderr, &["`ojs-init -- node [ARG]...`"]);
}

#[test]
fn a_wrong_value_of_a_flag_is_refused() {
    let scene = Scene::new();
    let cases: [(&str, &str, &[&str]); 12] = [
        ("--grace-period", "soon", &["shutdown.grace_period", "\"soon\"", "25s"]),
        ("--grace-period", "8d", &["shutdown.grace_period", "accepted"]),
        ("--grace-period", "169h", &["too large", "168h"]),
        ("--remap-exit", "256", &["remap-exit", "256", "0 to 255"]),
        ("--rewrite", "KILL:TERM", &["rewrite", "KILL:TERM", "FROM:TO"]),
        ("--rewrite", "TERM", &["rewrite", "colon"]),
        (
            "--parent-death-signal",
            "FOO",
            &["parent-death-signal", "FOO", "SIGTERM"],
        ),
        ("--user", "a:b:c", &["process.user", "a:b:c", "USER:GROUP"]),
        ("--mode", "gatway", &["worker.mode", "gatway", "gateway"]),
        ("--listen", "8081", &["health.listen", "8081", "IP:PORT"]),
        ("--max-frame", "4MB", &["worker.max_frame", "4MB", "4MiB"]),
        ("--queues", "a,,b", &["worker.queues", "a,,b", "empty name"]),
    ];
    for (flag, value, words) in cases {
        let error = scene.assert_refused(&["--no-agent", flag, value], words);
        assert_says(&error, &[&format!("command line {flag}")]);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    scene.assert_refused(
        &["--no-agent", "--subreaper=maybe"],
        &["subreaper", "maybe", "true or false"],
    );
}

#[test]
fn a_wrong_value_of_a_variable_is_refused() {
    let cases = [
        ("OJS_SHUTDOWN_GRACE_PERIOD", "80 s", "shutdown.grace_period"),
        ("OJS_INIT_PROCESS_GROUP", "maybe", "process-group"),
        ("OJS_INIT_REMAP_EXIT", "143,x", "remap-exit"),
        ("OJS_INIT_REWRITE", "TERM:QUIT,TERM:INT", "rewrite"),
        ("OJS_INIT_VERBOSE", "yes", "verbose"),
        ("OJS_CONCURRENCY", "-1", "worker.concurrency"),
        ("OJS_QUEUES", ",", "worker.queues"),
        ("OJS_URL", "backend:8080", "backend.url"),
        ("OJS_INTERRUPTED_EXIT", "256", "shutdown.interrupted_exit"),
    ];
    for (name, value, key) in cases {
        let scene = Scene::new().variable(name, value);
        scene.assert_refused(&["--no-agent"], &[key, &format!("(environment {name})"), "accepted"]);
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    let cases = [
        (
            "[worker]\n\nconcurency = 3\n",
            ":3)",
            "did you mean worker.concurrency?",
        ),
        ("[worker]\nconcurrency = 0\n", ":2)", "too small"),
        ("[worker]\nconcurrency = \"3\"\n", ":2)", "wrong type"),
        ("[shutdown]\ngrace_period = [1]\n", ":2)", "wrong type"),
        ("\n[worker\n", ":2 ", "is not TOML"),
    ];
    for (text, line, problem) in cases {
        let scene = Scene::new();
        let path = scene.file(text);
        scene.assert_refused(&["--no-agent", "--config", &path], &[&format!("{path}{line}"), problem]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_and_a_fifo_does_not_hang() {
    let scene = Scene::new();
    scene.assert_refused(
        &["--no-agent", "--config", "/nonexistent"],
        &["/nonexistent", "command line --config"],
    );
    scene.assert_refused(&["--no-agent", "--config", "/tmp"], &["not a regular file"]);
    let fifo = scene.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    scene.assert_refused(
        &["--no-agent", "--config", fifo.to_str().unwrap()],
        &["not a regular file"],
    );
    let scene = Scene::new().variable("OJS_INIT_CONFIG", "/nonexistent");
    scene.assert_refused(&["--no-agent"], &["environment OJS_INIT_CONFIG"]);
}

#[test]
fn an_impossible_combination_is_refused() {
    let scene = Scene::new();
    scene.assert_refused(&[], &["backend.url", "OJS_URL", "--no-agent"]);
    scene.assert_refused(&["--no-agent", "--mode", "exec"], &["--no-agent", "worker.mode"]);
    scene.assert_refused(
        &["--no-agent", "--termination-grace-period=10", "--stop-margin=6"],
        &["shutdown.stop_margin = 6s", "at most half"],
    );
    scene.assert_refused(
        &["--no-agent", "--cert-file=/c"],
        &["backend.cert_file", "backend.key_file"],
    );
    let scene = Scene::new().variable("OJS_PRESTOP_TIME", "10s");
    scene.assert_refused(
        &["--no-agent", "--termination-grace-period=10"],
        &["shutdown.prestop_time"],
    );
}

#[test]
fn the_first_help_fits_on_one_screen() {
    let help = Scene::new().run(&["--help"]).printed();
    assert!(help.lines().count() <= 45, "{} lines", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 80));
    assert_says(
        &help,
        &[
            "ojs-init [OPTIONS] -- COMMAND",
            "--no-agent",
            "config",
            "ojs-init run --help",
        ],
    );
    assert_eq!(Scene::new().run(&["-h"]).printed(), help);
    assert_eq!(Scene::new().run(&["help"]).printed(), help);
}

#[test]
fn the_long_help_has_variables_and_defaults() {
    let help = Scene::new().run(&["run", "--help"]).printed();
    assert_says(
        &help,
        &[
            "--grace-period <TIME>",
            "[env: OJS_INIT_REWRITE]",
            "[default: 30s]",
            "OJS_SHUTDOWN_GRACE_PERIOD",
        ],
    );
    assert!(help.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn help_and_version_win_over_a_wrong_configuration() {
    let scene = Scene::new().variable("OJS_CONCURRENCY", "many");
    let version = scene.run(&["--version"]).printed();
    assert_eq!(version, format!("ojs-init {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(scene.run(&["-V"]).printed(), version);
    scene.run(&["--help"]).printed();
}

#[test]
fn completions_come_for_every_usual_shell() {
    for shell in ["bash", "zsh", "fish"] {
        assert_says(
            &Scene::new().run(&["completions", shell]).printed(),
            &["ojs-init", "grace-period"],
        );
    }
    let outcome = Scene::new().run(&["completions", "dos"]);
    assert_eq!(outcome.status, Some(2));
    assert_says(&outcome.stderr, &["dos", "bash"]);
}

#[test]
fn bash_accepts_its_completions() {
    let scene = Scene::new();
    let script = scene.path("completions.bash");
    fs::write(&script, scene.run(&["completions", "bash"]).printed()).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
}

#[test]
fn config_show_names_the_source_of_each_value() {
    let scene = Scene::new()
        .variable("OJS_QUEUES", "mail,default")
        .variable("OJS_INIT_VERBOSE", "1");
    let path = scene.file("[worker]\nqueues = [\"file\"]\nconcurrency = 4\n\n[shutdown]\ngrace_period = 20\n");
    let shown = scene
        .run(&[
            "config",
            "show",
            "--no-agent",
            "--config",
            &path,
            "--grace-period",
            "10",
        ])
        .printed();
    let expected = [
        ("shutdown.grace_period", "10s command line --grace-period".to_owned()),
        ("worker.queues", "mail,default environment OJS_QUEUES".to_owned()),
        ("worker.concurrency", format!("4 {path}:3")),
        ("worker.timeout_grace", "30s default".to_owned()),
        ("worker.mode", "none command line --no-agent".to_owned()),
        ("log.level", "debug environment OJS_INIT_VERBOSE".to_owned()),
        ("config", format!("{path} command line --config")),
    ];
    for (key, value) in expected {
        assert_eq!(row(&shown, key), format!("{key} {value}"));
    }
}

#[test]
fn every_option_of_the_init_can_come_from_the_environment() {
    let scene = Scene::new()
        .variable("OJS_INIT_NO_AGENT", "yes")
        .variable("OJS_INIT_SUBREAPER", "1")
        .variable("OJS_INIT_PARENT_DEATH_SIGNAL", "HUP")
        .variable("OJS_INIT_WARN_ON_REAP", "on")
        .variable("OJS_INIT_PROCESS_GROUP", "true")
        .variable("OJS_INIT_REMAP_EXIT", "143,130")
        .variable("OJS_INIT_REWRITE", "TERM:QUIT,HUP:0");
    let shown = scene.run(&["config", "show"]).printed();
    let expected = [
        ("subreaper", "true"),
        ("parent-death-signal", "SIGHUP"),
        ("warn-on-reap", "true"),
        ("process-group", "true"),
        ("remap-exit", "130,143"),
        ("rewrite", "SIGHUP:0,SIGTERM:SIGQUIT"),
    ];
    for (key, value) in expected {
        let name = key.to_uppercase().replace('-', "_");
        assert_eq!(row(&shown, key), format!("{key} {value} environment OJS_INIT_{name}"));
    }
}

#[test]
fn a_secret_is_never_shown() {
    let scene = Scene::new()
        .variable("OJS_AUTH_TOKEN", "hunter2")
        .variable("OJS_URL", "http://backend");
    let header = "--headers=Authorization: Basic hunter3";
    let shown = scene.run(&["config", "show", header]).printed();
    assert_says(
        &shown,
        &["OJS_AUTH_TOKEN", "(set, not shown)", "Authorization: (not shown)"],
    );
    let checked = scene.run(&["config", "check", header]).printed();
    let refused = scene.assert_refused(&["--headers=hunter3"], &["backend.headers"]);
    let in_url = scene.assert_refused(&["--url=http://user:hunter3@backend"], &["backend.auth_token_file"]);
    let bad_token = Scene::new().variable("OJS_AUTH_TOKEN", "hunter2 hunter3");
    let bad_token = bad_token.assert_refused(&["--no-agent"], &["OJS_AUTH_TOKEN"]);
    for text in [shown, checked, refused, in_url, bad_token] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn the_subcommands_for_an_instance_have_help_and_refuse_what_they_do_not_know() {
    for name in ["quiet", "resume", "terminate", "stop", "prestop"] {
        let help = Scene::new().run(&[name, "--help"]).printed();
        assert_says(&help, &["--runtime-dir", "--config", "Exit status 0"]);
        assert_eq!(help.contains("--until-idle"), name == "prestop");
        let wrong = Scene::new().run(&[name, "--no-agent"]);
        assert_eq!((wrong.status, wrong.stdout.as_str()), (Some(2), ""), "{}", wrong.stderr);
    }
}
