//! The memory gate: how much memory is taken says a directory in the place of the cgroups.

use super::{ANY_PORT, OBEYS, OFTEN};
use crate::backend::Outcome;
use crate::cgroup::Cgroup;
use crate::operator::run;
use crate::probe_client::Probes;
use crate::stage::{Stage, Start};

fn start<'a>(cgroup: &Cgroup, stage: &'a Stage) -> Start<'a> {
    let start = cgroup.of(stage.worker(OBEYS));
    start.with_all(&[ANY_PORT, OFTEN, ("OJS_WORKER_MEMORY_GATE", "90%")])
}

#[test]
fn no_job_is_fetched_while_too_much_memory_is_taken_and_what_is_there_goes_on() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let cgroup = Cgroup::new(&stage, "1000\n");
    let mut init = start(&cgroup, &stage).start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    probes.counts("ojs_init_memory_taken_ratio", 0.5);
    probes.counts("ojs_init_memory_gate_closed", 0.0);

    cgroup.taken(950);
    init.logs("memory gate closed: 95% of the memory limit is taken, more than 90%");
    probes.counts("ojs_init_memory_gate_closed", 1.0);
    probes.counts("ojs_init_free_credit", 0.0);
    stage.are_not_fetched([2]);
    // The worker can do its work, and is no worse than before.
    assert_eq!(probes.statuses(), [200; 3]);
    let shown = run(&stage, &init, &["status"]).stdout;
    assert!(
        shown.contains("95% of the limit is taken: the memory gate is closed"),
        "{shown}"
    );
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);

    cgroup.taken(850);
    init.logs("memory gate open: 85% of the memory limit is taken");
    init.notes_line("job j2");
    probes.counts("ojs_init_memory_gate_closed", 0.0);
    init.order("ack j2");
    init.stops();
}

#[test]
fn without_a_memory_limit_the_gate_is_off_and_that_is_a_warning() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let cgroup = Cgroup::new(&stage, "max\n");
    cgroup.taken(9999);
    let mut init = start(&cgroup, &stage).start();
    init.logs("worker.memory_gate = 90%");
    init.logs("no memory limit of which that could be a share; the gate is off");
    init.notes_line("job j1");
    init.order("ack j1");
    init.stops();
}
