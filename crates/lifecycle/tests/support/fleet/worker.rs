//! One worker of a fleet: its machine, and its requests on their way.

use std::time::Duration;

use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Call, Moment, Options, Reply};
use ojs_lifecycle::machine::Lifecycle;

use super::backend::QUEUE;
use super::conditions::Conditions;

/// A request that the worker waits for.
#[derive(Debug)]
pub struct Request {
    pub id: CallId,
    pub call: Call,
    /// The answer, while it is on its way back.
    pub reply: Option<Reply>,
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    pub machine: Lifecycle,
    /// A handful.
    pub requests: Vec<Request>,
    /// The stream that is open.
    pub stream: Option<CallId>,
    /// The machine reports that a stream brings the next FETCH forward.
    pub is_woken: bool,
    /// The timer that the fleet has in its heap. A later one is found when this one is due.
    pub timer: Option<Duration>,
}

impl Worker {
    /// The machine knows no start but that of its process, so it can exist before.
    pub fn new(number: usize, conditions: &Conditions, options: &Options) -> Self {
        let options = Options {
            concurrency: conditions.concurrency,
            listen_to: vec![QUEUE.into()],
            seed: conditions.seed.wrapping_mul(1_000_003).wrapping_add(number as u64),
            ..options.clone()
        };
        Self {
            machine: Lifecycle::new(options, Moment::new(Duration::ZERO)),
            requests: Vec::new(),
            stream: None,
            is_woken: false,
            timer: None,
        }
    }

    /// The request, unless it was given up.
    pub fn call(&mut self, id: CallId) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.id == id)
    }

    /// The request has ended.
    pub fn take(&mut self, id: CallId) -> Option<Request> {
        let index = self.requests.iter().position(|request| request.id == id)?;
        Some(self.requests.swap_remove(index))
    }

    /// The next timer of the machine.
    pub fn due(&self) -> Option<Duration> {
        let (due, _) = self.machine.poll_timeout()?;
        Some(due.remaining(Moment::new(Duration::ZERO)))
    }
}
