//! Lifecycle states: what leads from one to another, and that the backend hears of it.

use std::time::Duration;

use super::course::holding;
use super::{OBEYS, OFTEN, REGULAR, SELDOM};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{Stage, never};
use crate::support::proc;
use crate::support::wait::{now, wait_until};

/// Both vocabularies of a backend that asks for something, as `state` and `directive` of the answer
/// to a heartbeat.
fn vocabularies(word: &str) -> [(&str, &str); 2] {
    [(word, ""), ("active", word)]
}

#[test]
fn l_01_every_heartbeat_says_one_of_three_states_and_nothing_is_said_after_the_end() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    init.stops();
    for state in stage.states() {
        assert!(["running", "quiet", "terminate"].contains(&state.as_str()), "{state}");
    }
    let said = stage.backend.records().len();
    never("a request after the end", || stage.backend.records().len() > said);
}

#[test]
fn l_02_every_heartbeat_says_the_state_and_a_change_is_told_at_once() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    let began = now();
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    init.signal(libc::SIGCONT);
    stage.states_become(&["running", "quiet", "running"]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(stage.states(), ["running", "quiet", "running", "quiet", "terminate"]);
    let beats = stage.backend.records_of(Endpoint::Heartbeat);
    assert!(beats.iter().all(|beat| beat.text("state").is_some()));
}

#[test]
fn l_03_sigtstp_makes_it_quiet_and_active_jobs_go_on() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[SELDOM]);
    stage.states_become(&["running"]);
    init.signal(libc::SIGTSTP);
    init.notes_line("lifecycle quiet sigtstp");
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([2]);
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    assert!(init.is_running());
    assert!(!init.notes().iter().any(|line| line.starts_with("cancel")));
    assert_eq!(stage.states(), ["running", "quiet"]);
}

#[test]
fn l_03_a_server_that_says_quiet_makes_it_quiet() {
    for (state, directive) in vocabularies("quiet") {
        let stage = Stage::new();
        let mut init = stage.worker(OBEYS).with(OFTEN.0, OFTEN.1).start();
        stage.wait_for_more(Endpoint::Fetch, 1);
        stage.backend.direct(state, directive);
        init.notes_line("lifecycle quiet server");
        stage.states_become(&["running", "quiet"]);
        stage.fetches_have_stopped();
        assert!(init.is_running());
    }
}

#[test]
fn l_04_sigterm_makes_it_terminate_and_the_active_job_is_finished_before_the_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // SIGTERM does not end it.
    let script = format!("note_signals(signal.SIGTERM); {OBEYS}; rest()");
    let mut init = stage.worker(&script).with(SELDOM.0, SELDOM.1).start();
    init.notes_line("job j1");
    stage.states_become(&["running"]);
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    stage.states_become(&["running", "quiet", "terminate"]);
    stage.are_not_fetched([2]);
    assert!(stage.outcomes("j1").is_empty() && !init.notes().contains(&"signal 15".to_owned()));
    init.order("ack j1");
    init.notes_line("signal 15");
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    crate::support::sys::send(proc::children(init.pid)[0], libc::SIGKILL).unwrap();
    init.ends_with(0);
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn l_04_a_server_that_says_terminate_makes_it_terminate_as_sigterm_does() {
    for (state, directive) in vocabularies("terminate") {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(OBEYS).with(REGULAR.0, REGULAR.1).start();
        init.notes_line("job j1");
        stage.backend.direct(state, directive);
        init.notes_line("lifecycle terminate server");
        stage.states_become(&["running", "quiet", "terminate"]);
        stage.are_not_fetched([2]);
        assert!(init.is_running());
        init.order("ack j1");
        init.ends_with(0);
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
        assert!(stage.outcomes("j2").is_empty());
    }
}

#[test]
fn l_05_sigterm_and_a_server_lead_from_quiet_to_terminate() {
    for is_signal in [true, false] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(OBEYS).with(REGULAR.0, REGULAR.1).start();
        init.notes_line("job j1");
        stage.states_become(&["running"]);
        init.signal(libc::SIGTSTP);
        stage.states_become(&["running", "quiet"]);
        if is_signal {
            init.signal(libc::SIGTERM);
            init.notes_line("lifecycle terminate sigterm");
        } else {
            stage.backend.direct("active", "terminate");
            init.notes_line("lifecycle terminate server");
        }
        stage.states_become(&["running", "quiet", "terminate"]);
        assert!(init.is_running());
        init.order("ack j1");
        init.ends_with(0);
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    }
}

#[test]
fn l_06_sigcont_leads_from_quiet_back_to_running() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    stage.wait_for_more(Endpoint::Fetch, 1);
    init.signal(libc::SIGTSTP);
    init.notes_line("lifecycle quiet sigtstp");
    stage.states_become(&["running", "quiet"]);
    stage.are_not_fetched([1]);
    assert!(stage.outcomes("j1").is_empty());
    init.signal(libc::SIGCONT);
    init.notes_line("lifecycle running sigcont");
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "running", "quiet", "terminate"]);
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    assert_eq!(stage.states(), ["running", "quiet", "running", "quiet", "terminate"]);
}

#[test]
fn l_06_a_server_that_says_running_lifts_no_quiet() {
    for (state, directive) in [("running", ""), ("active", "continue"), ("running", "running")] {
        let stage = Stage::new();
        let init = stage.worker(OBEYS).with(REGULAR.0, REGULAR.1).start();
        stage.states_become(&["running"]);
        init.signal(libc::SIGTSTP);
        stage.states_become(&["running", "quiet"]);
        stage.backend.direct(state, directive);
        stage.wait_for_more(Endpoint::Heartbeat, 3);
        assert_eq!(stage.states(), ["running", "quiet"]);
        assert!(!init.notes().iter().any(|line| line.starts_with("lifecycle running")));
    }
}

#[test]
fn l_07_the_end_comes_with_the_last_job_and_does_not_wait_for_the_grace_period() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with("OJS_GRACE_PERIOD", "30s").start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    never("an end before the job is done", || !init.is_running());
    init.order("ack j1");
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn l_07_the_end_comes_with_the_end_of_the_grace_period_at_the_latest() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with("OJS_GRACE_PERIOD", "700ms").start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    let began = now();
    let took = init.ends_with(0);
    let real = began.elapsed();
    assert!(real > Duration::from_millis(690), "the drain was too short: {real:?}");
    // The stop phase has 5 s.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn l_08_nothing_leads_back_from_terminate() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with(REGULAR.0, REGULAR.1)
        .with("OJS_SERVER_RESUME", "true")
        .start();
    init.notes_line("job j1");
    stage.states_become(&["running"]);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    init.signal(libc::SIGTSTP);
    init.logs("SIGTSTP: nothing changes");
    init.signal_again(libc::SIGCONT);
    init.logs("SIGCONT: nothing changes");
    stage.enqueue([2]);
    for (state, directive) in [("quiet", "quiet"), ("running", "continue"), ("running", "running")] {
        stage.backend.direct(state, directive);
        stage.wait_for_more(Endpoint::Heartbeat, 3);
    }
    stage.fetches_have_stopped();
    init.order("ack j1");
    init.ends_with(0);
    assert_eq!(stage.states(), ["running", "quiet", "terminate"]);
    let told = init.notes().into_iter().filter(|line| line.starts_with("lifecycle"));
    assert_eq!(told.collect::<Vec<_>>(), ["lifecycle terminate sigterm"]);
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn l_09_whoever_has_left_is_never_heard_of_again_and_the_next_is_another_worker() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
hello = link.ready()
note('me', hello['worker_id'])
link.job()
if len(open(os.environ['NOTES']).read().split('me ')) > 2:
    link.ack('j2')
    link.work()
die()";
    let mut init = stage
        .worker(script)
        .with(OFTEN.0, OFTEN.1)
        .with("OJS_RESTART", "always")
        .start();
    let error = stage.failure("j1");
    assert_eq!(error["type"], "worker_death", "{error}");
    stage.enqueue([2]);
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    let is_me = |line: &String| line.strip_prefix("me ").map(str::to_owned);
    let names: Vec<String> = init.notes().iter().filter_map(is_me).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_ne!(names[0], names[1]);
    let registered = stage.backend.records_of(Endpoint::Register);
    let worker = |record: &crate::backend::Record| record.text("worker_id");
    assert_eq!(registered.iter().filter_map(worker).collect::<Vec<_>>(), names);
    let left = stage.backend.records_of(Endpoint::Deregister);
    assert_eq!(left.iter().filter_map(worker).collect::<Vec<_>>(), names[..1]);
    // The pause before the second life.
    let pause = registered[1].at - stage.settled_at("j1");
    assert!(pause > Duration::from_millis(400), "{pause:?}");
    stage.wait_for_more(Endpoint::Heartbeat, 3);
    init.stops();
    let records = stage.backend.records();
    let is_of_first = |record: &crate::backend::Record| worker(record).as_ref() == Some(&names[0]);
    let last_of_first = records.iter().rfind(|record| is_of_first(record)).unwrap();
    assert_eq!(last_of_first.endpoint, Endpoint::Deregister);
    let last = records.last().unwrap();
    assert_eq!(
        (last.endpoint, worker(last).as_ref()),
        (Endpoint::Deregister, Some(&names[1]))
    );
}

#[test]
fn l_09_without_a_restart_nothing_is_started_after_the_end() {
    let stage = Stage::new();
    let mut init = stage.worker("link = Link(); link.ready(); sys.exit(7)").start();
    init.ends_with(7);
    let said = stage.backend.records().len();
    let again = wait_until(Duration::from_millis(1300), || stage.backend.records().len() > said);
    assert!(!again, "{:?}", stage.backend.records().last());
    assert_eq!(stage.count(Endpoint::Register), 1);
}
