//! The picture as text, for a terminal.

use std::collections::BTreeSet;

use super::fit::{head, pad, tail, width, wrap};
use super::moments::NUMBERS;
use super::row::Row;
use super::rows::{Line, Rows};
use super::symbol::{SpanKind, Symbol, Tone};

/// Narrowest and widest picture, in columns.
const WIDTHS: (usize, usize) = (40, 240);

/// Widest name of a row, in columns.
const MAX_NAME: usize = 24;

/// Most jobs and workers that are drawn.
const MAX_JOBS: usize = 60;
const MAX_WORKERS: usize = 20;

/// The letter of a mark on an empty place.
const GUIDE: char = ':';

/// A letter and its colour.
type Cell = (char, Tone);

/// Draws the picture, in this many columns.
pub(super) fn draw(rows: &Rows, columns: usize, is_painted: bool) -> String {
    let mut paper = Paper::new(rows, columns.clamp(WIDTHS.0, WIDTHS.1), is_painted);
    paper.words(&rows.heading, Tone::Plain);
    paper.words("", Tone::Plain);
    paper.axis();
    paper.moments();
    for line in rows.lines(MAX_WORKERS, MAX_JOBS) {
        match line {
            Line::Heading(heading) => paper.line(heading, Tone::Dim, &[]),
            Line::Row(row) => paper.row(row, &head(&row.name, paper.name_columns - 1)),
            Line::Job(row) => paper.row(row, &tail(&row.name, paper.name_columns - 1)),
            Line::More(more) => paper.words(&format!(" {more}"), Tone::Dim),
        }
    }
    paper.list_of_moments();
    paper.legend();
    paper.text
}

/// The paper that is drawn on.
struct Paper<'a> {
    rows: &'a Rows,
    columns: usize,
    /// Width of the names and of the part to their right, in columns.
    name_columns: usize,
    chart_columns: usize,
    is_painted: bool,
    symbols: BTreeSet<Symbol>,
    span_kinds: BTreeSet<SpanKind>,
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
            span_kinds: BTreeSet::new(),
            text: String::new(),
        }
    }

    fn column(&self, ms: f64) -> usize {
        self.rows.axis.column(ms, self.chart_columns)
    }

    fn blank(&self) -> Vec<Cell> {
        vec![(' ', Tone::Plain); self.chart_columns]
    }

    /// Writes a line: a name and the cells to its right.
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

    /// Draws the numbers of the moments; numbers that would cover each other are side by side.
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

    /// Puts a guide on each empty place of a mark.
    fn guides(&self, cells: &mut [Cell]) {
        for moment in self.rows.moments.iter().filter(|moment| moment.is_mark) {
            if let Some(cell) = cells.get_mut(self.column(moment.ms)).filter(|cell| cell.0 == ' ') {
                *cell = (GUIDE, Tone::Dim);
            }
        }
    }

    fn row(&mut self, row: &Row, name: &str) {
        let mut cells = self.blank();
        let axis = &self.rows.axis;
        for span in row.spans.iter().filter(|span| span.is_seen(axis)) {
            let (letter, _, tone) = span.kind.look();
            let reach = self.column(span.from)..=self.column(span.to);
            cells[reach].fill((letter, tone));
            self.span_kinds.insert(span.kind);
        }
        let strongest = row.strongest(axis, self.chart_columns);
        for (cell, glyph) in cells.iter_mut().zip(&strongest) {
            if let Some(glyph) = glyph {
                let (letter, _, tone) = glyph.symbol.look();
                *cell = (letter, tone);
            }
        }
        self.symbols
            .extend(strongest.into_iter().flatten().map(|glyph| glyph.symbol));
        self.guides(&mut cells);
        self.line(&format!(" {name}"), Tone::Plain, &cells);
    }

    fn list_of_moments(&mut self) {
        if self.rows.moments.is_empty() {
            return;
        }
        self.words("", Tone::Plain);
        for (tone, line) in self.rows.list_of_moments() {
            self.words(&format!(" {line}"), tone);
        }
    }

    /// Explains the signs that are in the picture.
    fn legend(&mut self) {
        let mut words: Vec<String> = Vec::new();
        for symbol in &self.symbols {
            let (letters, meaning) = symbol.legend();
            let word = format!("{letters} {meaning}");
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.extend(self.span_kinds.iter().map(|kind| {
            let (letter, meaning, _) = kind.look();
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
