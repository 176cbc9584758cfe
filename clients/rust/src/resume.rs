//! What of a job outlives an attempt: its finished steps, the positions of its loops, and the
//! program's own state. It is saved in the same form by the clients of all languages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Cancelled, Discard, Error, Release, Result};
use crate::job::Job;
use crate::json::{self, Members, MAX_DEPTH};
use crate::output::invalid_result;
use crate::text::clean;

/// The most JSON that a resumable job keeps, in bytes.
const MOST_BYTES: usize = 64 * 1024;
/// The least time from one saved position to the next.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// The time before the end of a shutdown in which nothing new is begun, at least.
const LEAST_NOTICE: Duration = Duration::from_millis(250);
const REMEMBERED_STEPS: usize = 1000;
const RESUMES: &str = "resumes at its checkpoint";

type Raw = Box<RawValue>;

/// Behind the job's own lock.
#[derive(Debug)]
pub(crate) struct Resume {
    steps: Vec<(String, Raw)>,
    cursors: BTreeMap<String, Raw>,
    user: Option<Raw>,
    /// What an earlier attempt saved by itself.
    user_loaded: Option<Raw>,
    /// How many of the steps an earlier attempt has finished.
    known: usize,
    begun: Vec<String>,
    loops: HashSet<String>,
    current: Option<String>,
    /// Checkpoints have to have our form.
    is_used: bool,
    is_dirty: bool,
    saved_at: Instant,
    /// What ended the handler between two rows or steps: its job ends with that even if it was
    /// swallowed.
    ended: Option<Error>,
    /// The step that failed last, and its error: no other one begins.
    failed: Option<(String, Error)>,
    /// That step was called again.
    is_repeated: bool,
}

/// Where a call of the handler begins, for [`Job::rewind`].
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    begun: usize,
    loops: HashSet<String>,
    current: Option<String>,
}

impl Resume {
    /// Takes what came with the job; anything but our form is the program's own.
    pub(crate) fn load(checkpoint: Option<&RawValue>) -> Resume {
        let mut resume = Resume {
            steps: Vec::new(),
            cursors: BTreeMap::new(),
            user: checkpoint.map(ToOwned::to_owned),
            user_loaded: None,
            known: 0,
            begun: Vec::new(),
            loops: HashSet::new(),
            current: None,
            is_used: false,
            is_dirty: false,
            saved_at: Instant::now(),
            ended: None,
            failed: None,
            is_repeated: false,
        };
        if let Some((steps, cursors, user)) = checkpoint.and_then(|checkpoint| parts(checkpoint.get())) {
            resume.known = steps.len();
            (resume.steps, resume.cursors, resume.user, resume.is_used) = (steps, cursors, user, true);
        }
        resume.user_loaded.clone_from(&resume.user);
        resume
    }

    /// The checkpoint.
    fn form(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Form<'a> {
            ojs_resume: u8,
            steps: &'a [(String, Raw)],
            cursors: &'a BTreeMap<String, Raw>,
            state: Option<&'a RawValue>,
        }
        let form = Form { ojs_resume: 1, steps: &self.steps, cursors: &self.cursors, state: self.user.as_deref() };
        let text = json::encode(&form, MAX_DEPTH - 1)
            .map_err(|why| invalid_result(&format!("of a step or a position: {why}")))?;
        if text.len() > MOST_BYTES {
            let message = format!(
                "the job's steps, positions and state have {} bytes of JSON together, at most {MOST_BYTES} are kept: let \
                 steps return ids or paths, not contents",
                text.len()
            );
            return Err(Discard::of_library("CheckpointTooLarge", message));
        }
        Ok(text)
    }

    /// The result of a step that an earlier attempt has finished, or nothing: it is to be run.
    fn begin_step(&mut self, job: &Job, name: &str) -> Result<Option<Raw>> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        if name.is_empty() {
            return Err(misuse("a step has a name that is not empty"));
        }
        if let Some(current) = &self.current {
            return Err(misuse(&format!("step {name} begins within step {current}: steps come one after the other")));
        }
        if let Some((failed, error)) = &self.failed {
            if failed != name || self.is_repeated {
                return Err(error.clone());
            }
        }
        self.is_repeated = self.failed.is_some();
        if self.begun.iter().any(|begun| begun == name) {
            return Err(misuse(&format!("there are two steps {name} in this job: each has a name of its own")));
        }
        self.is_used = true;
        self.begun.push(name.to_owned());
        let at = self.begun.len() - 1;
        if let Some((known, result)) = self.steps.get(at) {
            return if known == name { Ok(Some(result.clone())) } else { Err(self.changed()) };
        }
        // A step in which an earlier attempt stopped has to come before any new one.
        if self.cursors.keys().any(|open| !open.is_empty() && !self.begun.contains(open)) {
            return Err(self.changed());
        }
        self.may_begin(job, usual_time(job.kind(), name))?;
        self.current = Some(name.to_owned());
        Ok(None)
    }

    /// Notes what ends the job, unless something has before.
    fn end(&mut self, error: Error) -> Error {
        self.ended.get_or_insert(error).clone()
    }

    /// The error that names both orders.
    fn changed(&mut self) -> Error {
        let finished = self.steps[..self.known].iter().map(|(name, _)| name.as_str());
        let open = self.cursors.keys().map(String::as_str).filter(|name| !name.is_empty());
        let before: Vec<&str> = finished.chain(open).collect();
        let message = format!(
            "the steps of this job have changed: an earlier attempt had {}; this one has {}",
            before.join(", "),
            self.begun.join(", ")
        );
        self.end(Discard::of_library("StepsChanged", clean(&message, 2000)))
    }

    /// Ends the handler, by a release, when what comes next would be cut off.
    fn may_begin(&mut self, job: &Job, usual: Duration) -> Result<()> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let ended: Error = match job.cancel_reason().as_deref() {
            None => {
                let notice = (usual + usual / 2).max(LEAST_NOTICE);
                if job.remaining().is_none_or(|left| left >= notice) {
                    return Ok(());
                }
                Release::new(RESUMES).into()
            }
            Some(reason @ ("timeout" | "cancelled" | "lost")) => Cancelled { reason: reason.to_owned() }.into(),
            // shutdown, and what a later version has for it
            Some(_) => Release::new(RESUMES).into(),
        };
        Err(self.end(ended))
    }
}

type Parts = (Vec<(String, Raw)>, BTreeMap<String, Raw>, Option<Raw>);

/// What is in a checkpoint of our form; nothing if it has another one.
fn parts(text: &str) -> Option<Parts> {
    if !text.starts_with('{') {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(text).ok()?;
    // A backend may spell it 1.0.
    if json::integer_in(members.get("ojs_resume")) != Some(1) {
        return None;
    }
    let steps = json::decode(members.get("steps")?.get()).ok()?;
    let cursors = json::decode(members.get("cursors")?.get()).ok()?;
    let user = members.get("state").copied().filter(|state| !json::is_null(Some(state))).map(ToOwned::to_owned);
    Some((steps, cursors, user))
}

pub(crate) fn misuse(message: &str) -> Error {
    Discard::of_library("WrongUse", message)
}

/// What a job's methods do with it.
impl Job {
    /// What an earlier attempt saved by itself; nothing, or JSON.
    pub(crate) fn user_state(&self) -> Option<Raw> {
        self.resume().user_loaded.clone().filter(|state| !json::is_null(Some(state)))
    }

    /// Saves what the program itself keeps. What can never be saved is not kept either.
    pub(crate) fn save_user_state(&self, state: Raw) -> Result<()> {
        let mut resume = self.resume();
        let before = resume.user.replace(state);
        let text = if resume.is_used {
            resume.form()
        } else {
            Ok(resume.user.as_deref().map_or("null", RawValue::get).to_owned())
        };
        self.send(resume, text, |resume| resume.user = before)
    }

    fn save(&self) -> Result<()> {
        let resume = self.resume();
        let text = resume.form();
        self.send(resume, text, |_| {})
    }

    /// It is queued before anybody else can make a newer one, so an older one never comes last.
    /// What can never be saved is taken back; what ojs-init does not take now is to be saved later.
    fn send(
        &self,
        mut resume: MutexGuard<'_, Resume>,
        text: Result<String>,
        take_back: impl FnOnce(&mut Resume),
    ) -> Result<()> {
        let queued = match text {
            Ok(text) => self.say_checkpoint(&text).map_err(|error| (error.is_final(), error.into())),
            Err(unfit) => Err((true, unfit)),
        };
        let written = match queued {
            Ok(ticket) => {
                resume.is_dirty = false;
                resume.saved_at = Instant::now();
                drop(resume);
                self.await_checkpoint(ticket).map_err(Error::from)
            }
            Err((true, unfit)) => {
                take_back(&mut resume);
                return Err(unfit);
            }
            Err((false, lost)) => {
                drop(resume);
                Err(lost)
            }
        };
        if written.is_err() {
            let mut resume = self.resume();
            resume.is_dirty |= resume.is_used;
        }
        written
    }

    /// For an answer after which the job may come again.
    pub(crate) fn save_before_end(&self) {
        if !self.resume().is_dirty {
            return;
        }
        if let Err(error) = self.save() {
            self.log(log::Level::Error, &format!("its position was not saved: {error}"));
        }
    }

    /// What ended the handler between two rows or steps.
    pub(crate) fn ended_between(&self) -> Option<Error> {
        self.resume().ended.clone()
    }

    /// Where a call of the handler begins.
    pub(crate) fn mark(&self) -> Mark {
        let resume = self.resume();
        Mark { begun: resume.begun.len(), loops: resume.loops.clone(), current: resume.current.clone() }
    }

    /// The handler is called again: its steps and loops come again, and those that are finished by
    /// now are known.
    pub(crate) fn rewind(&self, mark: &Mark) {
        let mut resume = self.resume();
        resume.begun.truncate(mark.begun);
        (resume.loops, resume.current) = (mark.loops.clone(), mark.current.clone());
        resume.known = resume.steps.len();
        (resume.failed, resume.is_repeated) = (None, false);
    }

    /// Ends the job with this error, whatever the handler makes of it.
    pub(crate) fn end_with(&self, error: Error) -> Error {
        self.resume().end(error)
    }

    pub(crate) fn begin_step(&self, name: &str) -> Result<Option<Raw>> {
        let mut resume = self.resume();
        let kept = resume.begin_step(self, name)?;
        let is_unsaved = kept.is_some() && resume.is_repeated && resume.is_dirty;
        drop(resume);
        if is_unsaved {
            // It is finished, but ojs-init did not take that when it ended.
            self.save()?;
        }
        if kept.is_some() {
            self.resume().failed = None;
        }
        Ok(kept)
    }

    /// The step's body is over, however it ended.
    pub(crate) fn leave_step(&self) {
        self.resume().current = None;
    }

    /// The step is not finished; it may be called once more, and its loop may come again.
    pub(crate) fn fail_step(&self, name: &str, error: &Error) {
        let mut resume = self.resume();
        if resume.begun.last().is_some_and(|begun| begun == name) {
            resume.begun.pop();
        }
        resume.loops.remove(name);
        resume.failed = Some((name.to_owned(), error.clone()));
    }

    /// The step is finished, and saved.
    pub(crate) fn finish_step(&self, name: &str, took: Duration, result: Raw) -> Result<()> {
        let mut resume = self.resume();
        if let Some(ended) = &resume.ended {
            // It has swallowed the end of its loop.
            return Err(ended.clone());
        }
        remember_step(self.kind(), name, took);
        resume.steps.push((name.to_owned(), result));
        let cursor = resume.cursors.remove(name);
        let was_dirty = std::mem::replace(&mut resume.is_dirty, true);
        let text = resume.form();
        self.send(resume, text, |resume| {
            resume.steps.pop();
            resume.cursors.extend(cursor.map(|cursor| (name.to_owned(), cursor)));
            resume.is_dirty = was_dirty;
        })?;
        self.resume().failed = None;
        Ok(())
    }

    /// The step that a new loop stands in, and the position that an earlier attempt has saved for
    /// it.
    pub(crate) fn begin_loop(&self) -> Result<(String, Option<Raw>)> {
        let mut resume = self.resume();
        let step = resume.current.clone().unwrap_or_default();
        if !resume.loops.insert(step.clone()) {
            let place = if step.is_empty() { "outside of steps".to_owned() } else { format!("in step {step}") };
            return Err(misuse(&format!("there are two loops over rows {place}: put each into a step of its own")));
        }
        resume.is_used = true;
        let start = resume.cursors.get(&step).filter(|start| !json::is_null(Some(start))).cloned();
        Ok((step, start))
    }

    pub(crate) fn may_begin_row(&self, longest: Duration) -> Result<()> {
        self.resume().may_begin(self, longest)
    }

    /// A row is finished.
    pub(crate) fn end_row(&self, step: &str, position: Raw) -> Result<()> {
        let mut resume = self.resume();
        resume.cursors.insert(step.to_owned(), position);
        resume.is_dirty = true;
        let is_time = resume.saved_at.elapsed() >= SAVE_EVERY;
        drop(resume);
        if is_time {
            self.save()?;
        }
        Ok(())
    }
}

type Times = HashMap<(String, String), Duration>;

/// How long each step took last in this process, by job type and name.
static STEP_TIMES: Mutex<Option<Times>> = Mutex::new(None);

fn usual_time(kind: &str, name: &str) -> Duration {
    let times = STEP_TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (kind.to_owned(), name.to_owned());
    times.as_ref().and_then(|times| times.get(&key).copied()).unwrap_or_default()
}

fn remember_step(kind: &str, name: &str, took: Duration) {
    let mut times = STEP_TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    let times = times.get_or_insert_with(Times::new);
    let key = (kind.to_owned(), name.to_owned());
    if times.len() >= REMEMBERED_STEPS && !times.contains_key(&key) {
        if let Some(other) = times.keys().next().cloned() {
            times.remove(&other);
        }
    }
    times.insert(key, took);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::output::Output;
    use crate::registry::{Handler, Registry};
    use crate::session::Session;
    use crate::worker::Options;

    #[test]
    fn a_step_whose_save_stalled_is_saved_when_its_job_ends() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let handler = |job: &Job| job.step("pay", || Ok("paid".to_owned())).map(|_| Output::none());
        let handlers = BTreeMap::from([("t".to_owned(), Arc::new(handler) as Handler)]);
        let registry = Registry { options: Options::default(), handlers, middleware: Vec::new() };
        let mut session = Session::new(Arc::new(registry), ours.try_clone().unwrap(), false);
        Arc::get_mut(&mut session).unwrap().out.patience = Duration::from_millis(30);
        session.on_line(br#"{"type":"hello","protocol":1,"concurrency":1}"#);
        while session.out.is_flushed() {
            session.out.send(b"{}\n".repeat(5000), false).unwrap();
        }
        session.on_line(br#"{"type":"job","job":{"id":"j","type":"t"}}"#);
        while session.lock().held.contains_key("j") {
            thread::sleep(Duration::from_millis(1));
        }
        let reader = thread::spawn(move || {
            let mut all = String::new();
            theirs.read_to_string(&mut all).unwrap();
            all
        });
        thread::scope(|scope| {
            scope.spawn(|| session.out.run());
            while !session.out.is_flushed() {
                session.bell.wait(Some(Duration::from_secs(20)));
            }
            session.out.close();
            ours.shutdown(Shutdown::Both).unwrap();
        });
        let all = reader.join().unwrap();
        let frames: Vec<&str> = all.lines().filter(|line| line.contains("\"j\"")).collect();
        assert!(frames[0].contains(r#""steps":[["pay","paid"]]"#), "{frames:?}");
        assert!(frames.last().unwrap().contains(r#""type":"fail""#), "{frames:?}");
    }
}
