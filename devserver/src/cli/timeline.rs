//! `ojs-devserver timeline`

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::backend::BackendArgs;
use super::client::{Client, parse};
use super::failure::Failure;
use crate::Event;
use crate::timeline::{Mark, Picture, Record, View};

/// How many events are asked for at once.
const PAGE: usize = 10_000;

/// Most pages: a busy server always has new events.
const MAX_PAGES: usize = 100;

/// Largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// Columns of the picture without a terminal.
const COLUMNS: usize = 80;

/// Widest default picture, in columns: on longer rows the eye loses its place.
const MAX_COLUMNS: usize = 160;

#[derive(Debug, Args)]
pub(super) struct Timeline {
    /// Draw this record instead of what a server has seen: JSON lines as --save writes them, or
    /// what GET /dev/events answers; - is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the record there, one JSON object a line, marks included
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the picture there as SVG, instead of text on standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw from this time on, in milliseconds since the start of the server
    #[arg(long, value_name = "MS", value_parser = millis, allow_negative_numbers = true)]
    from: Option<f64>,
    /// Draw until this time
    #[arg(long, value_name = "MS", value_parser = millis, allow_negative_numbers = true)]
    to: Option<f64>,
    /// Only this worker and its jobs
    #[arg(long, value_name = "ID")]
    worker: Option<String>,
    /// Draw that something happened then: 1234.5=SIGTERM; can be repeated
    #[arg(long = "mark", value_name = "MS=TEXT", value_parser = mark)]
    marks: Vec<Mark>,
    #[command(flatten)]
    backend: BackendArgs,
}

fn millis(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "a time is milliseconds since the start of the server, such as 1234.5".to_owned())
}

fn mark(text: &str) -> Result<Mark, String> {
    let (ms, what) = text
        .split_once('=')
        .ok_or("a mark is a time, = and a text, such as 1234.5=SIGTERM")?;
    Ok(Mark::new(millis(ms)?, what))
}

/// Draws the record of a server or of a file.
pub(super) fn run(timeline: &Timeline, out: &mut impl Write) -> Result<(), Failure> {
    if let (Some(from), Some(to)) = (timeline.from, timeline.to)
        && from >= to
    {
        return Err(format!("nothing is between --from {from} and --to {to}: the first has to be less").into());
    }
    let mut record = match &timeline.input {
        Some(file) => Record::read(&read(file)?).map_err(|error| format!("cannot use {}: {error}", file.display()))?,
        None => fetch_record(&Client::new(&timeline.backend)?)?,
    };
    record.marks.extend(timeline.marks.iter().cloned());
    if let Some(file) = &timeline.save {
        write(file, &record.write(), out)?;
    }
    if let Some(worker) = &timeline.worker {
        check_worker(&record.events, worker)?;
    }
    let view = View {
        from: timeline.from,
        to: timeline.to,
        worker: timeline.worker.clone(),
    };
    let picture = Picture::of(&record.events, &record.marks, &view);
    match &timeline.svg {
        Some(file) => write(file, &picture.svg(), out),
        None => Ok(out.write_all(show(&picture).as_bytes()).and_then(|()| out.flush())?),
    }
}

/// The picture as the terminal can show it.
fn show(picture: &Picture) -> String {
    let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let columns = columns.map_or(COLUMNS, |columns| columns.min(MAX_COLUMNS));
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb {
        picture.painted_text(columns)
    } else {
        picture.text(columns)
    }
}

#[derive(Deserialize)]
struct EventsPage {
    events: Vec<Event>,
    last: u64,
}

/// All events that a server still has.
fn fetch_record(client: &Client) -> Result<Record, String> {
    let mut record = Record::default();
    let mut after = 0;
    for _ in 0..MAX_PAGES {
        let body = client.get(&format!("/dev/events?after={after}&limit={PAGE}"))?;
        let page: EventsPage = parse(&body)?;
        let is_all = page.events.len() < PAGE;
        record.events.extend(page.events);
        after = page.last;
        if is_all {
            break;
        }
    }
    Ok(record)
}

fn read(file: &Path) -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", file.display());
    let mut text = String::new();
    let mut source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(fs::File::open(file).map_err(cannot)?)
    };
    let most = MAX_RECORD_BYTES + 1;
    let length = source.by_ref().take(most).read_to_string(&mut text).map_err(cannot)?;
    if length as u64 == most {
        return Err(format!(
            "{} has more than {} MiB",
            file.display(),
            MAX_RECORD_BYTES >> 20
        ));
    }
    Ok(text)
}

fn write(file: &Path, text: &str, out: &mut impl Write) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(writeln!(out, "wrote {}", file.display())?)
}

/// A worker that is not there would leave an empty picture.
fn check_worker(events: &[Event], worker: &str) -> Result<(), String> {
    /// How many of the others are named.
    const NAMED: usize = 10;
    let known: std::collections::BTreeSet<&str> = events.iter().filter_map(|event| event.worker.as_deref()).collect();
    if known.contains(worker) {
        return Ok(());
    }
    let named: Vec<&str> = known.iter().copied().take(NAMED).collect();
    let more = if known.len() > NAMED { ", and more" } else { "" };
    let known = if named.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}{more}", named.join(", "))
    };
    Err(format!("the record has no worker '{worker}': {known}"))
}
