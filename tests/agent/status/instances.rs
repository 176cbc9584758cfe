//! Whom is asked, who may ask, and how often.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{STUCK, shown};
use crate::operator::{OBEYS, Place, run, socket, start, start_as, start_into_a_small_pipe};
use crate::runtime::STRANGER;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::{now, wait_until};

#[test]
fn the_user_of_an_init_that_is_not_root_is_shown_everything_and_another_nothing() {
    let stage = Stage::new();
    std::fs::create_dir(stage.at("run")).unwrap();
    std::os::unix::fs::chown(stage.at("run"), Some(STRANGER), Some(STRANGER)).unwrap();
    let user = STRANGER.to_string();
    let words = [
        "setpriv",
        "--reuid",
        &user,
        "--regid",
        &user,
        "--clear-groups",
        "--no-new-privs",
    ];
    let mut init = stage.worker(OBEYS).through(&words).start();
    init.logs("Worker started");
    for word in [&["status"][..], &["status", "--json"], &["health", "live"]] {
        for uid in [STRANGER, 0] {
            let came = start_as(&stage, &init, Place::Inside, uid, word).ends();
            assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{uid}: {came:?}");
        }
        let came = start_as(&stage, &init, Place::Inside, STRANGER + 1, word).ends();
        assert_ne!(came.status, Some(0), "{came:?}");
        assert!(
            came.stdout.is_empty() && came.stderr.contains("no ojs-init"),
            "{came:?}"
        );
    }
    start_as(&stage, &init, Place::Inside, STRANGER, &["terminate"]).ends();
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
}

#[test]
fn none_and_several_instances_are_errors_that_say_where() {
    let stage = Stage::new();
    let mut first = stage.worker(OBEYS).named("first").start();
    first.notes_line("ready");
    let path = socket(&stage).parent().unwrap().display().to_string();
    let mut second = stage.worker(OBEYS).named("second").start();
    second.notes_line("ready");
    let outside = |words: &[&str]| start(&stage, &first, Place::Outside, words).ends();
    outside(&["status"]).is_refused(1, &["several instances", &path, "--runtime-dir"]);
    outside(&["status", "--json", "--watch"]).is_refused(1, &["several instances", &path]);
    outside(&["health"]).is_refused(2, &["several instances", &path]);
    let came = outside(&["status", "--json", "--runtime-dir", &path]);
    assert_eq!(came.status, Some(0), "{came:?}");
    // The error shows their pids, and each of them chooses its instance.
    let listed = outside(&["status"]).stderr;
    let pids: Vec<&str> = listed
        .split("(pid ")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    assert_eq!(pids.len(), 2, "{listed}");
    assert!(listed.contains(&format!("--pid {}", pids[0])), "{listed}");
    let says = |words: &[&str], expected: &str| {
        let came = outside(words);
        assert!(came.status == Some(0) && came.stdout.starts_with(expected), "{came:?}");
    };
    says(&["quiet", "--pid", pids[0]], "the worker is quiet now");
    says(&["resume", "--pid", pids[1]], "the worker is running already");
    says(&["resume", "--pid", pids[0]], "the worker runs again");
    assert_eq!(outside(&["health", "live", "--pid", pids[1]]).status, Some(0));
    outside(&["status", "--pid", "4000000"]).is_refused(1, &["no ojs-init with pid 4000000", pids[0], pids[1]]);
    drop(second);
    first.stops();
    let other = Stage::new();
    let init = other.worker("rest()").start();
    start(&stage, &init, Place::Outside, &["status"])
        .ends()
        .is_refused(1, &["no ojs-init"]);
    start(&stage, &init, Place::Outside, &["health"])
        .ends()
        .is_refused(2, &["no ojs-init"]);
}

#[test]
fn who_watches_as_json_gets_a_line_a_second_and_the_exit_status_at_last() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with("OJS_INTERRUPTED_EXIT", "75").start();
    init.notes_line("ready");
    let asked = |init: &crate::stage::Init| init.log().matches("asks: Status { until_end: true }").count();
    let watch = start(&stage, &init, Place::Outside, &["status", "--json", "--watch"]);
    assert!(wait_until(PATIENCE, || asked(&init) == 3), "{}", init.story());
    watch.interrupt();
    let came = watch.ends();
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    assert!((2..=3).contains(&came.stdout.lines().count()), "{came:?}");
    assert!(came.took > Duration::from_millis(1_900), "{came:?}");

    stage.enqueue([1]);
    init.notes_line("job j1");
    let watch = start(&stage, &init, Place::Inside, &["status", "--json", "--watch"]);
    assert!(wait_until(PATIENCE, || asked(&init) == 4), "{}", init.story());
    init.signal(libc::SIGTERM);
    init.order("ack j1");
    // The kernel ends a PID 1 when everybody in its namespace was reaped, and this one is ours.
    let came = watch.ends();
    init.ends_with(0);
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    let last: serde_json::Value = serde_json::from_str(came.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["ending"], &last["exit_status"]),
        (&"exit".into(), &0.into()),
        "{last:#}"
    );
}

#[test]
fn a_reader_that_was_too_slow_for_a_while_gets_whole_lines() {
    let stage = Stage::new();
    stage.enqueue(0..200);
    let mut init = stage.worker(STUCK).with("OJS_CONCURRENCY", "200").start();
    init.notes_line("job j199");
    let asked = |init: &Init| init.log().matches("asks: Status { until_end: true }").count();
    // The buffer holds less than one line.
    let (watch, mut output) = start_into_a_small_pipe(&stage, &init, &["status", "--json", "--watch"]);
    assert!(wait_until(PATIENCE, || asked(&init) == 4), "{}", init.story());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    assert!(wait_until(PATIENCE, || asked(&init) == 7), "{}", init.story());
    watch.interrupt();
    watch.ends();
    let text = reader.join().unwrap().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!((3..=5).contains(&lines.len()), "{} lines", lines.len());
    for line in lines {
        let shown: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(shown["held"], 200);
    }
}

#[test]
fn without_a_terminal_only_json_is_watched() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    run(&stage, &init, &["status", "--watch"]).is_refused(2, &["no terminal", "--json --watch"]);
    init.stops();
}

#[test]
fn neither_do_watchers_keep_others_out_nor_a_flood_the_watchers() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with("OJS_LOG_LEVEL", "info").start();
    init.notes_line("ready");
    let path = socket(&stage);
    let requests = b"{\"request\":\"status\"}\n".repeat(2048);
    let began = now();
    let mut floods: Vec<UnixStream> = (0..12).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for flood in &mut floods {
        flood.set_nonblocking(true).unwrap();
    }
    let watch = start(&stage, &init, Place::Outside, &["status", "--json", "--watch"]);
    while began.elapsed() < Duration::from_secs(5) {
        for flood in &mut floods {
            let _ = flood.write(&requests);
            let _ = flood.read(&mut [0; 65_536]);
        }
        std::thread::yield_now();
    }
    let came = run(&stage, &init, &["health"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    watch.interrupt();
    let came = watch.ends();
    assert!(came.stdout.lines().count() >= 3, "{came:?}");
    drop(floods);
    assert_eq!(shown(&stage, &init)["state"], "running");
    init.stops();
}
