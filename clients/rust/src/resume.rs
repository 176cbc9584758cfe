//! What of a job outlives an attempt: its finished steps, the positions of its loops, and the program's own state. It is
//! saved in the same form by the clients of all languages.

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
    /// What ended the handler between two rows or steps: its job is given back even if that was swallowed.
    ended: Option<Error>,
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
        };
        if let Some((steps, cursors, user)) = checkpoint.and_then(|checkpoint| parts(checkpoint.get())) {
            resume.known = steps.len();
            (resume.steps, resume.cursors, resume.user, resume.is_used) = (steps, cursors, user, true);
        }
        resume.user_loaded.clone_from(&resume.user);
        resume
    }

    /// The checkpoint.
    fn form(&mut self) -> Result<String> {
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
            return Err(Discard::new(message).kind("CheckpointTooLarge").into());
        }
        self.is_dirty = false;
        self.saved_at = Instant::now();
        Ok(text)
    }

    /// The result of a step that an earlier attempt has finished, or nothing: it is to be run.
    fn begin_step(&mut self, job: &Job, name: &str) -> Result<Option<Raw>> {
        if name.is_empty() {
            return Err(misuse("a step has a name that is not empty"));
        }
        if let Some(current) = &self.current {
            return Err(misuse(&format!("step {name} begins within step {current}: steps come one after the other")));
        }
        if self.begun.iter().any(|begun| begun == name) {
            return Err(misuse(&format!("there are two steps {name} in this job: each has a name of its own")));
        }
        self.is_used = true;
        self.begun.push(name.to_owned());
        let at = self.begun.len() - 1;
        if at < self.known {
            let (known, result) = &self.steps[at];
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

    /// The error that names both orders.
    fn changed(&self) -> Error {
        let finished = self.steps[..self.known].iter().map(|(name, _)| name.as_str());
        let open = self.cursors.keys().map(String::as_str).filter(|name| !name.is_empty());
        let before: Vec<&str> = finished.chain(open).collect();
        let message = format!(
            "the steps of this job have changed: an earlier attempt had {}; this one has {}",
            before.join(", "),
            self.begun.join(", ")
        );
        Discard::new(clean(&message, 2000)).kind("StepsChanged").into()
    }

    /// Ends the handler, by a release, when what comes next would be cut off.
    fn may_begin(&mut self, job: &Job, usual: Duration) -> Result<()> {
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
        self.ended = Some(ended.clone());
        Err(ended)
    }
}

type Parts = (Vec<(String, Raw)>, BTreeMap<String, Raw>, Option<Raw>);

/// What is in a checkpoint of our form; nothing if it has another one.
fn parts(text: &str) -> Option<Parts> {
    if !text.starts_with('{') {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(text).ok()?;
    if members.get("ojs_resume")?.get() != "1" {
        return None;
    }
    let steps = json::decode(members.get("steps")?.get()).ok()?;
    let cursors = json::decode(members.get("cursors")?.get()).ok()?;
    let user = members.get("state").copied().filter(|state| !json::is_null(Some(state))).map(ToOwned::to_owned);
    Some((steps, cursors, user))
}

pub(crate) fn misuse(message: &str) -> Error {
    Discard::new(message).kind("WrongUse").into()
}

/// What a job's methods do with it.
impl Job {
    /// What an earlier attempt saved by itself; nothing, or JSON.
    pub(crate) fn user_state(&self) -> Option<Raw> {
        self.resume().user_loaded.clone().filter(|state| !json::is_null(Some(state)))
    }

    /// Saves what the program itself keeps.
    pub(crate) fn save_user_state(&self, state: Raw) -> Result<()> {
        let mut resume = self.resume();
        let before = resume.user.replace(state);
        let text = if resume.is_used {
            match resume.form() {
                Ok(text) => text,
                Err(error) => {
                    resume.user = before;
                    return Err(error);
                }
            }
        } else {
            resume.user.as_deref().map_or("null", RawValue::get).to_owned()
        };
        self.send(resume, &text)
    }

    fn save(&self) -> Result<()> {
        let mut resume = self.resume();
        let text = resume.form()?;
        self.send(resume, &text)
    }

    /// It is queued before anybody else can make a newer one, so an older one never comes last.
    fn send(&self, mut resume: MutexGuard<'_, Resume>, text: &str) -> Result<()> {
        let queued = self.say_checkpoint(text);
        resume.is_dirty |= queued.is_err() && resume.is_used;
        drop(resume);
        Ok(self.await_checkpoint(queued?)?)
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

    pub(crate) fn begin_step(&self, name: &str) -> Result<Option<Raw>> {
        self.resume().begin_step(self, name)
    }

    /// The step is finished, or has failed where there is no result.
    pub(crate) fn end_step(&self, name: &str, took: Duration, result: Option<Raw>) -> Result<()> {
        remember_step(self.kind(), name, took);
        let mut resume = self.resume();
        resume.current = None;
        let Some(result) = result else { return Ok(()) };
        resume.steps.push((name.to_owned(), result));
        resume.cursors.remove(name);
        resume.is_dirty = true;
        drop(resume);
        self.save()
    }

    /// The step that a new loop stands in, and the position that an earlier attempt has saved for it.
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
