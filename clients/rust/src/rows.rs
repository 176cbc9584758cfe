//! Loops and steps that go on where an earlier attempt stopped.

use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::Value;

use crate::args::without_value;
use crate::error::{Discard, Error, Result, Retry};
use crate::job::Job;
use crate::json::{self, MAX_DEPTH};
use crate::output::invalid_result;
use crate::resume::misuse;
use crate::text::clean;

/// A step's body ends, also when it panics.
struct Running<'a> {
    job: &'a Job,
    name: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.job.leave_step();
        if thread::panicking() {
            let message = format!("the step {} has panicked", self.name);
            self.job.fail_step(self.name, &Retry::new(message).kind("panic").into());
        }
    }
}

impl Job {
    /// Runs a part of the job once: its result is a checkpoint before the next one begins, and an
    /// attempt that comes later gets it without running the part again. The result is small and
    /// JSON: an id, a path, `()` for none.
    ///
    /// # Errors
    /// Those of the body. A step that failed is the last one, but for the same step once more: what
    /// the job can do without is caught in its body. Steps have names of their own and come in the
    /// same order in each attempt; where they changed, the job fails for good (`StepsChanged`).
    /// While the worker is being shut down, a step that would not end in time is not begun: the
    /// error then gives the job back. At most 64 KiB of JSON are kept for a job
    /// (`CheckpointTooLarge`).
    pub fn step<T: Serialize + DeserializeOwned>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let kept = match self.begin_step(name)? {
            Some(kept) => kept,
            None => self.run_step(name, body).inspect_err(|error| self.fail_step(name, error))?,
        };
        json::decode(kept.get()).map_err(|error| {
            let message = format!(
                "the result of step {name} does not fit into {}, an earlier attempt has saved another type: {}",
                std::any::type_name::<T>(),
                without_value(&error)
            );
            self.end_with(Discard::of_library("StepsChanged", message))
        })
    }

    fn run_step<T: Serialize>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<Box<RawValue>> {
        let began = Instant::now();
        let running = Running { job: self, name };
        let result = body()?;
        drop(running);
        let text =
            json::encode(&result, MAX_DEPTH - 5).map_err(|why| invalid_result(&format!("of step {name}: {why}")))?;
        let kept = raw(text)?;
        self.finish_step(name, began.elapsed(), kept.clone())?;
        Ok(kept)
    }

    /// Goes through rows, and on behind the last finished one when the job comes again. The
    /// position is the index, so the rows must come in the same order again; where they may not,
    /// use [`Job::iterate_keyed`].
    ///
    /// ```no_run
    /// # fn pages() -> Vec<u32> { vec![] }
    /// # fn render(page: u32) -> ojs_worker::Result<()> { Ok(()) }
    /// # fn handler(job: &ojs_worker::Job) -> ojs_worker::Result<()> {
    /// for page in job.iterate(pages())? {
    ///     render(page?)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A row is finished when the next one is asked for; one that the loop is left in is not. The
    /// position is saved at most every 5 s, and always before the job is given back or fails. One
    /// loop may stand outside of steps, and one in each.
    ///
    /// # Errors
    /// A second loop, or a position of another kind. A row is an error when the job is to end:
    /// while the worker is being shut down, one that would not end in time is not begun. Return it:
    /// the job ends with it in any case.
    pub fn iterate<'a, R: IntoIterator>(&'a self, rows: R) -> Result<Rows<'a, R::Item>>
    where
        R::IntoIter: 'a,
    {
        let (step, start) = self.begin_loop()?;
        let first = match &start {
            None => 0,
            Some(start) => match json::integer_in(Some(&&**start)).and_then(|last| usize::try_from(last).ok()) {
                Some(last) => last.saturating_add(1),
                None => return Err(self.end_with(position_is_other(start, "an index"))),
            },
        };
        let rows = rows.into_iter().enumerate().skip(first);
        let rows = rows.map(|(at, row)| Ok((Some(raw(at.to_string())?), row)));
        Ok(Rows::new(self, step, Box::new(rows)))
    }

    /// [`Job::iterate`] with a key of each row, which is any JSON but null, as position: rows up to
    /// and including the one with the saved key are skipped.
    ///
    /// # Errors
    /// As for [`Job::iterate`]; and `StepsChanged`, for good, when the row with the saved key does
    /// not come any more.
    pub fn iterate_keyed<'a, R: IntoIterator, K: Serialize>(
        &'a self,
        rows: R,
        key: impl Fn(&R::Item) -> K + 'a,
    ) -> Result<Rows<'a, R::Item>>
    where
        R::IntoIter: 'a,
    {
        let (step, start) = self.begin_loop()?;
        let mut sought = start.map(|start| canonical(start.get()));
        let mut rows = rows.into_iter();
        let rows = std::iter::from_fn(move || loop {
            let Some(row) = rows.next() else {
                let sought = sought.take()?;
                let message = format!(
                    "the row with the key {}, the last one that an earlier attempt finished, does not come any more",
                    clean(&sought, 100)
                );
                return Some(Err(Discard::of_library("StepsChanged", message)));
            };
            let position = match position_of(&key(&row)) {
                Ok(position) => position,
                Err(error) => return Some(Err(error)),
            };
            match &sought {
                None => return Some(Ok((Some(position), row))),
                Some(key) if *key == canonical(position.get()) => sought = None,
                Some(_) => {}
            }
        });
        Ok(Rows::new(self, step, Box::new(rows)))
    }

    /// [`Job::iterate_keyed`] for rows that need not be in memory at once: `open` gets the key of
    /// the last finished row, nothing in the first attempt, and gives the rows behind it.
    ///
    /// # Errors
    /// As for [`Job::iterate`], and those of `open`.
    pub fn iterate_from<'a, R: IntoIterator, K: Serialize + DeserializeOwned>(
        &'a self,
        open: impl FnOnce(Option<K>) -> Result<R>,
        key: impl Fn(&R::Item) -> K + 'a,
    ) -> Result<Rows<'a, R::Item>>
    where
        R::IntoIter: 'a,
    {
        let (step, start) = self.begin_loop()?;
        let after = match &start {
            None => None,
            Some(start) => {
                let other = |_| self.end_with(position_is_other(start, std::any::type_name::<K>()));
                Some(json::decode(start.get()).map_err(other)?)
            }
        };
        let rows = open(after)?.into_iter().map(move |row| Ok((Some(position_of(&key(&row))?), row)));
        Ok(Rows::new(self, step, Box::new(rows)))
    }
}

type Positioned<T> = Result<(Option<Box<RawValue>>, T)>;

/// The rows of one loop, each of them `Ok`, or the error that ends the handler.
pub struct Rows<'a, T> {
    job: &'a Job,
    step: String,
    rows: Box<dyn Iterator<Item = Positioned<T>> + 'a>,
    /// The position of the row that the loop is in, and when it began.
    current: Option<(Option<Box<RawValue>>, Instant)>,
    took: [Duration; 10],
    done: usize,
    is_over: bool,
}

impl<'a, T> Rows<'a, T> {
    fn new(job: &'a Job, step: String, rows: Box<dyn Iterator<Item = Positioned<T>> + 'a>) -> Rows<'a, T> {
        Rows { job, step, rows, current: None, took: [Duration::ZERO; 10], done: 0, is_over: false }
    }

    fn advance(&mut self) -> Result<Option<T>> {
        if let Some((position, began)) = self.current.take() {
            self.took[self.done % self.took.len()] = began.elapsed();
            self.done += 1;
            if let Some(position) = position {
                self.job.end_row(&self.step, position)?;
            }
        }
        let Some(next) = self.rows.next() else { return Ok(None) };
        let (position, row) = next?;
        self.job.may_begin_row(self.took.iter().copied().max().unwrap_or_default())?;
        self.current = Some((position, Instant::now()));
        Ok(Some(row))
    }
}

impl<T> Iterator for Rows<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.is_over {
            return None;
        }
        // A loop may swallow its errors; the job ends with them all the same.
        let next = self.advance().map_err(|error| self.job.end_with(error)).transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

fn raw(text: String) -> Result<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| invalid_result(&error.to_string()))
}

fn position_is_other(start: &RawValue, wanted: &str) -> Error {
    let saved = clean(start.get(), 100);
    let message =
        format!("the rows had another kind of position in an earlier attempt: {saved}, which is not {wanted}");
    Discard::of_library("StepsChanged", message)
}

fn position_of(key: &impl Serialize) -> Result<Box<RawValue>> {
    let text =
        json::encode(key, MAX_DEPTH - 5).map_err(|why| misuse(&format!("the key of a row is not JSON: {why}")))?;
    if text == "null" {
        return Err(misuse("the key of a row is null: it cannot be told from no position"));
    }
    raw(text)
}

/// A JSON value in one spelling: members by name, texts as serde_json writes them, whole numbers
/// without a fraction.
fn canonical(text: &str) -> String {
    json::decode::<Value>(text).map_or_else(|_| text.to_owned(), |value| with_whole_numbers(value).to_string())
}

/// A backend may spell 10 as 10.0 or 1e1.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => json::whole(&number.to_string()).map_or(Value::Number(number), Value::from),
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, with_whole_numbers(member))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}
