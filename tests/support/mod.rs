//! What the integration tests share: waiting for conditions, raw signals, `/proc`, temporary directories, terminals.
//!
//! Nothing here knows an init. Everything that blocks has a deadline.

pub mod namespace;
pub mod proc;
pub mod pty;
pub mod random;
pub mod sys;
pub mod temp;
pub mod trace;
pub mod wait;
