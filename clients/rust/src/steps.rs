//! Steps and loops that go on where an earlier attempt stopped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::to_raw_value};

use crate::error::{Error, Release, Result};
use crate::resume::{Raw, changed, with_whole_numbers};
use crate::{args::without_value, job::Job};

/// Least time before the end of a shutdown in which nothing new begins.
const LEAST_NOTICE: Duration = Duration::from_millis(250);
const REMEMBERED_ROWS: usize = 10;

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
        let kept = self.begin_step(name)?;
        kept.map_or_else(|| self.end_step(name, body()), Ok).and_then(|kept| read_kept(name, &kept))
    }

    /// The result that an earlier attempt saved; `None` if the step has to run.
    pub(crate) fn begin_step(&self, name: &str) -> Result<Option<Raw>> {
        let kept = self.resume().begin_step(name)?;
        kept.map_or_else(|| self.may_begin(Duration::ZERO).map(|()| None), |kept| Ok(Some(kept)))
    }

    pub(crate) fn end_step<T: Serialize>(&self, name: &str, result: Result<T>) -> Result<Raw> {
        let result = result.inspect_err(|_| self.resume().fail_step(name))?;
        let result = to_raw_value(&result)?;
        let mut resume = self.resume();
        resume.finish_step(name, result.clone());
        self.save(resume)?;
        Ok(result)
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
    pub fn iterate<'a, R: IntoIterator<IntoIter: 'a, Item: 'a>>(&'a self, rows: R) -> Result<Rows<'a, R::Item>> {
        self.rows(|last: Option<usize>| {
            let first = last.map_or(0, |last| last.saturating_add(1));
            Ok(rows.into_iter().enumerate().skip(first).map(Ok))
        })
    }

    /// [`Job::iterate`] with a key of each row as the position: any JSON but null. Rows up to the
    /// saved key are skipped.
    ///
    /// # Errors
    /// As for [`Job::iterate`]; `StepsChanged` if no row has the saved key.
    pub fn iterate_keyed<'a, R, K>(&'a self, rows: R, key: impl Fn(&R::Item) -> K + 'a) -> Result<Rows<'a, R::Item>>
    where
        R: IntoIterator<IntoIter: 'a, Item: 'a>,
        K: Serialize,
    {
        self.rows(|mut sought: Option<Value>| {
            let mut rows = rows.into_iter();
            Ok(std::iter::from_fn(move || {
                for row in rows.by_ref() {
                    match (position(&key(&row)), &sought) {
                        (Ok(position), Some(last)) if position == *last => sought = None,
                        (Ok(_), Some(_)) => {}
                        (position, _) => return Some(position.map(|position| (position, row))),
                    }
                }
                let gone = sought.take()?;
                Some(Err(changed(format_args!("no row has the key {gone} any more, which was finished last"))))
            }))
        })
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
        R: IntoIterator<IntoIter: 'a, Item: 'a>,
        K: Serialize + DeserializeOwned + 'a,
    {
        self.rows(|last| Ok(open(last)?.into_iter().map(move |row| Ok((key(&row), row)))))
    }

    fn rows<'a, T, K, I>(&'a self, open: impl FnOnce(Option<K>) -> Result<I>) -> Result<Rows<'a, T>>
    where
        K: Serialize + DeserializeOwned,
        I: Iterator<Item = Result<(K, T)>> + 'a,
    {
        let (step, saved) = self.resume().begin_loop()?;
        let last = saved.map(|saved| {
            let other = |_| changed(format_args!("the saved position {saved} is no {}", std::any::type_name::<K>()));
            K::deserialize(&saved).map_err(other)
        });
        let rows = open(last.transpose()?)?.map(|row| row.and_then(|(key, row)| Ok((position(&key)?, row))));
        Ok(Rows { job: self, step, source: Box::new(rows), current: None, took: VecDeque::new() })
    }

    /// An error that gives the job back, if a row or a step that takes `usual` must not begin.
    fn may_begin(&self, usual: Duration) -> Result<()> {
        match self.cancel_reason().as_deref() {
            Some("timeout" | "cancelled" | "lost") => Ok(self.check()?),
            None if self.remaining().is_none_or(|left| left >= (usual + usual / 2).max(LEAST_NOTICE)) => Ok(()),
            _ => Err(Release::new("resumes at its checkpoint").into()),
        }
    }
}

pub(crate) fn read_kept<T: DeserializeOwned>(name: &str, kept: &Raw) -> Result<T> {
    serde_json::from_str(kept.get()).map_err(|error| {
        let (wanted, why) = (std::any::type_name::<T>(), without_value(&error));
        changed(format_args!("the saved result of step {name} does not fit into {wanted}: {why}"))
    })
}

fn position(key: &impl Serialize) -> Result<Value> {
    let key = serde_json::to_value(key)?;
    if key.is_null() { Err(Error::misuse("the key of a row is null")) } else { Ok(with_whole_numbers(key)) }
}

/// The rows of a loop, each of them `Ok`, or the error that ends the handler.
pub struct Rows<'a, T> {
    job: &'a Job,
    step: String,
    source: Box<dyn Iterator<Item = Result<(Value, T)>> + 'a>,
    /// The position of the row that the loop is in, and when it began.
    current: Option<(Value, Instant)>,
    /// How long the last rows took.
    took: VecDeque<Duration>,
}

impl<T> Rows<'_, T> {
    fn advance(&mut self) -> Result<Option<T>> {
        if let Some((position, began)) = self.current.take() {
            self.took.truncate(REMEMBERED_ROWS - 1);
            self.took.push_front(began.elapsed());
            let mut resume = self.job.resume();
            if resume.finish_row(&self.step, position) {
                self.job.save(resume)?;
            }
        }
        let Some((position, row)) = self.source.next().transpose()? else { return Ok(None) };
        self.job.may_begin(self.took.iter().max().copied().unwrap_or_default())?;
        self.current = Some((position, Instant::now()));
        Ok(Some(row))
    }
}

impl<'a, T: 'a> Iterator for Rows<'a, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let next = self.advance().transpose();
        if let Some(Err(_)) = next {
            self.source = Box::new(std::iter::empty());
        }
        next
    }
}
