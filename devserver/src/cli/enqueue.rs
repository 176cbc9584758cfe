//! `ojs-devserver enqueue`

use std::io::Write;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::backend::BackendArgs;
use super::client::{Client, parse};
use super::failure::Failure;
use crate::json::{Object, raw};

/// Most jobs of one request.
const BATCH: u64 = 1_000;

#[derive(Debug, Args)]
pub(super) struct Enqueue {
    /// The type of the job, such as email.send
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Its arguments, as a JSON array
    #[arg(value_name = "ARGS", default_value = "[]")]
    args: String,
    /// How many of it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Its queue
    #[arg(long, value_name = "QUEUE", default_value = "default")]
    queue: String,
    /// More options of it, as a JSON object: '{"retry":{"max_attempts":5},"priority":10}'
    #[arg(long, value_name = "JSON")]
    options: Option<String>,
    #[command(flatten)]
    backend: BackendArgs,
}

#[derive(Serialize)]
struct EnqueueBody<'a> {
    r#type: &'a str,
    args: &'a RawValue,
    options: &'a Object,
}

#[derive(Serialize)]
struct BatchBody<'a> {
    jobs: Vec<&'a EnqueueBody<'a>>,
}

#[derive(Deserialize)]
struct EnqueuedJobs {
    jobs: Vec<EnqueuedJob>,
}

#[derive(Deserialize)]
struct EnqueuedJob {
    id: String,
}

/// Enqueues the jobs, in batches.
pub(super) fn run(enqueue: &Enqueue, out: &mut impl Write) -> Result<(), Failure> {
    let args = args(&enqueue.args)?;
    let mut options = options(enqueue.options.as_deref())?;
    options.set("queue", raw(&enqueue.queue));
    let job = EnqueueBody {
        r#type: &enqueue.kind,
        args: &args,
        options: &options,
    };
    let client = Client::new(&enqueue.backend)?;
    client.wait_for_start();
    let mut first = None;
    let mut remaining = enqueue.count;
    while remaining > 0 {
        let size = remaining.min(BATCH);
        let batch = BatchBody {
            jobs: (0..size).map(|_| &job).collect(),
        };
        let done = enqueue.count - remaining;
        let answer = client.post("/ojs/v1/jobs/batch", raw(&batch).get());
        let answer = answer.map_err(|error| match done {
            0 => error,
            _ => format!("{error} ({done} of {} are enqueued)", enqueue.count),
        })?;
        let taken: EnqueuedJobs = parse(&answer)?;
        first = first.or_else(|| taken.jobs.into_iter().next());
        remaining -= size;
    }
    let id = first.map(|job| job.id).unwrap_or_default();
    match enqueue.count {
        1 => writeln!(out, "{id}")?,
        count => writeln!(
            out,
            "{count} jobs {} in the queue {}; the first is {id}",
            enqueue.kind, enqueue.queue
        )?,
    }
    Ok(())
}

fn args(text: &str) -> Result<Box<RawValue>, String> {
    let example = format!("'[\"{}\"]'", text.replace(['"', '\'', '[', ']'], ""));
    let value: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        format!("ARGS is not JSON: {error}; it is a JSON array, such as {example} (mind the quotes of the shell)")
    })?;
    if value.get().starts_with('[') {
        Ok(value)
    } else {
        Err(format!(
            "ARGS is a JSON array, one element for each argument: '[{}]'",
            value.get()
        ))
    }
}

fn options(text: Option<&str>) -> Result<Object, String> {
    let Some(text) = text else { return Ok(Object::default()) };
    Object::read(text.as_bytes()).map_err(|_| "--options is a JSON object, such as '{\"priority\":10}'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_array_is_answered_with_one_that_is() {
        assert!(args("a@b.c").unwrap_err().contains(r#"'["a@b.c"]'"#));
        assert!(args(r#""a@b.c""#).unwrap_err().contains(r#"'["a@b.c"]'"#));
        assert_eq!(args("[1.50]").unwrap().get(), "[1.50]");
    }
}
