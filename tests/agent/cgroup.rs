//! A directory in the place of the cgroups, in which a test says how much memory is taken.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::stage::{Stage, Start};

/// A cgroup of version 2 with this limit, or none.
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn new(stage: &Stage, limit: &str) -> Self {
        let path = stage.at("cgroup");
        fs::create_dir(&path).unwrap();
        for (name, text) in [
            ("memory.max", limit),
            ("memory.current", "0500\n"),
            ("memory.stat", "anon 1\ninactive_file 000\n"),
            ("memory.events", "oom_kill 0\n"),
        ] {
            fs::write(path.join(name), text).unwrap();
        }
        Self(path)
    }

    /// Written in one piece over what is there: nobody reads half of it.
    pub fn taken(&self, bytes: u32) {
        let file = File::options().write(true).open(self.0.join("memory.current")).unwrap();
        file.write_all_at(format!("{bytes:04}").as_bytes(), 0).unwrap();
    }

    /// So many processes were ended because memory ran out.
    pub fn has_ended(&self, processes: u32) {
        let file = File::options().write(true).open(self.0.join("memory.events")).unwrap();
        file.write_all_at(format!("oom_kill {processes}").as_bytes(), 0)
            .unwrap();
    }

    /// The container of this init has it.
    pub fn of<'a>(&self, start: Start<'a>) -> Start<'a> {
        let mounts = "mount --bind \"$0\" /sys/fs/cgroup && exec \"$@\"";
        start.through(&["/bin/sh", "-c", mounts, self.0.to_str().unwrap()])
    }
}
