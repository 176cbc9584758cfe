//! What of a job outlives an attempt: its finished steps, the positions of its loops, and the state
//! that the handler saved itself. The clients of all languages save it in one form.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::link::lock;

/// Most JSON that is kept for a resumable job, in bytes.
const MOST_BYTES: usize = 65_536;
/// Least time between two saved positions of a loop.
const SAVE_EVERY: Duration = Duration::from_secs(5);
const REMEMBERED_STEPS: usize = 1000;

pub(crate) type Raw = Box<RawValue>;

#[derive(Debug)]
pub(crate) struct Resume {
    steps: Vec<(String, Raw)>,
    cursors: BTreeMap<String, Value>,
    /// The state that the handler saved itself, and the one that an earlier attempt saved.
    state: Option<Raw>,
    loaded: Option<Raw>,
    /// The number of steps that an earlier attempt finished.
    known: usize,
    /// The steps of this attempt.
    begun: Vec<String>,
    current: Option<String>,
    loops: HashSet<String>,
    /// The job has steps or loops, so its checkpoints have the form.
    is_used: bool,
    is_dirty: bool,
    saved_at: Instant,
}

#[derive(Deserialize, Serialize)]
struct Form<S, C, T> {
    ojs_resume: T,
    steps: S,
    cursors: C,
    state: Option<Raw>,
}

impl Resume {
    /// Reads the checkpoint that came with the job. One of another form is the handler's own.
    pub(crate) fn load(checkpoint: Option<&RawValue>) -> Resume {
        let form: Option<Form<Vec<(String, Raw)>, BTreeMap<String, Value>, f64>> =
            checkpoint.and_then(|text| serde_json::from_str(text.get()).ok());
        let (steps, cursors, state, is_used) = match form {
            Some(form) if (form.ojs_resume - 1.0).abs() < f64::EPSILON => (form.steps, form.cursors, form.state, true),
            _ => (Vec::new(), BTreeMap::new(), checkpoint.map(ToOwned::to_owned), false),
        };
        Resume {
            known: steps.len(),
            loaded: state.clone(),
            steps,
            cursors,
            state,
            begun: Vec::new(),
            current: None,
            loops: HashSet::new(),
            is_used,
            is_dirty: false,
            saved_at: Instant::now(),
        }
    }

    pub(crate) fn loaded_state(&self) -> Option<Raw> {
        self.loaded.clone()
    }

    pub(crate) fn set_state(&mut self, state: Raw) {
        self.state = Some(state);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// The checkpoint to save now.
    ///
    /// # Errors
    /// It has more than 64 KiB.
    pub(crate) fn checkpoint(&mut self) -> Result<String> {
        if !self.is_used {
            return Ok(self.state.as_deref().map_or("null", RawValue::get).to_owned());
        }
        let form = Form { ojs_resume: 1, steps: &self.steps, cursors: &self.cursors, state: self.state.clone() };
        let text = serde_json::to_string(&form)?;
        if text.len() > MOST_BYTES {
            let message = format!(
                "the steps, positions and state of the job have {} bytes of JSON, at most {MOST_BYTES} are kept: \
                 return ids or paths from steps, not contents",
                text.len()
            );
            return Err(Error::found("CheckpointTooLarge", "handler_error", message));
        }
        self.is_dirty = false;
        self.saved_at = Instant::now();
        Ok(text)
    }

    /// The result of a step that an earlier attempt finished; `None` if the step has to run.
    pub(crate) fn begin_step(&mut self, name: &str) -> Result<Option<Raw>> {
        if let Some(current) = &self.current {
            return Err(Error::misuse(&format!("step {name} begins within step {current}: put it behind that step")));
        }
        if name.is_empty() || self.begun.iter().any(|begun| begun == name) {
            return Err(Error::misuse(&format!("step {name:?}: each step of a job needs a name of its own")));
        }
        self.is_used = true;
        self.begun.push(name.to_owned());
        if let Some((known, result)) = self.steps.get(self.begun.len() - 1) {
            return if known == name { Ok(Some(result.clone())) } else { Err(self.steps_changed()) };
        }
        // A step in which an earlier attempt stopped has to come before any new one.
        if self.cursors.keys().any(|open| !open.is_empty() && !self.begun.contains(open)) {
            return Err(self.steps_changed());
        }
        Ok(None)
    }

    pub(crate) fn enter_step(&mut self, name: &str) {
        self.current = Some(name.to_owned());
    }

    /// The body of the step did not finish. The handler may call the step again.
    pub(crate) fn leave_step(&mut self, name: &str) {
        self.current = None;
        self.begun.retain(|begun| begun != name);
        self.loops.remove(name);
    }

    pub(crate) fn finish_step(&mut self, name: &str, result: Raw) {
        self.current = None;
        self.steps.push((name.to_owned(), result));
        self.cursors.remove(name);
        self.is_dirty = true;
    }

    fn steps_changed(&self) -> Error {
        let finished = self.steps[..self.known].iter().map(|(name, _)| name.as_str());
        let open = self.cursors.keys().map(String::as_str).filter(|name| !name.is_empty());
        let before: Vec<&str> = finished.chain(open).collect();
        changed(&format!(
            "an earlier attempt had the steps {}; this one has {}",
            before.join(", "),
            self.begun.join(", ")
        ))
    }

    /// The step that a new loop is in, `""` outside of steps, and the position that an earlier
    /// attempt saved for that loop.
    pub(crate) fn begin_loop(&mut self) -> Result<(String, Option<Value>)> {
        let step = self.current.clone().unwrap_or_default();
        if !self.loops.insert(step.clone()) {
            return Err(Error::misuse("a second loop over rows: put each loop into a step of its own"));
        }
        self.is_used = true;
        let position = self.cursors.get(&step).filter(|position| !position.is_null()).cloned();
        Ok((step, position))
    }

    /// Takes the position of a finished row; true if it is time to save it.
    pub(crate) fn finish_row(&mut self, step: &str, position: Value) -> bool {
        self.cursors.insert(step.to_owned(), position);
        self.is_dirty = true;
        self.saved_at.elapsed() >= SAVE_EVERY
    }
}

pub(crate) fn changed(message: &str) -> Error {
    Error::found("StepsChanged", "handler_error", message.to_owned())
}

/// Whether two keys are the same. A backend may spell 10 as 10.0 or 1e1.
pub(crate) fn is_same_key(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(one, other)| is_same_key(one, other))
        }
        _ => one == other,
    }
}

/// How long each step took last in this process, by job type and name.
#[derive(Default)]
pub(crate) struct StepTimes(Mutex<HashMap<(String, String), Duration>>);

impl StepTimes {
    pub(crate) fn last(&self, kind: &str, name: &str) -> Duration {
        lock(&self.0).get(&(kind.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    pub(crate) fn remember(&self, kind: &str, name: &str, took: Duration) {
        let mut times = lock(&self.0);
        // Names that a handler makes up as it runs must not fill the memory.
        if times.len() >= REMEMBERED_STEPS {
            times.clear();
        }
        times.insert((kind.to_owned(), name.to_owned()), took);
    }
}
