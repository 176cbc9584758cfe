//! The fate of jobs.

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::{PATIENCE, Stage, job};
use crate::support::proc;
use crate::support::wait::wait_until;

fn acked() -> Outcome {
    Outcome::Acked(None)
}

#[test]
fn a_client_that_is_gone_before_the_answer_to_its_fetch_gets_no_job_and_the_next_one_does() {
    let stage = Stage::new();
    let script = r#"
for _ in range(3):
    gone = Link()
    gone.send(fetch())
    gone.socket.close()
half = Link()
half.send(fetch()[:-5])
half.socket.shutdown(socket.SHUT_WR)
note("half", half.is_closed())
note("gone", "all")
orders("go on")
link = Link()
link.ask(post("ack", job_id=link.job()["id"]))
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("half"), "True");
    init.noted("gone");
    stage.enqueue([1]);
    init.order("go on");
    stage.becomes("j1", &[acked()]);
    assert_eq!(stage.backend.handed_out("j1"), 1);
    init.stops();
}

/// Longer than what the kernel keeps for a client that does not read.
const MORE_THAN_THE_KERNEL_KEEPS: usize = 3 << 20;

#[test]
fn jobs_in_an_answer_that_nobody_read_to_its_end_go_back_though_the_process_lives() {
    let stage = Stage::new();
    let filler = "x".repeat(MORE_THAN_THE_KERNEL_KEEPS);
    stage.backend.enqueue(&job(1, &format!(r#","args":["{filler}"]"#)));
    let script = r#"
named_before = Link()
named_before.ask(post("heartbeat", worker_id="a", active_jobs=[]))
gone = Link(receive=4096)
gone.send(fetch(worker_id="w"))
note("some", gone.more())
gone.socket.close()
note("gone", "all")
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("gone");
    stage.becomes("j1", &[Outcome::Requeued]);
    assert_eq!(stage.count(Endpoint::Nack), 1);
    assert!(init.is_running());
    init.stops();
}

#[test]
fn a_job_that_its_worker_gives_back_under_any_name_goes_back_once() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
Link().ask(post("heartbeat", worker_id="a", active_jobs=[]))
link = Link()
link.job()
back = post("nack", job_id="j1", requeue=True)
note("answers", link.ask(back)[0], Link().ask(back)[0])
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("answers"), "200 200");
    stage.becomes("j1", &[Outcome::Requeued]);
    let said = stage.backend.records_of(Endpoint::Nack);
    assert_eq!(said.len(), 1);
    assert!(said[0].text("worker_id").is_some_and(|id| id != "w"), "{said:?}");
    init.stops();
}

#[test]
fn of_a_dead_process_every_ack_that_was_whole_counts_also_behind_one_that_waits() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    stage.backend.always(Endpoint::Ack, Behaviour::Held);
    let script = r#"
def takes():
    link = Link()
    link.job()
    link.job()
    link.send(post("ack", job_id="j1"))
    note("first", "sent")
    orders("die")
    link.send(post("ack", job_id="j2"))
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child(takes), 0)
note("dead", "it")
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("first");
    stage.backend.wait_for_count(Endpoint::Ack, 1, PATIENCE);
    init.order("die");
    init.noted("dead");
    let both = || ["j1", "j2"].iter().all(|job| acks_of(&stage, job) > 0);
    assert!(wait_until(PATIENCE, both), "{}", init.story());
    stage.backend.always(Endpoint::Ack, Behaviour::Normal);
    stage.backend.answer_held();
    stage.becomes("j1", &[acked()]);
    stage.becomes("j2", &[acked()]);
    assert_eq!(stage.count(Endpoint::Nack), 0);
    init.stops();
}

fn acks_of(stage: &Stage, job: &str) -> usize {
    let acks = stage.backend.records_of(Endpoint::Ack);
    acks.iter().filter(|ack| ack.job().as_deref() == Some(job)).count()
}

#[test]
fn an_ack_counts_on_a_connection_that_was_opened_before_and_said_nothing_until_its_process_died() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
def takes():
    link = Link()
    link.job()
    note("took", "it")
    orders("open")
    other = Link()
    orders("die")
    other.send(post("ack", job_id="j1"))
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child(takes), 0)
note("dead", "it")
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("took");
    let descriptors = || proc::descriptors(init.pid).len();
    let before = descriptors();
    init.order("open");
    let is_taken = wait_until(PATIENCE, || descriptors() > before);
    assert!(is_taken, "{}", init.story());
    init.signal(libc::SIGSTOP);
    init.order("die");
    init.noted("dead");
    init.signal(libc::SIGCONT);
    stage.becomes("j1", &[acked()]);
    init.stops();
}

#[test]
fn outcomes_for_one_job_are_said_once_and_answered_together() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.once(Endpoint::Ack, Behaviour::Held);
    let script = r#"
link = Link()
link.job()
link.send(post("ack", job_id="j1"))
others = [Link(), Link()]
others[0].send(post("nack", job_id="j1", error={"code": "handler_error", "message": "late"}))
others[1].send(post("ack", job_id="j1"))
note("sent", "all")
note("answers", *[json.loads(one.answer()[2])["state"] for one in [link, *others]])
note("again", link.ask(post("ack", job_id="j1"))[0])
note("late", json.loads(link.ask(post("nack", job_id="j1", error={"message": "late"}))[2])["state"])
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("sent");
    stage.backend.wait_for_count(Endpoint::Ack, 1, PATIENCE);
    stage.backend.answer_held();
    assert_eq!(init.noted("answers"), "completed completed completed");
    assert_eq!(init.noted("again"), "200");
    assert_eq!(init.noted("late"), "completed");
    stage.becomes("j1", &[acked()]);
    // One that waits for long goes out once more on another connection, and that is ours.
    let acks = stage.count(Endpoint::Ack);
    assert!((1..=2).contains(&acks), "{acks}");
    assert_eq!(stage.count(Endpoint::Nack), 0);
    init.stops();
}

#[test]
fn an_ack_that_was_whole_when_its_process_died_counts_and_half_of_one_does_not() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"
def takes(whole):
    link = Link()
    job = link.job()["id"]
    note("took", job)
    orders("die")
    data = post("ack", job_id=job)
    link.send(data if whole else data[:-3])
    os.kill(os.getpid(), signal.SIGKILL)
one = child(lambda: takes(True))
while not os.path.exists(os.environ["NOTES"]) or b"took" not in open(os.environ["NOTES"], "rb").read():
    time.sleep(0.01)
two = child(lambda: takes(False))
os.waitpid(one, 0)
os.waitpid(two, 0)
note("dead", "both")
rest()
"#;
    let mut init = worker(&stage, script).start();
    let both = || init.notes().iter().filter(|line| line.starts_with("took")).count() == 2;
    assert!(wait_until(PATIENCE, both), "{}", init.story());
    let first = init.notes()[0].clone();
    // Nothing is read before both are dead.
    init.signal(libc::SIGSTOP);
    init.order("die");
    crate::support::wait::pause(std::time::Duration::from_millis(300));
    init.signal(libc::SIGCONT);
    init.noted("dead");
    let (whole, half) = if first == "took j1" { ("j1", "j2") } else { ("j2", "j1") };
    stage.becomes(whole, &[acked()]);
    assert_eq!(stage.failure(half)["code"], "worker_death");
    assert!(init.is_running());
    init.stops();
}

#[test]
fn an_outcome_of_a_job_that_was_never_handed_out_is_the_backends_to_judge() {
    let stage = Stage::new();
    let script = r#"
status, headers, body = Link().ask(post("ack", job_id="not ours", worker_id="of the SDK"))
note("answer", status, "server" in headers)
def twice(operation):
    body = b'{"job_id":"not ours","job\\u005fid":"another"}'
    head = f"POST /ojs/v1/workers/{operation} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    status, headers, body = Link().ask(head.encode() + body)
    return status, json.loads(body)["error"]["code"]
note("twice", *twice("ack"), *twice("nack"))
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("answer"), "404 False");
    let bad = "400 gateway_invalid_request";
    assert_eq!(init.noted("twice"), format!("{bad} {bad}"));
    let acks = stage.backend.records_of(Endpoint::Ack);
    assert_eq!(acks.len(), 1, "one that names two jobs does not pass");
    let body: serde_json::Value = serde_json::from_slice(&acks[0].request.body).unwrap();
    let worker = body["worker_id"].as_str().unwrap();
    assert!(
        init.log().contains(&format!(" as {worker}")),
        "one worker upstream: {worker}"
    );
    init.stops();
}

#[test]
fn a_process_that_is_killed_behind_a_living_parent_costs_its_own_jobs_only() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
def takes():
    note("took", Link().job()["id"])
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child(takes), 0)
link = Link()
while (job := link.job()["id"]) != "j2":
    pass
link.ask(post("ack", job_id=job))
note("answered", job)
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    stage.enqueue([2]);
    init.noted("answered");
    stage.becomes("j2", &[acked()]);
    init.stops();
}
