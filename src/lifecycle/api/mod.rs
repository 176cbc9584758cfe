//! What crosses the border of the machine: events in, effects out, and the values in them. Nothing here decides, and nothing
//! here knows of the rooms beside it.

pub mod answer;
pub mod budget;
pub mod call;
pub mod capacity;
pub mod effect;
pub mod end_cause;
pub mod end_report;
pub mod endpoint;
pub mod event;
pub mod force;
pub mod forms;
pub mod frames;
pub mod health;
pub mod ids;
pub mod job;
pub mod manners;
pub mod notice;
pub mod options;
pub mod outage;
pub mod phase;
pub mod snapshot;
pub mod status;
pub mod tally;
pub mod time;
pub mod timer;
pub mod words;
pub mod worker_end;
