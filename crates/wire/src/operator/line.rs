//! One line of a screen: never longer than its width, and without characters that a terminal acts
//! on.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use crate::text::without_middle;

/// Most columns of a line, even on a wider screen.
pub(super) const WIDEST: usize = 120;

/// Columns of the words on the left.
pub(super) const MARGIN: usize = 10;

/// Replaces a character that has no column, or that a terminal would act on.
const UNPRINTABLE: char = '\u{fffd}';

/// The screen that is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    pub width: usize,
    pub height: usize,
    pub has_colour: bool,
}

/// The look of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
}

/// A line that never gets longer than it may be.
pub(super) struct Line {
    pub(super) text: String,
    /// Columns that are left.
    left: usize,
    has_colour: bool,
}

impl Line {
    pub(super) fn new(screen: &Screen) -> Self {
        Self {
            text: String::new(),
            left: screen.width.min(WIDEST),
            has_colour: screen.has_colour,
        }
    }

    pub(super) fn begin(word: &str, screen: &Screen) -> Self {
        let mut line = Self::new(screen);
        line.put(Style::Dim, &format!("{word:MARGIN$}"));
        line
    }

    /// Adds as much of a text as fits.
    pub(super) fn put(&mut self, look: Style, text: &str) {
        let mut part = String::new();
        for character in printable(text).chars() {
            let columns = columns_of(character);
            if columns > self.left {
                self.left = 0;
                break;
            }
            self.left -= columns;
            part.push(character);
        }
        let colour = match look {
            Style::Plain => "",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "31",
        };
        if self.has_colour && !colour.is_empty() && !part.is_empty() {
            // A text never fails to be written to.
            let _ = write!(self.text, "\x1b[{colour}m{part}\x1b[0m");
        } else {
            self.text.push_str(&part);
        }
    }
}

/// Exactly this many columns: filled up, or with the middle left out.
pub(super) fn fit(name: &str, columns: usize) -> String {
    let text = without_middle(&printable(name), columns, columns_of);
    let used: usize = text.chars().map(columns_of).sum();
    format!("{text}{}", " ".repeat(columns.saturating_sub(used)))
}

pub(super) fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1)
}

/// Without characters that a terminal acts on, or that have no column: another user's program may
/// have written the text.
pub(super) fn printable(text: &str) -> String {
    let shown = |character: char| match character.width() {
        Some(1..) => character,
        Some(0) | None => UNPRINTABLE,
    };
    text.chars().map(shown).collect()
}

/// A line with one text.
pub(super) fn field(word: &str, text: &str, screen: &Screen) -> String {
    let mut line = Line::begin(word, screen);
    line.put(Style::Plain, text);
    line.text
}

/// Parts with commas between them, on as many lines as needed. A part that fits on a line is not
/// cut.
pub(super) fn wrapped(word: &str, parts: &[(Style, String)], screen: &Screen) -> Vec<String> {
    let mut lines = vec![Line::begin(word, screen)];
    for (number, (style, part)) in parts.iter().enumerate() {
        let columns: usize = printable(part).chars().map(columns_of).sum();
        let comma = if number == 0 { "" } else { ", " };
        if let Some(line) = lines.last_mut()
            && (number == 0 || line.left > columns + comma.len())
        {
            line.put(Style::Plain, comma);
            line.put(*style, part);
        } else {
            let mut line = Line::begin("", screen);
            line.put(*style, part);
            lines.push(line);
        }
    }
    lines.into_iter().map(|line| line.text).collect()
}
