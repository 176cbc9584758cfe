//! The build without the feature `agent`: its command line, and what it says about the half that it
//! lacks. `make test` builds it and names it in BINARY_UNDER_TEST; other runs show these tests as
//! ignored.

use std::process::{Command, Output};

use crate::support::under_test;

/// Runs the init with these arguments and only these variables.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(under_test::init());
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin");
    command.envs(variables.iter().copied()).output().unwrap()
}

#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = run(args, &[]);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    assert_eq!(output.stderr, b"", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that nothing is started, and that the error names what was asked for and what to do.
#[track_caller]
fn assert_refused(args: &[&str], variables: &[(&str, &str)], words: &[&str]) {
    let output = run(args, variables);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{args:?}: {error}"
    );
    for word in words {
        assert!(error.contains(word), "{args:?}: {word} is not in {error}");
    }
}

/// Asserts that the error says that this build lacks what was asked for.
#[track_caller]
fn assert_absent(args: &[&str], variables: &[(&str, &str)], asked: &str) {
    let words = [asked, "not in this build of ojs-init", "install the full ojs-init"];
    assert_refused(args, variables, &words);
}

#[test]
#[ignore = "make test names the build without the agent"]
fn a_command_runs_without_an_option_that_says_plain_init() {
    for args in [
        &["--", "sh", "-c", "exit 3"][..],
        &["run", "sh", "-c", "exit 3"],
        &["--no-agent", "--", "sh", "-c", "exit 3"],
        &["--mode=none", "--", "sh", "-c", "exit 3"],
        &[
            "-gsvve",
            "9",
            "-e=8",
            "-rTERM:QUIT",
            "-pKILL",
            "--",
            "sh",
            "-c",
            "exit 3",
        ],
    ] {
        let output = run(args, &[]);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {output:?}");
    }
    assert_eq!(run(&["-e3", "--", "sh", "-c", "exit 3"], &[]).status.code(), Some(0));
    let echoed = run(&["--", "echo", "--", "-v", "--help"], &[]);
    assert_eq!(echoed.stdout, b"-- -v --help\n");
}

#[test]
#[ignore = "make test names the build without the agent"]
fn everything_of_the_worker_is_refused_by_its_name() {
    for name in ["quiet", "status", "prestop", "health", "job", "completions"] {
        assert_absent(&[name], &[], &format!("the subcommand {name}"));
    }
    for option in ["--url=http://b", "--queues=mail", "--once", "--config=/x"] {
        let flag = option.split('=').next().unwrap();
        assert_absent(&[option, "--", "true"], &[], &format!("the option {flag}"));
        assert_absent(&["config", option], &[], &format!("the option {flag}"));
    }
    for mode in ["socket", "gateway", "exec"] {
        let shown = format!("worker.mode = {mode}");
        assert_absent(&["--mode", mode, "--", "true"], &[], &shown);
        assert_absent(&["--", "true"], &[("OJS_MODE", mode)], &shown);
    }
    let named = [("OJS_INIT_CONFIG", "/x")];
    assert_absent(&["--", "true"], &named, "config (environment OJS_INIT_CONFIG)");
}

#[test]
#[ignore = "make test names the build without the agent"]
fn variables_of_the_worker_are_the_commands_and_a_backend_is_a_warning_unless_a_plain_init_is_asked_for() {
    let variables = [("OJS_URL", "http://backend"), ("OJS_CONCURRENCY", "many")];
    for (args, warns) in [
        (&["--", "sh", "-c", "echo $OJS_CONCURRENCY"][..], true),
        (&["--no-agent", "--", "sh", "-c", "echo $OJS_CONCURRENCY"], false),
    ] {
        let output = run(args, &variables);
        assert_eq!((output.status.code(), output.stdout), (Some(0), b"many\n".to_vec()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said.contains("OJS_URL is set, and no jobs are fetched"),
            warns,
            "{said}"
        );
    }
}

#[test]
#[ignore = "make test names the build without the agent"]
fn help_and_version_tell_of_this_build_alone() {
    let version = format!("ojs-init {} (init only)\n", env!("CARGO_PKG_VERSION"));
    for args in [&["-V"][..], &["--version"], &["-v", "--version"]] {
        assert_eq!(printed(args), version);
    }
    let first = printed(&["--help"]);
    for args in [&["-h"][..], &["help"], &["-vh"]] {
        assert_eq!(printed(args), first);
    }
    let long = printed(&["run", "--help"]);
    for flag in ["--subreaper", "--grace-period", "--user", "--level"] {
        assert!(long.contains(&format!(" {flag}")), "{flag}: {long}");
    }
    for text in [first, long, printed(&["help", "config"])] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for absent in ["--url", "--queues", "--config", "OJS_URL", "prestop "] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }
}

#[test]
#[ignore = "make test names the build without the agent"]
fn a_mistake_is_told_as_in_the_full_build() {
    let usage = "Usage: ojs-init [OPTIONS] -- COMMAND [ARG]...";
    for (args, word) in [
        (&["--grace-perod", "5s", "--", "x"][..], "did you mean --grace-period?"),
        (&["-x"], "unknown option -x"),
        (&["--user"], "--user needs a value"),
        (
            &["--user=a", "--user=b", "--", "x"],
            "--user cannot be used multiple times",
        ),
        (&["--verbose=2", "--", "x"], "--verbose takes no value"),
        (&["node", "server.js"], "`ojs-init -- node [ARG]...`"),
        (&["--subreaper", "false", "--", "x"], "--subreaper=false"),
        (&["confg"], "did you mean config?"),
        (&["config", "edit"], "check, show"),
        (&["--no-agent"], "no COMMAND"),
    ] {
        assert_refused(args, &[("OJS_LOG_FORMAT", "text")], &[word, usage]);
    }
    assert_refused(
        &["--grace-period=soon", "--", "x"],
        &[],
        &[
            "shutdown.grace_period",
            "command line --grace-period",
            "is not a duration",
        ],
    );
}

#[test]
#[ignore = "make test names the build without the agent"]
fn the_configuration_can_be_checked_and_shown() {
    assert_eq!(printed(&["config", "--", "true"]), "configuration is valid\n");
    let missing = run(&["--", "/no/such/program"], &[]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert_refused(
        &["config", "check", "--", "/no/such/program"],
        &[],
        &["/no/such/program"],
    );
    for args in [
        &["config", "show", "--grace-period=7s"][..],
        &["--grace-period=7s", "config", "show"],
    ] {
        let shown = printed(args);
        assert!(shown.contains("command line --grace-period"), "{shown}");
        assert!(
            !shown.contains("backend") && !shown.contains("Without effect"),
            "{shown}"
        );
    }
}
