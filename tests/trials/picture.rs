//! The remains of a trial that failed: what was promised, who did what when as a picture, and
//! every line of it.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use ojs_devserver::timeline::{Mark, Picture, Record};

use super::course::Story;
use super::ends::Ends;
use super::plan::Plan;
use super::promises::Broken;
use crate::support::sys::Ended;

/// Columns of the picture as text.
const COLUMNS: usize = 120;

/// A limit that is further from the exit than that, in milliseconds, would only make the picture
/// small.
const NEAR: f64 = 1000.0;

/// Tells everything, and keeps it in files.
pub fn tell(plan: &Plan, story: &Story, broken: &[Broken], dir: &Path) -> String {
    let marks = marks(plan, story);
    let picture = Picture::new(&story.events, &marks);
    let mut text = format!("\n{plan}\n");
    for broken in broken {
        let _ = writeln!(text, "  BROKEN {broken}");
    }
    let _ = writeln!(text, "  again: make trials ARGS='{}'\n", plan.again());
    text.push_str(&picture.text(COLUMNS));
    text.push('\n');
    raw(plan, story, &mut text);
    let record = Record {
        events: story.events.clone(),
        marks,
    };
    match keep(plan, dir, &text, &picture.svg(), &record.write()) {
        Ok(path) => {
            let _ = writeln!(text, "  kept: {}.txt, .svg and .jsonl", path.display());
        }
        Err(error) => {
            let _ = writeln!(text, "  not kept: {}: {error}", dir.display());
        }
    }
    text
}

fn keep(plan: &Plan, dir: &Path, text: &str, svg: &str, record: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let name = format!("{}-{}", plan.kind(), plan.number);
    for (extension, content) in [("txt", text), ("svg", svg), ("jsonl", record)] {
        fs::write(dir.join(format!("{name}.{extension}")), content)?;
    }
    Ok(dir.join(name))
}

/// The events that the backend cannot have seen.
fn marks(plan: &Plan, story: &Story) -> Vec<Mark> {
    let ends = Ends::of(plan, story);
    let asked = &story.asked;
    let name = |number: i32| Signal::try_from(number).map_or_else(|_| number.to_string(), |signal| signal.to_string());
    let mut marks: Vec<Mark> = asked
        .sent
        .iter()
        .map(|sent| Mark::new(sent.ms, &name(sent.signal)))
        .collect();
    marks.extend(
        asked
            .directed
            .map(|ms| Mark::new(ms, "the backend is told to say terminate")),
    );
    for command in &asked.commands {
        let words = command.words.join(" ");
        marks.push(Mark::new(command.began, &words));
        let said = command.came.said.trim_end();
        marks.push(Mark::new(command.ended, &format!("end of {words}: {said}")));
    }
    let end = story.ended.map(|(ms, _)| ms);
    if let Some((ms, ended)) = story.ended {
        let how = match ended {
            Ended::Code(status) => format!("exit {status}"),
            Ended::Signal(number) => format!("killed by {}", name(number)),
        };
        let left = ends
            .limit
            .map_or_else(String::new, |limit| format!(", {:.0} ms before the limit", limit - ms));
        marks.push(Mark::new(ms, &format!("{how}{left}")));
    }
    let is_reached = |moment: &f64| end.is_none_or(|end| *moment < end + NEAR);
    marks.extend(
        ends.deadline
            .filter(is_reached)
            .map(|ms| Mark::new(ms, "end of the drain")),
    );
    marks.extend(ends.limit.filter(is_reached).map(|ms| Mark::new(ms, "limit")));
    marks
}

/// For whoever wants to know it exactly.
fn raw(plan: &Plan, story: &Story, text: &mut String) {
    let _ = writeln!(text, "  {plan:?}");
    let _ = writeln!(text, "  asked: {:?}, ended: {:?}", story.asked, story.ended);
    for event in &story.events {
        let from = event.arrived_ms.unwrap_or(event.ms);
        let jobs: Vec<&str> = event
            .jobs
            .iter()
            .map(|job| &job[job.len().saturating_sub(4)..])
            .collect();
        let _ = writeln!(
            text,
            "  {from:8.1} {:+7.1} {:<11} {:?} {:?} {:?} {}",
            event.ms - from,
            event.operation,
            event.state,
            event.status,
            event.fault,
            jobs.join(" ")
        );
    }
    for job in &story.jobs {
        let _ = writeln!(
            text,
            "  {} {:?} {:?} {:?}",
            job.id, job.state, job.deliveries, job.errors
        );
    }
    for note in &story.notes {
        let worker = note.worker.unwrap_or_default();
        let _ = writeln!(
            text,
            "  note {:8.1} {} {} by {worker}",
            note.ms,
            note.word.name(),
            note.job
        );
    }
    text.push_str(&story.log);
}
