//! System calls. All `unsafe` of the tree is in this folder, and nothing here knows jobs, phases or
//! configuration.
//!
//! Values come in, values and `io::Error`s go out; no policy: what to do about an error is decided
//! by the caller.
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
pub mod file_watch;
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
