//! A backend that is away, slow or wrong: workers go on, and nothing is said twice.

use std::time::Duration;

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage, never};
use crate::support::proc;
use crate::support::wait::{now, wait_until};

const WORKS: &str = "link = Link(); link.ready(5); link.work()";

#[test]
fn a_backend_that_refuses_connections_at_the_start_gets_its_worker_later() {
    let stage = Stage::new();
    stage.backend.refuse_connections();
    let mut init = stage.worker(WORKS).start();
    init.notes_line("ready");
    init.logs("it did not get to the backend");
    assert!(init.is_running());
    stage.enqueue(0..10);
    stage.backend.accept_connections();
    stage.wait_for_outcomes();
    init.stops();
}

#[test]
fn a_sigterm_while_the_backend_is_away_ends_at_once() {
    let stage = Stage::new();
    stage.backend.refuse_connections();
    let mut init = stage.worker(WORKS).start();
    init.notes_line("ready");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// Stops ojs-init until the time of its FETCH is over, and does this in between.
fn stop_past_the_fetch(stage: &Stage, init: &Init, meanwhile: impl FnOnce()) {
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    let is_asleep = || proc::status_field(init.pid, "State").unwrap().contains('S');
    assert!(wait_until(PATIENCE, is_asleep));
    init.signal(libc::SIGSTOP);
    let since = now();
    stage.backend.answer_held();
    meanwhile();
    wait_until(PATIENCE, || since.elapsed() > Duration::from_millis(1500));
    init.signal(libc::SIGCONT);
}

#[test]
fn a_job_that_arrives_while_ojs_init_is_stopped_runs_although_the_time_of_its_fetch_is_over() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.once(Endpoint::Fetch, Behaviour::Held);
    let mut init = stage.worker(WORKS).with("OJS_REQUEST_TIMEOUT", "1s").start();
    stop_past_the_fetch(&stage, &init, || ());
    stage.becomes("j1", &[Outcome::Acked(None)]);
    assert_eq!(stage.backend.handed_out("j1"), 1, "{}", init.story());
    init.stops();
}

#[test]
fn an_answer_comes_before_its_timeout_although_hundreds_of_frames_wait_as_well() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.once(Endpoint::Fetch, Behaviour::Held);
    let script = r#"
link = Link()
link.ready(5)
while not orders():
    time.sleep(0.01)
link.raw(b'{"type":"pong","id":1}\n' * 2000)
note("flooded", "it")
link.work()
"#;
    let mut init = stage.worker(script).with("OJS_REQUEST_TIMEOUT", "1s").start();
    stop_past_the_fetch(&stage, &init, || init.order("flood j1"));
    init.noted("flooded");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    assert_eq!(stage.backend.handed_out("j1"), 1, "{}", init.story());
    init.stops();
}

#[test]
fn heartbeats_go_on_while_a_fetch_hangs() {
    let stage = Stage::new();
    stage.backend.always(Endpoint::Fetch, Behaviour::Hang);
    let init = stage.worker(WORKS).with("OJS_HEARTBEAT_INTERVAL", "50ms").start();
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    let before = stage.backend.records_of(Endpoint::Heartbeat).len();
    stage.backend.wait_for_count(Endpoint::Heartbeat, before + 10, PATIENCE);
    assert_eq!(stage.backend.records_of(Endpoint::Fetch).len(), 1);
    init.signal(libc::SIGKILL);
}

#[test]
fn heartbeats_and_acks_go_on_while_a_heartbeat_hangs() {
    let stage = Stage::new();
    let init = stage.worker(WORKS).with("OJS_HEARTBEAT_INTERVAL", "50ms").start();
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    stage.backend.once(Endpoint::Heartbeat, Behaviour::Hang);
    stage.enqueue(0..20);
    stage.wait_for_outcomes();
    let before = stage.backend.records_of(Endpoint::Heartbeat).len();
    stage.backend.wait_for_count(Endpoint::Heartbeat, before + 3, PATIENCE);
    init.signal(libc::SIGKILL);
}

#[test]
fn an_ack_that_the_backend_does_not_take_is_repeated_until_it_does() {
    let stage = Stage::new();
    stage.backend.once(Endpoint::Ack, Behaviour::status(503));
    stage.backend.once(Endpoint::Ack, Behaviour::Close);
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.backend.records_of(Endpoint::Ack).len(), 3);
    init.stops();
}

#[test]
fn an_ack_whose_reply_was_lost_counts_once() {
    let stage = Stage::new();
    stage.backend.once(Endpoint::Ack, Behaviour::LoseReply);
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).start();
    stage.wait_for_outcomes();
    init.logs("Job completed successfully [job j1, ");
    init.stops();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn a_fail_whose_reply_was_lost_is_not_repeated_blindly() {
    let stage = Stage::new();
    stage.backend.once(Endpoint::Nack, Behaviour::LoseReply);
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
link.say('fail', job_id=link.job(), error={'message': 'no'})
link.note_all()";
    let mut init = stage.worker(script).start();
    stage.failure("j1");
    stage.backend.wait_for_count(Endpoint::Job, 1, PATIENCE);
    never("a second FAIL", || stage.backend.records_of(Endpoint::Nack).len() > 1);
    init.stops();
    stage.backend.assert_one_outcome_each();
}

#[test]
fn a_result_that_the_backend_refuses_is_acked_without_it() {
    let stage = Stage::new();
    // In the full form and in the bare one.
    stage.backend.once(Endpoint::Ack, Behaviour::status(413));
    stage.backend.once(Endpoint::Ack, Behaviour::status(413));
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
held = link.job()
link.ack(held, result='large')
note('refused', link.until('error')['code'])
link.ack(held, result='small')
link.note_all()";
    let mut init = stage.worker(script).start();
    assert_eq!(init.noted("refused"), "refused");
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(Some("small".into()))]);
    init.stops();
}

#[test]
fn a_job_that_the_backend_cancelled_is_cancelled() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = "
link = Link()
link.ready(2)
link.job()
other = link.job()
note('holds both')
link.note_all()";
    let mut init = stage.worker(script).with("OJS_HEARTBEAT_INTERVAL", "50ms").start();
    init.notes_line("holds both");
    stage.backend.wait_for_count(Endpoint::Heartbeat, 4, PATIENCE);
    stage.backend.cancel("j1");
    init.notes_line("cancel cancelled j1");
    never("the other job was cancelled", || {
        init.notes().contains(&"cancel cancelled j2".to_owned())
    });
}

#[test]
fn progress_and_checkpoints_reach_the_backend() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
held = link.job()
link.say('progress', job_id=held, progress=0.25, message='a quarter')
link.say('checkpoint', job_id=held, state={'step': 9007199254740993})
done = [link.until('ok')['for'] for _ in range(2)]
note('done', *sorted(done))
link.ack(held)
link.note_all()";
    let mut init = stage.worker(script).start();
    assert_eq!(init.noted("done"), "checkpoint progress");
    stage.wait_for_outcomes();
    let saved = stage.backend.records_of(Endpoint::Checkpoint).remove(0);
    assert!(String::from_utf8_lossy(&saved.request.body).contains("9007199254740993"));
    init.stops();
}

#[test]
fn a_worker_that_never_says_ready_is_warned_about_and_nothing_is_fetched() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker("Link(); rest()")
        .with("OJS_READY_TIMEOUT", "200ms")
        .start();
    init.logs("has not said ready");
    init.logs("one that talks to the backend by itself needs OJS_MODE=gateway");
    never("a FETCH", || !stage.backend.records_of(Endpoint::Fetch).is_empty());
    assert!(init.is_running());
    init.stops();
}

#[test]
fn the_token_is_used_and_is_nowhere_to_be_seen() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "note('token', os.environ.get('OJS_AUTH_TOKEN')); link = Link(); link.ready(); link.work()";
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_AUTH_TOKEN", "sekrit-token"), ("OJS_LOG_LEVEL", "trace")])
        .start();
    stage.wait_for_outcomes();
    assert_eq!(init.noted("token"), "None");
    let environ = std::fs::read(format!("/proc/{}/environ", init.pid)).unwrap();
    assert!(String::from_utf8_lossy(&environ).contains("OJS_URL"));
    assert!(!String::from_utf8_lossy(&environ).contains("sekrit"));
    init.stops();
    assert!(!init.log().contains("sekrit"));
    assert!(init.log().contains("trace"));
    for record in stage.backend.records() {
        assert_eq!(record.request.header("authorization"), Some("Bearer sekrit-token"));
    }
}

/// Times that any thread of the process has let go of the processor by itself.
fn wakeups(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |status: String| proc::field_of(&status, "voluntary_ctxt_switches")?.parse::<u64>().ok();
    tasks
        .filter_map(|task| of(std::fs::read_to_string(task.path().join("status")).ok()?))
        .sum()
}

#[test]
fn an_idle_init_wakes_for_its_heartbeats_and_fetches_only() {
    let stage = Stage::new();
    let mut init = stage
        .worker("link = Link(); link.ready(); link.note_all()")
        .with_all(&[
            ("OJS_POLL_INTERVAL", "1s"),
            ("OJS_HEARTBEAT_INTERVAL", "2s"),
            ("OJS_LOG_LEVEL", "warn"),
        ])
        .start();
    stage.backend.wait_for_count(Endpoint::Fetch, 2, PATIENCE);
    let requests = || stage.backend.records().len();
    let (before, said_before) = (wakeups(init.pid), requests());
    wait_until(Duration::from_secs(8), || false);
    let (woken, said) = (wakeups(init.pid) - before, requests() - said_before);
    println!("idle for 8 s: {woken} wakeups for {said} requests");
    // Each request: the loop wakes to order it, its lane to send it and again for the answer, the
    // loop to take that.
    assert!(
        woken <= 8 * u64::try_from(said).unwrap() + 8,
        "{woken} wakeups for {said} requests"
    );
    assert!((8..=24).contains(&said), "{said} requests");
    init.stops();
}

#[test]
fn an_init_that_waits_for_its_worker_hardly_wakes_at_all() {
    let stage = Stage::new();
    let mut init = stage.worker("rest()").with("OJS_HEARTBEAT_INTERVAL", "40s").start();
    stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
    wait_until(Duration::from_millis(200), || false);
    let before = wakeups(init.pid);
    wait_until(Duration::from_secs(3), || false);
    let woken = wakeups(init.pid) - before;
    assert!(woken <= 5, "{woken} wakeups");
    init.stops();
}

#[test]
fn outcomes_reach_the_backend_where_no_further_thread_can_be_had() {
    for host in ["127.0.0.1", "localhost"] {
        let stage = Stage::new();
        stage.enqueue(1..=4);
        // So that one request is under way when the next outcome comes.
        stage
            .backend
            .always(Endpoint::Ack, Behaviour::Delay(Duration::from_millis(200)));
        let script = "
link = Link()
link.ready(concurrency=4)
held = [link.job() for _ in range(4)]
note('held')
while not os.path.exists(os.environ['NOTES'] + '.go'):
    time.sleep(0.01)
for job in held:
    link.ack(job)
link.work()";
        // Root may have as many processes as it likes.
        let user = ["setpriv", "--reuid=61237", "--regid=61237", "--clear-groups"];
        let mut init = stage
            .worker(script)
            .with("OJS_CONCURRENCY", "4")
            .with("OJS_URL", stage.backend.url().replace("127.0.0.1", host))
            .through(&user)
            .start();
        init.notes_line("held");
        no_further_thread(init.pid, 61237);
        std::fs::write(stage.at("init.notes.go"), "").unwrap();
        stage.wait_for_outcomes();
        for number in 1..=4 {
            assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
        }
        let log = init.log();
        assert!(
            !log.contains("did not get to") && !log.contains("answers again"),
            "{log}"
        );
        init.stops();
    }
}

/// Sets its limit of processes to what is exceeded already, as the user that it runs as: others may
/// be forbidden to.
fn no_further_thread(pid: i32, user: u32) {
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    let set = move || {
        // SAFETY: the raw calls change this thread alone, which ends here; the limit is valid for
        // the call, and the old one is not asked for.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_setresgid, user, user, user), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, user, user, user), 0);
            libc::prlimit(pid, libc::RLIMIT_NPROC, &raw const limit, std::ptr::null_mut())
        }
    };
    assert_eq!(std::thread::spawn(set).join().unwrap(), 0);
}
