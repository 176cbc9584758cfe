//! Things that the init was started with, and what its worker gets of them.

use crate::backend::Outcome;
use crate::stage::{PATIENCE, Stage, root};
use crate::support::proc;
use crate::support::wait::wait_until;

#[test]
fn closed_standard_descriptors_stay_closed_for_the_worker_and_hit_none_of_ours() {
    for (closed, how) in [
        ("0", "<&-"),
        ("1", ">&-"),
        ("2", "2>&-"),
        ("0 1", "<&- >&-"),
        ("0 1 2", "<&- >&- 2>&-"),
    ] {
        for restart in ["never", "always"] {
            let stage = Stage::new();
            stage.enqueue([1, 2]);
            let raw = root().join("tests/support/raw_worker.py");
            // The work begins after the init has let go of what it inherited.
            let work = "link = Link(); link.ready(); link.ack(link.job()); link.ack(link.job()); link.work()";
            let look = format!(
                "found=; for n in 0 1 2; do [ -e /proc/$$/fd/$n ] || found=\"$found $n\"; done; echo \"closed$found\" \
                 >> $NOTES; sleep 0.1; exec python3 -S -E {} '{work}'",
                raw.display()
            );
            let mut init = stage
                .command(&["sh", "-c", &look])
                .with("OJS_RESTART", restart)
                .through(&["sh", "-c", &format!("exec \"$@\" {how}"), "sh"])
                .start();
            assert_eq!(init.noted("closed"), closed);
            stage.wait_for_outcomes();
            for job in ["j1", "j2"] {
                assert_eq!(stage.outcomes(job), [Outcome::Acked(None)], "{how}");
            }
            let ours = proc::descriptors(init.pid);
            for number in closed.split(' ').map(|number| number.parse().unwrap()) {
                assert_eq!(ours[&number].to_str(), Some("/dev/null"), "{how}: {ours:?}");
            }
            init.stops();
        }
    }
}

#[test]
fn a_worker_that_is_started_again_gets_the_dispositions_and_the_mask_of_the_first_one() {
    for ignored in ["", "trap '' USR2 RTMIN; "] {
        let stage = Stage::new();
        let script = "
for line in open('/proc/self/status'):
    if line.startswith(('SigIgn', 'SigBlk', 'SigCgt')):
        note('mask', line.split()[0], line.split()[1])
link = Link()
link.ready()
if len(open(os.environ['NOTES']).read().split('mask ')) > 4:
    note('again')
    link.work()
die()";
        let mut init = stage
            .worker(script)
            .with("OJS_RESTART", "always")
            .through(&["bash", "-c", &format!("{ignored}exec \"$@\""), "bash"])
            .start();
        init.notes_line("again");
        let notes = init.notes();
        let masks: Vec<_> = notes.iter().filter(|line| line.starts_with("mask ")).collect();
        assert_eq!(masks.len(), 6, "{notes:?}");
        assert_eq!(masks[..3], masks[3..]);
        init.stops();
    }
}

#[test]
fn a_recycled_worker_has_the_directory_the_streams_and_the_descriptors_of_the_first_one() {
    for restart in ["never", "always"] {
        let stage = Stage::new();
        let script = "
files = [os.fstat(number) for number in (0, 1, 9)]
note('has', os.getcwd(), *[file.st_ino for file in files])
link = Link()
link.ready()
link.work()";
        let mut init = stage
            .worker(script)
            .with_all(&[("OJS_RESTART", restart), ("OJS_WORKER_MAX_JOBS", "1")])
            .through(&[
                "sh",
                "-c",
                "cd /tmp && exec \"$@\" < /etc/passwd > /dev/full 9< /etc/group",
                "sh",
            ])
            .start();
        let of_each = || -> Vec<String> {
            let notes = init.notes().into_iter();
            notes.filter(|line| line.starts_with("has ")).collect()
        };
        for (number, job) in (1..=3).enumerate() {
            let before = of_each().len();
            stage.enqueue([job]);
            assert!(wait_until(PATIENCE, || of_each().len() > before), "{}", init.story());
            // A job that comes earlier may be the old one's.
            let recycled = || init.log().matches("the worker was recycled in ").count();
            assert!(wait_until(PATIENCE, || recycled() > number), "{}", init.story());
        }
        let of_each = of_each();
        assert!(of_each[0].starts_with("has /tmp "), "{of_each:?}");
        assert!(of_each.iter().all(|one| *one == of_each[0]), "{restart}: {of_each:?}");
        init.stops();
    }
}

/// Execs the words behind it with a terminal on standard input, whose other end stays open.
const ON_A_TERMINAL: &str = "import os, sys
other, terminal = os.openpty()
os.set_inheritable(other, True)
os.dup2(terminal, 0)
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_worker_does_not_read_from_the_terminal_that_the_init_was_started_on() {
    let stage = Stage::new();
    let script = "note('input', os.readlink('/proc/self/fd/0')); link = Link(); link.ready(); link.work()";
    let mut init = stage.worker(script).through(&["python3", "-c", ON_A_TERMINAL]).start();
    assert_eq!(init.noted("input"), "/dev/null");
    init.stops();
}
