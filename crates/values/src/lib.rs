//! Values that every crate of ojs-init shares: signals by number and name, how a process ended, the
//! exit statuses of ojs-init, and what a worker uses. Beside them, sorting with little code, and
//! text of a bounded length.
//!
//! The crate uses nothing else of ojs-init. Start with `exit`: its table has every exit status.
#![forbid(unsafe_code)]

pub mod exit;
pub mod signal;
pub mod small;
pub mod text;
pub mod usage;
