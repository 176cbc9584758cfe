//! A picture that is not yet drawn in a format.

use super::mark::Mark;
use super::rows::Rows;
use super::story::Story;
use super::view::View;
use super::{svg, text};
use crate::events::Event;

/// A picture of the events.
#[derive(Debug)]
pub struct Picture {
    rows: Rows,
}

impl Picture {
    /// A picture of these events and marks.
    #[must_use]
    pub fn new(events: &[Event], marks: &[Mark]) -> Self {
        Self::of(events, marks, &View::default())
    }

    /// A picture of a part of it.
    #[must_use]
    pub fn of(events: &[Event], marks: &[Mark], view: &View) -> Self {
        let story = Story::of(events, view.worker.as_deref());
        Self {
            rows: Rows::of(&story, marks, view),
        }
    }

    /// The picture as lines, each at most this many columns wide; fewer than 40 count as 40, more
    /// than 240 as 240. Bounded: at most 60 jobs and 20 workers are drawn, the others counted.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        text::draw(&self.rows, width, false)
    }

    /// The picture as lines, with the escape sequences that paint them.
    #[must_use]
    pub fn painted_text(&self, width: usize) -> String {
        text::draw(&self.rows, width, true)
    }

    /// The picture as an SVG document that needs nothing else, for light and for dark surroundings.
    /// Bounded: at most 200 jobs and 50 workers are drawn, the others counted.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::draw(&self.rows)
    }
}
