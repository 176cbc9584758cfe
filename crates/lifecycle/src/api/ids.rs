//! Ids. The shell and the backend choose them; the machine only compares them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Text that ojs-init passes on without parsing: JSON as its author spelled it, or a name.
pub type Text = Arc<str>;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

numbers! {
    /// A holder of jobs. Its number is never reused.
    HolderId(u64);
    /// One request of a holder for jobs. Later requests have larger numbers, and no number is
    /// reused.
    PullId(u64);
    /// One request to the backend.
    CallId(u64);
    /// One connection to the control socket. Its number is never reused.
    ClientId(u64);
    /// One reservation of a job: the same job delivered twice is two claims.
    Claim(u64);
}

/// The process behind a holder. The pid is in the lower half. A number in the upper half makes the
/// id unique over time, because the system reuses pids. Shown as the pid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

impl ProcessId {
    /// The pid. It is for people only, because the system reuses pids.
    pub fn pid(self) -> u32 {
        // The upper half is omitted on purpose.
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(0)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid().fmt(f)
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub struct $name(pub Text);

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                in_order(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

names! {
    /// The backend's id of a job. It is not unique over time, because a job that is delivered again
    /// keeps its id.
    JobId;
    /// The worker's name for the backend; a new one for each incarnation (worker protocol 3.1).
    WorkerId;
}

/// The order of texts, found eight bytes at a time. Ids of jobs that were enqueued together begin
/// alike, each job is looked up a dozen times, and the C library of a static binary compares byte
/// by byte.
fn in_order(one: &Text, other: &Text) -> Ordering {
    if Arc::ptr_eq(one, other) {
        return Ordering::Equal;
    }
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (ones, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    for (one, other) in ones.iter().zip(others) {
        let order = u64::from_be_bytes(*one).cmp(&u64::from_be_bytes(*other));
        if order != Ordering::Equal {
            return order;
        }
    }
    let same = 8 * ones.len().min(others.len());
    one.get(same..).cmp(&other.get(same..))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ids_are_in_the_order_of_their_texts(begin in "[ab]{0,24}", one in "[abé]{0,24}", other in "[abé]{0,24}") {
            let (one, other) = (format!("{begin}{one}"), format!("{begin}{other}"));
            let order = JobId(one.as_str().into()).cmp(&JobId(other.as_str().into()));
            prop_assert_eq!(order, one.cmp(&other));
        }
    }
}
