//! From what happened to rows: what lasts, and what happened at one moment, each still with its time.

use std::collections::BTreeMap;

use super::axis::{Axis, tame};
use super::mark::Mark;
use super::story::{Beat, Delivery, Job, Story, Trouble, Worker, WorkerEnd};
use super::symbol::{Ending, Harm, Lasting, Said, Symbol};
use super::view::View;
use super::words::{clean, count, tail};

/// Letters by which workers are told apart when there are several.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What stands for workers beyond these.
const NO_LETTER: char = '*';

/// What the moments are numbered with.
pub(super) const NUMBERS: &str = "123456789abcdefghijklmnopqrstuvwxyz";

/// Everything that a picture shows, before anybody knows how wide it is.
#[derive(Debug)]
pub(super) struct Rows {
    pub axis: Axis,
    pub heading: String,
    pub moments: Vec<Moment>,
    /// How many moments have no number left.
    pub more_moments: usize,
    pub workers: Vec<Row>,
    pub fetch: Row,
    pub troubles: Vec<Row>,
    pub jobs: Vec<JobRow>,
}

/// A line of the picture.
#[derive(Debug)]
pub(super) struct Row {
    pub name: String,
    pub spans: Vec<Span>,
    pub glyphs: Vec<Glyph>,
}

/// The line of a job, and how it stands with it.
#[derive(Debug)]
pub(super) struct JobRow {
    pub row: Row,
    /// How its last delivery ended; `None`: it goes on.
    pub end: Option<Ending>,
    /// Whether it is one of those that matter most: not simply fetched once and acked.
    pub is_telling: bool,
    pub first: f64,
    pub last: f64,
}

/// Something that lasts.
#[derive(Debug)]
pub(super) struct Span {
    pub from: f64,
    pub to: f64,
    pub lasting: Lasting,
    pub title: String,
}

/// Something at one moment.
#[derive(Debug)]
pub(super) struct Glyph {
    pub ms: f64,
    pub symbol: Symbol,
    pub title: String,
}

/// A moment that matters to a shutdown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moment {
    pub ms: f64,
    pub text: String,
    /// Whether it is from outside.
    pub is_mark: bool,
}

impl Rows {
    /// The rows of these events and marks.
    pub fn of(story: &Story, marks: &[Mark], view: &View) -> Self {
        let moments = moments(story, marks);
        let of_marks = |pick: fn(f64, f64) -> f64, start: f64| moments.iter().map(|moment| moment.ms).fold(start, pick);
        let from = view.from.unwrap_or_else(|| of_marks(f64::min, story.first));
        let to = view.to.unwrap_or_else(|| of_marks(f64::max, story.last));
        let axis = Axis::new(from, to);
        let is_alone = story.workers.len() <= 1;
        let workers = story.workers.iter().enumerate();
        let workers: Vec<Row> = workers
            .map(|(index, worker)| worker_row(index, worker, is_alone))
            .collect();
        let jobs = story.jobs.iter().map(|job| job_row(story, &axis, job, is_alone));
        let jobs: Vec<JobRow> = jobs.filter(|job| job.row.is_seen(&axis)).collect();
        let (moments, more_moments) = numbered(moments, &axis);
        let heading = format!(
            "{} to {}: {}, {}, {}",
            axis.time(axis.from),
            axis.time(axis.to),
            count(story.events, "event"),
            count(workers.len(), "worker"),
            count(jobs.len(), "job"),
        );
        let seen = |row: &Row| row.is_seen(&axis);
        Self {
            heading,
            moments,
            more_moments,
            workers: workers.into_iter().filter(seen).collect(),
            fetch: fetch_row(story),
            troubles: trouble_rows(story, &axis).into_iter().filter(seen).collect(),
            jobs,
            axis,
        }
    }
}

impl Row {
    fn new(name: &str) -> Self {
        Self {
            name: clean(name),
            spans: Vec::new(),
            glyphs: Vec::new(),
        }
    }

    fn span(&mut self, from: f64, to: f64, lasting: Lasting, title: &str) {
        self.spans.push(Span {
            from,
            to,
            lasting,
            title: clean(title),
        });
    }

    fn glyph(&mut self, ms: f64, symbol: Symbol, title: &str) {
        self.glyphs.push(Glyph {
            ms,
            symbol,
            title: clean(title),
        });
    }

    /// Whether any of it is on the axis.
    fn is_seen(&self, axis: &Axis) -> bool {
        let span = |span: &Span| span.from <= axis.to && span.to >= axis.from;
        self.spans.iter().any(span) || self.glyphs.iter().any(|glyph| axis.has(glyph.ms))
    }
}

fn letter(index: usize) -> char {
    LETTERS.chars().nth(index).unwrap_or(NO_LETTER)
}

fn worker_row(index: usize, worker: &Worker, is_alone: bool) -> Row {
    let mut row = if is_alone {
        Row::new(&worker.id)
    } else {
        Row::new(&format!("{} {}", letter(index), worker.id))
    };
    for (from, to) in &worker.lives {
        row.span(*from, *to, Lasting::Known, &format!("worker {}", worker.id));
    }
    for ms in &worker.registered {
        row.glyph(*ms, Symbol::Registered, "register");
    }
    for beat in &worker.beats {
        row.glyph(beat.ms, Symbol::Beat(beat.said), &beat_title(beat));
    }
    for (ms, end) in &worker.ends {
        match end {
            WorkerEnd::Deregistered => row.glyph(*ms, Symbol::Deregistered, "deregister"),
            WorkerEnd::Dead => row.glyph(*ms, Symbol::Dead, "declared dead"),
            WorkerEnd::Tried(harm) => row.glyph(*ms, Symbol::Harmed(*harm), "deregister"),
        }
    }
    row
}

fn beat_title(beat: &Beat) -> String {
    let said = match beat.said {
        Said::Running => "running",
        Said::Quiet => "quiet",
        Said::Terminate => "terminate",
        Said::Other => "no state",
    };
    format!("heartbeat: {said}, {}", count(beat.jobs, "job"))
}

fn fetch_row(story: &Story) -> Row {
    let mut row = Row::new("FETCH");
    for fetch in &story.fetches {
        row.glyph(
            fetch.ms,
            Symbol::Fetched(fetch.jobs),
            &format!("FETCH: {}", count(fetch.jobs, "job")),
        );
    }
    row
}

fn trouble_rows(story: &Story, axis: &Axis) -> Vec<Row> {
    let mut rows = Vec::new();
    if !story.outages.is_empty() {
        let mut row = Row::new("connect");
        for (from, until) in &story.outages {
            row.span(*from, until.unwrap_or(axis.to), Lasting::Closed, "nobody can connect");
        }
        rows.push(row);
    }
    for (operation, troubles) in &story.troubles {
        let mut row = Row::new(operation);
        for trouble in troubles {
            let goes_on = story.last.max(axis.to);
            waits(&mut row, trouble, trouble.settled.unwrap_or(goes_on));
            if trouble.settled.is_none() && trouble.arrived <= axis.to {
                row.glyph(goes_on, Symbol::Open, "hangs");
            }
        }
        rows.push(row);
    }
    rows
}

/// A request, from its arrival until it was over.
fn waits(row: &mut Row, request: &Trouble, until: f64) {
    if until > request.arrived {
        row.span(request.arrived, until, Lasting::Waiting, &request.about);
    }
    let Some(harm) = request.harm else { return };
    row.glyph(request.arrived, Symbol::Harmed(harm), &request.about);
    if harm == Harm::Delay {
        let end = if request.is_answered {
            Symbol::Answered
        } else {
            Symbol::Left
        };
        row.glyph(until, end, &request.about);
    }
}

fn job_row(story: &Story, axis: &Axis, job: &Job, is_alone: bool) -> JobRow {
    let mut row = Row::new(&job.id);
    for delivery in &job.deliveries {
        deliver(&mut row, story, axis, delivery, is_alone);
    }
    let end = job.deliveries.last().map(|delivery| delivery.end.as_ref());
    let over = end.flatten().map(|(ms, _, _)| *ms);
    for report in &job.reports {
        // What nobody answers is of no more interest when the job is over.
        let until = report.settled.or(over.filter(|over| *over >= report.arrived));
        waits(&mut row, report, until.unwrap_or(axis.to));
    }
    let end = end.flatten().map(|(_, end, _)| Ending::from(*end));
    let is_harmed = job.reports.iter().any(|report| report.harm.is_some());
    let times = || {
        row.spans
            .iter()
            .flat_map(|span| [span.from, span.to])
            .chain(row.glyphs.iter().map(|glyph| glyph.ms))
    };
    JobRow {
        end,
        is_telling: end != Some(Ending::Acked) || is_harmed || job.deliveries.len() > 1,
        first: times().fold(f64::INFINITY, f64::min),
        last: times().fold(f64::NEG_INFINITY, f64::max),
        row,
    }
}

fn deliver(row: &mut Row, story: &Story, axis: &Axis, delivery: &Delivery, is_alone: bool) {
    let from = delivery.from.unwrap_or(story.first);
    let to = delivery.end.as_ref().map_or(story.last.max(axis.to), |(ms, _, _)| *ms);
    let worker = delivery.worker.and_then(|index| story.workers.get(index));
    let whose = worker.map(|worker| format!(" by {}", worker.id)).unwrap_or_default();
    let title = format!("{}, reserved for {:.3} ms{whose}", row.name, to - from);
    row.span(from, to, Lasting::Reserved, &title);
    if delivery.from.is_some() {
        let mark = delivery.worker.map(letter).filter(|_| !is_alone);
        row.glyph(from, Symbol::Began(mark), &format!("fetched{whose}"));
    }
    match &delivery.end {
        Some((ms, end, state)) => {
            let ending = Ending::from(*end);
            let state = state.as_ref().map(|state| format!(": {state}")).unwrap_or_default();
            row.glyph(*ms, Symbol::Ended(ending), &format!("{}{state}", ending.look().1));
        }
        None => row.glyph(to, Symbol::Open, "goes on"),
    }
}

/// The moments that matter, oldest first.
fn moments(story: &Story, marks: &[Mark]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = marks
        .iter()
        .map(|mark| Moment {
            ms: tame(mark.ms),
            text: clean(&mark.text),
            is_mark: true,
        })
        .collect();
    for (index, worker) in story.workers.iter().enumerate() {
        // The only one is not named again: names can be long, and the line is short.
        let whose = match letter(index) {
            _ if story.workers.len() == 1 => String::new(),
            NO_LETTER => format!("{}: ", tail(&clean(&worker.id), 12)),
            letter => format!("{letter}: "),
        };
        let told = told(worker).into_iter().map(|(ms, what)| Moment {
            ms,
            text: format!("{whose}{what}"),
            is_mark: false,
        });
        moments.extend(told);
    }
    moments.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    moments
}

/// What matters about a worker.
fn told(worker: &Worker) -> Vec<(f64, String)> {
    let mut told = Vec::new();
    let mut said = Said::Running;
    let mut seen = Vec::new();
    for beat in &worker.beats {
        if beat.said != said && beat.said != Said::Other {
            let first = if seen.contains(&beat.said) { "" } else { "first " };
            told.push((beat.ms, format!("{first}heartbeat that says {}", word(beat.said))));
            seen.push(beat.said);
            said = beat.said;
        }
    }
    let mut before = f64::NEG_INFINITY;
    for (ms, end) in &worker.ends {
        let of_this_life = |beat: &&Beat| beat.ms > before && beat.ms <= *ms;
        let last = worker.beats.iter().rev().find(of_this_life);
        told.extend(last.map(|beat| (beat.ms, format!("last heartbeat, says {}", word(beat.said)))));
        let what = match end {
            WorkerEnd::Deregistered => "deregister".to_owned(),
            WorkerEnd::Dead => "declared dead".to_owned(),
            WorkerEnd::Tried(Harm::Status(status)) => format!("deregister, answered with {status}"),
            WorkerEnd::Tried(_) => "deregister, no answer".to_owned(),
        };
        told.push((*ms, what));
        before = *ms;
    }
    told
}

fn word(said: Said) -> &'static str {
    match said {
        Said::Running => "running",
        Said::Quiet => "quiet",
        Said::Terminate => "terminate",
        Said::Other => "nothing",
    }
}

/// As many of the moments on the axis as there are numbers: those from outside before the others.
fn numbered(moments: Vec<Moment>, axis: &Axis) -> (Vec<Moment>, usize) {
    let mut seen: Vec<Moment> = moments.into_iter().filter(|moment| axis.has(moment.ms)).collect();
    let more = seen.len().saturating_sub(NUMBERS.len());
    seen.sort_by_key(|moment| !moment.is_mark);
    seen.truncate(NUMBERS.len());
    seen.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    (seen, more)
}

/// So many jobs at most, in the order of their beginnings, and what to say of the others: those that matter most are
/// drawn, and of equal ones the last.
pub(super) fn chosen(jobs: &[JobRow], most: usize) -> (Vec<&JobRow>, Option<String>) {
    let mut sorted: Vec<(usize, &JobRow)> = jobs.iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| {
        let telling = b.is_telling.cmp(&a.is_telling);
        telling.then(b.last.total_cmp(&a.last))
    });
    let others = sorted.split_off(most.min(sorted.len()));
    sorted.sort_by(|(a, first), (b, second)| first.first.total_cmp(&second.first).then(a.cmp(b)));
    let sorted = sorted.into_iter().map(|(_, job)| job).collect();
    if others.is_empty() {
        return (sorted, None);
    }
    let mut ends: BTreeMap<Option<Ending>, usize> = BTreeMap::new();
    for (_, job) in &others {
        *ends.entry(job.end).or_default() += 1;
    }
    let ends = ends.into_iter().map(|(end, number)| {
        let what = end.map_or("not over", |end| end.look().1);
        format!("{number} {what}")
    });
    let ends = ends.collect::<Vec<_>>().join(", ");
    (sorted, Some(format!("and {}: {ends}", count(others.len(), "more job"))))
}
