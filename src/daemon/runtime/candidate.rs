//! The places of a runtime directory, and the names of its files: for the instance that makes it
//! and for subcommands that look for one.

use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use crate::config::Paths;
use ojs_os::process::Pid;

/// The socket for the subcommands.
pub(in crate::daemon) const CONTROL_SOCKET: &str = "control.sock";

/// Locked by the instance for as long as it runs.
pub(in crate::daemon) const LOCK: &str = "lock";

/// Begins the name of the directory of all instances of one user.
const HOME: &str = "ojs-init-";

/// Most instances, and most users, of one directory that are looked at.
pub(in crate::daemon) const MOST_LOOKED_AT: usize = 1024;

/// A place where the runtime directory may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    /// True if a missing directory is made.
    pub make: bool,
    /// True if an operator named it. Then it is accepted with a warning even if others may write
    /// there. Every volume of type emptyDir under Kubernetes is one, because only root can change
    /// its mode.
    pub is_configured: bool,
}

/// The places to try: the configured one alone, else the usual ones in order.
pub fn candidates(paths: &Paths) -> Vec<Candidate> {
    if let Some(configured) = &paths.runtime_dir {
        return vec![Candidate {
            path: configured.clone(),
            make: true,
            is_configured: true,
        }];
    }
    let candidate = |path: &Path, make| Candidate {
        path: path.to_owned(),
        make,
        is_configured: false,
    };
    let usual = [
        Some(candidate(Path::new("/run/ojs-init"), true)),
        paths.user_runtime_dir.as_deref().map(|path| candidate(path, false)),
        Some(candidate(Path::new("/tmp"), false)),
        Some(candidate(Path::new("/dev/shm"), false)),
    ];
    usual.into_iter().flatten().collect()
}

/// The name of the directory, in each candidate, that holds the instances of one user.
pub fn home_name(uid: u32) -> String {
    format!("{HOME}{uid}")
}

/// The user whose directory of instances has this name.
pub(in crate::daemon) fn uid_of_home(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix(HOME)?.parse().ok()
}

/// A name that no other instance has. The pid is for people, because it is equal in every
/// container.
pub(super) fn instance_name() -> String {
    let random = RandomState::new().build_hasher().finish() & u64::from(u32::MAX);
    format!("{}-{random:08x}", Pid::own())
}

/// Whether a name is one of `instance_name`.
pub(in crate::daemon) fn is_instance(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| name.split_once('-'));
    parts.is_some_and(|(pid, random)| {
        !pid.is_empty()
            && pid.bytes().all(|byte| byte.is_ascii_digit())
            && random.len() == 8
            && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(runtime: Option<&str>, user: Option<&str>) -> Paths {
        Paths {
            runtime_dir: runtime.map(PathBuf::from),
            user_runtime_dir: user.map(PathBuf::from),
            termination_log: None,
        }
    }

    #[test]
    fn the_usual_places_are_tried_in_order() {
        let found = candidates(&paths(None, Some("/run/user/7")));
        let found: Vec<_> = found.iter().map(|c| (c.path.to_str().unwrap(), c.make)).collect();
        assert_eq!(
            found,
            [
                ("/run/ojs-init", true),
                ("/run/user/7", false),
                ("/tmp", false),
                ("/dev/shm", false)
            ]
        );
        assert_eq!(candidates(&paths(None, None)).len(), 3);
    }

    #[test]
    fn a_configured_place_is_the_only_one() {
        let expected = Candidate {
            path: PathBuf::from("/x"),
            make: true,
            is_configured: true,
        };
        assert_eq!(candidates(&paths(Some("/x"), Some("/run/user/7"))), [expected]);
    }

    #[test]
    fn the_name_of_an_instance_is_known_again_and_others_are_not() {
        assert!(is_instance(instance_name().as_ref()));
        assert_ne!(instance_name(), instance_name());
        for name in [
            "",
            "-",
            "7-",
            "-00000000",
            "7-0000000",
            "7-000000000",
            "x-00000000",
            "7-0000000g",
            "lock",
        ] {
            assert!(!is_instance(name.as_ref()), "{name}");
        }
    }
}
