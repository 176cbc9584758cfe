//! A picture of what the server saw, for people who debug a shutdown: as text for a terminal, and
//! as SVG.
//!
//! Events and marks in, text out: nothing here reads a file, asks for the time or knows a terminal.

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
