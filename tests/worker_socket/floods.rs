//! Many connections at once, and words that wait on both sides: signals, timers and the others still get their turn.

use std::time::Duration;

use crate::backend::Endpoint;
use crate::stage::Stage;
use crate::support::wait::wait_until;

/// Most memory that the init may have touched, in KiB, with two hundred connections that flood it.
const MOST_MEMORY_KIB: u64 = 48 << 10;

#[test]
fn two_hundred_connections_that_flood_delay_neither_heartbeats_nor_the_end_and_cost_little_memory() {
    let stage = Stage::new();
    let script = r#"
def flood():
    links = [Link() for _ in range(200)]
    for link in links:
        link.ready(types=["none"])
        link.socket.setblocking(False)
    note("flood")
    frames = b'{"type":"pong","id":1}\n' * 2000
    sent = dict.fromkeys(links, 0)
    while True:
        for link in links:
            try:
                sent[link] = (sent[link] + link.socket.send(frames[sent[link]:])) % len(frames)
            except BlockingIOError:
                pass

for _ in range(2):
    child(flood)
link = Link()
link.ready(types=["t"])
link.work()"#;
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_HEARTBEAT_INTERVAL", "200ms"), ("OJS_LOG_LEVEL", "info")])
        .start();
    init.notes_times("flood", 2);
    stage.enqueue(0..5);
    stage.wait_for_outcomes();
    let before = stage.backend.records_of(Endpoint::Heartbeat).len();
    wait_until(Duration::from_secs(3), || false);
    let beats = stage.backend.records_of(Endpoint::Heartbeat).split_off(before);
    assert!(beats.len() >= 8, "{} heartbeats in three seconds", beats.len());
    let peak = init.memory_kib("VmHWM");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    println!("peak memory: {peak} KiB; gone in {took:?}");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    assert!(took < Duration::from_secs(4), "{took:?}");
}
