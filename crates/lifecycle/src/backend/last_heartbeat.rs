//! The last heartbeat, which reports to the backend that the worker leaves.
//!
//! A backend may create a worker's record on any heartbeat, so none may arrive after the
//! deregister. The last heartbeat waits for the others in flight, at most half of its time.

use crate::api::{Call, Failure, HeartbeatForm, Reply, WorkerState};
use crate::backend::link::{Context, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::Purpose;

impl Link {
    pub(crate) fn say_last(&mut self, state: WorkerState, cx: &Context) {
        if let Some(call) = self.last_heartbeat(state, cx) {
            let form = self.session.heartbeats.forms.next;
            let purpose = Purpose::FinalHeartbeat { state, form };
            self.call(call, purpose, cx.options.request_timeout, cx);
        }
    }

    /// The last heartbeat. It names no job.
    pub(super) fn last_heartbeat(&self, state: WorkerState, cx: &Context) -> Option<Call> {
        let worker = self.session.worker.clone()?;
        Some(self.heartbeat(worker, state, &[], cx))
    }

    pub(crate) fn final_heartbeat_replied(
        &mut self,
        state: WorkerState,
        form: HeartbeatForm,
        reply: &Reply,
        cx: &Context,
    ) {
        let has_time = cx.end.is_saying_goodbye;
        // If the end begins before the first answer to a heartbeat, the form of this backend is not
        // known yet.
        if *reply == Reply::Failed(Failure::Refused) && has_time && self.form_refused(form) {
            return self.say_last(state, cx);
        }
        self.note_failure("final heartbeat", reply);
        // If the end began while the worker was being started, the worker may exist by now under a
        // name that the backend does not know.
        if matches!(reply, Reply::HeartbeatOk { .. }) && has_time && self.session.is_known {
            self.say(Said::LastHeartbeatAnswered);
        }
    }
}
