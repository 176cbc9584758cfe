//! PURE. Bytes to values and back; no socket, no clock, no decision.
//!
//! What comes from outside is hostile until it was read here: every function takes any bytes, panics on none, and keeps
//! what is readable. JSON that is only passed on stays the text that it is.
#![forbid(unsafe_code)]

pub mod backend;
mod delivery;
mod json;
mod reply;

#[cfg(test)]
mod given;
