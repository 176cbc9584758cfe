//! Heartbeats: their content, their forms, and the meaning of their answers.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use ojs_values::small;

use crate::api::ids::WorkerId;
use crate::api::{Call, Failure, HeartbeatForm, LinkNotice, LinkTimer, Options, Phase, Reply, WorkerState};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::backend::link::{Context, Kept, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::Purpose;
use crate::retry::state::RetryState;

/// Most heartbeats in flight: one that hangs, its replacement, and one that reports a change.
const MAX_HEARTBEATS_IN_FLIGHT: usize = 3;

/// With this many in flight ojs-init does not replace a hanging heartbeat, unless a heartbeat with
/// a change waits.
const MAX_HEARTBEATS_THAT_HANG: usize = 2;

/// This many heartbeats in a row without an answer are an outage.
const LOST_IN_AN_OUTAGE: u32 = 2;

/// Least time between two heartbeats that workers ask for.
const WORKER_HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Longest reservation that ojs-init asks for, whatever a job's envelope asks for: a crash must not
/// hide a job for ever.
const LONGEST_VISIBILITY: Duration = Duration::from_secs(24 * 60 * 60);

impl Link {
    /// Sends a heartbeat, and the next one an interval later. The heartbeat waits while three
    /// others are in flight. A terminate also waits for a quiet in flight, because the two could
    /// reach the backend in the wrong order.
    pub(crate) fn heartbeat_now(&mut self, cx: &Context) {
        let Some(worker) = self.session.worker.clone() else {
            return;
        };
        if !self.session.is_registration_answered || cx.end.has_said_goodbye {
            return;
        }
        self.timers
            .arm(LinkTimer::Heartbeat, cx.now.after(self.session.heartbeats.interval));
        // In terminate a backend that does not know the worker gets no heartbeat, unless a job of a
        // former worker is still reserved.
        if cx.is_terminating() && !self.session.is_known && !cx.jobs.has_kept() {
            return;
        }
        let says = self.session.heartbeats.would_say(cx.end.state);
        let comes_too_soon = says == WorkerState::Terminate && self.is_quiet_on_its_way(cx);
        if comes_too_soon || self.beats_in_flight() >= MAX_HEARTBEATS_IN_FLIGHT {
            self.session.heartbeats.again = true;
            return;
        }
        let (state, says_quiet_first) = self.session.heartbeats.goes_out(cx.end.state);
        let kept = cx.jobs.kept();
        let call = self.heartbeat(worker.clone(), state, &kept, cx);
        let kept_for = kept_for(&kept, cx.options);
        let named = kept.into_iter().map(|job| (job.id, job.claim)).collect();
        let form = self.session.heartbeats.forms.next;
        let patience = cx.options.request_timeout.min(self.session.heartbeats.interval);
        let heartbeat = SentHeartbeat {
            worker,
            at: cx.now,
            state,
            named,
            form,
            says_quiet_first,
            kept_for,
            is_after_resume: self.session.heartbeats.resumed.is_some(),
        };
        self.call(call, Purpose::Heartbeat(heartbeat), patience, cx);
    }

    /// A heartbeat that names these jobs, each once.
    pub(super) fn heartbeat(&self, worker: WorkerId, state: WorkerState, named: &[Kept], cx: &Context) -> Call {
        let mut seen = BTreeSet::new();
        let ids = named.iter().map(|job| job.id.clone());
        Call::Heartbeat {
            worker,
            state,
            active: ids.filter(|id| seen.insert(id.clone())).collect(),
            visibility: self.visibility(named, cx),
            takes: self.takes(cx.options),
            form: self.session.heartbeats.forms.next,
        }
    }

    /// The visibility timeout in a heartbeat. If the backend counts from the start of each job, the
    /// age of the oldest job is added.
    fn visibility(&self, named: &[Kept], cx: &Context) -> Duration {
        let ages = named.iter().map(|job| job.claimed_at.elapsed(cx.now));
        let oldest = ages.max().filter(|_| self.session.traits.extends_from_start);
        kept_for(named, cx.options).saturating_add(oldest.unwrap_or_default())
    }

    pub(crate) fn beats_in_flight(&self) -> usize {
        let is_beat = |(_, purpose): &(_, &Purpose)| matches!(purpose, Purpose::Heartbeat(_));
        self.calls.general().filter(is_beat).count()
    }

    /// Whether a heartbeat with quiet may still arrive behind one that is sent now on another
    /// connection. A quiet that hangs does not count, because the end must not wait for it.
    fn is_quiet_on_its_way(&self, cx: &Context) -> bool {
        let hangs_after = self.answer_times.hangs_after();
        self.calls.is_any(|purpose| {
            matches!(purpose, Purpose::Heartbeat(sent)
                if sent.state == WorkerState::Quiet && sent.at.elapsed(cx.now) < hangs_after)
        })
    }

    /// A heartbeat hangs: sends another one with the present state, or the one with a change that
    /// waited.
    pub(super) fn heartbeat_hangs(&mut self, cx: &Context) {
        let most = if self.session.heartbeats.again {
            MAX_HEARTBEATS_IN_FLIGHT
        } else {
            MAX_HEARTBEATS_THAT_HANG
        };
        if self.beats_in_flight() < most {
            self.heartbeat_now(cx);
        }
    }

    /// A handler sent a heartbeat. ojs-init passes it on at most once a second.
    pub(crate) fn heartbeat_for_worker(&mut self, cx: &Context) {
        if self.session.heartbeats.worker_asked(WORKER_HEARTBEAT_EVERY, cx.now) {
            self.heartbeat_now(cx);
        } else {
            self.timers
                .arm_at_latest(LinkTimer::Heartbeat, cx.now.after(WORKER_HEARTBEAT_EVERY));
        }
    }

    /// The shutdown begins: one heartbeat reports quiet, the ones after it terminate (requirements
    /// C-03).
    pub(crate) fn beat_for_terminate(&mut self, from: Phase, cx: &Context) {
        if self.session.is_known {
            self.session.heartbeats.says_quiet_first = from == Phase::Running;
            self.heartbeat_now(cx);
        }
    }

    pub(crate) fn heartbeat_replied(&mut self, heartbeat: &SentHeartbeat, reply: Reply, cx: &Context) {
        // A heartbeat that this answer itself causes is not sent twice.
        let mut beats_again = mem::take(&mut self.session.heartbeats.again);
        self.resume_is_answered(heartbeat, &reply);
        match reply {
            Reply::HeartbeatOk { directive, extended } => {
                self.is_known_now(&heartbeat.worker, cx);
                if self.session.is(&heartbeat.worker) {
                    self.accepted_at = Some(cx.now);
                }
                self.reservations_secured(heartbeat.at, heartbeat.kept_for);
                self.session.registrations = RetryState::default();
                // ojs-init tries no other form with its last heartbeats.
                let may_try = !cx.is_terminating();
                self.session.heartbeats.accepted(heartbeat.form, may_try, cx.now);
                // One lost heartbeat now and then is no outage.
                if mem::take(&mut self.session.heartbeats.lost) >= LOST_IN_AN_OUTAGE {
                    self.outage_is_over(cx);
                }
                self.say(Said::HeartbeatAccepted {
                    heartbeat: heartbeat.clone(),
                    extended: extended.map(small::gather),
                });
                let is_new = mem::replace(&mut self.session.last_directive, directive) != directive;
                self.say(Said::Directed { directive, is_new });
                return self.say(Said::HeartbeatDone { beats_again });
            }
            Reply::Failed(failure @ Failure::Unregistered) => {
                if !self.is_registering() && !self.timers.is_armed(LinkTimer::Register) && !cx.is_terminating() {
                    self.register_again(failure, cx);
                }
            }
            Reply::Failed(Failure::Refused) => {
                if self.is_trying_another_form(heartbeat.form) {
                    // The answer to that heartbeat decides the next one.
                    if beats_again {
                        self.session.heartbeats.again = true;
                    }
                    return;
                }
                let is_tried_again = self.form_refused(heartbeat.form);
                if is_tried_again && self.has_not_been_heard_to_be_quiet(heartbeat) {
                    self.session.heartbeats.says_quiet_first = true;
                }
                beats_again |= is_tried_again;
            }
            Reply::Failed(failure) => {
                if self.session.heartbeats.failed(failure) {
                    self.note_failure("heartbeat", &Reply::Failed(failure));
                }
            }
            Reply::Registered { .. } | Reply::Fetched(_) | Reply::Accepted | Reply::JobSeen(_) | Reply::Manifest(_) => {
            }
        }
        if beats_again {
            self.heartbeat_now(cx);
        }
    }

    /// The answer of an accepted heartbeat is handled. A backend that has just asked for terminate
    /// is asked for nothing else, because nothing may arrive after the last heartbeat.
    pub(crate) fn heartbeat_done(&mut self, beats_again: bool, cx: &Context) {
        self.ask_for_manifest(cx);
        if beats_again {
            self.heartbeat_now(cx);
        }
    }

    /// Whether a heartbeat in the present form is in flight and is not the refused one.
    fn is_trying_another_form(&self, refused: HeartbeatForm) -> bool {
        let form = self.session.heartbeats.forms.next;
        refused != form
            && self
                .calls
                .is_any(|purpose| matches!(purpose, Purpose::Heartbeat(heartbeat) if heartbeat.form == form))
    }

    /// A refused heartbeat counts as not sent. Until a heartbeat has reported terminate, quiet is
    /// sent again in the next form.
    fn has_not_been_heard_to_be_quiet(&self, refused: &SentHeartbeat) -> bool {
        let is_on_its_way =
            |purpose: &Purpose| matches!(purpose, Purpose::Heartbeat(heartbeat) if heartbeat.says_quiet_first);
        let was_to_be_said = refused.says_quiet_first || self.calls.is_any(is_on_its_way);
        was_to_be_said && !self.session.heartbeats.has_said_terminate
    }

    /// Whether to try the next form at once (requirements C-08). If the backend has refused every
    /// form, the form is not the reason, and the next attempt is at the next interval.
    pub(crate) fn form_refused(&mut self, refused: HeartbeatForm) -> bool {
        let heartbeats = &mut self.session.heartbeats;
        if refused != heartbeats.forms.next {
            // ojs-init is trying another form already.
            return false;
        }
        let is_tried = heartbeats.forms.refused();
        let (form, is_news) = (heartbeats.forms.next, !heartbeats.are_refused);
        if !is_tried {
            heartbeats.are_refused = true;
            heartbeats.lost = 0;
        }
        // There is one line about refused forms, not one for each form at each interval.
        if is_news && is_tried {
            self.notify(LinkNotice::HeartbeatForm(form));
        } else if is_news {
            self.notify(LinkNotice::HeartbeatsRefused);
        }
        is_tried
    }
}

/// How long the named jobs shall stay reserved. A heartbeat has one time for all of them, so it is
/// the longest. ojs-init always sends it because backends cut every job to 30 s without it.
fn kept_for(named: &[Kept], options: &Options) -> Duration {
    let configured = options.visibility_timeout;
    let own = named.iter().filter_map(|job| job.visibility).max();
    own.map_or(configured, |own| own.min(LONGEST_VISIBILITY).max(configured))
}
