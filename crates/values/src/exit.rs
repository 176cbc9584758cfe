//! Exit status: the codes of ojs-init itself, the child's, and 128 + signal. One table, one place.
//!
//! | status | when |
//! |---|---|
//! | the child's own | the child ended by itself, or the plain init |
//! | 128 + N | the child was killed by signal N, or the third stop signal of ojs-init was N |
//! | 1 | ojs-init ended the worker, and does not start it again |
//! | 0 | a child status that `--remap-exit` names; a shutdown that was asked for |
//! | 2 | usage or configuration error; the child was not started |
//! | 70 | internal error, or no process could be created; the child is stopped first |
//! | 126 / 127 | COMMAND cannot be executed / is not found |

use crate::signal::Signal;

/// The end of a process, as `waitpid` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The process called exit with this status.
    Exited(u8),
    /// This signal killed it.
    Signalled(Signal),
}

impl Ended {
    /// Stands for the end of a process that outlived even SIGKILL: it ends so once the kernel
    /// releases it.
    pub const UNREAPED: Self = Self::Signalled(Signal::KILL);

    /// The status that a shell would show: the process's own, or 128 + signal.
    pub fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signalled(signal) => signal.exit_status(),
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exit status {status}"),
            Self::Signalled(signal) => write!(f, "killed by {signal}"),
        }
    }
}

/// The status with which ojs-init itself ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done as asked: help, version, a check that passed.
    Success,
    /// The child's status (after `--remap-exit`), or 128 + signal.
    Status(u8),
    /// Usage or configuration error; the child was never started.
    Usage,
    /// Internal error, or no process could be created.
    Internal,
    /// COMMAND exists but cannot be executed.
    NotExecutable,
    /// COMMAND does not exist.
    NotFound,
}

impl Exit {
    /// The status that the parent sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Status(status) => status,
            Self::Usage => 2,
            Self::Internal => 70,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

/// Statuses of the child that count as success (`-e`, `--remap-exit`): each of them becomes 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RemapExit([u64; 4]);

impl RemapExit {
    /// Adds one status.
    pub fn insert(&mut self, status: u8) {
        self.0[usize::from(status / 64)] |= 1 << (status % 64);
    }

    /// Whether this status was added.
    pub fn contains(&self, status: u8) -> bool {
        self.0[usize::from(status / 64)] & (1 << (status % 64)) != 0
    }

    /// The status to end with when the child ended like this.
    pub fn apply(&self, ended: Ended) -> u8 {
        let status = ended.status();
        if self.contains(status) { 0 } else { status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_by_signal_is_128_plus_its_number() {
        assert_eq!(Ended::Signalled(Signal::TERM).status(), 143);
        assert_eq!(Ended::Signalled(Signal::from_number(64).unwrap()).status(), 192);
    }

    #[test]
    fn only_the_statuses_that_were_named_become_zero() {
        for named in 0..=255u8 {
            let mut remap = RemapExit::default();
            remap.insert(named);
            for status in 0..=255u8 {
                let expected = if status == named { 0 } else { status };
                assert_eq!(remap.apply(Ended::Exited(status)), expected);
            }
        }
    }
}
