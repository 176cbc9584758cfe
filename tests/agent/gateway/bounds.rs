//! Large outcomes: there is room for some on their way, and who finds none does not wait for long.
//! One that is too large (413) does not count, and a shorter one does after it.

use std::collections::BTreeSet;

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::wait_until;

/// Resident memory that our side may have while a client sends without end, in KiB.
const MOST_MEMORY_KIB: u64 = 48 * 1024;

/// More than is taken in any case.
const LARGE: &str = r#"
large = "x" * 40000
def large_ack(job):
    return post("ack", job_id=job, result=large)
def stalls(job):
    """An outcome as long as there may be one, most of which does not come."""
    link = Link()
    head = b"POST /ojs/v1/workers/ack HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n"
    link.send(head + b'{"job_id":"%s","result":"' % job.encode() + b"x" * 40000)
    return link
"#;

fn acked(stage: &Stage, job: &str) -> bool {
    matches!(stage.outcomes(job).as_slice(), [Outcome::Acked(Some(_))])
}

#[test]
fn large_outcomes_are_taken_over_in_an_outage_however_many_there_are_and_all_answered() {
    let stage = Stage::new();
    stage.enqueue(1..=40);
    stage.backend.always(Endpoint::Ack, Behaviour::Hang);
    let script = format!(
        r#"{LARGE}
jobs, links = set(), []
while len(jobs) < 40:
    jobs.update(job["id"] for job in json.loads(Link().ask(fetch(count=40))[2])["jobs"])
for job in sorted(jobs):
    links.append(Link())
    links[-1].send(large_ack(job))
note("sent", "all")
note("answers", *sorted({{link.answer()[0] for link in links}}))
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    init.noted("sent");
    let told = || -> BTreeSet<_> {
        let acks = stage.backend.records_of(Endpoint::Ack);
        acks.iter().filter_map(crate::backend::Record::job).collect()
    };
    assert!(wait_until(PATIENCE, || told().len() == 40), "{}", told().len());
    init.signal(libc::SIGTERM);
    assert_eq!(init.noted("answers"), "200");
}

#[test]
fn uploads_that_stall_give_way_to_others_and_lose_no_job() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = format!(
        r#"{LARGE}
link = Link()
jobs = [link.job()["id"], link.job()["id"]]
stalled = [stalls("j1") for _ in range(60)]
began = time.monotonic()
status = link.ask(large_ack("j2"))[0]
note("other", status, time.monotonic() - began < 9)
status, headers, body = stalled[0].answer()
note("stalled", status, headers["connection"], json.loads(body)["error"]["code"])
note("again", link.ask(large_ack("j1"))[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    assert_eq!(init.noted("other"), "200 True");
    assert!(wait_until(PATIENCE, || acked(&stage, "j2")));
    assert_eq!(init.noted("stalled"), "408 close gateway_stalled");
    assert_eq!(init.noted("again"), "200");
    assert!(wait_until(PATIENCE, || acked(&stage, "j1")));
    stage.backend.assert_one_outcome_each();
    init.stops();
}

#[test]
fn a_large_outcome_that_was_whole_when_its_process_died_counts_also_where_it_has_to_wait_for_room() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = format!(
        r#"{LARGE}
stalled = [stalls("none") for _ in range(17)]
def takes():
    link = Link()
    link.send(large_ack(link.job()["id"]))
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child(takes), 0)
note("dead", "yes")
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    init.noted("dead");
    assert!(wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()));
    assert!(acked(&stage, "j1"), "{}", init.story());
    init.stops();
}

/// A longest body that a test can exceed quickly.
const MAX_FRAME: (&str, &str) = ("OJS_MAX_FRAME", "64KiB");

/// An outcome that is too large, and notes of the answer to it.
const TOO_LARGE: &str = r#"
def too_large(job, length):
    """The head of an ACK with so long a body, and the body."""
    body = json.dumps({"job_id": job, "result": ""}).encode()
    body = body[:-2] + b"x" * (length - len(body)) + body[-2:]
    return f"POST /ojs/v1/workers/ack HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode(), body
def notes(link):
    status, headers, body = link.answer()
    error = json.loads(body)["error"]
    note("refused", status, headers["connection"], error["code"], error["retryable"])
    note("limit", "65536" in error["message"])
    note("closed", link.is_closed())
"#;

#[test]
fn an_ack_that_is_too_large_gets_413_with_a_warning_and_a_shorter_one_counts_after_it() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = format!(
        r#"{TOO_LARGE}
job = Link().job()["id"]
refused = Link()
refused.send(b"".join(too_large(job, 65537)))
notes(refused)
longest = Link()
longest.send(b"".join(too_large(job, 65536)))
note("longest", longest.answer()[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).with(MAX_FRAME.0, MAX_FRAME.1).start();
    assert_eq!(init.noted("refused"), "413 close gateway_too_large False");
    assert_eq!(init.noted("limit"), "True");
    assert_eq!(init.noted("closed"), "True");
    assert_eq!(init.noted("longest"), "200");
    assert!(wait_until(PATIENCE, || acked(&stage, "j1")));
    init.logs(
        "warn: gateway: an ACK of the worker is refused and does not count (413 Content Too Large): the body is longer \
         than worker.max_frame, 65536 bytes",
    );
    stage.backend.assert_one_outcome_each();
    init.stops();
}

#[test]
fn a_request_that_comes_with_a_body_that_is_too_large_does_not_count() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = format!(
        r#"{TOO_LARGE}
job = Link().job()["id"]
refused = Link()
head = b"POST /ojs/v1/workers/ack HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
refused.send(head + b"10001\r\n" + b" " * 65537 + b"\r\n0\r\n\r\n" + post("ack", job_id=job))
notes(refused)
note("next", Link().ask(post("ack", job_id=job, result="of the next connection"))[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).with(MAX_FRAME.0, MAX_FRAME.1).start();
    assert_eq!(init.noted("refused"), "413 close gateway_too_large False");
    assert_eq!(init.noted("closed"), "True");
    assert_eq!(init.noted("next"), "200");
    assert!(wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()));
    assert!(acked(&stage, "j1"), "{:?}", stage.outcomes("j1"));
    init.stops();
}

#[test]
fn a_client_that_reads_only_after_a_long_upload_finds_the_413() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // Longer than a client may be silent that has its answer.
    let script = format!(
        r#"{TOO_LARGE}
job = Link().job()["id"]
head, body = too_large(job, 70000)
slow = Link()
slow.send(head)
for start in range(0, len(body), 5000):
    time.sleep(0.5)
    slow.send(body[start:start + 5000])
notes(slow)
note("shorter", Link().ask(post("ack", job_id=job))[0])
rest()
"#
    );
    let mut init = worker(&stage, &script).with(MAX_FRAME.0, MAX_FRAME.1).start();
    assert_eq!(
        init.noted("refused"),
        "413 close gateway_too_large False",
        "{}",
        init.story()
    );
    assert_eq!(init.noted("closed"), "True");
    assert_eq!(init.noted("shorter"), "200");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_body_without_end_gets_413_and_costs_nobody_else() {
    let stage = Stage::new();
    let script = r#"
endless = Link()
endless.send(b"POST /ojs/v1/workers/ack HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
def flood():
    try:
        while True:
            endless.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
    except OSError:
        pass
threading.Thread(target=flood, daemon=True).start()
status, headers, body = endless.answer()
note("endless", status, headers["connection"], json.loads(body)["error"]["code"])
note("beat", Link().ask(post("heartbeat", worker_id="w"))[0])
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("endless"), "413 close gateway_too_large");
    assert_eq!(init.noted("beat"), "200");
    let peak = init.memory_kib("VmHWM");
    assert!(peak < MOST_MEMORY_KIB, "{peak}");
    init.stops();
}
