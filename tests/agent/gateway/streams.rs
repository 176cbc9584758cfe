//! Bodies that pass through hold no more than they need: neither memory, nor a way to the backend
//! for a client that is gone.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::backend::{Behaviour, Endpoint};
use crate::gateway::front::{Front, Head};
use crate::gateway::worker;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::{now, pause, wait_until};
use crate::system_calls::SystemCalls;

/// As many requests pass through at once.
const WAYS: usize = 64;

/// How long others wait for one of them.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Size of a body in each direction, in MiB, where nobody asks for another number. A GiB takes
/// a debug build ten seconds; what it costs in memory is the same.
const MUCH_MIB: u64 = 256;

/// That variable asks for another number.
const ASKED: &str = "GATEWAY_MIB";

/// The receiver takes nothing of it for so long: then it is elsewhere that it has to wait.
const SLOW_AT_FIRST: Duration = Duration::from_millis(300);

/// Memory that it may cost, in KiB.
const MOST_MORE_KIB: u64 = 1024;

/// From here on its peak counts from what it has now.
fn forget_peak(init: &Init) -> u64 {
    std::fs::write(format!("/proc/{}/clear_refs", init.pid), "5").unwrap();
    init.memory_kib("VmHWM")
}

#[test]
fn half_a_request_whose_client_is_gone_takes_the_way_to_the_backend_from_nobody() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Other, Behaviour::body("{}"));
    let script = format!(
        r#"
whole = request("POST", "/ojs/v1/jobs", {{"type": "t" * 2000}})
for number in range({WAYS}):
    gone = Link()
    gone.send(whole[:-1000])
    if number % 2:
        gone.socket.shutdown(socket.SHUT_WR)
        assert gone.is_closed()
    gone.socket.close()
note("status", Link().ask(whole)[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    assert_eq!(init.noted("status"), "200");
    let posts = stage.backend.records_of(Endpoint::Other);
    let posts = posts.iter().filter(|record| record.request.method == "POST");
    assert_eq!(posts.count(), 1, "half of a request is none");
    init.stops();
}

#[test]
fn a_stream_of_events_whose_client_is_gone_takes_the_way_to_the_backend_from_nobody() {
    let stage = Stage::new();
    let front = Front::start(&stage, |mut reader, _| {
        while let Some(head) = Head::read(&mut reader)? {
            let answer = if head.line.contains("events") {
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
            };
            reader.get_mut().write_all(answer.as_bytes())?;
        }
        Ok(())
    });
    let script = format!(
        r#"
streams = [Link() for _ in range({WAYS})]
for stream in streams:
    stream.send(request("GET", "/front/events"))
for number, stream in enumerate(streams):
    assert stream.until(b":\n\n")
    if number % 2:
        # Nobody reads of it what was said ahead.
        stream.send(b"x" * 100000)
for stream in streams:
    stream.socket.close()
early = Link()
early.send(request("GET", "/front/events"))
early.socket.shutdown(socket.SHUT_WR)
try:
    early.answer()
except ConnectionResetError:
    pass
note("status", Link().ask(request("GET", "/front/else"))[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).with("OJS_URL", front.url()).start();
    assert_eq!(init.noted("status"), "200");
    init.stops();
}

#[test]
fn requests_that_hang_and_whose_clients_have_left_hold_up_nobody() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Other, Behaviour::body("{}"));
    // Says nothing, until its client is gone.
    let front = Front::start(&stage, |mut reader, _| io::copy(&mut reader, &mut io::sink()).map(drop));
    let script = format!(
        r#"
import struct
for method in ("GET", "POST"):
    for how in ("closed", "reset"):
        links = [Link() for _ in range({WAYS})]
        for link in links:
            link.send(request(method, "/front/hang", {{"a": 1}}))
        assert Link().ask(post("heartbeat", worker_id="w"))[0] == 200
        for link in links:
            if how == "reset":
                link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.socket.close()
        began = time.monotonic()
        status = Link().ask(request(method, "/ojs/v1/jobs", {{"type": "t"}}))[0]
        note(method + how, status, time.monotonic() - began < 3)
rest()
"#
    );
    let mut init = worker(&stage, &script).with("OJS_URL", front.url()).start();
    for course in ["GETclosed", "GETreset", "POSTclosed", "POSTreset"] {
        assert_eq!(init.noted(course), "200 True", "{course}");
    }
    init.stops();
}

#[test]
fn a_client_that_has_left_while_its_request_waits_for_its_way_is_looked_for_no_more() {
    let stage = Stage::new();
    let front = Front::start(&stage, |mut reader, _| io::copy(&mut reader, &mut io::sink()).map(drop));
    let script = format!(
        r#"
beat = post("heartbeat", worker_id="w")
change = request("POST", "/front/hang", {{"a": 1}})
links = [Link() for _ in range({WAYS} + 20)]
for link in links:
    link.send(change)
assert Link().ask(beat)[0] == 200
for link in links[{WAYS}:]:
    link.socket.close()
note("left", "yes")
orders("beat")
for _ in range(20):
    time.sleep(0.05)
    assert Link().ask(beat)[0] == 200
note("beaten", "yes")
rest()
"#
    );
    let mut init = worker(&stage, &script).with("OJS_URL", front.url()).start();
    init.noted("left");
    let counting = SystemCalls::count(&init, &stage.at("strace"));
    init.order("beat");
    init.noted("beaten");
    let counted = counting.end();
    // For each heartbeat a question for the owner of its connection and an answer, and for each
    // client that has left a question or two.
    assert!(counted["sendto"] < 200, "{counted:?}");
    init.stops();
}

#[test]
fn open_streams_of_events_and_reads_that_hang_leave_ways_for_requests_that_change_something() {
    let stage = Stage::new();
    let front = Front::start(&stage, |mut reader, _| {
        while let Some(head) = Head::read(&mut reader)? {
            let answer = if head.line.contains("events") {
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n"
            } else if head.line.contains("hang") {
                return io::copy(&mut reader, &mut io::sink()).map(drop);
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
            };
            reader.get_mut().write_all(answer.as_bytes())?;
        }
        Ok(())
    });
    let script = format!(
        r#"
def open_stream():
    stream = Link()
    stream.send(request("GET", "/front/events"))
    return stream
streams = [open_stream() for _ in range({WAYS})]
assert all(stream.until(b":\n\n") for stream in streams)
note("stream", Link().ask(request("GET", "/front/else"))[0])
status, headers, body = open_stream().answer()
note("more", status, json.loads(body)["error"]["code"], "streams of events" in json.loads(body)["error"]["message"])
reads = [Link() for _ in range({WAYS})]
for link in reads:
    link.send(request("GET", "/front/hang"))
assert Link().ask(post("heartbeat", worker_id="w"))[0] == 200
note("change", Link().ask(request("POST", "/front/else"))[0])
for link in [streams[0], *reads]:
    link.socket.close()
again = None
while not again:
    again = open_stream().until(b":\n\n")
note("again", "yes")
rest()
"#
    );
    let mut init = worker(&stage, &script).with("OJS_URL", front.url()).start();
    assert_eq!(init.noted("stream"), "200");
    assert_eq!(init.noted("more"), "503 gateway_overloaded True");
    assert_eq!(init.noted("change"), "200");
    assert_eq!(init.noted("again"), "yes");
    init.stops();
}

#[test]
fn a_client_that_says_no_more_gets_the_answer_to_what_it_has_said() {
    let stage = Stage::new();
    let front = Front::start(&stage, |mut reader, _| {
        while let Some(head) = Head::read(&mut reader)? {
            io::copy(&mut (&mut reader).take(head.length()), &mut io::sink())?;
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
            reader.get_mut().write_all(answer.as_bytes())?;
            pause(Duration::from_millis(300));
            reader.get_mut().write_all(b"2\r\nde\r\n0\r\n\r\n")?;
        }
        Ok(())
    });
    let script = r#"
for method in ("POST", "GET"):
    link = Link()
    link.send(request(method, "/front/else", {"a": 1}))
    link.socket.shutdown(socket.SHUT_WR)
    status, _, body = link.answer()
    note(method, status, body.decode())
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_URL", front.url()).start();
    assert_eq!(init.noted("POST"), "200 abcde");
    assert_eq!(init.noted("GET"), "200 abcde");
    init.stops();
}

#[test]
fn those_that_wait_for_their_way_to_the_backend_keep_their_bodies_and_are_passed_on_in_the_end() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Other, Behaviour::Held);
    let script = format!(
        r#"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
whole = request("POST", "/ojs/v1/jobs", {{"type": "t" * 70000}})
assert Link().ask(post("heartbeat", worker_id="w"))[0] == 200
note("ready", "yes")
orders("go on")
links = [Link() for _ in range({WAYS} + 300)]
for link in links:
    link.send(whole)
# Who comes last is served last.
assert Link().ask(post("heartbeat", worker_id="w"))[0] == 200
note("sent", "all")
note("answers", *sorted({{link.answer()[0] for link in links}}))
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    init.noted("ready");
    let before = forget_peak(&init);
    init.order("go on");
    init.noted("sent");
    stage.backend.wait_for_count(Endpoint::Other, WAYS, PATIENCE);
    let more = init.memory_kib("VmHWM").saturating_sub(before);
    stage.backend.always(Endpoint::Other, Behaviour::body("{}"));
    stage.backend.answer_held();
    assert_eq!(init.noted("answers"), "200 404");
    assert!(more < 16 * 1024, "{more} KiB");
    let others = stage.backend.records_of(Endpoint::Other);
    let posts = others.iter().filter(|record| record.request.method == "POST");
    assert!(posts.clone().all(|record| record.request.body.len() > 70_000));
    assert_eq!(posts.count(), WAYS + 300);
    init.stops();
}

#[test]
fn who_waits_too_long_for_its_way_to_the_backend_is_told_so_and_keeps_its_connection() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Other, Behaviour::Hang);
    let script = format!(
        r#"
whole = request("POST", "/ojs/v1/jobs", {{"type": "t"}})
links = [Link() for _ in range({WAYS})]
for link in links:
    link.send(whole)
note("sent", "all")
orders("go on")
last = Link()
last.send(whole + post("heartbeat", worker_id="w"))
note("last", "sent")
status, headers, body = last.answer()
note("told", status, json.loads(body)["error"]["code"], headers.get("connection"), last.answer()[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    init.noted("sent");
    stage.backend.wait_for_count(Endpoint::Other, WAYS, PATIENCE);
    init.order("go on");
    init.noted("last");
    let is_told = || init.notes().iter().any(|line| line.starts_with("told"));
    wait_until(LONGEST_WAIT + PATIENCE, is_told);
    assert_eq!(init.noted("told"), "503 gateway_overloaded None 200");
}

/// `GATEWAY_MIB=1024` is a GiB each way. The file that is sent has no blocks, so that nothing but
/// the way costs.
#[test]
fn a_body_of_any_size_passes_in_either_direction_in_a_mebibyte() {
    let stage = Stage::new();
    let front = Front::start(&stage, |mut reader, _| {
        let zeros = vec![0; 1 << 20];
        while let Some(head) = Head::read(&mut reader)? {
            pause(SLOW_AT_FIRST);
            let got = io::copy(&mut (&mut reader).take(head.length()), &mut io::sink())?;
            let wanted = head.line.split(['/', ' ']).nth(3).unwrap().parse().unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nX-Got: {got}\r\nContent-Length: {wanted}\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes())?;
            let mut left: usize = wanted;
            while left > 0 {
                left -= reader.get_mut().write(&zeros[..left.min(zeros.len())])?;
            }
        }
        Ok(())
    });
    let script = r#"
import tempfile
def passes(up, down):
    link = Link()
    link.send(f"POST /front/{down} HTTP/1.1\r\nContent-Length: {up}\r\n\r\n".encode())
    with tempfile.TemporaryFile() as file:
        file.truncate(up)
        sent = 0
        while sent < up:
            sent += os.sendfile(link.socket.fileno(), file.fileno(), sent, up - sent)
    head = link.until(b"\r\n\r\n").decode()
    assert f"X-Got: {up}\r\n" in head, head
    time.sleep(SLOW_AT_FIRST)
    room, got = bytearray(1 << 20), len(link.buffer)
    while got < down:
        count = link.socket.recv_into(room)
        assert count
        got += count
    assert got == down
# What is done for the first time costs something.
passes(1 << 20, 1 << 20)
note("ready", "yes")
orders("up")
passes(MUCH, 0)
note("up", "done")
orders("down")
passes(0, MUCH)
note("down", "done")
rest()
"#;
    let much: u64 = std::env::var(ASKED).map_or(MUCH_MIB, |number| number.parse().unwrap());
    let script = script.replace("SLOW_AT_FIRST", &SLOW_AT_FIRST.as_secs_f64().to_string());
    let script = script.replace("MUCH", &(much << 20).to_string());
    let mut init = worker(&stage, &script).with("OJS_URL", front.url()).start();
    init.noted("ready");
    for direction in ["up", "down"] {
        let before = forget_peak(&init);
        let began = now();
        init.order(direction);
        init.noted(direction);
        // The kernel may take pages back in between.
        let more = init.memory_kib("VmHWM").saturating_sub(before);
        println!(
            "{much} MiB {direction} in {:?}, {more} KiB more than {before}",
            began.elapsed()
        );
        assert!(more <= MOST_MORE_KIB, "{direction}: {more} KiB more than {before}");
    }
    init.stops();
}
