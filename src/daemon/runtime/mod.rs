//! The runtime directory: where the sockets of an instance are, and who may use them.
//!
//! Words. A *base* is a directory that can hold runtime directories, such as `/run`. A *candidate*
//! is a place where one may be. An *instance* is an ojs-init that runs, known by its locked
//! directory.
//!
//! | question | files |
//! |---|---|
//! | where does an instance make its directory? | `dir`, `base`, `candidate` |
//! | how does a subcommand find an instance? | `instances`, `candidate` |
//! | who may connect to the worker socket? | `admission` |
//!
//! The folder may use `config` and `os`; it knows no jobs. Start with `dir`.

pub mod admission;
pub mod base;
pub mod candidate;
pub mod dir;
pub mod instances;
