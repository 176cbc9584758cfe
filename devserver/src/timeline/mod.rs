//! A picture of what the server saw, for people who debug a shutdown: as text for a terminal, and as SVG.
//!
//! Events and marks in, text out: nothing here reads a file, asks for the time or knows a terminal.

mod axis;
mod record;
mod rows;
mod story;
mod svg;
mod symbol;
mod text;
mod words;

use serde::{Deserialize, Serialize};

use crate::events::Event;
use rows::Rows;
use story::Story;

pub use record::{Record, RecordError};

/// Something that happened outside of the server: a signal, an exit, a deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When, in milliseconds by the clock of the events ([`crate::Server::now_ms`]).
    pub ms: f64,
    /// What.
    #[serde(rename = "mark")]
    pub text: String,
}

impl Mark {
    /// This happened then, in milliseconds by the clock of the events.
    #[must_use]
    pub fn new(ms: f64, text: &str) -> Self {
        Self {
            ms,
            text: text.to_owned(),
        }
    }
}

/// Which part of it is drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// From when on, in milliseconds by the clock of the events; `None`: from the first thing that happened.
    pub from: Option<f64>,
    /// Until when; `None`: until the last.
    pub to: Option<f64>,
    /// Of this worker only; what names no worker and no job is drawn all the same.
    pub worker: Option<String>,
}

/// A picture.
#[derive(Debug)]
pub struct Picture {
    rows: Rows,
}

impl Picture {
    /// A picture of everything that happened.
    #[must_use]
    pub fn new(events: &[Event], marks: &[Mark]) -> Self {
        Self::of(events, marks, &View::default())
    }

    /// A picture of a part of it.
    #[must_use]
    pub fn of(events: &[Event], marks: &[Mark], view: &View) -> Self {
        let story = Story::of(events, view.worker.as_deref());
        Self {
            rows: rows::rows(&story, marks, view),
        }
    }

    /// As lines, each at most so many columns wide; fewer than 40 count as 40, more than 240 as 240. Bounded: at most 60
    /// jobs and 20 workers are drawn, the others counted.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        text::draw(&self.rows, width, false)
    }

    /// The same with the escape sequences that paint it.
    #[must_use]
    pub fn painted_text(&self, width: usize) -> String {
        text::draw(&self.rows, width, true)
    }

    /// As an SVG document that needs nothing else, for light and for dark surroundings. Bounded: at most 200 jobs and 50
    /// workers are drawn, the others counted.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::draw(&self.rows)
    }
}
