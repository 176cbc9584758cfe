//! The answers of the backend, and the timers of the link.

use crate::api::ids::CallId;
use crate::api::{JobRequest, LinkTimer, Reply};
use crate::backend::calls::SentCall;
use crate::backend::link::{Context, Link};
use crate::backend::purpose::{Purpose, SentFetch};

/// An answer for which other parts wait as well.
#[derive(Debug)]
pub(crate) enum Answered {
    Fetch(SentFetch, Reply),
    /// The request has the number under which ojs-init first sent it.
    OfJob(JobRequest, CallId, Reply),
}

impl Link {
    /// A request was answered or failed. Returns none if the link alone waits for this answer, or
    /// nobody, or if a sibling request may still return another answer.
    pub(crate) fn answered(&mut self, call: CallId, reply: Reply, cx: &Context) -> Option<Answered> {
        self.timers.cancel(LinkTimer::Call(call));
        if self.streams.find(call).is_some() {
            self.stream_ended(call, reply.failure(), cx);
            return None;
        }
        let first = self.calls.first(call);
        let reply = self.one_answer(first, call, reply, cx)?;
        let request = self.forget_call(first);
        if self.calls.watched().next().is_none() {
            self.timers.cancel(LinkTimer::Hanging);
        }
        let SentCall { purpose, was_reset, .. } = request?;
        if !was_reset {
            self.note_backend_health(&purpose, &reply, cx);
            self.note_greeting(&purpose, &reply, cx);
        }
        match purpose {
            Purpose::Fetch(fetch) => return Some(Answered::Fetch(fetch, reply)),
            Purpose::OfJob(request) => return Some(Answered::OfJob(request, first, reply)),
            Purpose::Register(worker) => self.register_replied(&worker, reply, cx),
            Purpose::Heartbeat(heartbeat) => self.heartbeat_replied(&heartbeat, reply, cx),
            Purpose::FinalHeartbeat { state, form } => self.final_heartbeat_replied(state, form, &reply, cx),
            Purpose::Manifest => self.manifest_replied(&reply),
            Purpose::Deregister(worker, way) => self.deregister_replied(worker, way, &reply, cx),
        }
        None
    }

    /// Acts on an expired timer.
    pub(crate) fn due(&mut self, timer: LinkTimer, cx: &Context) {
        match timer {
            LinkTimer::Hanging => self.look_for_hanging(cx),
            LinkTimer::Outage => self.outage_goes_on(cx),
            LinkTimer::Heartbeat => self.heartbeat_now(cx),
            LinkTimer::Register => self.register(cx),
            LinkTimer::MemoryGate => self.look_at_memory_gate(cx),
            LinkTimer::Listen(index) => self.listen(index, cx),
            // These timers only expire: `fetch` checks whether they are armed, and the machine
            // answers an expired call.
            LinkTimer::Fetch | LinkTimer::FetchReturned | LinkTimer::FetchAgain | LinkTimer::Call(_) => {}
        }
    }
}
