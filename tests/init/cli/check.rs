//! `config check`: what it says is what a start says.

use super::*;

#[test]
fn config_check_says_valid_and_every_warning() {
    let scene = Scene::new().variable("OJS_INIT_REWRTE", "TERM:QUIT");
    let options = [
        "--no-agent",
        "--grace-period=30",
        "--termination-grace-period=30",
        "--concurrency=3",
    ];
    let printed = scene.run(&[&["config", "check"], &options[..]].concat()).printed();
    assert_eq!(printed.lines().next(), Some("configuration is valid"));
    let warnings = ["OJS_INIT_REWRITE", "is cut to 25s", "worker.concurrency"];
    assert_eq!(
        printed.lines().filter(|line| line.starts_with("warning: ")).count(),
        warnings.len(),
        "{printed}"
    );
    assert_says(&printed, &warnings);
    assert_eq!(scene.run(&[&["config"], &options[..]].concat()).printed(), printed);
}

#[test]
fn a_misspelt_variable_is_a_warning_at_the_start_and_in_config_check() {
    let scene = Scene::new().variable("OJS_TERMINATION_GRACE", "hunter2");
    let words = [
        "\"OJS_TERMINATION_GRACE\"",
        "did you mean OJS_TERMINATION_GRACE_PERIOD?",
    ];
    let checked = scene.run(&["config", "check", "--no-agent"]).printed();
    let started = scene.run(&["--no-agent", "--format=text", "--", "true"]);
    assert_eq!(started.status, Some(0));
    for text in [checked, started.stderr] {
        assert_says(&text, &words);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// With the agent, whose backend is not there, and sockets in the scene's own directory.
fn agent() -> Scene {
    let scene = Scene::new().variable("OJS_URL", "http://127.0.0.1:9");
    let place = scene.path("run").display().to_string();
    scene
        .variable("OJS_RUNTIME_DIR", &place)
        .variable("OJS_HEALTH_LISTEN", "off")
        .variable("OJS_TERMINATION_GRACE_PERIOD", "30s")
}

impl Scene {
    /// The files and directories in it.
    fn content(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).unwrap().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// The error that `config check` finds with these options: one, with which a start ends, too.
    #[track_caller]
    fn refused_as_a_start_is(&self, options: &[&str], command: &[&str]) -> String {
        let before = self.content();
        let checked = self.run(&[&["config", "check"], options, &["--"], command].concat());
        assert_eq!(checked.status, Some(2), "{}{}", checked.stdout, checked.stderr);
        assert!(!checked.stdout.contains("is valid"), "{}", checked.stdout);
        assert_eq!(self.content(), before, "something was left behind");
        let error = checked.stderr.trim_end().strip_prefix("ojs-init: ").unwrap().to_owned();
        assert_eq!(error.lines().count(), 1, "{error}");
        let started = self.run(&[options, &["--format=text", "--"], command].concat());
        assert_ne!(started.status, Some(0));
        assert_says(&started.stderr, &[&error]);
        error
    }
}

#[test]
fn what_ends_a_start_is_an_error_of_config_check_in_the_same_words() {
    let no_place = agent().variable("OJS_RUNTIME_DIR", "/nonexistent/x");
    let error = no_place.refused_as_a_start_is(&[], &["true"]);
    assert_says(&error, &["there is no place for the sockets", "/nonexistent/x"]);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = agent()
        .variable("OJS_HEALTH_LISTEN", &address)
        .refused_as_a_start_is(&[], &["true"]);
    assert_says(&error, &["health.listen", "cannot listen there", "in use"]);
    let error = agent()
        .variable("OJS_MODE", "gateway")
        .variable("OJS_GATEWAY_LISTEN", &address)
        .refused_as_a_start_is(&[], &["true"]);
    assert_says(&error, &["gateway.listen", "cannot listen there", "in use", "port 0"]);

    let scene = agent();
    fs::write(scene.path("ca.pem"), "no certificate").unwrap();
    let ca_file = format!("--ca-file={}", scene.path("ca.pem").display());
    let error = scene.refused_as_a_start_is(&["--url=https://127.0.0.1:9", &ca_file], &["true"]);
    assert_says(&error, &["backend.ca_file", "holds no certificate"]);

    for mode in [&["--no-agent"][..], &[]] {
        let error = agent().refused_as_a_start_is(&[mode, &["--user=54321"]].concat(), &["true"]);
        assert_says(&error, &["write 54321:GID"]);
        let error = agent().refused_as_a_start_is(mode, &["no-such-program"]);
        assert_says(&error, &["no-such-program", "not found in any directory of PATH"]);
        let error = agent().refused_as_a_start_is(mode, &["/etc/passwd"]);
        assert_says(&error, &["/etc/passwd", "not an executable file"]);
        let error = agent().refused_as_a_start_is(mode, &["/tmp"]);
        assert_says(&error, &["/tmp", "not an executable file"]);
    }
    let error = agent()
        .variable("OJS_MODE", "exec")
        .refused_as_a_start_is(&[], &["no-such-program"]);
    assert_says(&error, &["no-such-program"]);
}

#[test]
fn a_file_for_another_system_is_no_error_because_the_host_may_run_it() {
    for mode in ["none", "socket", "exec"] {
        let scene = agent().variable("OJS_MODE", mode);
        let file = scene.path("program.exe");
        fs::write(&file, b"MZ\x90\0").unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let checked = scene.run(&["config", "check", "--", file.to_str().unwrap()]).printed();
        assert_says(&checked, &["is valid"]);
        // Where the kernel was told how to run such files there is nothing to say.
        let is_warned = checked.contains("it is a program for Windows; it is tried");
        assert!(
            is_warned || Path::new("/proc/sys/fs/binfmt_misc/register").exists(),
            "{checked}"
        );
    }
}

#[test]
fn an_address_that_is_let_go_a_moment_later_is_no_error_of_a_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let scene = agent().variable("OJS_HEALTH_LISTEN", &address);
    let (is_there, gone) = std::sync::mpsc::channel::<()>();
    let letting_go = std::thread::spawn(move || {
        // As one that was told to stop has it until its end.
        let _ = gone.recv_timeout(std::time::Duration::from_millis(300));
        drop(taken);
    });
    let outcome = scene.run(&["--format=text", "--", "true"]);
    letting_go.join().unwrap();
    drop(is_there);
    assert_says(&outcome.stderr, &[&format!("listening for probes on {address}")]);
    assert_ne!(outcome.status, Some(2), "{}", outcome.stderr);
}

#[test]
fn every_error_is_said_at_once() {
    let scene = agent().variable("OJS_RUNTIME_DIR", "/nonexistent/x");
    let outcome = scene.run(&["config", "check", "--user=54321"]);
    assert_eq!(outcome.status, Some(2));
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
    assert_says(
        &outcome.stderr,
        &["write 54321:GID", "there is no place for the sockets"],
    );
}

#[test]
fn every_command_of_mode_exec_that_cannot_be_started_is_an_error() {
    let scene = agent().variable("OJS_MODE", "exec");
    let routes = "[exec.routes]\na = [\"no-such-a\"]\nb = [\"true\"]\nc = [\"no-such-c\"]\n";
    let file = scene.file(routes);
    let checked = scene.run(&["config", "check", "--config", &file, "--", "no-such-command"]);
    assert_eq!(checked.status, Some(2));
    let names = ["exec.routes \"a\": ", "exec.routes \"c\": ", "COMMAND: "];
    assert_says(&checked.stderr, &names);
    assert_eq!(checked.stderr.lines().count(), 3, "{}", checked.stderr);
}

#[test]
fn what_a_start_goes_on_with_is_a_warning_of_config_check_in_the_same_words() {
    let scene = agent()
        .variable("OJS_AUTH_TOKEN_FILE", "/nonexistent/token")
        .variable("OJS_TERMINATION_LOG", "/nonexistent/log");
    let place = scene.path("run");
    fs::create_dir(&place).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&place, mode).unwrap();
    let checked = scene.run(&["config", "check", "--", "true"]).printed();
    let warnings: Vec<&str> = checked
        .lines()
        .filter_map(|line| line.strip_prefix("warning: "))
        .collect();
    let expected = [
        "paths.runtime_dir: everybody may replace files in ",
        "nothing is sent to the backend until it holds a token",
        "accepted as termination log",
    ];
    assert_eq!(warnings.len(), expected.len(), "{checked}");
    let started = scene.run(&["--format=text", "--", "true"]).stderr;
    for (warning, expected) in warnings.into_iter().zip(expected) {
        assert_says(warning, &[expected]);
        let line = started.lines().find(|line| line.contains(warning));
        assert!(line.is_some_and(|line| line.contains("warn")), "{warning}: {started}");
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "the start's own directory");
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_check_leaves_nothing_behind_and_takes_nothing_away() {
    let scene = agent();
    assert_eq!(scene.run(&["config", "check"]).printed(), "configuration is valid\n");
    assert_eq!(scene.content(), [""; 0].map(PathBuf::from));
    fs::create_dir(scene.path("run")).unwrap();
    assert_eq!(scene.run(&["config", "check"]).printed(), "configuration is valid\n");
    assert_eq!(fs::read_dir(scene.path("run")).unwrap().count(), 0);
}

#[test]
fn a_user_that_needs_a_capability_which_is_not_there_is_an_error() {
    let scene = agent();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "54321", "--regid", "54321", "--clear-groups"]);
    command.args([
        env!("CARGO_BIN_EXE_ojs-init"),
        "config",
        "check",
        "--no-agent",
        "--user=54399:54399",
    ]);
    let outcome: Outcome = command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
        .into();
    assert_eq!(
        (outcome.status, outcome.stdout.as_str()),
        (Some(2), ""),
        "{}",
        outcome.stderr
    );
    assert_says(
        &outcome.stderr,
        &["cannot change to that user", "CAP_SETUID and CAP_SETGID"],
    );
    let allowed = scene.run(&["config", "check", "--user=54399:54399", "--", "true"]);
    assert_eq!(allowed.printed(), "configuration is valid\n");
}

#[test]
fn in_a_container_where_ojs_init_runs_its_own_address_is_no_error() {
    let free = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [health, gateway] = free.map(|free| free.local_addr().unwrap().to_string());
    let scene = agent()
        .variable("OJS_HEALTH_LISTEN", &health)
        .variable("OJS_MODE", "gateway")
        .variable("OJS_GATEWAY_LISTEN", &gateway);
    let mut running = Command::new(env!("CARGO_BIN_EXE_ojs-init"));
    running
        .args(["--", "sleep", "600"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    running.envs(scene.variables.iter().map(|(name, value)| (name, value)));
    let mut running = running.stderr(std::process::Stdio::null()).spawn().unwrap();
    let is_up = || scene.run(&["status"]).status == Some(0);
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_up() && std::time::Instant::now() < give_up {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let checked = scene.run(&["config", "check"]);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(running.id().try_into().unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    running.wait().unwrap();
    let printed = checked.printed();
    assert_says(&printed, &["configuration is valid", "health.listen", "gateway.listen"]);
    let words = "perhaps because ojs-init runs here already";
    assert_eq!(printed.matches(words).count(), 2, "{printed}");
}

#[test]
fn config_check_refuses_what_is_wrong() {
    let scene = agent();
    let outcome = scene.run(&["config", "check", "--concurrency=0"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""));
    assert_says(&outcome.stderr, &["worker.concurrency"]);
}
