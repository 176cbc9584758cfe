//! What becomes of jobs.

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::PATIENCE;
use crate::stage::Stage;
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
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("sent");
    stage.backend.wait_for_count(Endpoint::Ack, 1, PATIENCE);
    stage.backend.answer_held();
    assert_eq!(init.noted("answers"), "completed completed completed");
    assert_eq!(init.noted("again"), "200");
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
status, headers, body = Link().ask(post("ack", job_id="not ours"))
note("answer", status, "server" in headers)
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("answer"), "404 False");
    assert_eq!(stage.count(Endpoint::Ack), 1);
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
