//! Steps and loops that go on where an earlier attempt stopped.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::args::without_value;
use crate::error::{Error, Release, Result};
use crate::job::Job;
use crate::resume::{Raw, changed, is_same_key};

/// Least time before the end of a shutdown in which nothing new begins.
const LEAST_NOTICE: Duration = Duration::from_millis(250);
const RESUMES: &str = "resumes at its checkpoint";

/// A step that runs. Unless it finishes, it was not done: also after a panic, or if its future is
/// dropped.
struct Running<'a> {
    job: &'a Job,
    name: &'a str,
    began: Instant,
    is_finished: bool,
}

impl Running<'_> {
    fn finish<T: Serialize>(mut self, result: &T) -> Result<Raw> {
        let result = to_raw_value(result)
            .map_err(|error| Error::misuse(&format!("the result of step {} is not JSON: {error}", self.name)))?;
        self.job.step_times().remember(self.job.kind(), self.name, self.began.elapsed());
        self.is_finished = true;
        let mut resume = self.job.resume();
        resume.finish_step(self.name, result.clone());
        self.job.save(resume)?;
        Ok(result)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.job.resume().leave_step(self.name);
        }
    }
}

impl Job {
    /// Runs a part of the job once. Its result is saved, and a later attempt gets that result
    /// without running the part again. The result is small JSON: an id, a path, `()` for none.
    ///
    /// # Errors
    /// Those of the body. Steps need names of their own and come in the same order in each attempt,
    /// otherwise the job fails for good (`StepsChanged`). All results of a job have at most 64 KiB
    /// of JSON together (`CheckpointTooLarge`). When the worker is shutting down and the time is
    /// too short for the step, the error gives the job back: return it.
    pub fn step<T: Serialize + DeserializeOwned>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let kept = match self.begin_step(name)? {
            Ok(kept) => kept,
            Err(running) => running.finish(&body()?)?,
        };
        read_kept(name, &kept)
    }

    /// [`Job::step`] with a body that is a future.
    ///
    /// # Errors
    /// As for [`Job::step`].
    #[cfg(feature = "async")]
    pub async fn step_async<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        body: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<T> {
        let kept = match self.begin_step(name)? {
            Ok(kept) => kept,
            Err(running) => running.finish(&body().await?)?,
        };
        read_kept(name, &kept)
    }

    /// The result that an earlier attempt saved, or the step that has to run.
    fn begin_step<'a>(&'a self, name: &'a str) -> Result<Result<Raw, Running<'a>>> {
        let kept = self.resume().begin_step(name)?;
        if let Some(kept) = kept {
            return Ok(Ok(kept));
        }
        self.may_begin(self.step_times().last(self.kind(), name))?;
        self.resume().enter_step(name);
        Ok(Err(Running { job: self, name, began: Instant::now(), is_finished: false }))
    }

    /// Iterates over rows, behind the last finished row of an earlier attempt. The position is the
    /// index: the rows must come in the same order each time.
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
    /// A row is finished when the next one is asked for. The position is saved at most every 5 s,
    /// and before the job goes back or fails.
    ///
    /// # Errors
    /// A second loop in the same step, or a saved position that is no index. A row is an error if
    /// the job is cancelled, or if the worker is shutting down and the time is too short for the
    /// row: return it, and the job goes back.
    pub fn iterate<'a, R>(&'a self, rows: R) -> Result<Rows<'a, R::Item>>
    where
        R: IntoIterator<IntoIter: 'a>,
    {
        let (step, saved) = self.resume().begin_loop()?;
        let last =
            saved.as_ref().map(|saved| index(saved).ok_or_else(|| not_this_kind(saved, "an index"))).transpose()?;
        let first = last.map_or(0, |last| last.saturating_add(1));
        let rows = rows.into_iter().enumerate().skip(first).map(|(at, row)| Ok((at.into(), row)));
        Ok(Rows::new(self, step, Box::new(rows)))
    }

    /// [`Job::iterate`] with a key of each row as the position: any JSON but null. Rows up to the
    /// saved key are skipped.
    ///
    /// # Errors
    /// As for [`Job::iterate`]; `StepsChanged` if no row has the saved key.
    pub fn iterate_keyed<'a, R, K>(&'a self, rows: R, key: impl Fn(&R::Item) -> K + 'a) -> Result<Rows<'a, R::Item>>
    where
        R: IntoIterator<IntoIter: 'a>,
        K: Serialize,
    {
        let (step, mut sought) = self.resume().begin_loop()?;
        let mut rows = rows.into_iter();
        let keyed = move || {
            loop {
                let Some(row) = rows.next() else {
                    let sought = sought.take()?;
                    return Some(Err(changed(&format!(
                        "no row has the key {sought} any more, which was finished last"
                    ))));
                };
                let position = match position(&key(&row)) {
                    Ok(position) => position,
                    Err(error) => return Some(Err(error)),
                };
                match &sought {
                    None => return Some(Ok((position, row))),
                    Some(last) if is_same_key(last, &position) => sought = None,
                    Some(_) => {}
                }
            }
        };
        Ok(Rows::new(self, step, Box::new(std::iter::from_fn(keyed))))
    }

    /// [`Job::iterate_keyed`] for rows that are not in memory: `open` gets the key of the last
    /// finished row, `None` at first, and returns the rows behind it.
    ///
    /// # Errors
    /// As for [`Job::iterate`], and those of `open`.
    pub fn iterate_from<'a, R, K>(
        &'a self,
        open: impl FnOnce(Option<K>) -> Result<R>,
        key: impl Fn(&R::Item) -> K + 'a,
    ) -> Result<Rows<'a, R::Item>>
    where
        R: IntoIterator<IntoIter: 'a>,
        K: Serialize + DeserializeOwned,
    {
        let (step, saved) = self.resume().begin_loop()?;
        let other =
            |saved: Value| K::deserialize(&saved).map_err(|_| not_this_kind(&saved, std::any::type_name::<K>()));
        let rows = open(saved.map(other).transpose()?)?;
        let rows = rows.into_iter().map(move |row| Ok((position(&key(&row))?, row)));
        Ok(Rows::new(self, step, Box::new(rows)))
    }

    /// An error that gives the job back, if a row or a step that takes `usual` must not begin.
    fn may_begin(&self, usual: Duration) -> Result<()> {
        match self.cancel_reason().as_deref() {
            Some("timeout" | "cancelled" | "lost") => Ok(self.check()?),
            None if self.remaining().is_none_or(|left| left >= (usual + usual / 2).max(LEAST_NOTICE)) => Ok(()),
            _ => Err(Release::new(RESUMES).into()),
        }
    }
}

fn read_kept<T: DeserializeOwned>(name: &str, kept: &Raw) -> Result<T> {
    serde_json::from_str(kept.get()).map_err(|error| {
        let (wanted, why) = (std::any::type_name::<T>(), without_value(&error));
        changed(&format!("the saved result of step {name} does not fit into {wanted}: {why}"))
    })
}

fn position(key: &impl Serialize) -> Result<Value> {
    match serde_json::to_value(key) {
        Ok(Value::Null) => Err(Error::misuse("the key of a row is null, which cannot be a position")),
        Ok(key) => Ok(key),
        Err(error) => Err(Error::misuse(&format!("the key of a row is not JSON: {error}"))),
    }
}

/// A whole number, also if a backend spells it 2.0.
fn index(saved: &Value) -> Option<usize> {
    let text = saved.to_string();
    text.strip_suffix(".0").unwrap_or(&text).parse().ok()
}

fn not_this_kind(saved: &Value, wanted: &str) -> Error {
    changed(&format!("an earlier attempt saved the position {saved}, which is not {wanted}"))
}

type Positioned<T> = Result<(Value, T)>;

/// The rows of a loop, each of them `Ok`, or the error that ends the handler.
pub struct Rows<'a, T> {
    job: &'a Job,
    step: String,
    rows: Box<dyn Iterator<Item = Positioned<T>> + 'a>,
    /// The position of the row that the loop is in, and when it began.
    current: Option<(Value, Instant)>,
    /// How long the last ten rows took.
    took: [Duration; 10],
    finished: usize,
    has_failed: bool,
}

impl<'a, T> Rows<'a, T> {
    fn new(job: &'a Job, step: String, rows: Box<dyn Iterator<Item = Positioned<T>> + 'a>) -> Rows<'a, T> {
        Rows { job, step, rows, current: None, took: [Duration::ZERO; 10], finished: 0, has_failed: false }
    }

    fn advance(&mut self) -> Result<Option<T>> {
        if let Some((position, began)) = self.current.take() {
            self.took[self.finished % self.took.len()] = began.elapsed();
            self.finished += 1;
            let mut resume = self.job.resume();
            if resume.finish_row(&self.step, position) {
                self.job.save(resume)?;
            }
        }
        let Some(row) = self.rows.next() else { return Ok(None) };
        let (position, row) = row?;
        self.job.may_begin(self.took.iter().copied().max().unwrap_or_default())?;
        self.current = Some((position, Instant::now()));
        Ok(Some(row))
    }
}

impl<T> Iterator for Rows<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.has_failed {
            return None;
        }
        let next = self.advance().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}
