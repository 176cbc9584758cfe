//! The machine's settings, events and orders in a person's words: the language of the scripts of
//! `scenarios`.

pub mod defaults;
pub mod ends;
pub mod holders;
pub mod render;
pub mod render_jobs;
pub mod render_notice;
pub mod render_status;
pub mod replies;
pub mod settings;
pub mod words;
