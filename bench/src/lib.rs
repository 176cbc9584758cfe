//! Helpers of the bench's programs: their arguments, the ids of jobs in a text, and the stamps that
//! tell when a job came and went.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Any error; the program ends with its text.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// The value of `--name` on the command line.
///
/// # Errors
///
/// The argument is there and cannot be read.
pub fn option<T: FromStr>(name: &str) -> Result<Option<T>, Trouble>
where
    T::Err: Display,
{
    let mut words = std::env::args().skip_while(|word| word != name).skip(1);
    let Some(text) = words.next() else { return Ok(None) };
    let read = text.parse().map_err(|error| format!("{name} {text}: {error}"))?;
    Ok(Some(read))
}

/// The value of `--name` on the command line, which must be there.
///
/// # Errors
///
/// The argument is missing or cannot be read.
pub fn required<T: FromStr>(name: &str) -> Result<T, Trouble>
where
    T::Err: Display,
{
    option(name)?.ok_or_else(|| format!("{name} is missing").into())
}

/// The id of the first job in a text: its first field `id`, which the envelopes of the bench have
/// before their arguments.
#[must_use]
pub fn job_id(text: &[u8]) -> Option<&str> {
    job_ids(text).next()
}

/// The ids of the jobs in a text: its fields `id`, of which the envelopes of the bench have one.
pub fn job_ids(text: &[u8]) -> impl Iterator<Item = &str> {
    const FIELD: &[u8] = b"\"id\":\"";
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.windows(FIELD.len()).position(|window| window == FIELD)?;
        rest = rest.get(at + FIELD.len()..)?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(rest.get(..end)?).ok()
    })
}

/// The wall clock, in nanoseconds: the only clock that two processes share without a
/// system call of their own.
#[must_use]
pub fn wall_ns() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos()
}

/// A file with a line for each job: its id, when it had been read, and when its answer was about to
/// be written; before one that takes time a line with 0 there.
#[derive(Debug)]
pub struct Stamps(Option<Mutex<File>>);

impl Stamps {
    /// Into the file that `--stamps` names; without that option, nowhere.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub fn asked_for() -> Result<Self, Trouble> {
        let path: Option<String> = option("--stamps")?;
        Ok(Self(path.map(File::create).transpose()?.map(Mutex::new)))
    }

    /// Now, if anybody wants to know.
    #[must_use]
    pub fn now(&self) -> u128 {
        if self.0.is_some() { wall_ns() } else { 0 }
    }

    /// Notes a job, at once: whoever is ended has noted all the same.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn note(&self, job: &str, read: u128, answered: u128) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let line = format!("{job} {read} {answered}\n");
        file.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .write_all(line.as_bytes())
    }
}
