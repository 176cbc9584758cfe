//! The router: the only code that sees more than one part of the machine.
//!
//! A part decides with facts about the others, and answers with a list of what it says: orders for
//! the shell, and requests to other parts. The router gathers the facts, lets the part decide, and
//! carries out what it says, one by one and before anything else happens: a request to another part
//! is a decision of that part, with a list of its own.

mod credit;
mod deaths;
mod end;
mod job_facts;
mod jobs;
mod link;
mod workers;
