//! Helpers of all test programs: waiting for conditions, raw signals, `/proc`, temporary
//! directories, terminals, and which binary is tested. What only some programs need are files
//! beside it, which they name in their `main.rs`.
//!
//! Nothing here knows how an init behaves. Everything that blocks has a deadline.

pub mod namespace;
pub mod proc;
pub mod pty;
pub mod random;
pub mod sys;
pub mod temp;
pub mod trace;
pub mod under_test;
pub mod wait;
