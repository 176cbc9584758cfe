//! Lines of a script that are nearly right. Each one is an error, because a script that plays
//! something else than a person reads promises nothing.

use libtest_mimic::Failed;

use crate::play;

/// The script before the line: everything that the lines speak of is there.
const BEGIN: &str = "backend answers registrations
given worker started as 100
given holder 1 comes with 100, waits for answers
given holder 2 comes, waits for answers
1.000    holder 1: wants 1 as pull 1, from mail
1.100    backend: fetch -> jobs job-1
1.200    holder 1: wants 1 as pull 2, from mail
";

/// Lines with one mistake each: a word too many, too few, or another one.
const LINES: &[&str] = &[
    "   with concurrency 2",
    "backend heartbeats",
    "show logs",
    "hide heartbeat",
    "with once more",
    "with tell_worker true",
    "2.000    holder 1: beats job-1",
    "2.000    holder 1: beats with [job-1] and more",
    "2.000    holder 1: garbage in",
    "2.000    holder 1: unknown frame",
    "2.000    holder 1: heartbeat job-1 job-2",
    "2.000    holder 1: ack",
    "2.000    holder 1: ready for 2, ping pong",
    "2.000    holder 1: wants 1 as pull 3, of mail",
    "2.000    holder 3 come, hears nothing",
    "2.000    holder 3 comes for 100, waits for answers",
    "2.000    process 100",
    "2.000    memory 5",
    "2.000    client 1 asks wait 20s",
    "2.000    client 1 asks wait until idle 20s",
    "2.000    the backend is away",
    "2.000    the backend always answers fetch -> no job",
    "2.000    backend: fetch -> extendedjob-1",
    "2.000    backend: fetch -> jobs job-2(crashed twice)",
    "2.000    backend: fetch -> it is active by",
    "2.000    backend: fetch -> ok without a list",
];

pub fn are_errors() -> Result<(), Failed> {
    let at = format!("line {}: ", BEGIN.lines().count() + 1);
    play::play(BEGIN)?;
    let faults: Vec<String> = LINES
        .iter()
        .filter_map(|line| match play::play(&format!("{BEGIN}{line}\n")) {
            Ok(_) => Some(format!("understood: `{line}`")),
            // Here the answer is wrong, and not the request.
            Err(wrong) if !wrong.starts_with(&at) || wrong.contains("nobody has asked") => {
                Some(format!("`{line}`: {wrong}"))
            }
            Err(_) => None,
        })
        .collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n").into())
    }
}
