//! The fuzz targets: each is a function that takes any bytes, and panics if a promise is broken.
//!
//! libFuzzer calls them through `fuzz_targets`. `tests/fuzz` calls them with the files of `corpus`
//! in every run of the tests. Start with `requests`.

// The tests of the reader of answers have the same file.
#[path = "../../tests/support/answer_by_library.rs"]
mod answer_by_library;
pub mod bodies;
pub mod configuration;
pub mod envelopes;
pub mod http;
pub mod json;
pub mod lifecycle;
pub mod operator;
mod other_server;
pub mod pieces;
pub mod replies;
pub mod runner;
pub mod smuggling;
pub mod worker;

pub use bodies::bodies;
pub use configuration::configuration;
pub use envelopes::envelopes;
pub use http::{answers, requests};
pub use json::json;
pub use lifecycle::lifecycle;
pub use operator::control;
pub use replies::{event_streams, replies};
pub use runner::job_lines;
pub use smuggling::smuggling;
pub use worker::worker_frames;

/// A target: any bytes are good.
pub type Target = fn(&[u8]);

/// Every target, by the name of its binary and of its folder in `corpus`.
pub const TARGETS: [(&str, Target); 13] = [
    ("answers", answers),
    ("bodies", bodies),
    ("configuration", configuration),
    ("control", control),
    ("envelopes", envelopes),
    ("event_streams", event_streams),
    ("job_lines", job_lines),
    ("json", json),
    ("lifecycle", lifecycle),
    ("replies", replies),
    ("requests", requests),
    ("smuggling", smuggling),
    ("worker_frames", worker_frames),
];
