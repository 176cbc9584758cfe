//! Which stop signals are requests of their own, and what the log says of one that forces.

use crate::backend::Outcome;
use crate::stage::Stage;
use crate::support::proc;

/// Takes a job, and has it done shortly after it hears of the end.
const FINISHES: &str = "
link = Link()
link.ready()
job = link.job()
link.until('lifecycle')
time.sleep(0.3)
link.ack(job)
rest()";

/// Takes a job and never answers.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready()
link.job()
link.note_all()
rest()";

#[test]
fn the_two_sigterms_of_timeout_are_one_request_and_its_sigcont_is_no_news() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(FINISHES).through(&["timeout", "6"]).start();
    init.notes_line("job j1");
    // The status of `timeout`.
    init.ends_with(124);
    let log = init.log();
    assert!(log.contains("SIGTERM: terminating"), "{log}");
    assert!(
        !log.contains("forced") && !log.contains("SIGCONT: nothing changes"),
        "{log}"
    );
    let told: Vec<_> = log.lines().filter(|line| line.contains("SIGCONT, ")).collect();
    assert!(told.iter().all(|line| line.contains(" debug: ")), "{log}");
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn a_force_names_the_signal_that_forced_and_a_third_one_what_it_ends() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage
        .backend
        .always(crate::backend::Endpoint::Nack, crate::backend::Behaviour::Hang);
    let mut init = stage.worker(STUCK).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    init.signal_again(libc::SIGTERM);
    init.logs("warn: stop phase: forced by a second SIGTERM, ");
    init.signal_again(libc::SIGTERM);
    init.ends_with(143);
    init.logs("warn: ending at once because of a third stop signal, SIGTERM, ");
    assert!(!init.log().contains("gracefully"), "{}", init.story());
}

#[test]
fn an_end_that_is_forced_without_any_job_is_not_called_graceful() {
    let stage = Stage::new();
    let mut init = stage
        .worker("note_signals(signal.SIGTERM); Link().ready(); rest()")
        .start();
    init.notes_line("ready");
    init.signal(libc::SIGTERM);
    init.logs("asking the worker to end");
    init.signal(libc::SIGINT);
    init.ends_with(0);
    init.logs("info: stop phase: forced by SIGINT, ");
    init.logs("Worker stopped by force; exit status 0");
}

#[test]
fn a_container_that_was_paused_past_its_limit_says_that_and_blames_nobody_else() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(STUCK)
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "6s"), ("OJS_GRACE_PERIOD", "3s")])
        .start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    let all = proc::descendants(init.pid);
    init.signal(libc::SIGSTOP);
    crate::support::wait::pause(std::time::Duration::from_millis(6_200));
    init.signal(libc::SIGCONT);
    init.ends_with(0);
    init.logs("before ojs-init came to it; was it stopped, or the machine?");
    init.logs("no time was left to see the end of the process that has it");
    assert!(!init.log().contains("the kernel holds"), "{}", init.story());
    assert!(!all.into_iter().any(proc::lives));
}
