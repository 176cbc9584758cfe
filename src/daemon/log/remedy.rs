//! The end of a line about a failed system call: the advice.

use std::io;

use nix::errno::Errno;

/// The remedy for this error. An error that the system has no reason to return is a bug.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => "raise the limit on open files (ulimit -n)",
        Some(Errno::ENFILE) => "raise the host's limit on open files (sysctl fs.file-max)",
        Some(Errno::EAGAIN) => "raise the limit on processes (docker --pids-limit, the pod's pid limit, ulimit -u)",
        Some(Errno::ENOMEM | Errno::ENOBUFS) => "raise the memory limit",
        Some(Errno::ENOSPC | Errno::EDQUOT) => {
            "free disk space, or raise the host's limit on watches (sysctl fs.epoll.max_user_watches)"
        }
        Some(Errno::EPERM | Errno::EACCES | Errno::ENOSYS) => {
            "look for a seccomp profile or security module that forbids the system call"
        }
        Some(_) | None => "report it with the lines before it",
    }
}

/// The remedy for a signal that could not be sent.
pub fn remedy_of_signal(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        "it runs as another user: use --user in place of gosu or su, or add CAP_KILL"
    } else {
        remedy(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_a_ban_and_a_bug_have_different_remedies() {
        let of = |errno: Errno| remedy(&io::Error::from(errno));
        assert!(of(Errno::EMFILE).contains("ulimit -n"));
        assert!(of(Errno::EAGAIN).contains("--pids-limit"));
        assert!(of(Errno::ENOSYS).contains("seccomp"));
        assert!(of(Errno::EINVAL).contains("report it"));
        assert!(remedy_of_signal(&Errno::EPERM.into()).contains("CAP_KILL"));
        assert_eq!(remedy_of_signal(&Errno::ENOMEM.into()), of(Errno::ENOMEM));
    }
}
