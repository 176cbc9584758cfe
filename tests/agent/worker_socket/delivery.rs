//! Jobs on their way to the worker, and outcomes on their way back.

use crate::backend::{Endpoint, Outcome, Record};
use crate::stage::{PATIENCE, Stage, job};
use crate::support::wait::now;

#[test]
fn the_example_worker_acks_fifty_jobs_once_each_and_ends_in_good_order() {
    let stage = Stage::new();
    for number in 0..50 {
        let envelope =
            format!(r#"{{"id":"j{number}","type":"email.send","args":["ann@example.org",0.02],"attempt":0}}"#);
        stage.backend.enqueue(&envelope);
    }
    let mut init = stage
        .command(&["python3", "examples/python/worker.py"])
        .with("OJS_CONCURRENCY", "4")
        .start();
    stage.wait_for_outcomes();
    assert!(stage.backend.most_active() <= 4, "{}", stage.backend.most_active());
    for (id, outcomes) in stage.backend.outcomes() {
        let sent = serde_json::json!({"sent_to": "ann@example.org"});
        assert_eq!(outcomes, [Outcome::Acked(Some(sent))], "{id}");
    }
    init.stops();
    let records = stage.backend.records();
    assert_eq!(records.first().unwrap().endpoint, Endpoint::Register);
    assert_eq!(records.last().unwrap().endpoint, Endpoint::Deregister);
    let acked = records
        .iter()
        .rposition(|record| record.endpoint == Endpoint::Ack)
        .unwrap();
    let says_goodbye = |record: &Record| {
        record.text("state").as_deref() == Some("terminate") && record.json()["active_jobs"] == serde_json::json!([])
    };
    assert!(records[acked..].iter().any(says_goodbye), "{:#?}", &records[acked..]);
}

#[test]
fn envelopes_arrive_byte_for_byte() {
    let envelopes = [
        r#"{"type":"t","id":"numbers","args":[9007199254740993,1.10,1e300,-0.0,1E+2,123456789012345678901234567890]}"#,
        r#"{"zulu":1,"id":"order","alpha":{"b":1,"a":2},"type":"t","args":[],"unknown":{"x":[null,true]}}"#,
        r#"{"id":"escapes","type":"t","args":["\u00e9\/\"\\\n\ud83d\ude00é😀","\u0000"], "attempt" : 0 }"#,
        r#"{"id":"twice","type":"t","args":[],"x":1,"x":2}"#,
    ];
    let stage = Stage::new();
    envelopes.iter().for_each(|envelope| stage.backend.enqueue(envelope));
    let mut init = stage.worker(NOTE_ENVELOPES).start();
    stage.wait_for_outcomes();
    init.notes_times("taken", envelopes.len());
    let notes = init.notes();
    for envelope in envelopes {
        assert!(notes.iter().any(|line| line == envelope), "{envelope}: {notes:#?}");
    }
    init.stops();
}

#[test]
fn line_breaks_between_tokens_arrive_as_spaces() {
    let stage = Stage::new();
    stage
        .backend
        .enqueue("{\n  \"id\": \"broken\",\r\n  \"type\": \"t\",\n\"args\": [\"\\n\",\n1.50]\n}");
    let mut init = stage.worker(NOTE_ENVELOPES).start();
    stage.wait_for_outcomes();
    init.notes_line(r#"{   "id": "broken",    "type": "t", "args": ["\n", 1.50] }"#);
    init.stops();
}

const NOTE_ENVELOPES: &str = r#"
link = Link()
link.ready()
while True:
    line = link.line()
    if line.startswith(b'{"type":"job","job":') or b'"job":{' in line:
        note(line[line.index(b'"job":') + 6:-1].decode())
        note("taken")
        link.ack(json.loads(line)["job"]["id"])
"#;

#[test]
fn an_ack_written_by_the_worker_just_before_it_is_killed_is_an_ack() {
    let script = "link = Link(); link.ready(); link.ack(link.job(), result=[1]); die()";
    for round in 0..25 {
        let stage = Stage::new();
        stage.enqueue([round]);
        let mut init = stage.worker(script).start();
        init.ends_with(137);
        let outcomes = stage.outcomes(&format!("j{round}"));
        assert_eq!(
            outcomes,
            [Outcome::Acked(Some(serde_json::json!([1])))],
            "{}",
            init.story()
        );
    }
}

#[test]
fn an_ack_written_by_a_prefork_process_just_before_it_is_killed_is_an_ack() {
    let stage = Stage::new();
    stage.enqueue(0..60);
    // The worker takes no second job, which could only fail.
    let script = r#"
def serve():
    link = Link()
    link.ready()
    ack = {"type": "ack", "job_id": link.job()}
    link.raw(b'{"type":"ready","protocol":1,"concurrency":0}\n' + json.dumps(ack).encode() + b"\n")
    die()

for _ in range(60):
    os.waitpid(child(serve), 0)
note("served")
rest()
"#;
    let mut init = stage.worker(script).start();
    init.notes_line("served");
    stage.wait_for_outcomes();
    for (id, mut outcomes) in stage.backend.outcomes() {
        // A FETCH that was on its way when the one before it ended brought something that nobody
        // could take.
        outcomes.retain(|outcome| *outcome != Outcome::Requeued);
        assert_eq!(outcomes, [Outcome::Acked(None)], "{id}: {}", init.story());
    }
    init.stops();
}

#[test]
fn an_ack_counts_although_its_process_ended_with_frames_of_ours_unread() {
    let script = "
link = Link()
link.ready(2)
first = link.job()
note('first', first)
# The other one stays in the socket: the kernel then resets the connection.
while not os.path.exists(os.environ['NOTES'] + '.go'):
    time.sleep(0.005)
link.ack(first)
die()";
    for _ in 0..5 {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(script).start();
        init.notes_line("first j1");
        stage.enqueue([2]);
        init.logs("Job given to the worker [job j2, ");
        std::fs::write(stage.at("init.notes.go"), "").unwrap();
        init.ends_with(137);
        stage.wait_for_outcomes();
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)], "{}", init.story());
    }
}

#[test]
fn an_ack_counts_although_its_process_ended_while_a_large_job_waited_to_be_read() {
    let script = "
link = Link()
link.ready(2)
first = link.job()
# Enough of the large one is with us that nothing more of ours is read before it is.
time.sleep(0.1)
while not os.path.exists(os.environ['NOTES'] + '.go'):
    time.sleep(0.005)
link.ack(first, result=7)
die()";
    for _ in 0..3 {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(script).start();
        init.notes_line("job j1");
        let large = format!(r#"{{"id":"large","type":"t","args":["{}"]}}"#, "x".repeat(2 << 20));
        stage.backend.enqueue(&large);
        init.logs("Job given to the worker [job large, ");
        std::fs::write(stage.at("init.notes.go"), "").unwrap();
        init.ends_with(137);
        stage.wait_for_outcomes();
        assert_eq!(
            stage.outcomes("j1"),
            [Outcome::Acked(Some(7.into()))],
            "{}",
            init.story()
        );
        assert!(matches!(stage.outcomes("large").as_slice(), [Outcome::Failed(_)]));
    }
}

#[test]
fn many_answers_written_at_once_before_the_end_all_count() {
    let stage = Stage::new();
    stage.enqueue(0..40);
    let script = r#"
link = Link()
link.ready(40)
jobs = [link.job() for _ in range(40)]
answers = [{"type": "ack", "job_id": job, "result": "x" * 2000} for job in jobs[:39]]
link.raw(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers) + b'{"type":"ack","job_id":"%s"' % jobs[39].encode())
die()
"#;
    let mut init = stage.worker(script).with("OJS_CONCURRENCY", "40").start();
    init.ends_with(137);
    stage.wait_for_outcomes();
    let failed = |outcomes: &&Vec<Outcome>| matches!(outcomes.as_slice(), [Outcome::Failed(_)]);
    // The last one was cut off in the middle of its frame.
    assert_eq!(
        stage.backend.outcomes().values().filter(failed).count(),
        1,
        "{}",
        init.story()
    );
}

#[test]
fn more_than_one_turn_reads_counts_too_although_its_process_is_gone() {
    let stage = Stage::new();
    stage.enqueue(0..40);
    // SO_SNDBUFFORCE: without it a socket holds less than that.
    let script = r#"
link = Link()
link.socket.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)
link.ready(40)
answers = [{"type": "ack", "job_id": link.job(), "result": "x" * 60000} for _ in range(40)]
link.raw(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))
die()
"#;
    let mut init = stage.worker(script).with("OJS_CONCURRENCY", "40").start();
    init.ends_with(137);
    stage.wait_for_outcomes();
    let acked = |outcomes: &Vec<Outcome>| matches!(outcomes.as_slice(), [Outcome::Acked(_)]);
    assert!(stage.backend.outcomes().values().all(acked), "{}", init.story());
}

#[test]
fn two_thousand_jobs_through_the_python_client_are_acked_once_each() {
    let stage = Stage::new();
    (0..2000).for_each(|number| stage.backend.enqueue(&job(number, "")));
    let script = "import sys; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): return job.id
worker.run()";
    let mut init = stage
        .command(&["python3", "-c", script])
        .with("OJS_CONCURRENCY", "50")
        .with("OJS_LOG_LEVEL", "info")
        .start();
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    let began = now();
    stage.wait_for_outcomes();
    let seconds = began.elapsed().as_secs_f64();
    println!("2000 jobs in {seconds:.2} s: {:.0} jobs/s", 2000.0 / seconds);
    for (id, outcomes) in stage.backend.outcomes() {
        assert_eq!(outcomes, [Outcome::Acked(Some(id.as_str().into()))]);
    }
    assert!(stage.backend.most_active() <= 50);
    init.stops();
}
