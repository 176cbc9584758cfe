//! `status --watch` on a terminal of the test's own.

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::STUCK;
use super::grid::Grid;
use crate::operator::{OBEYS, Place, command_in, run};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::pty::Terminal;
use crate::support::sys;
use crate::support::under_test;
use crate::support::wait::wait_until;

/// The view, on a terminal.
struct View {
    child: Child,
    terminal: Terminal,
    /// Kept: the last one who has it open hangs the terminal up.
    _theirs: std::os::fd::OwnedFd,
    size: (u16, u16),
}

impl View {
    fn start(stage: &Stage, init: &Init, place: Place, variables: &[(&str, &str)]) -> Self {
        let (terminal, theirs) = Terminal::open().unwrap();
        terminal.resize(80, 24);
        let end = || Stdio::from(theirs.as_fd().try_clone_to_owned().unwrap());
        let mut command = Command::new(under_test::init());
        command
            .args(["status", "--watch"])
            .env_clear()
            .env("OJS_RUNTIME_DIR", stage.at("run"))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(end())
            .stderr(end());
        Self {
            child: command_in(place, init, command),
            terminal,
            _theirs: theirs,
            size: (80, 24),
        }
    }

    fn grid(&mut self) -> Grid {
        let (columns, lines) = self.size;
        let mut grid = Grid::new(usize::from(columns), usize::from(lines));
        grid.show(&self.terminal.more());
        grid
    }

    /// Waits until something stands there.
    fn shows(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let is_there = wait_until(PATIENCE, || {
            text = self.grid().text();
            is_it(&text)
        });
        assert!(is_there, "{what}:\n{text}");
        text
    }

    /// Its exit status, and what stands there at last.
    fn ends(mut self) -> (Option<i32>, String) {
        let mut status = None;
        let is_over = wait_until(PATIENCE, || {
            self.grid();
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let grid = self.grid();
        assert!(is_over, "still there:\n{}", grid.text());
        assert_eq!(
            grid.cursor().1,
            0,
            "the prompt comes on a line of its own:\n{}",
            grid.text()
        );
        (status.unwrap().code(), grid.text())
    }

    fn signal(&self, signal: i32) {
        sys::send(self.child.id().try_into().unwrap(), signal).unwrap();
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_follows_a_worker_from_running_to_its_exit() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    {
        let mut view = View::start(&stage, &init, Place::Outside, &[]);
        view.shows("running", |text| {
            text.contains("\nstate     running\n") && text.contains("\nj1 ")
        });
        run(&stage, &init, &["quiet"]);
        let text = view.shows("quiet", |text| {
            text.contains("\nstate     quiet: asked for by a signal")
        });
        assert!(!text.contains("running"), "{text}");
        init.signal(libc::SIGTERM);
        view.shows("a drain", |text| {
            text.contains("because of SIGTERM") && text.contains("\nleft      [#####")
        });
        init.order("ack j1");
        init.ends_with(0);
        let (status, text) = view.ends();
        assert_eq!(status, Some(0));
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("ojs-init ends with status 0, "), "{text}");
    }
}

#[test]
fn the_container_s_own_view_is_not_killed_by_the_end_of_pid_1() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(STUCK).start();
    init.notes_line("job j1");
    let mut view = View::start(&stage, &init, Place::Inside, &[]);
    view.shows("running", |text| text.contains("state     running"));
    run(&stage, &init, &["stop"]);
    // The kernel ends a PID 1 when everybody in its namespace was reaped, and this one is ours.
    let (status, text) = view.ends();
    init.ends_with(0);
    assert_eq!(status, Some(0), "{text}");
    let last = text.lines().last().unwrap();
    assert_eq!(
        last, "ojs-init ends everything in this container now, 1 job active",
        "{text}"
    );
}

#[test]
fn an_init_that_vanishes_is_said_to_have_ended() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let mut view = View::start(&stage, &init, Place::Outside, &[]);
    view.shows("running", |text| text.contains("state     running"));
    drop(init);
    let (status, text) = view.ends();
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("ojs-init has ended; when it was last heard of: running, no job active"),
        "{text}"
    );
}

#[test]
fn ctrl_c_ends_it_well_and_sigterm_as_a_signal_and_neither_leaves_anything_switched_on() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    for (signal, expected) in [(libc::SIGINT, 0), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mut view = View::start(&stage, &init, Place::Outside, &[("TERM", "xterm")]);
        view.shows("running", |text| text.contains("state     running"));
        // The grid knows no sequence that would have to be taken back, but for colours, which end
        // where they began.
        let text = view.terminal.more();
        let begun: usize = ["2", "31", "32", "33"]
            .iter()
            .map(|colour| text.matches(&format!("\x1b[{colour}m")).count())
            .sum();
        assert_eq!(begun, text.matches("\x1b[0m").count(), "{text:?}");
        assert!(begun > 0, "{text:?}");
        view.signal(signal);
        let (status, text) = view.ends();
        assert_eq!(status, Some(expected), "{text}");
        assert!(text.contains("state     running"), "{text}");
    }
    init.stops();
}

#[test]
fn who_wants_no_colours_gets_none() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let mut view = View::start(&stage, &init, Place::Outside, &[("NO_COLOR", "1")]);
    view.shows("running", |text| text.contains("state     running"));
    assert!(!view.terminal.more().contains("\x1b[0m"));
    init.stops();
}

#[test]
fn a_dumb_terminal_is_told_what_to_use_and_gets_no_sequence() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let mut view = View::start(&stage, &init, Place::Outside, &[("TERM", "dumb")]);
    let mut status = None;
    let is_over = wait_until(PATIENCE, || {
        status = view.child.try_wait().unwrap();
        status.is_some()
    });
    let text = view.terminal.more();
    assert!(is_over && status.unwrap().code() == Some(2), "{text:?}");
    assert!(
        text.contains("TERM=dumb") && text.contains("--json --watch"),
        "{text:?}"
    );
    assert!(!text.contains('\x1b'), "{text:?}");
    init.stops();
}

#[test]
fn two_hundred_jobs_fill_the_screen_and_no_more() {
    let stage = Stage::new();
    stage.enqueue(0..200);
    let mut init = stage.worker(STUCK).with("OJS_CONCURRENCY", "200").start();
    init.notes_line("job j199");
    let mut view = View::start(&stage, &init, Place::Outside, &[]);
    let text = view.shows("all of them", |text| {
        text.contains("200 of 200 active: 200 with the worker")
    });
    assert_eq!(text.lines().count(), 23, "{text}");
    let rows = text
        .lines()
        .filter(|line| line.starts_with('j') && line.ends_with("conn 1"))
        .count();
    assert!(text.ends_with(&format!("\n... and {} more", 200 - rows)), "{text}");
    assert!(text.starts_with("ojs-init "), "{text}");
    // Smaller, and larger than before: at once, with nothing left of the picture before.
    for size in [(60, 12), (100, 40)] {
        view.size = size;
        view.terminal.forget();
        view.terminal.resize(size.0, size.1);
        view.signal(libc::SIGWINCH);
        let lines = usize::from(size.1) - 1;
        view.shows("the new size", |text| {
            text.lines().count() == lines && text.ends_with(" more")
        });
    }
    view.signal(libc::SIGINT);
    assert_eq!(view.ends().0, Some(0));
    init.signal(libc::SIGTERM);
    init.signal(libc::SIGQUIT);
    init.ends_with(0);
}

#[test]
fn an_init_that_is_stuck_is_said_to_give_no_answer_until_it_goes_on() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let mut view = View::start(&stage, &init, Place::Outside, &[]);
    view.shows("running", |text| text.contains("state     running"));
    sys::send(init.pid, libc::SIGSTOP).unwrap();
    view.shows("no answer", |text| text.contains("\nno answer for "));
    sys::send(init.pid, libc::SIGCONT).unwrap();
    view.shows("an answer", |text| !text.contains("no answer for "));
    view.signal(libc::SIGINT);
    let (status, _) = view.ends();
    assert_eq!(status, Some(0));
    init.stops();
}

#[test]
fn a_connection_that_is_taken_for_another_is_made_again() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    let mut view = View::start(&stage, &init, Place::Outside, &[]);
    view.shows("running", |text| text.contains("state     running"));
    view.signal(libc::SIGSTOP);
    // Longer than a client may be silent.
    init.logs("had its time");
    run(&stage, &init, &["quiet"]);
    view.signal(libc::SIGCONT);
    view.shows("quiet", |text| text.contains("state     quiet"));
    view.signal(libc::SIGINT);
    assert_eq!(view.ends().0, Some(0));
    init.stops();
}

#[test]
fn the_screens_of_an_hour_cost_the_init_no_memory() {
    let stage = Stage::new();
    stage.enqueue(0..100);
    let mut init = stage
        .worker(STUCK)
        .with_all(&[("OJS_CONCURRENCY", "100"), ("OJS_LOG_LEVEL", "info")])
        .start();
    init.notes_line("job j99");
    for _ in 0..5 {
        run(&stage, &init, &["status", "--json"]);
    }
    let before = init.memory_kib("VmRSS");
    for _ in 0..60 {
        let came = run(&stage, &init, &["status", "--json"]);
        assert_eq!(came.status, Some(0), "{came:?}");
        assert!(came.took_itself < Duration::from_secs(2), "{came:?}");
    }
    let more = init.memory_kib("VmRSS").saturating_sub(before);
    assert!(more < 512, "{more} KiB");
    init.signal(libc::SIGTERM);
    init.signal(libc::SIGQUIT);
    init.ends_with(0);
}
