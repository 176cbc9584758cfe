//! System calls. All `unsafe` code of ojs-init is in this crate.
//!
//! The crate receives values, and returns values and `io::Error`s. The crate has no policy: the
//! caller decides what to do about an error. The crate has no code for jobs, phases or
//! configuration.
//!
//! | question | files |
//! |---|---|
//! | how does the process begin, and become an init? | `entry`, `signals`, `init`, `image`, `stdio` |
//! | how is a child started, and reaped? | `child`, `child_words`, `job_child`, `user`, `tty`, `listen_pid`, `reaper` |
//! | which other processes are there? | `process`, `pidfd`, `child_lists`, `own_children`, `leftovers`, `descriptors` |
//! | which process has a connection? | `socket` (Unix), `socket_owner` (TCP), `tcp` |
//! | how much memory is used? | `cgroup`, `cgroup_memory`, `process_memory`, `family_usage` |
//! | files and directories | `dirs`, `mounts`, `memfd`, `remove_tree`, `program_file` |
//! | this process's own memory | `allocator`, `arena` |
//!
//! The crate may use `ojs_values`. Start with `child` and `signals`: both have a page of reasons.
#![allow(unsafe_code, reason = "the one folder that may; every block says why it is sound")]

pub mod allocator;
mod arena;
pub mod cgroup;
pub mod cgroup_memory;
pub mod child;
pub mod child_lists;
mod child_words;
pub mod clock;
pub mod descriptors;
pub mod dirs;
pub mod entry;
pub mod errno;
pub mod family_usage;
pub mod image;
pub mod init;
pub mod job_channel;
pub mod job_child;
pub mod leftovers;
mod listen_pid;
pub mod memfd;
pub mod mounts;
pub mod names;
pub mod open_files;
pub mod own_children;
pub mod pidfd;
pub mod process;
pub mod process_memory;
pub mod program_file;
pub mod random;
pub mod reaper;
pub mod remove_tree;
pub mod signal_fd;
pub mod signals;
pub mod socket;
pub mod socket_owner;
pub mod stdio;
pub mod tcp;
#[cfg(test)]
mod test_support;
pub mod threads;
pub mod tty;
pub mod user;
