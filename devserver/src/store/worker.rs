//! A worker, and what it says in a heartbeat.

use std::time::Duration;

use super::job::{Directive, JobId};
use crate::json::Object;
use crate::moment::Moment;

/// A worker that has come and not gone.
#[derive(Debug)]
pub struct Worker {
    /// Its own words about itself when it registered or, later, beat.
    pub info: Object,
    /// Whether it registered, and not only fetched or beat.
    pub is_registered: bool,
    /// The state that it was told, by somebody who asked for it.
    pub directive: Directive,
    /// The state that the worker says it is in.
    pub reported: Directive,
    /// When the worker came.
    pub since: Moment,
    /// When it last beat; before the first time, when it came.
    pub last_heartbeat: Moment,
}

impl Worker {
    /// Whether it may have jobs: neither was it told otherwise, nor does it say so.
    pub fn is_running(&self) -> bool {
        self.directive.max(self.reported) == Directive::Run
    }
}

/// The contents of a heartbeat.
#[derive(Debug, Default)]
pub struct Heartbeat {
    pub worker: String,
    /// The state that the worker says it is in; `None`: it says nothing.
    pub reported: Option<Directive>,
    /// The jobs that it says that it has.
    pub jobs: Vec<String>,
    /// How long they are to be reserved from now on; `None`: as long as they were.
    pub extension: Option<Duration>,
    /// Its words about itself.
    pub info: Object,
}

/// The answer to a heartbeat.
#[derive(Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The state that the worker is told to be in.
    pub directive: Directive,
    /// Those of its jobs that it still has.
    pub extended: Vec<JobId>,
}
