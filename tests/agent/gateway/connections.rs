//! Connections that are many, slow, half or odd.

use std::time::Duration;

use crate::backend::{Behaviour, Endpoint};
use crate::gateway::worker;
use crate::stage::Stage;
use crate::support::wait::pause;

/// Resident memory that our side may have while somebody does harm to it, in KiB.
const MOST_MEMORY_KIB: u64 = 48 * 1024;

/// With so few there may be 48 connections.
const FEW_DESCRIPTORS: [&str; 4] = ["sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"];

/// With so many there may be 100 connections, of which 16 stay open.
const SIXTEEN_CONNECTIONS: [&str; 4] = ["sh", "-c", "ulimit -n 672; exec \"$@\"", "sh"];

/// Nothing listens there.
const NO_BACKEND: &str = "http://127.0.0.1:9";

/// From here on a connection without a whole request makes room for others.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

#[test]
fn a_thousand_connections_and_more_are_served_and_none_is_closed_unannounced() {
    let stage = Stage::new();
    let script = r#"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
links = [Link() for _ in range(1100)]
beat = post("heartbeat", worker_id="w", active_jobs=[])
told = []
for link in links:
    status, headers, _ = link.ask(beat)
    assert status == 200
    if headers.get("connection") == "close":
        told.append(link)
kept = [link for link in links if link not in told]
note("kept", len(kept) >= 1000 and all(link.ask(beat)[0] == 200 for link in kept))
note("told", len(told) > 0 and all(link.is_closed() for link in told))
rest()
"#;
    let mut init = worker(&stage, script)
        .through(&["sh", "-c", "ulimit -n 8192; exec \"$@\"", "sh"])
        .start();
    assert_eq!(init.noted("kept"), "True");
    assert_eq!(init.noted("told"), "True");
    init.stops();
}

#[test]
fn connections_without_a_whole_request_make_room_for_others_and_those_with_one_stay() {
    let stage = Stage::new();
    let script = r#"
beat = post("heartbeat", worker_id="w", active_jobs=[])
kept = [Link() for _ in range(3)]
assert all(link.ask(beat)[0] == 200 for link in kept)
begins = [b"", b"", beat[:20], beat[:-1]]
silent = []
for number in range(80):
    link = Link()
    link.send(begins[number % 4])
    silent.append(link)
began = time.monotonic()
note("new", Link().ask(beat)[0], time.monotonic() - began < 15)
note("kept", all(link.ask(beat)[0] == 200 for link in kept))
rest()
"#;
    let mut init = worker(&stage, script).through(&FEW_DESCRIPTORS).start();
    assert_eq!(init.noted("new"), "200 True");
    assert_eq!(init.noted("kept"), "True");
    let complaints = init.complaints();
    let of_it = complaints.iter().filter(|line| line.contains("connections are taken"));
    assert_eq!(of_it.count(), 1, "{}", init.story());
    init.stops();
}

#[test]
fn a_connection_whose_request_comes_while_the_gateway_is_held_up_is_answered_and_makes_no_room() {
    let stage = Stage::new();
    let script = r#"
beat = post("heartbeat", worker_id="w", active_jobs=[])
links = [Link() for _ in range(47)]
# It is the last one there is room for, so all others are there as well.
asked = Link()
assert asked.ask(beat)[0] == 200
note("open", "yes")
orders("send")
for link in links:
    link.send(beat)
links += [Link() for _ in range(3)]
for link in links[47:]:
    link.send(beat)
note("sent", "yes")
def answered(link):
    status = link.answer()[0]
    link.socket.close()
    return status == 200
note("answers", sum(map(answered, links)))
rest()
"#;
    let mut init = worker(&stage, script).through(&FEW_DESCRIPTORS).start();
    init.noted("open");
    init.signal(libc::SIGSTOP);
    init.order("send");
    init.noted("sent");
    pause(LONGEST_SILENCE);
    init.signal(libc::SIGCONT);
    assert_eq!(init.noted("answers"), "50");
    init.stops();
}

#[test]
fn clients_that_keep_connections_open_that_have_ended_take_the_room_from_nobody_for_long() {
    let stage = Stage::new();
    let script = r#"
beat = post("heartbeat", worker_id="w", active_jobs=[])
last = beat.replace(b"Host:", b"Connection: close\r\nHost:")
links = [Link() for _ in range(48)]
assert all(link.ask(last)[0] == 200 for link in links)
note("new", Link().ask(beat)[0])
rest()
"#;
    let mut init = worker(&stage, script).through(&FEW_DESCRIPTORS).start();
    assert_eq!(init.noted("new"), "200");
    init.stops();
}

/// The worker's 24 connections get the answer `status`, with the end of the connection, to the
/// request `bytes`. Another connection stays open behind its request.
fn ended_connections_take_the_place_of_no_other(stage: &Stage, bytes: &str, status: u16) {
    let script = format!(
        r#"
links = [Link() for _ in range(24)]
ends = [link.ask({bytes}) for link in links]
note("ended", *sorted({{(status, headers["connection"]) for status, headers, _ in ends}}))
status, headers, _ = Link().ask(post("heartbeat", worker_id="w", active_jobs=[]))
note("new", status, headers.get("connection"))
rest()
"#
    );
    let mut init = worker(stage, &script)
        .through(&SIXTEEN_CONNECTIONS)
        .with("OJS_URL", NO_BACKEND)
        .start();
    assert_eq!(init.noted("ended"), format!("({status}, 'close')"));
    assert_eq!(init.noted("new"), "200 None");
    init.stops();
}

#[test]
fn connections_that_their_clients_end_take_the_place_of_no_other() {
    let stage = Stage::new();
    let last = r#"b"POST /ojs/v1/workers/heartbeat HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}""#;
    ended_connections_take_the_place_of_no_other(&stage, last, 200);
}

#[test]
fn connections_that_end_with_a_refused_request_take_the_place_of_no_other() {
    let stage = Stage::new();
    let too_long = r#"b"POST /ojs/v1/workers/ack HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n""#;
    ended_connections_take_the_place_of_no_other(&stage, too_long, 413);
}

#[test]
fn connections_that_end_with_half_a_request_that_passes_through_take_the_place_of_no_other() {
    let stage = Stage::new();
    let half = r#"b"POST /ojs/v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf""#;
    ended_connections_take_the_place_of_no_other(&stage, half, 502);
}

#[test]
fn half_requests_and_heads_without_end_cost_nobody_else() {
    let stage = Stage::new();
    let script = r#"
halves = [Link() for _ in range(50)]
for number, link in enumerate(halves):
    link.send(fetch()[:10 + number])
head = Link()
head.send(b"GET / HTTP/1.1\r\nA: " + b"a" * 40000)
note("head", head.answer()[0])
note("beat", Link().ask(post("heartbeat", worker_id="w"))[0])
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("head"), "431");
    assert_eq!(init.noted("beat"), "200");
    assert!(
        init.memory_kib("VmHWM") < MOST_MEMORY_KIB,
        "{}",
        init.memory_kib("VmHWM")
    );
    init.stops();
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_and_gets_every_answer_in_the_end() {
    let stage = Stage::new();
    let script = r#"
link = Link(receive=4096)
beat = post("heartbeat", worker_id="w", active_jobs=["a" * 1000])
sent = 0
link.socket.setblocking(False)
stalled = 0
rest_of_it = b""
while stalled < 40 and sent < 200000:
    try:
        rest_of_it = rest_of_it or beat
        rest_of_it = rest_of_it[link.socket.send(rest_of_it):]
        sent += not rest_of_it
        stalled = 0
    except BlockingIOError:
        stalled += 1
        time.sleep(0.01)
link.socket.setblocking(True)
note("stalled", sent < 200000)
count = sent
while count:
    assert link.answer()[0] == 200
    count -= 1
note("all", "answered")
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("stalled"), "True");
    assert!(
        init.memory_kib("VmHWM") < MOST_MEMORY_KIB,
        "{}",
        init.memory_kib("VmHWM")
    );
    init.noted("all");
    init.stops();
}

#[test]
fn a_post_on_a_kept_connection_is_answered_however_long_after_the_last_one() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Other, Behaviour::body("{}"));
    let script = r#"
link = Link()
for number in range(600):
    time.sleep(number % 20 / 1000)
    if number % 2:
        status = link.ask(request("POST", "/ojs/v1/jobs", {"type": "t"}))[0]
    else:
        status = link.ask(post("heartbeat", worker_id="w", active_jobs=[]))[0]
    assert status == 200, status
time.sleep(5.5)
assert link.ask(request("POST", "/ojs/v1/jobs", {"type": "t"}))[0] == 200
note("all", "answered")
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("all");
    init.stops();
}

#[test]
fn another_user_is_told_403_and_nothing_of_it_reaches_the_backend() {
    let stage = Stage::new();
    let script = r#"
def stranger():
    os.setgroups([])
    os.setgid(12345)
    os.setuid(12345)
    status, headers, body = Link().ask(request("POST", "/ojs/v1/jobs", {"type": "t"}))
    note("stranger", status, json.loads(body)["error"]["code"])
os.waitpid(child(stranger), 0)
note("worker", Link().ask(post("heartbeat", worker_id="w"))[0])
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("stranger"), "403 gateway_forbidden");
    assert_eq!(init.noted("worker"), "200");
    let others = stage.backend.records_of(Endpoint::Other);
    assert!(others.iter().all(|record| record.request.method != "POST"));
    init.stops();
}
