//! Jobs in strange surroundings of ojs-init: signals, umask, mounts,
//! filters, users.

use std::path::Path;

use serde_json::json;

use super::{as_user, enqueue, handler, nobody_is_left, program, runner, without};
use crate::backend::Outcome;
use crate::stage::{Init, Stage};
use crate::support::proc::descriptors;
use crate::support::under_test;

fn acks(stage: &Stage, init: &Init, result: &serde_json::Value) {
    stage.wait_for_outcomes();
    let acked = Outcome::Acked(Some(result.clone()));
    assert_eq!(stage.outcomes("j1"), [acked], "{}", init.story());
}

#[test]
fn no_signal_is_ignored_or_blocked_in_a_job_whatever_started_us() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // 32 and 33 are the C library's; the interpreter cannot be made to ignore them.
    let script = "import os, signal, sys
for number in range(1, 65):
    if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
os.execvp(sys.argv[1], sys.argv[1:])";
    let words = ["awk", "/^Sig(Ign|Blk|Cgt)/ { print $2 }", "/proc/self/status"];
    let mut init = program(&stage, &words).through(&["python3", "-c", script]).start();
    let none = "0".repeat(16);
    acks(&stage, &init, &json!(format!("{none}\n{none}\n{none}")));
    init.stops();
}

#[test]
fn a_job_has_the_niceness_of_exec_nice_and_else_that_of_the_init() {
    for (nice, expected) in [("", 3), ("5", 5), ("0", 0)] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let start = program(&stage, &["nice"]).with("OJS_EXEC_NICE", nice);
        let mut init = start.through(&["nice", "-n", "3"]).start();
        acks(&stage, &init, &json!(expected));
        init.stops();
    }
}

#[test]
fn a_job_opens_its_own_output_by_name_also_as_a_user_of_its_own() {
    for output in ["result", "log"] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let script = "set -e
echo to-stderr > /dev/stderr
echo by-tee | tee /dev/stderr > /proc/self/fd/1
python3 -c 'open(\"/dev/stdout\", \"w\").write(\"by python\")'
cat /dev/stdin | wc -c >&2";
        let mut init = handler(&stage, script)
            .with_all(&[("OJS_EXEC_USERS", "81260-81269"), ("OJS_EXEC_OUTPUT", output)])
            .start();
        stage.wait_for_outcomes();
        let expected = (output == "result").then(|| json!("by-tee\nby python"));
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(expected)], "{}", init.story());
        init.logs("[job j1] to-stderr");
        init.stops();
    }
}

#[test]
fn a_job_uses_its_temporary_directory_whatever_the_umask_is() {
    for mask in ["0777", "0300", "0077"] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let script = r#"umask 077; echo x > "$TMPDIR/file" && cat "$TMPDIR/file"; stat -c %a "$TMPDIR" >&2"#;
        let through = format!("umask {mask}; exec \"$@\"");
        let start = handler(&stage, script).through(&["sh", "-c", &through, "sh"]);
        let mut init = as_user(start, "54377").start();
        acks(&stage, &init, &json!("x"));
        init.logs("[job j1] 700");
        init.stops();
    }
}

#[test]
fn what_a_job_mounts_over_its_temporary_directory_is_not_removed_with_it() {
    let stage = Stage::new();
    let data = stage.at("data");
    std::fs::create_dir_all(data.join("sub/deep/deeper")).unwrap();
    let files = ["keep", "sub/file", "sub/deep/file", "sub/deep/deeper/file"].map(|file| data.join(file));
    for file in &files {
        std::fs::write(file, "x").unwrap();
    }
    enqueue(&stage, "over", "over", &json!([]), "");
    enqueue(&stage, "below", "below", &json!([]), "");
    let script = r#"echo x > "$TMPDIR/own"
[ "$OJS_JOB_TYPE" = over ] || { mkdir -p "$TMPDIR/a/mounted"; exec mount --bind "$NOTES.data" "$TMPDIR/a/mounted"; }
mount --bind "$NOTES.data" "$TMPDIR""#;
    std::os::unix::fs::symlink(&data, stage.at("init.notes.data")).unwrap();
    let mut init = handler(&stage, script)
        .with("TMPDIR", stage.at(""))
        .through(&["unshare", "-m", "--"])
        .start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("over"), [Outcome::Acked(None)], "{}", init.story());
    assert_eq!(stage.outcomes("below"), [Outcome::Acked(None)], "{}", init.story());
    init.logs("something is mounted over it");
    init.logs("something is mounted over \"mounted\" in it");
    init.stops();
    assert!(files.iter().all(|file| file.exists()), "{}", init.story());
}

#[test]
fn without_standard_streams_of_ours_jobs_run_and_no_line_of_the_log_reaches_the_worker_socket() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "echo to-stderr >&2; echo done")
        .through(&["sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"])
        .start();
    acks(&stage, &init, &json!("done"));
    let runner = runner(&mut init);
    let found: Vec<_> = (0..3).map(|number| descriptors(runner).remove(&number)).collect();
    assert!(
        found
            .iter()
            .all(|found| found.as_deref() == Some(Path::new("/dev/null"))),
        "{found:?}"
    );
    init.stops();
}

/// A job that says which descriptors it has besides its own.
const OTHERS: &str =
    "n=4; while [ $n -lt 64 ]; do [ ! -e /proc/$$/fd/$n ] || echo has $n; n=$((n + 1)); done; echo end";

/// A shell that opens a descriptor for what it execs.
const HOLDS_ONE: [&str; 4] = ["sh", "-c", "exec \"$@\" 9< /dev/null", "sh"];

#[test]
fn a_job_has_no_descriptor_that_the_init_was_started_with() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, OTHERS).through(&HOLDS_ONE).start();
    acks(&stage, &init, &json!("end"));
    init.stops();
}

#[test]
fn a_job_has_no_descriptor_that_the_init_was_started_with_also_where_close_range_does_not_exist() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let start = handler(&stage, OTHERS).through(&without("close_range"));
    let mut init = start.through(&HOLDS_ONE).start();
    acks(&stage, &init, &json!("end"));
    init.stops();
}

#[test]
fn the_kernel_takes_a_job_before_the_init_whatever_the_score_of_the_init_is() {
    let least = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let least: i32 = least.trim().parse().unwrap();
    // A score may be raised, and only a privileged process may lower it.
    for own in [least, least.midpoint(950), 950] {
        let stage = Stage::new();
        stage.enqueue([1]);
        // The runner writes it when the job runs already.
        let script = format!(
            "until read -r score < /proc/$$/oom_score_adj && [ \"$score\" != {own} ]; do sleep 0.01; done; echo \"$score\""
        );
        let through = format!("echo {own} > /proc/self/oom_score_adj && exec \"$@\"");
        let mut init = handler(&stage, &script).through(&["sh", "-c", &through, "sh"]).start();
        acks(&stage, &init, &json!((own + 500).min(1000)));
        init.stops();
    }
}

/// Starts what follows under a filter that answers this system call with this error.
fn refusing(call: i64, error: i32) -> Vec<String> {
    // The filter: load the number; if it is this one, return the error, else allow.
    let script = format!(
        "import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, {call}), (0x06, 0, 0, 0x50000 | {error}), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *rule) for rule in rules))
filter = struct.pack('=Hxxxxxx', len(rules)) + struct.pack('=Q', ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])"
    );
    ["python3".to_owned(), "-c".to_owned(), script].into()
}

#[test]
fn a_job_has_its_input_where_there_are_no_files_in_memory() {
    for error in [libc::EPERM, libc::ENOSYS] {
        let stage = Stage::new();
        enqueue(&stage, "j1", "t", &json!(["x".repeat(300 << 10)]), "");
        let filter = refusing(libc::SYS_memfd_create, error);
        let filter: Vec<&str> = filter.iter().map(String::as_str).collect();
        let mut init = handler(
            &stage,
            "cat /dev/stdin > /dev/null; cat | wc -c; \"$OJS_INIT\" job arg 0 | wc -c",
        )
        .with("OJS_EXEC_INPUT", "args")
        .through(&filter)
        .start();
        acks(
            &stage,
            &init,
            &json!(format!("{}\n{}", (300 << 10) + 4, (300 << 10) + 1)),
        );
        init.stops();
    }
}

#[test]
fn directories_for_jobs_are_in_memory_where_the_usual_place_cannot_be_written() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"case $TMPDIR in /dev/shm/*) echo x > "$TMPDIR/file" && cat "$TMPDIR/file" ;; esac"#;
    let mut init = handler(&stage, script).with("TMPDIR", "/proc/nowhere").start();
    acks(&stage, &init, &json!("x"));
    init.logs("no directories for jobs can be made in /proc/nowhere");
    init.stops();
}

#[test]
fn where_nothing_can_be_given_to_jobs_there_is_no_start() {
    let stage = Stage::new();
    let filter = refusing(libc::SYS_memfd_create, libc::EPERM);
    let filter: Vec<&str> = filter.iter().map(String::as_str).collect();
    let mount = "mount -t tmpfs -o ro none /dev/shm && exec \"$@\"";
    let through = [&["unshare", "-m", "--", "sh", "-c", mount, "sh"][..], &filter].concat();
    let mut init = handler(&stage, "true")
        .with("TMPDIR", "/proc/nowhere")
        .through(&through)
        .start();
    init.ends_with(70);
    init.logs("cannot give jobs anything to read");
}

/// Starts what follows without `/proc`.
const WITHOUT_PROC: [&str; 7] = [
    "unshare",
    "-m",
    "--",
    "sh",
    "-c",
    "while umount -l /proc 2> /dev/null; do :; done; [ ! -e /proc/self ] && exec \"$@\"",
    "sh",
];

/// Starts what follows with the `/proc` of the namespace outside, in which its processes have other
/// numbers.
const WITH_A_STRANGE_PROC: [&str; 7] = [
    "unshare",
    "-m",
    "--",
    "sh",
    "-c",
    "umount -l /proc && read -r own rest < /proc/self/stat && [ \"$own\" != $$ ] && exec \"$@\"",
    "sh",
];

#[test]
fn jobs_run_where_proc_is_not_mounted() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "echo \"$OJS_INIT\"").through(&WITHOUT_PROC).start();
    acks(&stage, &init, &json!(under_test::init()));
    init.stops();
}

#[test]
fn what_a_job_leaves_behind_is_reaped_where_proc_is_not_mounted() {
    is_reaped(&WITHOUT_PROC);
}

#[test]
fn what_a_job_leaves_behind_is_reaped_where_proc_is_that_of_another_namespace() {
    is_reaped(&WITH_A_STRANGE_PROC);
}

fn is_reaped(through: &[&str]) {
    let stage = Stage::new();
    stage.enqueue([1]);
    // The job outlives the parent of what it leaves, so the runner has adopted it by then.
    let script = "(sleep 2 > /dev/null 2>&1 3>&- &)";
    let mut init = handler(&stage, script).through(through).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    nobody_is_left(&mut init);
    assert_eq!(init.complaints(), [""; 0]);
    init.stops();
}

#[test]
fn what_a_job_with_a_user_of_its_own_leaves_behind_is_ended_where_proc_is_not_mounted() {
    ends_what_is_left_without_proc(1, &[]);
}

#[test]
fn what_a_job_with_a_user_of_its_own_leaves_behind_is_ended_also_where_there_are_no_pidfds() {
    // Each job is one chance for the process that kills to be late.
    ends_what_is_left_without_proc(30, &without("pidfd_open"));
}

fn ends_what_is_left_without_proc(jobs: u32, without: &[&str]) {
    let stage = Stage::new();
    stage.enqueue(1..=jobs);
    let script = "setsid --fork sleep 300 < /dev/null > /dev/null 2>&1 3>&-";
    let mut init = handler(&stage, script)
        .with("OJS_EXEC_USERS", "81270-81329")
        .with("OJS_CONCURRENCY", jobs.to_string())
        .through(without)
        .through(&WITHOUT_PROC)
        .start();
    for number in 1..=jobs {
        stage.becomes(&format!("j{number}"), &[Outcome::Acked(None)]);
    }
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn that_the_memory_of_jobs_is_not_limited_where_proc_is_not_mounted_is_a_warning() {
    let stage = Stage::new();
    let start = handler(&stage, "true").with("OJS_EXEC_MAX_MEMORY", "100MiB");
    let mut init = start.through(&WITHOUT_PROC).start();
    init.logs("exec.max_memory: the memory of jobs cannot be read");
    init.stops();
}
