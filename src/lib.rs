//! ojs-init: a container init that is also the Open Job Spec worker.
//!
//! In front of a job worker as a container's ENTRYPOINT, ojs-init reaps, forwards signals and
//! returns exact exit statuses as PID 1. It also talks to the backend on the worker's behalf: it
//! registers, fetches, acknowledges and drains. It is no service manager (one child), no log router
//! (it leaves the child's output alone) and no async program (one loop, one blocking call).
//!
//! In mode socket the worker gets its jobs over a Unix socket. In mode gateway a worker that is
//! built on an SDK talks to ojs-init instead of the backend. In mode exec each job is a process.
//! Mode none is the plain init.
//!
//! | crate or folder | what | may not |
//! |---|---|---|
//! | [`ojs_values`] | values | use anything |
//! | [`ojs_lifecycle`] | PURE: decides | read a clock, do I/O, start anything |
//! | [`ojs_wire`] | PURE: bytes to types and back | hold a socket, decide |
//! | [`ojs_os`] | system calls, all `unsafe` | know phases, jobs, configuration |
//! | [`config`], [`cli`] | the user's settings, checked | act on it |
//! | [`daemon`] | holds descriptors, executes the effects of the lifecycle | decide |
//! | [`runner`] | the second process of mode exec: starts jobs and ends their leftovers | talk to the backend |
//! | [`commands`] | the subcommands, another program of the same binary | use the loops |
//!
//! Without the cargo feature `agent` the binary is the plain init alone.
//!
//! Start with `docs/architecture.md`, then `main.rs` and [`daemon`].
#![forbid(unsafe_code)]

pub mod cli;
#[cfg(feature = "agent")]
pub mod commands;
pub mod config;
pub mod daemon;
#[cfg(feature = "agent")]
pub mod runner;
