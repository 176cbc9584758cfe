//! The last heartbeat, which tells the backend that the worker leaves.

use crate::lifecycle::api::{Call, Failure, HeartbeatForm, Moment, Reply, WorkerState};
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::ending::Ending;

impl Lifecycle {
    pub(in crate::lifecycle) fn say_last(&mut self, state: WorkerState, now: Moment) {
        if let Some(call) = self.last_heartbeat(state, now) {
            let form = self.agent.heartbeats.form();
            let purpose = Purpose::FinalHeartbeat { state, form };
            self.call(call, purpose, self.options.request_timeout, now);
        }
    }

    /// The last heartbeat. It names no job.
    pub(super) fn last_heartbeat(&self, state: WorkerState, now: Moment) -> Option<Call> {
        let worker = self.agent.worker().cloned()?;
        Some(self.heartbeat(worker, state, &[], now))
    }

    pub(in crate::lifecycle) fn final_heartbeat_replied(
        &mut self,
        state: WorkerState,
        form: HeartbeatForm,
        reply: &Reply,
        now: Moment,
    ) {
        let has_time = self.ending.shutdown().is_saying_goodbye();
        // If the end comes before the first answer to a heartbeat, the form of this backend is not known yet.
        if *reply == Reply::Failed(Failure::Refused) && has_time && self.form_refused(form) {
            return self.say_last(state, now);
        }
        self.note_failure("final heartbeat", reply);
        // A worker that was being started when the end came may be there by now, under a name that the backend never heard.
        if matches!(reply, Reply::HeartbeatOk { .. }) && has_time && self.agent.is_known() {
            self.end(now, Ending::last_heartbeat_answered);
        }
    }
}
