//! ojs-init: a container init that is also the Open Job Spec worker.
//!
//! In front of a job worker as a container's ENTRYPOINT it reaps, forwards signals and returns
//! exact exit statuses as PID 1, and it talks to the backend on the worker's behalf: it registers,
//! fetches, acknowledges and drains. This version has mode socket, in which the worker gets its
//! jobs over a Unix socket, mode gateway, in which a worker that was built on an SDK talks to it
//! instead of the backend, mode exec, in which each job is a process, and mode none: the plain
//! init.
//!
//! What it is not: a service manager (one child, no dependencies), a log router (the child's output
//! is the child's), an async program (one loop, one blocking call).
//!
//! This crate is the binary's: configuration, command line, and the processes that hold
//! descriptors. What they use is in crates of their own, whose `Cargo.toml` says what each may use:
//!
//! | crate or folder | what | may not |
//! |---|---|---|
//! | [`ojs_values`] | values | use anything |
//! | [`ojs_lifecycle`] | PURE: decides | read a clock, do I/O, start anything |
//! | [`ojs_wire`] | PURE: bytes to types and back | hold a socket, decide |
//! | [`ojs_os`] | system calls, all `unsafe` | know phases, jobs, configuration |
//! | [`config`], [`cli`] | what the user said, checked | act on it |
//! | [`daemon`] | holds descriptors, does what the lifecycle says | decide |
//! | [`runner`] | the second process of mode exec: starts jobs and ends what they leave | talk to the backend |
//! | [`commands`] | the subcommands, another program of the same binary | use the loops |
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod runner;
