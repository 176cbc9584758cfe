//! A picture of the events that the server recorded, for people who debug a shutdown: as text for a
//! terminal, and as SVG.
//!
//! The input is events and marks, the output is text: nothing here reads a file, the time or the
//! terminal. A *mark* is an event outside of the server. A *row* is one line of the picture.
//!
//! `story` turns events into lives of workers and jobs, `rows` turns these into rows, and `text`
//! and `svg` draw them. Start with `story`.

mod axis;
mod fit;
mod mark;
mod moments;
mod picture;
mod record;
mod row;
mod rows;
mod story;
mod svg;
mod symbol;
mod text;
mod view;

pub use mark::Mark;
pub use picture::Picture;
pub use record::{Record, RecordError};
pub use view::View;
