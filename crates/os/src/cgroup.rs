//! Counts how often the kernel has ended a process of this cgroup because memory ran out. A process
//! that SIGKILL ended cannot report the reason, but the kernel counts it.
//!
//! cgroup v2 counts it in `memory.events`, v1 in `memory.oom_control`, both as a line `oom_kill N`.
//! The kernel raises the counter before it sends the SIGKILL, so a read after the process was
//! reaped includes its kill. The kernel makes files of cgroupfs when they are read, so a read does
//! not block.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// The mount point of cgroups.
pub(crate) const MOUNT: &str = "/sys/fs/cgroup";

/// The file that names the cgroup of this process.
const OWN: &str = "/proc/self/cgroup";

/// Most bytes read of a file; `memory.stat` has 1,000 to 3,000, the others have less.
const MOST_BYTES: usize = 8192;

/// The counter, and its last value.
#[derive(Debug)]
pub struct OomKills {
    file: File,
    before: u64,
}

impl OomKills {
    /// The counter of this process's cgroup; `None` if there is none, or it may not be read.
    pub fn find() -> Option<Self> {
        let places = places(&own().ok()?, Path::new(MOUNT));
        places.iter().find_map(|place| Self::open(place))
    }

    fn open(path: &Path) -> Option<Self> {
        let mut counter = Self {
            file: File::open(path).ok()?,
            before: 0,
        };
        counter.before = counter.read()?;
        Some(counter)
    }

    /// From here on they are counted.
    pub fn begin(&mut self) {
        self.before = self.read().unwrap_or(self.before);
    }

    /// How many there were since [`OomKills::begin`].
    pub fn since(&self) -> u64 {
        self.read().map_or(0, |now| now.saturating_sub(self.before))
    }

    /// The counter; its last value if it cannot be read.
    pub fn total(&self) -> u64 {
        self.read().unwrap_or(self.before)
    }

    /// True if the kernel killed a process since the counter was at `total`, and since the last
    /// call.
    pub fn were_since(&mut self, total: u64) -> bool {
        let now = self.total();
        now > std::mem::replace(&mut self.before, now).max(total)
    }

    fn read(&self) -> Option<u64> {
        kills(&read(&self.file)?)
    }
}

/// The text of a file of cgroupfs.
pub(crate) fn read(file: &File) -> Option<String> {
    let mut bytes = [0; MOST_BYTES];
    let count = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..count)?).into_owned())
}

/// Which of its two interfaces the kernel shows cgroups by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    /// The root of the cgroups that count memory.
    pub(crate) fn root(self, mount: &Path) -> PathBuf {
        match self {
            Self::One => mount.join("memory"),
            Self::Two => mount.to_owned(),
        }
    }
}

/// The cgroups of this process, as the kernel lists them.
pub(crate) fn own() -> io::Result<String> {
    let mut own = Vec::new();
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    File::open(OWN)?.take(most).read_to_end(&mut own)?;
    Ok(String::from_utf8_lossy(&own).into_owned())
}

/// Paths at which the cgroup that counts this process's memory may be, best first, for a process in
/// these cgroups. In a container the mount often shows the container's cgroup as its root, although
/// it has another path outside.
pub(crate) fn directories(own: &str, mount: &Path) -> Vec<(Version, PathBuf)> {
    let lines = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let mut directories = Vec::new();
    for (controllers, path) in lines {
        let version = if controllers.is_empty() {
            Version::Two
        } else if controllers.split(',').any(|controller| controller == "memory") {
            Version::One
        } else {
            continue;
        };
        let root = version.root(mount);
        let path = Path::new(path.trim_start_matches('/'));
        // A cgroup outside of this namespace is shown with `..`, which leads nowhere in the mount.
        let is_inside = !path.components().any(|part| part == Component::ParentDir);
        if is_inside && path.components().next().is_some() {
            directories.push((version, root.join(path)));
        }
        directories.push((version, root));
    }
    directories
}

/// The places at which the counter may be, best first.
fn places(own: &str, mount: &Path) -> Vec<PathBuf> {
    let place = |(version, directory): (Version, PathBuf)| {
        directory.join(match version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        })
    };
    directories(own, mount).into_iter().map(place).collect()
}

/// The number in the line `oom_kill N`.
fn kills(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]
mod tests {
    use std::fs;

    use super::*;

    /// As a kernel 6.1 writes it.
    const V2: &str = "low 0\nhigh 0\nmax 1042\noom 7\noom_kill 3\noom_group_kill 1\n";

    /// As a kernel 5.4 writes it.
    const V1: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n";

    fn shown(own: &str) -> Vec<String> {
        let places = places(own, Path::new(MOUNT));
        places.iter().map(|place| place.display().to_string()).collect()
    }

    #[test]
    fn the_counter_is_read_from_both_versions_of_cgroups() {
        assert_eq!(kills(V2), Some(3));
        assert_eq!(kills(V1), Some(12));
    }

    #[test]
    fn what_is_no_counter_is_none() {
        for text in [
            "",
            "oom_kill",
            "oom_kill x\n",
            "oom_kill -1\n",
            "oom 7\n",
            "oom_group_kill 1\n",
        ] {
            assert_eq!(kills(text), None, "{text:?}");
        }
        assert_eq!(kills("oom_kill 18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn a_container_with_a_namespace_of_its_own_has_it_at_the_root() {
        assert_eq!(shown("0::/\n"), ["/sys/fs/cgroup/memory.events"]);
    }

    #[test]
    fn without_such_a_namespace_the_path_comes_first_and_the_root_second() {
        let own = "0::/kubepods/burstable/pod1/abc\n";
        let root = "/sys/fs/cgroup/memory.events";
        let path = "/sys/fs/cgroup/kubepods/burstable/pod1/abc/memory.events";
        assert_eq!(shown(own), [path, root]);
        assert_eq!(shown("0::/../../outside\n"), [root]);
    }

    #[test]
    fn with_version_1_only_the_memory_controller_counts() {
        let own = "12:cpu,cpuacct:/docker/abc\n9:memory:/docker/abc\n1:name=systemd:/docker/abc\n";
        let expected = [
            "/sys/fs/cgroup/memory/docker/abc/memory.oom_control",
            "/sys/fs/cgroup/memory/memory.oom_control",
        ];
        assert_eq!(shown(own), expected);
    }

    #[test]
    fn what_cannot_be_understood_has_no_place() {
        assert!(shown("").is_empty() && shown("no colon\n1:x\n::\n").len() <= 1);
    }

    #[test]
    fn a_kill_counts_once_and_for_no_job_that_began_after_it() {
        let path = std::env::temp_dir().join(format!("ojs-init-oom-kills-of-jobs-{}", std::process::id()));
        fs::write(&path, V2).unwrap();
        let mut counter = OomKills::open(&path).unwrap();
        let first = counter.total();
        fs::write(&path, V2.replace("oom_kill 3", "oom_kill 4")).unwrap();
        // The first job has survived the kill of a child, and nobody has asked.
        let second = counter.total();
        assert!(!counter.were_since(second));
        fs::write(&path, V2.replace("oom_kill 3", "oom_kill 5")).unwrap();
        assert!(counter.were_since(second));
        assert!(!counter.were_since(first), "one kill, two jobs");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_what_came_since_the_beginning_is_counted() {
        let path = std::env::temp_dir().join(format!("ojs-init-oom-kills-{}", std::process::id()));
        fs::write(&path, V2).unwrap();
        let mut counter = OomKills::open(&path).unwrap();
        assert_eq!(counter.since(), 0);
        fs::write(&path, V2.replace("oom_kill 3", "oom_kill 5")).unwrap();
        assert_eq!(counter.since(), 2);
        counter.begin();
        assert_eq!(counter.since(), 0);
        fs::write(&path, "").unwrap();
        assert_eq!(counter.since(), 0, "what cannot be read is none");
        fs::remove_file(&path).unwrap();
        assert!(OomKills::open(&path).is_none());
    }
}
