//! Heartbeats: what they say, in which form, and what their answers mean.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::WorkerId;
use crate::api::{Call, Failure, HeartbeatForm, LinkNotice, LinkTimer, Options, Phase, Reply, WorkerState};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::backend::link::{Context, Kept, Link};
use crate::backend::link_said::Said;
use crate::backend::purpose::Purpose;
use crate::retry::state::RetryState;

/// Heartbeats on their way at the same time: one that hangs, one that went out because of that, and
/// one that tells of a change.
const MAX_HEARTBEATS_IN_FLIGHT: usize = 3;

/// With so many on their way no further one goes out because they hang, unless one waits that tells
/// of a change.
const MAX_HEARTBEATS_THAT_HANG: usize = 2;

/// So many heartbeats in a row without an answer are an outage.
const LOST_IN_AN_OUTAGE: u32 = 2;

/// Least time between two heartbeats that workers ask for.
const WORKER_HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Longest reservation that we ask for, whatever a job's envelope wants: a crash must not hide a
/// job for ever.
const LONGEST_VISIBILITY: Duration = Duration::from_secs(24 * 60 * 60);

impl Link {
    /// Sends a heartbeat, and the next one an interval later. It waits for the answer to another
    /// one where three are on their way, and where it would say terminate beside a quiet: the
    /// backend could hear them the other way round.
    pub(crate) fn heartbeat_now(&mut self, cx: &Context) {
        let Some(worker) = self.session.worker().cloned() else {
            return;
        };
        if !self.session.is_registration_answered() || cx.end.has_said_goodbye {
            return;
        }
        self.timers
            .arm(LinkTimer::Heartbeat, cx.now.after(self.session.heartbeats.interval()));
        // A backend that never heard of the worker need not hear of its end, unless a job of a
        // former worker is still reserved.
        if cx.is_terminating() && !self.session.is_known() && !cx.jobs.has_kept() {
            return;
        }
        let says = self.session.heartbeats.would_say(cx.end.state);
        let comes_too_soon = says == WorkerState::Terminate && self.is_quiet_on_its_way(cx);
        if comes_too_soon || self.beats_in_flight() >= MAX_HEARTBEATS_IN_FLIGHT {
            self.session.heartbeats.wants_another();
            return;
        }
        let (state, says_quiet_first) = self.session.heartbeats.goes_out(cx.end.state);
        let kept = cx.jobs.kept();
        let call = self.heartbeat(worker.clone(), state, &kept, cx);
        let kept_for = kept_for(&kept, cx.options);
        let named = kept.into_iter().map(|job| (job.id, job.claim)).collect();
        let form = self.session.heartbeats.form();
        let patience = cx.options.request_timeout.min(self.session.heartbeats.interval());
        let heartbeat = SentHeartbeat {
            worker,
            at: cx.now,
            state,
            named,
            form,
            says_quiet_first,
            kept_for,
            is_after_resume: self.session.heartbeats.awaits_resume(),
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
            form: self.session.heartbeats.form(),
        }
    }

    /// How that is said. Where the time counts from the start of each job, the oldest one decides.
    fn visibility(&self, named: &[Kept], cx: &Context) -> Duration {
        let ages = named.iter().map(|job| job.claimed_at.elapsed(cx.now));
        let oldest = ages.max().filter(|_| self.session.traits().extends_from_start);
        kept_for(named, cx.options).saturating_add(oldest.unwrap_or_default())
    }

    pub(crate) fn beats_in_flight(&self) -> usize {
        let is_beat = |(_, purpose): &(_, &Purpose)| matches!(purpose, Purpose::Heartbeat(_));
        self.calls.general().filter(is_beat).count()
    }

    /// Whether one that says quiet may still arrive behind one that goes out now, on another
    /// connection. Of one that hangs nobody knows, and the end is not to wait for it.
    fn is_quiet_on_its_way(&self, cx: &Context) -> bool {
        let hangs_after = self.hedges.times.hangs_after();
        self.calls.is_any(|purpose| {
            matches!(purpose, Purpose::Heartbeat(sent)
                if sent.state == WorkerState::Quiet && sent.at.elapsed(cx.now) < hangs_after)
        })
    }

    /// One hangs: another one says what is so by now. One that has waited for it tells of a change.
    pub(super) fn heartbeat_hangs(&mut self, cx: &Context) {
        let most = if self.session.heartbeats.is_another_wanted() {
            MAX_HEARTBEATS_IN_FLIGHT
        } else {
            MAX_HEARTBEATS_THAT_HANG
        };
        if self.beats_in_flight() < most {
            self.heartbeat_now(cx);
        }
    }

    /// A handler said that it is alive: that counts as often as once a second.
    pub(crate) fn heartbeat_for_worker(&mut self, cx: &Context) {
        if self.session.heartbeats.worker_asked(WORKER_HEARTBEAT_EVERY, cx.now) {
            self.heartbeat_now(cx);
        } else {
            self.timers
                .arm_at_latest(LinkTimer::Heartbeat, cx.now.after(WORKER_HEARTBEAT_EVERY));
        }
    }

    /// The shutdown begins: a heartbeat says quiet, the ones after it terminate (requirements
    /// C-03).
    pub(crate) fn beat_for_terminate(&mut self, from: Phase, cx: &Context) {
        if self.session.is_known() {
            self.session.heartbeats.end_begins(from == Phase::Running);
            self.heartbeat_now(cx);
        }
    }

    pub(crate) fn heartbeat_replied(&mut self, heartbeat: &SentHeartbeat, reply: Reply, cx: &Context) {
        // One that this very answer causes is not sent twice.
        let mut beats_again = self.session.heartbeats.takes_another();
        self.resume_is_answered(heartbeat, &reply);
        match reply {
            Reply::HeartbeatOk { directive, extended } => {
                self.is_known_now(&heartbeat.worker, cx);
                if self.session.is(&heartbeat.worker) {
                    self.accepted_at = Some(cx.now);
                }
                self.reservations_secured(heartbeat.at, heartbeat.kept_for);
                self.session.registrations = RetryState::default();
                // The last heartbeats are no time to try something.
                let may_try = !cx.is_terminating();
                self.session.heartbeats.accepted(heartbeat.form, may_try, cx.now);
                // One that is lost now and then is no outage.
                if self.session.heartbeats.takes_lost() >= LOST_IN_AN_OUTAGE {
                    self.outage_is_over(cx);
                }
                let has_sent_lists = self.session.heartbeats.told_extended(extended.is_some());
                self.say(Said::HeartbeatAccepted {
                    heartbeat: heartbeat.clone(),
                    has_sent_lists,
                    extended: extended.map(BTreeSet::from_iter),
                });
                let is_new = self.session.directed(directive);
                self.say(Said::Directed { directive, is_new });
                return self.say(Said::HeartbeatDone { beats_again });
            }
            Reply::Failed(failure @ Failure::Unregistered) => {
                let is_registering = self.calls.is_any(|purpose| matches!(purpose, Purpose::Register(_)));
                if !is_registering && self.timers.deadline_of(LinkTimer::Register).is_none() && !cx.is_terminating() {
                    self.register_again(failure, cx);
                }
            }
            Reply::Failed(Failure::Refused) => {
                if self.is_trying_another_form(heartbeat.form) {
                    // Its answer decides what is said next.
                    if beats_again {
                        self.session.heartbeats.wants_another();
                    }
                    return;
                }
                let is_tried_again = self.form_refused(heartbeat.form);
                if is_tried_again && self.has_not_been_heard_to_be_quiet(heartbeat) {
                    self.session.heartbeats.say_quiet_again();
                }
                beats_again |= is_tried_again;
            }
            Reply::Failed(failure) => self.heartbeat_failed(failure),
            Reply::Registered { .. } | Reply::Fetched(_) | Reply::Accepted | Reply::JobSeen(_) | Reply::Manifest(_) => {
            }
        }
        if beats_again {
            self.heartbeat_now(cx);
        }
    }

    /// The consequences of an accepted heartbeat are drawn. A backend that has just asked for
    /// terminate is not asked for anything else, because nothing may arrive after the last words.
    pub(crate) fn heartbeat_done(&mut self, beats_again: bool, cx: &Context) {
        self.ask_for_manifest(cx);
        if beats_again {
            self.heartbeat_now(cx);
        }
    }

    /// Whether a heartbeat in the present form is on its way, and that is not the one that was
    /// refused.
    fn is_trying_another_form(&self, refused: HeartbeatForm) -> bool {
        let form = self.session.heartbeats.form();
        refused != form
            && self
                .calls
                .is_any(|purpose| matches!(purpose, Purpose::Heartbeat(heartbeat) if heartbeat.form == form))
    }

    /// A refused heartbeat counts as not sent. Until one has said terminate, quiet is sent in the
    /// next form.
    fn has_not_been_heard_to_be_quiet(&self, refused: &SentHeartbeat) -> bool {
        let is_on_its_way =
            |purpose: &Purpose| matches!(purpose, Purpose::Heartbeat(heartbeat) if heartbeat.says_quiet_first);
        let was_to_be_said = refused.says_quiet_first || self.calls.is_any(is_on_its_way);
        was_to_be_said && !self.session.heartbeats.has_said_terminate()
    }

    fn heartbeat_failed(&mut self, failure: Failure) {
        if self.session.heartbeats.failed(failure) {
            self.note_failure("heartbeat", &Reply::Failed(failure));
        }
    }

    /// Whether the next form is to be tried at once (requirements C-08). When all of them were
    /// refused it is not the form: then the next attempt is at the next interval.
    pub(crate) fn form_refused(&mut self, refused: HeartbeatForm) -> bool {
        let Some(refusal) = self.session.heartbeats.refused(refused) else {
            return false;
        };
        if refusal.is_news {
            self.notify(
                refusal
                    .next
                    .map_or(LinkNotice::HeartbeatsRefused, LinkNotice::HeartbeatForm),
            );
        }
        refusal.next.is_some()
    }
}

/// How long the named jobs shall stay reserved: a heartbeat says one time for all of them, so the
/// longest. It is said always: without it backends cut every job to 30 s.
fn kept_for(named: &[Kept], options: &Options) -> Duration {
    let configured = options.visibility_timeout;
    let own = named.iter().filter_map(|job| job.visibility).max();
    own.map_or(configured, |own| own.min(LONGEST_VISIBILITY).max(configured))
}
