//! Holders that leave: their process is gone, or no worker runs any more.

use std::time::Duration;

use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::closing::renewed_patience;
use crate::daemon::gateway::link::LinkStage;
use crate::daemon::gateway::{Gateway, GatewayTimer, InterfaceTurn};
use ojs_lifecycle::api::{ErrorCode, Event, HolderId, JobId, Moment, WorkerState};

/// How long the last bytes of a gone process may take to arrive. They arrive later only if another
/// process has inherited its socket.
pub(super) const LAST_BYTES_WITHIN: Duration = Duration::from_millis(100);

impl Gateway {
    /// The process of this holder is gone. Reads the rest of its connections, then reports to the
    /// lifecycle that this was all.
    pub fn read_to_end(&mut self, holder: HolderId, now: Moment) {
        let Some(process) = self.book.process_of(holder) else {
            return;
        };
        self.book.leave_behind(holder);
        let of_it = self.links.iter_mut().filter(|(_, link)| link.process == process);
        let mut touched = Vec::new();
        for (id, link) in of_it {
            link.leave_behind();
            touched.push(*id);
        }
        for id in touched {
            self.deadlines
                .arm_at_latest(GatewayTimer::Link(id), now.after(LAST_BYTES_WITHIN));
            self.enqueue(id);
        }
    }

    /// A connection has reached its deadline. Nothing more is read of it, unless its client has its
    /// last answer and still sends: then it gets more time.
    pub(super) fn had_its_time(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Some(until) = renewed_patience(link, turn.now) {
            return self.deadlines.arm(GatewayTimer::Link(id), until);
        }
        match &link.stage {
            // A complete request of a dead process still counts. This one waits for body space. Its
            // timeout starts when it gets some.
            LinkStage::Gathering(request) if request.waits_for_permit => {}
            // The request waits for the backend to accept more.
            LinkStage::Relaying(relay) if !relay.is_body_done => self.hang_up(id, turn),
            LinkStage::Head
            | LinkStage::Gathering(_)
            | LinkStage::Asked(_)
            | LinkStage::Relaying(_)
            | LinkStage::Answering(_)
            | LinkStage::Closing => {
                link.end();
                self.enqueue(id);
            }
        }
    }

    /// Ends the gone holders of which every byte was read.
    pub(super) fn let_go_of_the_dead(&mut self, turn: &mut InterfaceTurn<'_>) {
        for process in self.book.processes_left_behind() {
            if self
                .links
                .values()
                .any(|link| link.process == process && link.is_left_behind)
            {
                continue;
            }
            for holder in self.book.left_behind_of(process) {
                let last = self.forget(holder, turn);
                // ojs-init alone is responsible for its last outcomes, even if another connection
                // waits for the answer.
                last.iter().for_each(|job| self.outcome_was_taken(job, None, None));
            }
        }
    }

    /// Ends a holder because no worker runs. Its connections stay open, and may send a new request.
    pub fn close(&mut self, holder: HolderId, turn: &mut InterfaceTurn<'_>) {
        for job in self.forget(holder, turn) {
            let message = "no worker runs";
            self.outcome_was_refused(&job, ErrorCode::Unavailable, message, turn);
        }
    }

    /// Removes a holder, so the lifecycle answers none of its requests. Returns the jobs whose
    /// outcome it has reported.
    fn forget(&mut self, holder: HolderId, turn: &mut InterfaceTurn<'_>) -> Vec<JobId> {
        let forgotten = self.book.forget(holder);
        turn.events.push_back(Event::HungUp(holder));
        for pull in forgotten.pulls {
            self.answer_pull(holder, pull, &[], None, turn.events);
        }
        for link in forgotten.beats {
            self.answer_beat(link, WorkerState::Running, &[]);
        }
        forgotten.outcomes
    }
}
