//! Ends that begin without a request: no job for long enough (`worker.exit_when_idle`), or one job
//! done (`--once`).

use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, Stage, Start};

/// Acknowledges each job at once.
const ACKS: &str = "import sys; sys.path.insert(0, 'clients/python')
from ojs_worker import Worker
worker = Worker(concurrency=1)
@worker.job('t')
def handle(job): return job.args
worker.run()";

/// As an SDK's worker: one FETCH after the other, an ACK for each job, and an end at SIGTERM.
const SDK: &str = "import json, os, signal, time, urllib.request
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
def post(path, body):
    headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + os.environ.get('OJS_AUTH_TOKEN', '')}
    url = os.environ['OJS_URL'] + '/ojs/v1/workers/' + path
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer: return json.load(answer)
while not ends:
    jobs = post('fetch', {'queues': ['default'], 'worker_id': 'sdk', 'count': 3}).get('jobs', [])
    for job in jobs: post('ack', {'job_id': job['id'], 'result': 1})
    time.sleep(0.05)";

fn soon<'a>(start: Start<'a>) -> Start<'a> {
    start.with_all(&[("OJS_EXIT_WHEN_IDLE", "500ms"), ("OJS_POLL_INTERVAL", "50ms")])
}

/// The jobs are done, no more come, and the end is one in good order.
fn ends_by_itself(stage: &Stage, init: &mut Init) {
    stage.wait_for_outcomes();
    init.ends_with(0);
    for job in ["j1", "j2"] {
        let outcomes = stage.outcomes(job);
        assert!(
            matches!(outcomes.as_slice(), [Outcome::Acked(_)]),
            "{outcomes:?}: {}",
            init.story()
        );
    }
    assert!(
        init.log().contains("no job for 0.5 s (worker.exit_when_idle)"),
        "{}",
        init.log()
    );
    assert_eq!(stage.count(Endpoint::Deregister), 1, "{}", init.story());
}

#[test]
fn a_worker_on_the_socket_that_is_idle_for_long_enough_ends() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let start = stage.command(&["python3", "-c", ACKS]);
    ends_by_itself(&stage, &mut soon(start).start());
}

#[test]
fn mode_exec_ends_when_it_is_idle_for_long_enough() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let start = stage.command(&["true"]).with("OJS_MODE", "exec");
    ends_by_itself(&stage, &mut soon(start).start());
}

#[test]
fn a_worker_behind_the_gateway_that_is_idle_for_long_enough_ends() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let start = stage.command(&["python3", "-c", SDK]).with("OJS_MODE", "gateway");
    ends_by_itself(&stage, &mut soon(start).start());
}

/// Takes one of two jobs, and ends with this status.
fn takes_one(stage: &Stage, start: Start<'_>, status: i32) {
    stage.enqueue([1, 2]);
    let mut init = start.with("OJS_INIT_ONCE", "true").start();
    init.ends_with(status);
    assert_eq!(stage.outcomes("j1").len(), 1, "{}", init.story());
    assert_eq!(stage.backend.handed_out("j2"), 0, "{}", init.story());
    assert_eq!(stage.count(Endpoint::Deregister), 1, "{}", init.story());
}

#[test]
fn once_takes_one_job_and_the_exit_status_tells_whether_it_was_done() {
    for (handler, status) in [("exit 0", 0), ("exit 3", 1), ("exit 75", 1)] {
        let stage = Stage::new();
        let start = stage.command(&["sh", "-c", handler]).with("OJS_MODE", "exec");
        takes_one(&stage, start, status);
    }
    let stage = Stage::new();
    let start = stage.command(&["python3", "-c", SDK]).with("OJS_MODE", "gateway");
    takes_one(&stage, start, 0);
}
