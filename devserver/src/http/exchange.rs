//! The way of a request to its answer: its fault, and its event.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use tokio::time::sleep;

use super::reply::{About, Reply};
use super::reply_body::{ReplyBody, Unanswered};
use super::request::Request;
use super::{faulty_backend, routes};
use crate::events::{Event, MAX_EVENT_JOBS, millis};
use crate::faults::Fault;
use crate::operation::Operation;
use crate::state::Shared;

/// Reads a request, and answers it with its fault.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<ReplyBody>, Unanswered> {
    let (request, body) = match Request::read(request, shared.clock.now()).await {
        Ok(read) => read,
        Err((request, reply)) => {
            let exchange = Exchange::new(shared, &request, &[], None);
            return Ok(exchange.noted(reply).into_response(shared, &request.id));
        }
    };
    let fault = if request.operation == Operation::Dev {
        None
    } else {
        shared.fault_for(request.operation, &body)
    };
    let exchange = Exchange::new(shared, &request, &body, fault.as_ref().map(Fault::name));
    let reply = match fault {
        None => exchange.carry_out(),
        Some(Fault::Hang) => {
            exchange.note_unanswered(exchange.about());
            let never: Infallible = std::future::pending().await;
            match never {}
        }
        Some(Fault::Close) => {
            exchange.note_unanswered(exchange.about());
            return Err(Unanswered);
        }
        Some(Fault::Delay(delay)) => {
            exchange.wait(delay, exchange.about()).await;
            exchange.carry_out()
        }
        Some(Fault::Status { status, retry_after }) => Reply::fault(status, retry_after.as_deref()),
        Some(Fault::LoseReply) => {
            exchange.noted(exchange.carry_out());
            return Err(Unanswered);
        }
        Some(Fault::LateReply(delay)) => {
            let reply = exchange.carry_out();
            exchange.wait(delay, reply.about.clone()).await;
            reply
        }
        Some(Fault::Truncate) => {
            return Ok(exchange
                .noted(exchange.carry_out())
                .into_half_response(shared, &request.id));
        }
        Some(Fault::Page) => Reply::page(200, None),
        Some(Fault::Redirect(status)) => Reply::page(status, Some("/login")),
        Some(Fault::StoreAway { backend, delay }) => {
            let delay = faulty_backend::delay(&request, delay);
            exchange.wait(delay, exchange.about()).await;
            faulty_backend::store_away(shared, &request, &body, backend)
        }
        Some(Fault::Limit { bytes, status }) => faulty_backend::too_large(bytes, status),
        Some(Fault::Stream(fault)) => exchange.carry_out().with_stream_fault(fault),
        Some(Fault::Overtaken { tells_state }) => faulty_backend::overtaken(shared, &request, &body, tells_state),
    };
    Ok(exchange.noted(reply).into_response(shared, &request.id))
}

/// A request that was read, and the name of the fault that meets it.
struct Exchange<'a> {
    shared: &'a Shared,
    request: &'a Request,
    body: &'a [u8],
    fault: Option<&'static str>,
}

impl<'a> Exchange<'a> {
    fn new(shared: &'a Shared, request: &'a Request, body: &'a [u8], fault: Option<&'static str>) -> Self {
        Self {
            shared,
            request,
            body,
            fault,
        }
    }

    fn carry_out(&self) -> Reply {
        routes::route(self.shared, self.request, self.body)
    }

    /// The worker and the jobs that the request names.
    fn about(&self) -> About {
        self.request.about(self.body)
    }

    fn event(&self, about: About) -> Event {
        Event {
            arrived_ms: Some(millis(self.request.arrived)),
            request: self.request.line(),
            worker: about.worker,
            more_jobs: about.jobs.len().saturating_sub(MAX_EVENT_JOBS),
            jobs: about.jobs.into_iter().take(MAX_EVENT_JOBS).collect(),
            state: about.state,
            fault: self.fault,
            ..Event::new(self.request.operation.name())
        }
    }

    /// Notes the request as one that gets no answer.
    fn note_unanswered(&self, about: About) {
        self.shared.record(self.event(about));
    }

    /// Notes the request and its answer, and gives the answer back.
    fn noted(&self, mut reply: Reply) -> Reply {
        // A reader of the events would otherwise mostly see his own requests.
        if self.request.operation != Operation::Dev {
            let mut about = std::mem::take(&mut reply.about);
            if about == About::default() {
                about = self.about();
            }
            self.shared.record(Event {
                status: Some(reply.status),
                ..self.event(about)
            });
        }
        reply
    }

    /// Waits. If the client disconnects meanwhile, this future is dropped: the request gets no
    /// answer, and is recorded as unanswered.
    async fn wait(&self, delay: Duration, about: About) {
        let mut leaving = OnDrop(Some(|| self.note_unanswered(about.clone())));
        sleep(delay).await;
        leaving.0 = None;
    }
}

/// A function that is called when this is dropped, unless it was removed before.
struct OnDrop<F: FnMut()>(Option<F>);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(mut act) = self.0.take() {
            act();
        }
    }
}
