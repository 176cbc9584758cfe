//! Command lines, and the request or error that each results in.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::*;
use crate::cli::command_line::{HealthOf, Order, PrestopWait};
use crate::config::Flags;
use crate::config::keys::*;

fn parsed(args: &[&str]) -> Result<CommandLine, UsageError> {
    parse(&["ojs-init"].iter().chain(args).map(Into::into).collect::<Vec<_>>())
}

/// The command and the number of flags of a command line that supervises.
fn run(args: &[&str]) -> (Vec<String>, Flags) {
    match parsed(args) {
        Ok(CommandLine::Run { flags, command }) => (
            command.into_iter().map(|arg| arg.into_string().unwrap()).collect(),
            flags,
        ),
        other => panic!("{args:?}: {other:?}"),
    }
}

fn message(args: &[&str]) -> String {
    parsed(args).unwrap_err()
}

fn flags(set: &[(&'static Row, &[&str])]) -> Flags {
    let mut flags = Flags::default();
    for (key, values) in set {
        flags.push(key, values.iter().map(Into::into).collect());
    }
    flags
}

#[test]
fn everything_after_the_dashes_belongs_to_the_command() {
    assert_eq!(run(&["--", "node", "-v", "--help"]).0, ["node", "-v", "--help"]);
    assert_eq!(run(&["--", "--", "true"]).0, ["--", "true"]);
    assert_eq!(run(&["--", "run"]).0, ["run"]);
    assert_eq!(run(&["--", ""]).0, [""]);
}

#[test]
fn everything_after_the_first_word_of_run_belongs_to_the_command() {
    assert_eq!(
        run(&["run", "node", "-v", "--", "--help"]).0,
        ["node", "-v", "--", "--help"]
    );
    assert_eq!(run(&["run", "-v", "--", "-x"]).0, ["-x"]);
    assert_eq!(run(&["run", "--", "--", "true"]).0, ["--", "true"]);
    assert_eq!(run(&["run", "run"]).0, ["run"]);
}

#[test]
fn a_command_passes_through_byte_for_byte() {
    let raw = OsString::from_vec(b"\xff\xfe".to_vec());
    let request = parse(&["ojs-init".into(), "--".into(), raw.clone(), raw.clone()]).unwrap();
    let expected = CommandLine::Run {
        flags: Flags::default(),
        command: vec![raw.clone(), raw],
    };
    assert_eq!(request, expected);
}

#[test]
fn letters_stand_alone_in_clusters_and_with_their_value() {
    let expected = flags(&[
        (&SUBREAPER, &["true"]),
        (&PARENT_DEATH_SIGNAL, &["KILL"]),
        (&VERBOSE, &["2"]),
        (&PROCESS_GROUP, &["true"]),
        (&REMAP_EXIT, &["143", "1"]),
        (&REWRITE, &["TERM:QUIT"]),
    ]);
    assert_eq!(
        run(&["-vvg", "-s", "-pKILL", "-e143", "-e", "1", "-rTERM:QUIT", "--", "x"]).1,
        expected
    );
    assert_eq!(
        run(&[
            "run",
            "-gsvvp",
            "KILL",
            "-e143",
            "--remap-exit=1",
            "-r",
            "TERM:QUIT",
            "x"
        ])
        .1,
        expected
    );
}

#[test]
fn an_option_that_is_spelled_like_a_key_of_the_file_names_the_option_of_that_key() {
    for (wrong, meant) in [
        ("--health-listen", "--listen"),
        ("--shutdown-grace-period", "--grace-period"),
        ("--backend-url", "--url"),
        ("--log-level", "--level"),
        ("--worker-mode", "--mode"),
        ("--worker_max_jobs", "--max-jobs"),
    ] {
        let message = message(&[wrong, "x", "--", "true"]);
        let start = format!("unknown option {wrong}; did you mean {meant}?");
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn a_wrong_subcommand_for_an_instance_is_answered_with_its_own_usage() {
    for (args, problem) in [
        (&["quiet", "now"][..], "unexpected word now"),
        (&["quiet", "quiet"], "unexpected word quiet"),
        (&["stop", "--force"], "unknown option --force"),
        (&["prestop", "--for", "abc"], "a TIME is 250ms"),
        (&["prestop", "--for", "5s", "--until-idle"], "cannot be used with"),
    ] {
        let message = message(args);
        let usage = format!("Usage: ojs-init {} ", args[0]);
        assert!(message.contains(problem) && message.contains(&usage), "{message}");
        assert!(!message.contains("COMMAND") && !message.contains("switch"), "{message}");
    }
}

#[test]
fn a_wrong_word_behind_job_is_one_line_whose_first_words_are_the_cause() {
    for (args, cause) in [
        (
            &["job", "frobnicate"][..],
            "unexpected word frobnicate; usage: ojs-init job ",
        ),
        (&["job", "--quiet"], "unknown option --quiet; usage: "),
        (
            &["job", "progress"],
            "the following required arguments were not provided: <FRACTION>; usage: ",
        ),
        (&["job"], "'ojs-init job' requires a subcommand"),
    ] {
        let message = message(args);
        assert!(
            message.starts_with(cause) && message.ends_with("| arg PATH"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_negative_number_is_a_missing_value_and_no_unknown_option() {
    for (args, start) in [
        (
            &["--concurrency", "-3", "--", "x"][..],
            "--concurrency needs a value, and \"-3\" looks like an option; accepted: a whole number from 1",
        ),
        (
            &["run", "--grace-period", "-5s", "x"],
            "--grace-period needs a value, and \"-5s\" looks like an option; accepted: 250ms, 25s,",
        ),
        (&["-3", "--", "x"], "unknown option -3"),
    ] {
        let message = message(args);
        assert!(message.starts_with(start), "{message}");
        assert!(!crate::cli::without_usage(&message).contains("Usage"), "{message}");
        assert!(message.contains("\n\nUsage: "), "{message}");
    }
}

#[test]
fn a_program_that_is_not_there_may_be_a_word_that_was_meant_for_ojs_init() {
    use crate::cli::slip;
    for (program, meant) in [
        ("status", "--entrypoint /ojs-init"),
        ("config", "--entrypoint /ojs-init"),
        ("--concurrency", "in front of --"),
        ("python3 worker.py", "each word apart"),
    ] {
        assert!(slip(program).contains(meant), "{program}");
    }
    assert_eq!(slip("python3"), "");
}

#[test]
fn a_switch_takes_a_value_only_with_an_equals_sign() {
    assert_eq!(
        run(&["--subreaper=false", "--", "x"]).1,
        flags(&[(&SUBREAPER, &["false"])])
    );
    assert!(message(&["--subreaper", "false", "--", "x"]).contains("false"));
}

#[test]
fn a_command_may_be_left_out_for_those_that_the_configuration_has() {
    for args in [
        &[][..],
        &["--"],
        &["--no-agent"],
        &["--no-agent", "--"],
        &["run"],
        &["run", "-v"],
        &["run", "--"],
    ] {
        assert_eq!(run(args).0, [""; 0], "{args:?}");
    }
    let message = no_command();
    assert!(message.contains("COMMAND") && message.contains("Usage:"), "{message}");
}

#[test]
fn a_command_without_dashes_is_told_where_they_go() {
    assert!(message(&["node", "worker.js"]).contains("`ojs-init -- node [ARG]...`"));
    let message = message(&["--user", "node", "--headers", "Cookie: hunter2", "node", "worker.js"]);
    assert!(message.contains("`ojs-init [OPTIONS] -- node [ARG]...`"), "{message}");
    assert!(!message.contains("hunter2"));
}

#[test]
fn a_slip_in_an_option_or_subcommand_is_told_what_was_meant() {
    assert!(message(&["--grace-perod", "5s", "--", "x"]).contains("--grace-period"));
    assert!(message(&["run", "--grace-perod=5s", "x"]).contains("--grace-period"));
    assert!(message(&["confg", "show"]).contains("did you mean config?"));
    assert!(message(&["-v", "confg"]).contains("did you mean config?"));
    for args in [
        &["https://u:hunter2@h"][..],
        &["-v", "https://u:hunter2@h"],
        &["health", "https://u:hunter2@h"],
    ] {
        let said = message(args);
        assert!(said.contains("https://...@h") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn an_option_that_is_not_repeatable_is_refused_the_second_time() {
    for args in [["--user=a", "--user=b"], ["-s", "-s"], ["-pTERM", "-pKILL"]] {
        assert!(message(&[args[0], args[1], "--", "x"]).contains("multiple times"));
    }
}

#[test]
fn the_subcommands_for_an_instance_take_its_directory_and_the_file() {
    let words = [
        ("quiet", Order::Quiet),
        ("resume", Order::Resume),
        ("terminate", Order::Terminate),
        ("stop", Order::Stop),
        ("prestop", Order::Prestop(PrestopWait::For(Duration::from_secs(5)))),
        ("status", status(false, false)),
        ("health", Order::Health(HealthOf::Both)),
        ("jobs", Order::Jobs { as_json: false }),
    ];
    for (word, order) in words {
        let expected = CommandLine::Control {
            order,
            flags: flags(&[(&RUNTIME_DIR, &["/x"])]),
            pid: Some(4363),
        };
        let args = [word, "--runtime-dir", "/x", "--pid", "4363"];
        assert_eq!(parsed(&args), Ok(expected), "{word}");
        for pid in ["0", "-1", "me", "4294967296"] {
            assert!(message(&[word, &format!("--pid={pid}")]).contains(pid), "{word} {pid}");
        }
        assert!(parsed(&[word, "--config=/c"]).is_ok());
        assert!(
            message(&[word, "--concurrency", "3"]).contains("--concurrency"),
            "{word}"
        );
        assert!(message(&[word, "now"]).contains("now"), "{word}");
    }
}

fn status(as_json: bool, watches: bool) -> Order {
    Order::Status { as_json, watches }
}

#[test]
fn a_status_is_text_or_json_once_or_until_the_end_and_health_is_of_one_probe() {
    let order = |args: &[&str]| match parsed(args) {
        Ok(CommandLine::Control { order, .. }) => order,
        other => panic!("{args:?}: {other:?}"),
    };
    assert_eq!(order(&["status", "--json"]), status(true, false));
    assert_eq!(order(&["status", "--watch"]), status(false, true));
    assert_eq!(order(&["status", "--watch", "--json"]), status(true, true));
    assert_eq!(order(&["health", "live"]), Order::Health(HealthOf::Live));
    assert_eq!(
        order(&["health", "--config=/c", "ready"]),
        Order::Health(HealthOf::Ready)
    );
    assert!(message(&["health", "well"]).contains("live"));
    assert!(message(&["health", "--json"]).contains("ojs-init health [live|ready]"));
    assert!(message(&["quiet", "--watch"]).contains("--watch"));
    assert_eq!(order(&["jobs", "--json"]), Order::Jobs { as_json: true });
}

#[test]
fn a_cancel_names_one_job() {
    let cancel = CommandLine::Control {
        order: Order::Cancel { job: "j1".to_owned() },
        flags: Flags::default(),
        pid: Some(7),
    };
    assert_eq!(parsed(&["cancel", "j1", "--pid", "7"]), Ok(cancel));
    for wrong in [&["cancel"][..], &["cancel", ""], &["cancel", "j1", "j2"]] {
        assert!(message(wrong).contains("ojs-init cancel JOB"), "{wrong:?}");
    }
}

#[test]
fn a_prestop_waits_for_some_time_or_until_no_job_is_active() {
    let wait = |args: &[&str]| match parsed(args) {
        Ok(CommandLine::Control {
            order: Order::Prestop(wait),
            ..
        }) => wait,
        other => panic!("{args:?}: {other:?}"),
    };
    assert_eq!(wait(&["prestop", "--until-idle"]), PrestopWait::UntilIdle);
    assert_eq!(
        wait(&["prestop", "--for", "1m30s"]),
        PrestopWait::For(Duration::from_secs(90))
    );
    assert_eq!(wait(&["prestop", "--for=0"]), PrestopWait::For(Duration::ZERO));
    assert!(message(&["prestop", "--for", "soon"]).contains("soon"));
    assert!(message(&["prestop", "--for", "5s", "--until-idle"]).contains("--until-idle"));
    assert!(message(&["quiet", "--until-idle"]).contains("--until-idle"));
}

#[test]
fn a_subcommand_may_stand_behind_the_options() {
    for (behind, before) in [
        (
            &["--config", "/c", "config", "check"][..],
            &["config", "--config", "/c", "check"][..],
        ),
        (
            &["--config", "config", "config", "show"],
            &["config", "--config", "config", "show"],
        ),
        (&["-v", "config"], &["config", "-v"]),
        (&["--no-agent", "run", "a", "-v"], &["run", "--no-agent", "a", "-v"]),
        (
            &["--runtime-dir=/r", "status", "--json"],
            &["status", "--runtime-dir=/r", "--json"],
        ),
    ] {
        assert_eq!(parsed(behind).unwrap(), parsed(before).unwrap());
    }
    assert!(message(&["--mode", "exec", "quiet"]).contains("unknown option --mode"));
    // A word of COMMAND is no word of ojs-init's.
    assert_eq!(run(&["-v", "--", "config", "check"]).0, ["config", "check"]);
}

#[test]
fn config_checks_unless_it_is_told_to_show() {
    let no_agent = || flags(&[(&NO_AGENT, &["true"])]);
    assert_eq!(
        parsed(&["config"]),
        Ok(CommandLine::ConfigCheck {
            flags: Flags::default(),
            command: Vec::new(),
        })
    );
    assert_eq!(
        parsed(&["config", "check", "--no-agent"]),
        Ok(CommandLine::ConfigCheck {
            flags: no_agent(),
            command: Vec::new(),
        })
    );
    assert_eq!(
        parsed(&["config", "check", "--no-agent", "--", "worker", "--config"]),
        Ok(CommandLine::ConfigCheck {
            flags: no_agent(),
            command: vec!["worker".into(), "--config".into()],
        })
    );
    assert_eq!(
        parsed(&["config", "--no-agent", "show"]),
        Ok(CommandLine::ConfigShow { flags: no_agent() })
    );
    assert!(message(&["config", "edit"]).contains("edit"));
}

#[test]
fn every_subcommand_has_its_words_in_the_completions_of_bash() {
    let Ok(CommandLine::Print(script)) = parsed(&["completions", "bash"]) else {
        panic!("no script")
    };
    let names: Vec<_> = script
        .split("cmd=\"ojs")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        assert!(script.contains(&format!("  ojs{name})")), "{name}");
    }
}

#[test]
fn completions_are_printed_for_a_shell_that_is_known() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            matches!(parsed(&["completions", shell]), Ok(CommandLine::Print(script)) if script.contains("grace-period"))
        );
    }
    assert!(message(&["completions", "dos"]).contains("bash"));
    assert!(message(&["completions"]).contains("SHELL"));
}

#[test]
fn the_version_is_one_line() {
    assert_eq!(
        parsed(&["-V"]),
        Ok(CommandLine::Print(format!("ojs-init {}\n", env!("CARGO_PKG_VERSION"))))
    );
    assert_eq!(parsed(&["--version"]), parsed(&["-V"]));
}
