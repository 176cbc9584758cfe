//! Turns the story into the rows of a picture.

use std::collections::BTreeMap;

use super::axis::{Axis, since};
use super::fit::count;
use super::mark::Mark;
use super::moments::{KeyMoment, NUMBERS, letter, moments, numbered};
use super::row::Row;
use super::story::{SeenDelivery, SeenHeartbeat, SeenJob, SeenRequest, SeenWorker, Story, WorkerEnd};
use super::symbol::{Harm, ReportedState, SpanKind, Symbol, Tone, look_of_end};
use super::view::View;
use crate::store::job::End;

/// All content of a picture, independent of its width.
#[derive(Debug)]
pub(super) struct Rows {
    pub axis: Axis,
    pub heading: String,
    pub moments: Vec<KeyMoment>,
    /// The number of moments without a number, because there are too few numbers.
    pub more_moments: usize,
    pub workers: Vec<Row>,
    pub fetch: Row,
    pub troubles: Vec<Row>,
    pub jobs: Vec<JobRow>,
}

/// The row of a job, and the facts that decide whether it is drawn.
#[derive(Debug)]
pub(super) struct JobRow {
    pub row: Row,
    /// How its last delivery ended; `None`: it has not ended.
    pub end: Option<End>,
    /// Whether the job matters: it was not simply fetched once and acked.
    pub is_notable: bool,
    pub first: f64,
    pub last: f64,
}

/// A line of the picture's body.
pub(super) enum Line<'a> {
    /// The heading of the lines that follow.
    Heading(&'static str),
    /// A row that the beginning of its name identifies.
    Row(&'a Row),
    /// The row of a job: ids that were made one after another differ at the end.
    Job(&'a Row),
    /// The line about the jobs or workers that are not drawn.
    More(String),
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

    /// The body of a picture with at most this many workers and jobs.
    pub fn lines(&self, most_workers: usize, most_jobs: usize) -> Vec<Line<'_>> {
        let mut lines = vec![Line::Heading("workers")];
        lines.extend(self.workers.iter().take(most_workers).map(Line::Row));
        if let Some(more @ 1..) = self.workers.len().checked_sub(most_workers) {
            lines.push(Line::More(format!("and {}", count(more, "more worker"))));
        }
        lines.push(Line::Row(&self.fetch));
        if !self.troubles.is_empty() {
            lines.push(Line::Heading("faults and refusals"));
        }
        lines.extend(self.troubles.iter().map(Line::Row));
        let (jobs, more) = choose_jobs(&self.jobs, most_jobs);
        if !jobs.is_empty() {
            lines.push(Line::Heading("jobs"));
        }
        lines.extend(jobs.into_iter().map(|job| Line::Job(&job.row)));
        lines.extend(more.map(Line::More));
        lines
    }

    /// The moments, each with its number, its time, and how much later than the first mark it was.
    pub fn list_of_moments(&self) -> Vec<(Tone, String)> {
        let first_mark = self.moments.iter().find(|moment| moment.is_mark);
        let Some(zero) = first_mark.or(self.moments.first()) else {
            return Vec::new();
        };
        let times: Vec<String> = self.moments.iter().map(|moment| self.axis.time(moment.ms)).collect();
        let widest = times.iter().map(String::len).max().unwrap_or_default();
        let numbered = self.moments.iter().zip(NUMBERS.chars()).zip(&times);
        let mut lines: Vec<(Tone, String)> = numbered
            .map(|((moment, number), time)| {
                let since = since(moment.ms - zero.ms);
                let line = format!("{number}  {time:>widest$}  {since:>12}  {}", moment.text);
                (if moment.is_mark { Tone::Warn } else { Tone::Plain }, line)
            })
            .collect();
        if self.more_moments > 0 {
            lines.push((Tone::Dim, format!("and {}", count(self.more_moments, "more moment"))));
        }
        lines
    }
}

fn worker_row(index: usize, worker: &SeenWorker, is_alone: bool) -> Row {
    let mut row = if is_alone {
        Row::new(&worker.id)
    } else {
        Row::new(&format!("{} {}", letter(index), worker.id))
    };
    for (from, to) in &worker.lives {
        row.span(*from, *to, SpanKind::Known, &format!("worker {}", worker.id));
    }
    for ms in &worker.registered {
        row.glyph(*ms, Symbol::Registered, "register");
    }
    for beat in &worker.heartbeats {
        row.glyph(beat.ms, Symbol::Heartbeat(beat.state), &heartbeat_title(beat));
    }
    for (ms, end) in &worker.ends {
        match end {
            WorkerEnd::Deregistered => row.glyph(*ms, Symbol::Deregistered, "deregister"),
            WorkerEnd::DeclaredDead => row.glyph(*ms, Symbol::DeclaredDead, "declared dead"),
            WorkerEnd::DeregisterFailed(harm) => row.glyph(*ms, Symbol::Harmed(*harm), "deregister"),
        }
    }
    row
}

fn heartbeat_title(beat: &SeenHeartbeat) -> String {
    let said = match beat.state {
        ReportedState::Other => "no state",
        state @ (ReportedState::Running | ReportedState::Quiet | ReportedState::Terminate) => state.word(),
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
            row.span(*from, until.unwrap_or(axis.to), SpanKind::Closed, "nobody can connect");
        }
        rows.push(row);
    }
    for (operation, troubles) in &story.troubles {
        let mut row = Row::new(operation);
        for trouble in troubles {
            let goes_on = story.last.max(axis.to);
            add_request(&mut row, trouble, trouble.settled.unwrap_or(goes_on));
            if trouble.settled.is_none() && trouble.arrived <= axis.to {
                row.glyph(goes_on, Symbol::GoesOn, "hangs");
            }
        }
        rows.push(row);
    }
    rows
}

/// Adds a request, from its arrival to its end.
fn add_request(row: &mut Row, request: &SeenRequest, until: f64) {
    if until > request.arrived {
        row.span(request.arrived, until, SpanKind::Waiting, &request.about);
    }
    let Some(harm) = request.harm else { return };
    row.glyph(request.arrived, Symbol::Harmed(harm), &request.about);
    if harm == Harm::Delay {
        let end = if request.is_answered {
            Symbol::LateAnswer
        } else {
            Symbol::ClientLeft
        };
        row.glyph(until, end, &request.about);
    }
}

fn job_row(story: &Story, axis: &Axis, job: &SeenJob, is_alone: bool) -> JobRow {
    let mut row = Row::new(&job.id);
    for delivery in &job.deliveries {
        add_delivery(&mut row, story, axis, delivery, is_alone);
    }
    let end = job.deliveries.last().map(|delivery| delivery.end.as_ref());
    let over = end.flatten().map(|(ms, _, _)| *ms);
    for report in &job.reports {
        // An unanswered request no longer matters after the job's end.
        let until = report.settled.or(over.filter(|over| *over >= report.arrived));
        add_request(&mut row, report, until.unwrap_or(axis.to));
    }
    let end = end.flatten().map(|(_, end, _)| *end);
    let is_harmed = job.reports.iter().any(|report| report.harm.is_some());
    let times = || {
        row.spans
            .iter()
            .flat_map(|span| [span.from, span.to])
            .chain(row.glyphs.iter().map(|glyph| glyph.ms))
    };
    JobRow {
        end,
        is_notable: end != Some(End::Acked) || is_harmed || job.deliveries.len() > 1,
        first: times().fold(f64::INFINITY, f64::min),
        last: times().fold(f64::NEG_INFINITY, f64::max),
        row,
    }
}

fn add_delivery(row: &mut Row, story: &Story, axis: &Axis, delivery: &SeenDelivery, is_alone: bool) {
    let from = delivery.from.unwrap_or(story.first);
    let to = delivery.end.as_ref().map_or(story.last.max(axis.to), |(ms, _, _)| *ms);
    let worker = delivery.worker.and_then(|index| story.workers.get(index));
    let whose = worker.map(|worker| format!(" by {}", worker.id)).unwrap_or_default();
    let title = format!("{}, reserved for {:.3} ms{whose}", row.name, to - from);
    row.span(from, to, SpanKind::Reserved, &title);
    if delivery.from.is_some() {
        let mark = delivery.worker.map(letter).filter(|_| !is_alone);
        row.glyph(from, Symbol::DeliveryBegan(mark), &format!("fetched{whose}"));
    }
    match &delivery.end {
        Some((ms, end, state)) => {
            let state = state.as_ref().map(|state| format!(": {state}")).unwrap_or_default();
            row.glyph(
                *ms,
                Symbol::DeliveryEnded(*end),
                &format!("{}{state}", look_of_end(*end).1),
            );
        }
        None => row.glyph(to, Symbol::GoesOn, "goes on"),
    }
}

/// Chooses at most `most` jobs, in the order of their beginnings, and writes the line about the
/// others. Notable jobs are chosen first, and of equal ones the last.
fn choose_jobs(jobs: &[JobRow], most: usize) -> (Vec<&JobRow>, Option<String>) {
    let mut sorted: Vec<(usize, &JobRow)> = jobs.iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| {
        let notable = b.is_notable.cmp(&a.is_notable);
        notable.then(b.last.total_cmp(&a.last))
    });
    let others = sorted.split_off(most.min(sorted.len()));
    sorted.sort_by(|(a, first), (b, second)| first.first.total_cmp(&second.first).then(a.cmp(b)));
    let sorted = sorted.into_iter().map(|(_, job)| job).collect();
    if others.is_empty() {
        return (sorted, None);
    }
    let mut ends: BTreeMap<Option<End>, usize> = BTreeMap::new();
    for (_, job) in &others {
        *ends.entry(job.end).or_default() += 1;
    }
    let ends = ends.into_iter().map(|(end, number)| {
        let what = end.map_or("not over", |end| look_of_end(end).1);
        format!("{number} {what}")
    });
    let ends = ends.collect::<Vec<_>>().join(", ");
    (sorted, Some(format!("and {}: {ends}", count(others.len(), "more job"))))
}
