//! The socket itself: who may use it, and what those cost who use it badly.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::backend::Endpoint;
use crate::forked::forked;
use crate::operator::{OBEYS, run, socket};
use crate::runtime::STRANGER;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::{Stopwatch, now, wait_until};

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The answer to this request.
fn answer(stream: &mut UnixStream, request: &[u8]) -> serde_json::Value {
    stream.write_all(request).unwrap();
    read(stream)
}

fn read(stream: &mut UnixStream) -> serde_json::Value {
    let mut line = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// Whether the other end is closed, unread bytes of ours or not.
fn is_closed(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// So many that wait.
pub fn waiting(path: &Path, count: usize) -> Vec<UnixStream> {
    let wait = |_| {
        let mut client = connect(path);
        client.write_all(b"{\"request\":\"wait\",\"most_ms\":60000}\n").unwrap();
        client
    };
    (0..count).map(wait).collect()
}

fn started(stage: &Stage) -> Init {
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    init
}

#[test]
fn the_socket_is_for_our_user_alone_in_a_directory_for_our_user_alone() {
    let stage = Stage::new();
    let _init = started(&stage);
    let path = socket(&stage);
    let found = std::fs::metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let directory = std::fs::metadata(path.parent().unwrap()).unwrap();
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);
}

#[test]
fn another_user_is_refused_also_where_the_modes_let_it_pass() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let path = socket(&stage);
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = forked(Some(STRANGER), || {
        let mut stream = connect(&path);
        let _ = stream.write_all(b"{\"request\":\"terminate\"}\n");
        Ok(is_closed(&mut stream).to_string())
    });
    assert_eq!(said, "true");
    init.logs(&format!("user {STRANGER} may not use the control socket"));
    run(&stage, &init, &["quiet"]).says("quiet now");
}

#[test]
fn one_line_is_one_request_and_has_one_line_for_an_answer() {
    let stage = Stage::new();
    let _init = started(&stage);
    let mut client = connect(&socket(&stage));
    let quiet = answer(&mut client, b"{\"request\":\"quiet\",\"unknown\":{\"x\":[1]}}\n");
    let expected = serde_json::json!({"ok": true, "changed": true, "state": "quiet", "phase": "quiet", "active": 0});
    assert_eq!(quiet, expected);
    // Several at once are answered one after the other.
    let first = answer(
        &mut client,
        b"{\"request\":\"quiet\"}\n{\"request\":\"resume\"}\n{\"req",
    );
    assert_eq!((&first["changed"], &first["phase"]), (&false.into(), &"quiet".into()));
    assert_eq!(read(&mut client)["phase"], "running");
    assert_eq!(answer(&mut client, b"uest\":\"terminate\"}\n")["phase"], "drain");
}

#[test]
fn what_is_no_request_is_told_so_and_sent_away() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let long = [b"{\"request\":\"", vec![b'x'; 5000].as_slice(), b"\"}\n"].concat();
    let cases: [(&[u8], &str); 6] = [
        (b"\n", "not_json"),
        (b"\xff\xfe\n", "not_json"),
        (b"terminate\n", "not_json"),
        (b"{}\n", "invalid_request"),
        (b"{\"request\":\"dance\"}\n", "unknown_request"),
        (&long, "too_long"),
    ];
    for (line, code) in cases {
        let mut client = connect(&socket(&stage));
        let answer = answer(&mut client, line);
        assert_eq!((&answer["ok"], &answer["code"]), (&false.into(), &code.into()));
        assert!(is_closed(&mut client), "{code}");
    }
    run(&stage, &init, &["resume"]).says("the worker is running already");
    assert!(init.is_running());
}

#[test]
fn clients_that_are_silent_slow_or_many_hold_nobody_up_for_long() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let path = socket(&stage);
    let mut crowd: Vec<UnixStream> = (0..40).map(|_| connect(&path)).collect();
    for (number, client) in crowd.iter_mut().enumerate() {
        let _ = client.write_all(&b"{\"request\":"[..number % 11]);
    }
    let began = Stopwatch::start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // A client that says nothing whole within 1 s is sent away.
    assert!(is_closed(&mut crowd[0]));
    drop(crowd);
    let taken = wait_until(PATIENCE, || run(&stage, &init, &["quiet"]).status == Some(0));
    assert!(taken, "{}", init.story());
}

#[test]
fn a_flood_of_requests_whose_answers_nobody_reads_costs_little() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let before = init.memory_kib("VmRSS");
    let mut flood = connect(&socket(&stage));
    flood.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let lines = b"{\"request\":\"resume\"}\n".repeat(4096);
    for _ in 0..50 {
        if flood.write_all(&lines).is_err() {
            break;
        }
    }
    stage.enqueue([1]);
    init.notes_line("job j1");
    run(&stage, &init, &["quiet"]).says("quiet now");
    let more = init.memory_kib("VmRSS").saturating_sub(before);
    assert!(more < 2048, "{more} KiB");
    drop(flood);
    init.order("ack j1");
    init.stops();
}

#[test]
fn a_client_that_stays_holds_up_no_shutdown() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let mut client = connect(&socket(&stage));
    answer(&mut client, b"{\"request\":\"quiet\"}\n");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn the_worker_does_not_inherit_the_socket() {
    let stage = Stage::new();
    let init = started(&stage);
    let worker = crate::support::proc::children(init.pid)[0];
    let ours = crate::support::proc::descriptors(init.pid);
    let its = crate::support::proc::descriptors(worker);
    let is_socket = |path: &&std::path::PathBuf| path.to_string_lossy().starts_with("socket:");
    assert!(
        its.values()
            .filter(is_socket)
            .all(|socket| !ours.values().any(|other| other == socket))
    );
}

#[test]
fn silent_and_waiting_clients_keep_nobody_out() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let path = socket(&stage);
    let mut clients = Vec::new();
    // Of twenty in one moment some would have to go before they are read.
    for number in 1..=20 {
        clients.append(&mut waiting(&path, 1));
        let asks = format!("client {number} asks");
        assert!(wait_until(PATIENCE, || init.log().contains(&asks)), "{}", init.story());
    }
    let _silent: Vec<UnixStream> = (0..40).map(|_| connect(&path)).collect();
    let mut busy = 0;
    let mut is_answered = |client: &mut UnixStream| {
        client.set_nonblocking(true).unwrap();
        let is_answered = client.read(&mut [0; 1]).is_ok_and(|count| count > 0);
        busy += usize::from(is_answered);
    };
    let came = run(&stage, &init, &["quiet"]);
    came.says("the worker is quiet now");
    assert!(came.took_itself < Duration::from_millis(900), "{came:?}");
    clients.iter_mut().for_each(&mut is_answered);
    assert_eq!(busy, 12);
    init.stops();
}

#[test]
fn a_flood_of_requests_that_change_something_costs_little() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[("OJS_LOG_LEVEL", "info"), ("OJS_HEARTBEAT_INTERVAL", "200ms")])
        .start();
    init.notes_line("ready");
    let path = socket(&stage);
    let (lines, beats) = (init.log().lines().count(), stage.count(Endpoint::Heartbeat));
    let requests = b"{\"request\":\"quiet\"}\n{\"request\":\"resume\"}\n".repeat(2048);
    let began = now();
    let mut floods: Vec<UnixStream> = (0..8).map(|_| connect(&path)).collect();
    for flood in &mut floods {
        flood.set_nonblocking(true).unwrap();
    }
    while began.elapsed() < Duration::from_secs(3) {
        for flood in &mut floods {
            let _ = flood.write(&requests);
            let _ = flood.read(&mut [0; 4096]);
        }
        std::thread::yield_now();
    }
    let came = run(&stage, &init, &["quiet"]);
    came.says("the worker is quiet");
    assert!(came.took_itself < Duration::from_secs(2), "{came:?}");
    drop(floods);
    let seconds = began.elapsed().as_secs() as usize + 1;
    let lines = init.log().lines().count() - lines;
    let beats = stage.count(Endpoint::Heartbeat) - beats;
    println!("{lines} lines and {beats} heartbeats in {seconds} s");
    assert!(lines > 20 && lines < 60 + 22 * seconds, "{lines} lines in {seconds} s");
    assert!(beats < 60 + 27 * seconds, "{beats} heartbeats in {seconds} s");
    init.stops();
}

#[test]
fn the_childs_user_cannot_use_the_control_socket() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with("OJS_USER", format!("{STRANGER}:{STRANGER}"))
        .start();
    init.logs("Worker started");
    let path = socket(&stage);
    let directory = std::fs::metadata(path.parent().unwrap()).unwrap();
    assert_eq!(directory.permissions().mode() & 0o777, 0o711);
    let said = forked(Some(STRANGER), || {
        Ok(format!(
            "{:?}",
            UnixStream::connect(&path).map_err(|error| error.kind()).err()
        ))
    });
    assert_eq!(said, "Some(PermissionDenied)");
}

#[test]
fn who_has_gone_before_it_was_read_has_asked_for_nothing() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let path = socket(&stage);
    crate::support::sys::send(init.pid, libc::SIGSTOP).unwrap();
    let mut gone = connect(&path);
    gone.write_all(b"{\"request\":\"terminate\"}\n").unwrap();
    drop(gone);
    // One that only says that it will ask for nothing more is heard.
    let mut half = connect(&path);
    half.write_all(b"{\"request\":\"quiet\"}\n").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    crate::support::sys::send(init.pid, libc::SIGCONT).unwrap();
    assert_eq!(read(&mut half)["phase"], "quiet");
    // The SIGCONT that woke it up means the same as resume, and may have come behind the request.
    let said = run(&stage, &init, &["resume"]).stdout;
    assert!(
        said.contains("runs again") || said.contains("is running already"),
        "{said}"
    );
    init.stops();
}

#[test]
fn who_closes_its_writing_side_after_wait_still_gets_its_answer() {
    let stage = Stage::new();
    let mut init = started(&stage);
    let path = socket(&stage);
    // As `printf ... | nc -N -U` does.
    let mut half = connect(&path);
    half.write_all(b"{\"request\":\"wait\",\"most_ms\":700}\n").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    let mut gone = connect(&path);
    gone.write_all(b"{\"request\":\"wait\",\"most_ms\":600000}\n").unwrap();
    drop(gone);
    assert_eq!(read(&mut half)["ok"], true);
    assert!(is_closed(&mut half));
    init.stops();
}
