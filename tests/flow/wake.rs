//! Idle workers that the backend tells of new jobs, and streams that are not what they should be.

use std::time::Duration;

use ojs_devserver::{Fault, FaultRule, Operation, Options, Server, StreamFault};

use super::*;
use crate::stage::Init;
use crate::support::wait::{Stopwatch, now};

/// Every test of this file.
pub const ALL: [(&str, fn()); 6] = [
    ("an_idle_worker_has_a_new_job_long_before_the_poll", told),
    ("without_wake_an_idle_worker_waits_for_the_poll", not_told),
    ("a_cancelled_job_is_told_long_before_the_heartbeat", cancelled),
    ("streams_that_lie_or_flood_bring_five_fetches_a_second_at_most", lied_to),
    ("streams_that_are_open_delay_no_exit", ends),
    (
        "a_backend_that_stops_in_good_order_does_not_wait_for_an_idle_worker",
        leaves,
    ),
];

/// Between two polls; three quarters of it at least.
const POLL: Duration = Duration::from_secs(6);

/// Far less than that, and far more than a job takes that is told of: a busy machine needs it.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Jobs that find an idle worker, one after the other.
const PICK_UPS: usize = 5;

/// How long a stream that lies is watched.
const WATCH: Duration = Duration::from_secs(4);

/// A handler that waits until it is told to stop.
const WAITING: &str = "import sys; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=50)
@worker.job('t')
def handle(job): job.cancelled.wait()
worker.run()";

fn slow_polls<'a>(stage: &'a Stage, server: &Server, program: &str) -> Start<'a> {
    with_python(stage, server, program)
        .with("OJS_POLL_INTERVAL", format!("{}s", POLL.as_secs()))
        .with("OJS_HEARTBEAT_INTERVAL", "5s")
        .with("OJS_LOG_LEVEL", "debug")
}

fn fetches(server: &Server) -> usize {
    server
        .events()
        .iter()
        .filter(|event| event.operation == "fetch")
        .count()
}

/// A backend with a queue, and a worker that is done with its first job and asks for more.
fn idle(stage: &Stage, server: &Server, wake: &str) -> Init {
    enqueue(server, 1, "");
    let init = slow_polls(stage, server, QUICK).with("OJS_WAKE", wake).start();
    all_are_done(server, 1);
    // The one that brought the job, and one that finds nothing.
    assert!(server.wait(PATIENCE, |server| fetches(server) >= 2), "{}", init.story());
    init
}

fn told() {
    let server = patient();
    let stage = Stage::new();
    let mut init = idle(&stage, &server, "auto");
    init.logs("event stream open: new jobs are fetched at once");
    let mut longest = Duration::ZERO;
    for number in 2..2 + PICK_UPS {
        let began = Stopwatch::start();
        enqueue(&server, 1, "");
        all_are_done(&server, number);
        longest = longest.max(began.elapsed());
    }
    assert!(longest < AT_ONCE, "{longest:?}: {}", init.story());
    init.stops();
    delivered_once_each(&server, &server.jobs());
}

fn not_told() {
    let server = patient();
    let stage = Stage::new();
    let mut init = idle(&stage, &server, "off");
    let began = now();
    enqueue(&server, 1, "");
    all_are_done(&server, 2);
    assert!(
        began.elapsed() > AT_ONCE,
        "the poll is not what found it: {}",
        init.story()
    );
    let asked = |operation: &str| server.events().iter().any(|event| event.operation == operation);
    assert!(!asked("events"));
    init.stops();
}

fn cancelled() {
    let server = patient();
    let stage = Stage::new();
    enqueue(&server, 1, "");
    let mut init = slow_polls(&stage, &server, WAITING)
        .with("OJS_HEARTBEAT_INTERVAL", "30s")
        .start();
    init.logs("event stream open: new jobs are fetched at once");
    // Not only active: of a job that is still on its way to the worker no event is taken.
    init.logs("Job given to the worker");
    let job = server.jobs()[0].id.clone();
    let began = Stopwatch::start();
    server.cancel(&job).unwrap();
    init.logs("Job cancelled");
    assert!(began.elapsed() < AT_ONCE, "{:?}: {}", began.elapsed(), init.story());
    init.stops();
}

fn lied_to() {
    for fault in [StreamFault::Lies, StreamFault::Floods] {
        let server = patient();
        let stage = Stage::new();
        server
            .fault(FaultRule::on(Operation::Events, Fault::Stream(fault)))
            .unwrap();
        let mut init = idle(&stage, &server, "auto");
        let before = fetches(&server);
        lasts(WATCH);
        let more = fetches(&server) - before;
        let most = WATCH.as_secs() as usize * 5 + 2;
        assert!(more <= most, "{more} FETCHes: {}", init.story());
        if fault == StreamFault::Floods {
            init.logs("it tells of too much in too short a time");
        } else {
            assert!(more > 2, "nobody believed it: {}", init.story());
        }
        enqueue(&server, 100, "");
        all_are_done(&server, 101);
        init.stops();
        delivered_once_each(&server, &server.jobs());
    }
}

fn ends() {
    let faults = [
        None,
        Some(StreamFault::Silent),
        Some(StreamFault::Hangs),
        Some(StreamFault::Ends),
        Some(StreamFault::Lies),
        Some(StreamFault::Floods),
        Some(StreamFault::WithoutComments),
    ];
    for fault in faults {
        let server = Server::start(Options::default()).unwrap();
        let stage = Stage::new();
        if let Some(fault) = fault {
            server
                .fault(FaultRule::on(Operation::Events, Fault::Stream(fault)))
                .unwrap();
        }
        let mut init = idle(&stage, &server, "auto");
        init.logs("event stream open: new jobs are fetched at once");
        let began = Stopwatch::start();
        init.stops();
        assert!(
            began.elapsed() < AT_ONCE,
            "{fault:?}: {:?}: {}",
            began.elapsed(),
            init.story()
        );
        let last = server.events().last().map(|event| event.operation);
        assert_eq!(last, Some("deregister"), "{fault:?}");
    }
}

fn leaves() {
    let server = patient();
    let stage = Stage::new();
    let mut init = idle(&stage, &server, "auto");
    init.logs("event stream open: new jobs are fetched at once");
    let began = Stopwatch::start();
    assert!(server.leave(PATIENCE), "{}", init.story());
    assert!(began.elapsed() < AT_ONCE, "{:?}: {}", began.elapsed(), init.story());
    init.logs("a stream of events is closed, because");
    // The stream is listened to again when the backend is back, and has lost no wake-up.
    let listens = |server: &Server| {
        server
            .events()
            .iter()
            .filter(|event| event.operation == "events")
            .count()
    };
    let before = listens(&server);
    assert!(server.accept_connections());
    assert!(
        server.wait(PATIENCE, |server| listens(server) > before),
        "{}",
        init.story()
    );
    let began = Stopwatch::start();
    enqueue(&server, 1, "");
    all_are_done(&server, 2);
    assert!(began.elapsed() < AT_ONCE, "{:?}: {}", began.elapsed(), init.story());
    init.stops();
    delivered_once_each(&server, &server.jobs());
}
