//! Recycling of a worker that was built on an SDK: no job is lost.

use crate::backend::{Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::Stage;

#[test]
fn a_worker_behind_the_gateway_is_replaced_after_so_many_jobs() {
    let stage = Stage::new();
    let script = r#"
note("runs")
link = Link()
while True:
    for job in json.loads(link.ask(fetch(count=2))[2])["jobs"]:
        link.ask(post("ack", worker_id="w", job_id=job["id"]))
    time.sleep(0.005)
"#;
    let mut init = worker(&stage, script).with("OJS_WORKER_MAX_JOBS", "5").start();
    stage.enqueue(1..=30);
    stage.wait_for_outcomes();
    let lives = init.notes().iter().filter(|line| *line == "runs").count();
    assert!(lives >= 5, "{}", init.story());
    assert_eq!(stage.count(Endpoint::Register), 1);
    init.stops();
    for number in 1..=30 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
}
