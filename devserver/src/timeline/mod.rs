//! A picture of what the server saw, for people who debug a shutdown: as text for a terminal, and
//! as SVG.
//!
//! Events and marks go in, text comes out: nothing here reads a file, asks for the time or knows a
//! terminal. A *mark* is an event outside of the server. A *row* is one line of the picture.
//!
//! `story` turns events into what they tell, `rows` turns that into rows, and `text` and `svg` draw
//! them. Start with `story`.

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
