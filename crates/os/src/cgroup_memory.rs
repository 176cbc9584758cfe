//! The used share of the memory that this container may use.
//!
//! Limits are in this process's cgroup and in the visible ones above it; the fullest level counts.
//! Use is counted as the kubelet counts it: without the files in the page cache that were not used
//! lately (`inactive_file`), because the kernel drops these before it ends a process. Otherwise a
//! job that reads large files would seem to need that memory for ever, because the kernel drops
//! such pages only under pressure. The kernel makes files of cgroupfs when they are read, so a read
//! does not block. A limit is read each time because it may change while this process runs.

use std::fs::File;
use std::path::Path;

use crate::cgroup::{MOUNT, Version, directories, own, read};

/// Most cgroups above this process's that are read.
const MOST_LEVELS: usize = 16;

/// From this value on a limit of version 1 means unlimited: the kernel then shows the largest
/// number of pages.
const UNLIMITED: u64 = 1 << 62;

/// The cgroup of this process and those above it.
#[derive(Debug)]
pub struct MemoryCgroup {
    levels: Vec<Level>,
}

/// One cgroup that has a limit, or may get one.
#[derive(Debug)]
struct Level {
    limit: File,
    taken: File,
    /// The file with the share of page cache.
    details: Option<File>,
    /// The name of the line in `details`.
    inactive: &'static str,
}

impl MemoryCgroup {
    /// This process's cgroup; `None` if cgroups do not count memory, or hide it from this process.
    pub fn find() -> Option<Self> {
        Self::find_in(&own().ok()?, Path::new(MOUNT))
    }

    fn find_in(own: &str, mount: &Path) -> Option<Self> {
        let found = directories(own, mount).into_iter().find_map(|(version, directory)| {
            let root = version.root(mount);
            let levels: Vec<Level> = directory
                .ancestors()
                .take(MOST_LEVELS)
                .take_while(|above| above.starts_with(&root))
                .filter_map(|directory| Level::open(version, directory))
                .collect();
            (!levels.is_empty()).then_some(levels)
        });
        found.map(|levels| Self { levels })
    }

    /// The memory limit of the container, in bytes. `None`: no limit.
    pub fn limit(&self) -> Option<u64> {
        self.levels.iter().filter_map(Level::limit).min()
    }

    /// The used share in whole percent, at most 100. Below `no_matter_below` the number may be too
    /// large. `None`: there is no limit, or it cannot be read.
    pub fn percent(&self, no_matter_below: u8) -> Option<u8> {
        self.levels
            .iter()
            .filter_map(|level| level.percent(no_matter_below))
            .max()
    }
}

impl Level {
    fn open(version: Version, directory: &Path) -> Option<Self> {
        let (limit, taken, inactive) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
            Version::Two => ("memory.max", "memory.current", "inactive_file "),
        };
        let open = |name: &str| File::open(directory.join(name)).ok();
        Some(Self {
            limit: open(limit)?,
            taken: open(taken)?,
            details: open("memory.stat"),
            inactive,
        })
    }

    fn limit(&self) -> Option<u64> {
        // `max` is no number: no limit.
        let limit: u64 = read(&self.limit)?.trim().parse().ok()?;
        (1..UNLIMITED).contains(&limit).then_some(limit)
    }

    fn percent(&self, no_matter_below: u8) -> Option<u8> {
        let limit = self.limit()?;
        let taken: u64 = read(&self.taken)?.trim().parse().ok()?;
        let with_cache = share(taken, limit);
        if with_cache < no_matter_below {
            // The details cost the kernel more than all the rest.
            return Some(with_cache);
        }
        Some(share(taken.saturating_sub(self.inactive_file()), limit))
    }

    /// Bytes of the page cache that were not used lately. 0 if they cannot be read.
    fn inactive_file(&self) -> u64 {
        let text = self.details.as_ref().and_then(read).unwrap_or_default();
        let number = |line: &str| line.strip_prefix(self.inactive)?.trim().parse().ok();
        text.lines().find_map(number).unwrap_or_default()
    }
}

/// In whole percent, at most 100; the limit is not 0.
fn share(taken: u64, limit: u64) -> u8 {
    let percent = u128::from(taken) * 100 / u128::from(limit.max(1));
    u8::try_from(percent).unwrap_or(u8::MAX).min(100)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A mount of cgroups that is none.
    struct Mount(PathBuf);

    impl Mount {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("ojs-init-cgroup-memory-{}-{number}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn with(self, directory: &str, files: &[(&str, &str)]) -> Self {
            let directory = self.0.join(directory);
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in files {
                fs::write(directory.join(name), text).unwrap();
            }
            self
        }

        fn cgroup(&self, own: &str) -> Option<MemoryCgroup> {
            MemoryCgroup::find_in(own, &self.0)
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_taken_is_counted_without_the_cache_that_nobody_has_used_lately() {
        let files = [
            ("memory.max", "1000\n"),
            ("memory.current", "950\n"),
            (
                "memory.stat",
                "anon 500\ninactive_anon 90\ninactive_file 150\nactive_file 20\n",
            ),
        ];
        let mount = Mount::new().with("", &files);
        let cgroup = mount.cgroup("0::/\n").unwrap();
        assert_eq!((cgroup.limit(), cgroup.percent(85)), (Some(1000), Some(80)));
        assert_eq!(cgroup.percent(96), Some(95), "the details need not be read");
        fs::write(mount.0.join("memory.current"), "1200\n").unwrap();
        fs::write(mount.0.join("memory.stat"), "").unwrap();
        assert_eq!(cgroup.percent(0), Some(100));
    }

    #[test]
    fn the_limit_that_is_nearest_to_its_end_counts_and_one_above_ours_too() {
        let mount = Mount::new()
            .with("pod", &[("memory.max", "1000"), ("memory.current", "900")])
            .with("pod/job", &[("memory.max", "500"), ("memory.current", "250")])
            .with("", &[("memory.current", "99999")]);
        let cgroup = mount.cgroup("0::/pod/job\n").unwrap();
        assert_eq!((cgroup.limit(), cgroup.percent(0)), (Some(500), Some(90)));
    }

    #[test]
    fn a_limit_may_be_set_while_we_run_and_none_is_none() {
        let mount = Mount::new().with("", &[("memory.max", "max\n"), ("memory.current", "900\n")]);
        let cgroup = mount.cgroup("0::/\n").unwrap();
        assert_eq!((cgroup.limit(), cgroup.percent(0)), (None, None));
        fs::write(mount.0.join("memory.max"), "1800\n").unwrap();
        assert_eq!((cgroup.limit(), cgroup.percent(0)), (Some(1800), Some(50)));
        assert!(Mount::new().cgroup("0::/\n").is_none());
    }

    #[test]
    fn version_1_is_read_as_well_and_its_largest_number_is_no_limit() {
        let files = [
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "900\n"),
            ("memory.stat", "inactive_file 1\ntotal_inactive_file 400\n"),
        ];
        let unlimited = [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "5000\n"),
        ];
        let mount = Mount::new()
            .with("memory/docker/abc", &files)
            .with("memory", &unlimited);
        let own = "12:cpu,cpuacct:/docker/abc\n9:memory:/docker/abc\n";
        let cgroup = mount.cgroup(own).unwrap();
        assert_eq!((cgroup.limit(), cgroup.percent(0)), (Some(1000), Some(50)));
        let cgroup = mount.cgroup("9:memory:/\n").unwrap();
        assert_eq!(cgroup.percent(0), None);
    }

    #[test]
    fn what_cannot_be_understood_is_no_limit() {
        for text in ["", "0", "-1", "many", "18446744073709551615"] {
            let mount = Mount::new().with("", &[("memory.max", text), ("memory.current", "1")]);
            assert_eq!(mount.cgroup("0::/\n").unwrap().percent(0), None, "{text:?}");
        }
    }
}
