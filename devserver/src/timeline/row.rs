//! A row of a picture: spans and single moments, each with its time.

use super::axis::Axis;
use super::fit::clean;
use super::symbol::{SpanKind, Symbol};

/// A row of the picture.
#[derive(Debug)]
pub(super) struct Row {
    pub name: String,
    pub spans: Vec<Span>,
    pub glyphs: Vec<Glyph>,
}

/// A lasting state, drawn as a bar.
#[derive(Debug)]
pub(super) struct Span {
    pub from: f64,
    pub to: f64,
    pub kind: SpanKind,
    pub title: String,
}

/// A single moment, drawn as a letter.
#[derive(Debug)]
pub(super) struct Glyph {
    pub ms: f64,
    pub symbol: Symbol,
    pub title: String,
}

impl Span {
    /// Whether any of it is on the axis.
    pub fn is_seen(&self, axis: &Axis) -> bool {
        self.from <= axis.to && self.to >= axis.from
    }
}

impl Row {
    /// An empty row of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: clean(name),
            spans: Vec::new(),
            glyphs: Vec::new(),
        }
    }

    /// Adds a lasting state.
    pub fn span(&mut self, from: f64, to: f64, kind: SpanKind, title: &str) {
        self.spans.push(Span {
            from,
            to,
            kind,
            title: clean(title),
        });
    }

    /// Adds a single moment.
    pub fn glyph(&mut self, ms: f64, symbol: Symbol, title: &str) {
        self.glyphs.push(Glyph {
            ms,
            symbol,
            title: clean(title),
        });
    }

    /// Whether any of it is on the axis.
    pub fn is_seen(&self, axis: &Axis) -> bool {
        self.spans.iter().any(|span| span.is_seen(axis)) || self.glyphs.iter().any(|glyph| axis.contains(glyph.ms))
    }

    /// The most important glyph of each of this many columns; of equal ones the last.
    pub fn strongest(&self, axis: &Axis, columns: usize) -> Vec<Option<&Glyph>> {
        let mut strongest: Vec<Option<&Glyph>> = vec![None; columns];
        for glyph in self.glyphs.iter().filter(|glyph| axis.contains(glyph.ms)) {
            let cell = &mut strongest[axis.column(glyph.ms, columns)];
            if cell.is_none_or(|drawn| drawn.symbol <= glyph.symbol) {
                *cell = Some(glyph);
            }
        }
        strongest
    }
}
