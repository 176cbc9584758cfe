//! The subcommands `jobs` and `cancel`: list the jobs of the instance, and cancel one of them.

use crate::commands::common::{NOT_TAKEN, Target, failed};
use crate::commands::operate::say;
use crate::commands::status::{answer, json, refusal, text, write};
use ojs_lifecycle::api::OperatorRequest;
use ojs_values::exit::Exit;
use ojs_wire::operator::status_reply::printable;
use ojs_wire::operator::{cancel_reply, jobs_reply, jobs_table};

/// Lists the jobs.
pub(super) fn list(as_json: bool, target: Target) -> Exit {
    let line = match answer(&OperatorRequest::Jobs, target) {
        Ok(line) => line,
        Err(exit) => return exit,
    };
    let Some(reply) = jobs_reply::decode(&line) else {
        return failed(&refusal(&line), NOT_TAKEN);
    };
    write(&if as_json {
        json(&line)
    } else {
        text(&jobs_table::table(&reply))
    })
}

/// Cancels a job, and reports what follows.
pub(super) fn cancel(job: &str, target: Target) -> Exit {
    let line = match answer(&OperatorRequest::Cancel(job.into()), target) {
        Ok(line) => line,
        Err(exit) => return exit,
    };
    match cancel_reply::decode(&line) {
        Some(reply) if reply.ok => say(&printable(&reply.message)),
        Some(reply) if !reply.message.is_empty() => failed(&printable(&reply.message), NOT_TAKEN),
        Some(_) | None => failed(&refusal(&line), NOT_TAKEN),
    }
}
