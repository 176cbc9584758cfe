//! What crosses the border of the machine: events in, effects out, and the values in them. Nothing here decides, and nothing
//! here knows of the rooms beside it.

pub mod answer;
pub mod effect;
pub mod event;
pub mod forms;
pub mod ids;
pub mod options;
pub mod time;
