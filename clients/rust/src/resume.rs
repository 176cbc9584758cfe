//! What of a job outlives an attempt: its finished steps, the positions of its loops, and the state
//! that the handler saved itself. The clients of all languages save it in one form.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::error::{Discard, Error, Result};

/// Most JSON that is kept for a resumable job, in bytes.
const MOST_BYTES: usize = 65_536;
/// Least time between two saved positions of a loop.
const SAVE_EVERY: Duration = Duration::from_secs(5);

pub(crate) type Raw = Box<RawValue>;

pub(crate) struct Resume {
    pub(crate) form: Form,
    /// The steps of this attempt, the one that runs, and the steps whose loop has begun.
    begun: Vec<String>,
    current: Option<String>,
    loops: HashSet<String>,
    pub(crate) is_dirty: bool,
    saved_at: Instant,
}

#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Form {
    /// 1 in the form; 0 if the handler's own state is all that the job saves.
    ojs_resume: Value,
    steps: Vec<(String, Raw)>,
    cursors: BTreeMap<String, Value>,
    pub(crate) state: Option<Raw>,
}

impl Resume {
    /// Reads the checkpoint that came with the job. One of another form is the handler's own.
    pub(crate) fn load(checkpoint: Option<&RawValue>) -> Resume {
        let form = checkpoint.and_then(|text| serde_json::from_str::<Form>(text.get()).ok());
        let form = form.filter(|form| form.ojs_resume.as_f64() == Some(1.0));
        let form = form.unwrap_or_else(|| Form { state: checkpoint.map(ToOwned::to_owned), ..Form::default() });
        let (begun, loops, saved_at) = (Vec::new(), HashSet::new(), Instant::now());
        Resume { form, begun, current: None, loops, is_dirty: false, saved_at }
    }

    /// The checkpoint to save now.
    pub(crate) fn checkpoint(&mut self) -> Result<String> {
        if self.form.ojs_resume.is_null() {
            return Ok(self.form.state.as_deref().map_or("null", RawValue::get).to_owned());
        }
        let text = serde_json::to_string(&self.form)?;
        if text.len() > MOST_BYTES {
            let message = format!("{} bytes of steps and state, {MOST_BYTES} are kept: return ids only", text.len());
            return Err(Error::found(Discard::new(message).kind("CheckpointTooLarge")));
        }
        (self.is_dirty, self.saved_at) = (false, Instant::now());
        Ok(text)
    }

    /// The result of a step that an earlier attempt finished; `None` if the step has to run.
    pub(crate) fn begin_step(&mut self, name: &str) -> Result<Option<Raw>> {
        if self.current.is_some() || name.is_empty() || self.begun.iter().any(|begun| begun == name) {
            return Err(Error::misuse(format_args!("step {name:?}: a step has its own name, and no step in it")));
        }
        self.form.ojs_resume = 1.into();
        self.begun.push(name.to_owned());
        // A step in which an earlier attempt stopped has to come before any new one.
        let open = self.form.cursors.keys().find(|open| !open.is_empty() && !self.begun.contains(open));
        match (self.form.steps.get(self.begun.len() - 1), open) {
            (Some((known, result)), _) if known == name => Ok(Some(result.clone())),
            (None, None) => {
                self.current = Some(name.to_owned());
                Ok(None)
            }
            _ => {
                let before: Vec<&String> = self.form.steps.iter().map(|(name, _)| name).chain(open).collect();
                Err(changed(format_args!("an earlier attempt had {before:?}, this one has {:?}", self.begun)))
            }
        }
    }

    pub(crate) fn finish_step(&mut self, name: &str, result: Raw) {
        self.current = None;
        self.form.steps.push((name.to_owned(), result));
        self.form.cursors.remove(name);
        self.is_dirty = true;
    }

    /// The handler may call a step again that failed.
    pub(crate) fn fail_step(&mut self, name: &str) {
        self.current = None;
        self.begun.retain(|begun| begun != name);
        self.loops.remove(name);
    }

    /// The step that a new loop is in, `""` outside of steps, and the position that an earlier
    /// attempt saved for that loop.
    pub(crate) fn begin_loop(&mut self) -> Result<(String, Option<Value>)> {
        let step = self.current.clone().unwrap_or_default();
        if !self.loops.insert(step.clone()) {
            return Err(Error::misuse("a second loop over rows: put each loop into a step of its own"));
        }
        self.form.ojs_resume = 1.into();
        let position = self.form.cursors.get(&step).filter(|position| !position.is_null());
        Ok((step, position.cloned().map(with_whole_numbers)))
    }

    /// Takes the position of a finished row; true if it is time to save it.
    pub(crate) fn finish_row(&mut self, step: &str, position: Value) -> bool {
        self.form.cursors.insert(step.to_owned(), position);
        self.is_dirty = true;
        self.saved_at.elapsed() >= SAVE_EVERY
    }
}

pub(crate) fn changed(message: impl std::fmt::Display) -> Error {
    let message = format!("the steps or rows of the job have changed: {message}");
    Error::found(Discard::new(message).kind("StepsChanged"))
}

/// The key of a row in one spelling: a backend may spell 10 as 10.0 or 1e1.
pub(crate) fn with_whole_numbers(key: Value) -> Value {
    match key {
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Number(number) => {
            let whole = number.to_string().strip_suffix(".0").and_then(|whole| whole.parse::<i64>().ok());
            whole.map_or(number.into(), Value::from)
        }
        other => other,
    }
}
