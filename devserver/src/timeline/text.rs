//! The picture as text.

use std::collections::BTreeSet;

use super::axis::since;
use super::rows::{NUMBERS, Row, Rows, chosen};
use super::symbol::{Lasting, Symbol, Tone};
use super::words::{count, head, pad, tail, width, wrap};

/// Narrowest and widest picture, in columns.
const WIDTHS: (usize, usize) = (40, 240);

/// Widest name of a row, in columns.
const MAX_NAME: usize = 24;

/// Most jobs and workers that are drawn.
const MAX_JOBS: usize = 60;
const MAX_WORKERS: usize = 20;

/// What stands where a mark is and nothing else.
const GUIDE: char = ':';

/// A letter and how it is painted.
type Cell = (char, Tone);

/// Draws the picture.
pub(super) fn draw(rows: &Rows, columns: usize, is_painted: bool) -> String {
    let mut paper = Paper::new(rows, columns.clamp(WIDTHS.0, WIDTHS.1), is_painted);
    paper.words(&rows.heading, Tone::Plain);
    paper.words("", Tone::Plain);
    paper.axis();
    paper.moments();
    paper.section("workers");
    for row in rows.workers.iter().take(MAX_WORKERS) {
        paper.row(row, head(&row.name, paper.name_columns - 1));
    }
    if let Some(more @ 1..) = rows.workers.len().checked_sub(MAX_WORKERS) {
        paper.words(&format!(" and {}", count(more, "more worker")), Tone::Dim);
    }
    paper.row(&rows.fetch, rows.fetch.name.clone());
    if !rows.troubles.is_empty() {
        paper.section("faults and refusals");
    }
    for row in &rows.troubles {
        paper.row(row, head(&row.name, paper.name_columns - 1));
    }
    let (jobs, more) = chosen(&rows.jobs, MAX_JOBS);
    if !jobs.is_empty() {
        paper.section("jobs");
    }
    for job in jobs {
        paper.row(&job.row, tail(&job.row.name, paper.name_columns - 1));
    }
    if let Some(more) = more {
        paper.words(&format!(" {more}"), Tone::Dim);
    }
    paper.list_of_moments();
    paper.legend();
    paper.text
}

/// What is drawn on.
struct Paper<'a> {
    rows: &'a Rows,
    columns: usize,
    /// Columns of the names, and of what stands to their right.
    name_columns: usize,
    chart_columns: usize,
    is_painted: bool,
    symbols: BTreeSet<Symbol>,
    lasting: BTreeSet<Lasting>,
    text: String,
}

impl<'a> Paper<'a> {
    fn new(rows: &'a Rows, columns: usize, is_painted: bool) -> Self {
        let names = rows.workers.iter().chain(&rows.troubles);
        let names = names.chain(rows.jobs.iter().map(|job| &job.row));
        let widest = names.map(|row| width(&row.name)).max().unwrap_or_default();
        let name_columns = (widest + 2).clamp(9, MAX_NAME.min(columns / 4));
        Self {
            rows,
            columns,
            name_columns,
            chart_columns: columns - name_columns - 1,
            is_painted,
            symbols: BTreeSet::new(),
            lasting: BTreeSet::new(),
            text: String::new(),
        }
    }

    fn column(&self, ms: f64) -> usize {
        self.rows.axis.column(ms, self.chart_columns)
    }

    fn blank(&self) -> Vec<Cell> {
        vec![(' ', Tone::Plain); self.chart_columns]
    }

    /// Ends a line: a name and what stands to its right.
    fn line(&mut self, name: &str, tone: Tone, cells: &[Cell]) {
        let used = cells.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
        let name = if used == 0 {
            name.to_owned()
        } else {
            pad(name, self.name_columns + 1)
        };
        self.paint(&name, tone);
        for piece in cells[..used].chunk_by(|(_, a), (_, b)| a == b) {
            let letters: String = piece.iter().map(|(c, _)| c).collect();
            self.paint(&letters, piece.first().map_or(Tone::Plain, |(_, tone)| *tone));
        }
        self.text.push('\n');
    }

    fn paint(&mut self, text: &str, tone: Tone) {
        let code = match tone {
            Tone::Plain => None,
            Tone::Dim => Some("2"),
            Tone::Good => Some("32"),
            Tone::Warn => Some("33"),
            Tone::Bad => Some("1;31"),
            Tone::Note => Some("36"),
        };
        match code.filter(|_| self.is_painted && !text.trim().is_empty()) {
            Some(code) => self.text.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
            None => self.text.push_str(text),
        }
    }

    fn words(&mut self, text: &str, tone: Tone) {
        let text = head(text, self.columns);
        self.line(&text, tone, &[]);
    }

    fn section(&mut self, name: &str) {
        self.line(name, Tone::Dim, &[]);
    }

    fn axis(&mut self) {
        let mut figures = self.blank();
        let mut line = vec![('-', Tone::Dim); self.chart_columns];
        for tick in self.rows.axis.ticks(self.chart_columns) {
            let column = self.column(tick.ms);
            line[column].0 = '+';
            if column + tick.label.len() <= self.chart_columns {
                for (cell, c) in figures[column..].iter_mut().zip(tick.label.chars()) {
                    cell.0 = c;
                }
            }
        }
        let unit = format!("{:>width$}", self.rows.axis.unit(), width = self.name_columns);
        self.line(&unit, Tone::Dim, &figures);
        self.line("", Tone::Dim, &line);
    }

    /// The numbers of the moments; those that fall together stand side by side.
    fn moments(&mut self) {
        if self.rows.moments.is_empty() {
            return;
        }
        let mut cells = self.blank();
        let mut free = 0;
        let count = self.rows.moments.len();
        for (index, (moment, number)) in self.rows.moments.iter().zip(NUMBERS.chars()).enumerate() {
            // The later ones need room as well.
            let most = self.chart_columns.saturating_sub(count - index);
            let column = self.column(moment.ms).max(free).min(most);
            free = column + 1;
            if let Some(cell) = cells.get_mut(column) {
                *cell = (number, if moment.is_mark { Tone::Warn } else { Tone::Note });
            }
        }
        self.line("moments", Tone::Dim, &cells);
    }

    /// Where the marks are.
    fn guides(&self, cells: &mut [Cell]) {
        for moment in self.rows.moments.iter().filter(|moment| moment.is_mark) {
            if let Some(cell) = cells.get_mut(self.column(moment.ms)).filter(|cell| cell.0 == ' ') {
                *cell = (GUIDE, Tone::Dim);
            }
        }
    }

    fn row(&mut self, row: &Row, name: String) {
        let mut cells = self.blank();
        let axis = &self.rows.axis;
        for span in row
            .spans
            .iter()
            .filter(|span| span.from <= axis.to && span.to >= axis.from)
        {
            let (letter, _, tone) = span.lasting.look();
            let reach = self.column(span.from)..=self.column(span.to);
            cells[reach].fill((letter, tone));
            self.lasting.insert(span.lasting);
        }
        let mut strongest: Vec<Option<Symbol>> = vec![None; self.chart_columns];
        for glyph in row.glyphs.iter().filter(|glyph| axis.has(glyph.ms)) {
            let cell = &mut strongest[axis.column(glyph.ms, self.chart_columns)];
            *cell = (*cell).max(Some(glyph.symbol));
        }
        for (cell, symbol) in cells.iter_mut().zip(&strongest) {
            if let Some(symbol) = symbol {
                let (letter, _, tone) = symbol.look();
                *cell = (letter, tone);
            }
        }
        self.symbols.extend(strongest.into_iter().flatten());
        self.guides(&mut cells);
        self.line(&format!(" {name}"), Tone::Plain, &cells);
    }

    fn list_of_moments(&mut self) {
        let rows = self.rows;
        let zero = rows
            .moments
            .iter()
            .find(|moment| moment.is_mark)
            .or(rows.moments.first());
        let Some(zero) = zero else { return };
        self.words("", Tone::Plain);
        let times: Vec<String> = rows.moments.iter().map(|moment| rows.axis.time(moment.ms)).collect();
        let widest = times.iter().map(String::len).max().unwrap_or_default();
        for ((moment, number), time) in rows.moments.iter().zip(NUMBERS.chars()).zip(&times) {
            let since = since(moment.ms - zero.ms);
            let tone = if moment.is_mark { Tone::Warn } else { Tone::Plain };
            self.words(
                &format!(" {number}  {time:>widest$}  {since:>12}  {}", moment.text),
                tone,
            );
        }
        if rows.more_moments > 0 {
            self.words(&format!(" and {}", count(rows.more_moments, "more moment")), Tone::Dim);
        }
    }

    /// What of all the signs is in the picture.
    fn legend(&mut self) {
        let mut words: Vec<String> = Vec::new();
        for symbol in &self.symbols {
            let (letters, meaning) = symbol.legend();
            let word = format!("{letters} {meaning}");
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.extend(self.lasting.iter().map(|lasting| {
            let (letter, meaning, _) = lasting.look();
            format!("{letter} {meaning}")
        }));
        if self.rows.moments.iter().any(|moment| moment.is_mark) {
            words.push(format!("{GUIDE} a mark"));
        }
        if words.is_empty() {
            return;
        }
        self.words("", Tone::Plain);
        for line in wrap(&words, self.columns) {
            self.words(&line, Tone::Dim);
        }
    }
}
