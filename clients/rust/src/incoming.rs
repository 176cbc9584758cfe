//! What ojs-init says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::Level;
use serde_json::value::RawValue;

use crate::answers::Answer;
use crate::error::RunError;
use crate::job::{Job, Unfit};
use crate::json::{self, Members};
use crate::logging;
use crate::outgoing::{failure, frame};
use crate::registry::{MOST_CONCURRENCY, PROTOCOL};
use crate::session::{Lifecycle, Session, State, NOBODYS_JOB};
use crate::text::clean;

const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Most different sentences about what the backend does not offer.
const MOST_SAID: usize = 100;

fn warn(message: &str) {
    logging::say(Level::Warn, None, message, None);
}

impl Session {
    pub(crate) fn on_line(self: &Arc<Session>, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Some(text) = std::str::from_utf8(line).ok() else {
            warn("a frame from ojs-init is not in UTF-8 and is ignored");
            return;
        };
        let members: Members<'_> = match serde_json::from_str(text) {
            Ok(members) => members,
            Err(error) => {
                // Without its text: that is the user's.
                warn(&format!("a frame from ojs-init is no JSON object and is ignored (at byte {})", error.column()));
                return;
            }
        };
        let kind = json::string_in(members.get("type")).unwrap_or_default();
        let done = match kind.as_str() {
            "job" => self.on_job(members.get("job").copied(), members.get("checkpoint").copied()),
            "ping" => self.on_ping(&members),
            "cancel" => self.on_cancel(&members),
            "lifecycle" => self.on_lifecycle(&members),
            "hello" => self.on_hello(&members),
            "ok" => self.on_ok(&members),
            "error" => {
                self.on_error(&members);
                Ok(())
            }
            _ => {
                logging::say(Level::Debug, None, &format!("a frame of an unknown type is ignored: {kind}"), None);
                Ok(())
            }
        };
        if let Err(why) = done {
            warn(&format!("a frame of the type {kind} from ojs-init is ignored: {why}"));
        }
    }

    fn on_hello(&self, members: &Members<'_>) -> Result<(), String> {
        let mut state = self.lock();
        if json::integer_in(members.get("protocol")) != Some(PROTOCOL) {
            let theirs = members.get("protocol").map_or("none", |raw| raw.get());
            let error = RunError::Protocol(format!("version {}, this is {PROTOCOL}", clean(theirs, 50)));
            self.set_fatal(&mut state, error);
            return Ok(());
        }
        if state.is_greeted {
            return Ok(());
        }
        state.is_greeted = true;
        let max_frame = json::integer_in(members.get("max_frame")).and_then(|size| usize::try_from(size).ok());
        if let Some(size) = max_frame.filter(|size| (1..1 << 31).contains(size)) {
            state.max_frame = size;
        }
        let offered = json::integer_in(members.get("concurrency")).and_then(|offered| usize::try_from(offered).ok());
        let offered = offered.unwrap_or(1).clamp(1, MOST_CONCURRENCY);
        let concurrency = self.registry.options.concurrency.map_or(offered, |wanted| wanted.clamp(1, offered));
        self.pool.set_size(concurrency);
        if let Some(lifecycle) = json::string_in(members.get("state")).as_deref().and_then(Lifecycle::named) {
            self.set_lifecycle(&mut state, lifecycle, "at start");
        }
        if state.is_stopping || state.lifecycle == Lifecycle::Terminate {
            self.bell.ring();
            return Ok(());
        }
        let ready = self.registry.ready(concurrency);
        if ready.len() - 1 > state.max_frame {
            let message = format!(
                "the names of all job types have {} bytes, it takes {}: register fewer, or \"*\"",
                ready.len(),
                state.max_frame
            );
            self.set_fatal(&mut state, RunError::Protocol(message));
            return Ok(());
        }
        self.out.send(ready, false).map(|_| ()).map_err(|error| error.to_string())
    }

    fn on_ping(&self, members: &Members<'_>) -> Result<(), String> {
        let Some(id) = members.get("id").filter(|id| json::integer_in(Some(id)).is_some()) else { return Ok(()) };
        let pong = format!("{{\"type\":\"pong\",\"id\":{}}}\n", id.get());
        self.out.send(pong.into_bytes(), true).map(|_| ()).map_err(|error| error.to_string())
    }

    fn on_lifecycle(&self, members: &Members<'_>) -> Result<(), String> {
        let name = json::string_in(members.get("state")).unwrap_or_default();
        let lifecycle = Lifecycle::named(&name).ok_or_else(|| format!("no such state: {}", clean(&name, 50)))?;
        let mut state = self.lock();
        if let Some(left) = json::integer_in(members.get("remaining_ms")).filter(|_| lifecycle == Lifecycle::Terminate)
        {
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LONGEST);
            state.deadline = Some(Instant::now() + left);
        }
        let reason = json::string_in(members.get("reason")).unwrap_or_default();
        self.set_lifecycle(&mut state, lifecycle, &clean(&reason, 50));
        Ok(())
    }

    /// ojs-init says it; terminate is never taken back.
    fn set_lifecycle(&self, state: &mut State, lifecycle: Lifecycle, reason: &str) {
        if state.lifecycle == lifecycle || state.lifecycle == Lifecycle::Terminate {
            return;
        }
        if !self.is_rehearsal {
            let name = format!("{lifecycle:?}").to_lowercase();
            state.say(Level::Info, None, format!("{name} ({reason})"));
        }
        state.lifecycle = lifecycle;
        if lifecycle == Lifecycle::Terminate {
            self.set_ending(state);
        }
    }

    fn on_job(self: &Arc<Session>, raw: Option<&RawValue>, checkpoint: Option<&RawValue>) -> Result<(), String> {
        let raw = raw.ok_or("it has no job")?;
        let checkpoint = checkpoint.filter(|checkpoint| !json::is_null(Some(checkpoint)));
        let job = match Job::read(raw, checkpoint, Arc::downgrade(self)) {
            Ok(job) => job,
            Err(Unfit::NoId) => return Err("the id of the job is no text".to_owned()),
            Err(Unfit::NoType { id, raw_id }) => {
                self.refuse(&id, raw_id.get(), "handler_not_found", "the job has no type");
                return Ok(());
            }
        };
        let mut state = self.lock();
        if let Some(held) = state.held.get(job.id()).cloned() {
            state.say(Level::Warn, Some(&held), "the job came again while its handler runs, which goes on");
            return Ok(());
        }
        if state.is_stopping || state.lifecycle == Lifecycle::Terminate {
            // On its way when we said that we take no more.
            let release = frame("release", job.raw_id(), Some(("reason", "\"the worker is ending\"")));
            return self.out.send(release, false).map(|_| ()).map_err(|error| error.to_string());
        }
        if self.registry.handler(job.kind()).is_none() {
            drop(state);
            let message = format!("this worker has no handler for {}", clean(job.kind(), 200));
            self.refuse(job.id(), job.raw_id(), "handler_not_found", &message);
            return Ok(());
        }
        state.held.insert(job.id().to_owned(), job.clone());
        drop(state);
        self.submit(job);
        Ok(())
    }

    /// Gives the job to a thread. Where the system has none, the job goes back.
    fn submit(self: &Arc<Session>, job: Job) {
        logging::let_through(&job);
        for job in self.pool.submit(self, job) {
            job.log(Level::Error, "the system has no thread for the job; it is given back");
            let release = frame("release", job.raw_id(), Some(("reason", "\"the system has no thread\"")));
            self.answer(&job, Answer::Release, release);
        }
    }

    fn refuse(&self, id: &str, raw_id: &str, code: &str, message: &str) {
        logging::say(Level::Error, None, &format!("job {}: {message}", clean(id, 200)), None);
        let _closed_anyway = self.out.send(failure(raw_id, code, message, true), false);
    }

    fn on_cancel(&self, members: &Members<'_>) -> Result<(), String> {
        let (id, reason) = (json::string_in(members.get("job_id")), json::string_in(members.get("reason")));
        let (Some(id), Some(reason)) = (id, reason) else { return Err("it names no job, or no reason".to_owned()) };
        let mut state = self.lock();
        if let Some(job) = state.held.get(&id).cloned() {
            self.cancel(&mut state, &job, &clean(&reason, 200));
        }
        Ok(())
    }

    fn on_ok(&self, members: &Members<'_>) -> Result<(), String> {
        let (id, about) = (json::string_in(members.get("job_id")), json::string_in(members.get("for")));
        let (Some(id), Some(about)) = (id, about) else { return Err("it names no job".to_owned()) };
        let mut state = self.lock();
        if state.answers.get(&id).is_some_and(|answer| answer.name() == about) {
            state.answers.forget(&id);
        }
        Ok(())
    }

    fn on_error(&self, members: &Members<'_>) {
        let text = |name: &str, most| clean(&json::string_in(members.get(name)).unwrap_or_default(), most);
        let (code, message) = (text("code", 200), text("message", 1000));
        let id = json::string_in(members.get("job_id"));
        let mut state = self.lock();
        if id.as_deref() == Some(NOBODYS_JOB) {
            state.settle();
            self.bell.ring();
            return;
        }
        let job = id.as_ref().and_then(|id| state.held.get(id).cloned());
        let answer = match (&id, &job) {
            (Some(id), None) => state.answers.forget(id),
            _ => None,
        };
        let said = format!("job {}: {code}: {message}", clean(id.as_deref().unwrap_or("?"), 200));
        match code.as_str() {
            "lost" | "not_held" => {
                let level = if job.is_none() && answer != Some(Answer::Ack) { Level::Debug } else { Level::Warn };
                state.say(level, None, said);
                if let Some(job) = job {
                    self.cancel(&mut state, &job, "lost");
                }
            }
            "unsupported_protocol" => {
                let error = RunError::Protocol(format!("it does not speak version {PROTOCOL}: {message}"));
                self.set_fatal(&mut state, error);
            }
            "not_json" | "invalid_frame" | "frame_too_long" => {
                state.say(Level::Error, None, format!("ojs-init refuses a frame: {said}"));
                if let (Some(id), Some(Answer::Ack | Answer::Release)) = (&id, answer) {
                    let message = format!("the handler's answer was refused: {code}: {message}");
                    let frame = failure(&json::quoted(id), "handler_error", &message, false);
                    let _closed_anyway = self.out.send(frame, false);
                }
            }
            "not_offered" => {
                if state.said.len() < MOST_SAID && state.said.insert(message.clone()) {
                    state.say(Level::Warn, None, format!("the backend does not offer this (said once): {message}"));
                }
            }
            "refused" if answer == Some(Answer::Ack) => {
                state.say(Level::Warn, None, said + " (its result; ojs-init reports it without)");
            }
            _ => state.say(Level::Warn, None, said),
        }
    }
}
