//! The user ids of `exec.users`: each job that runs has one to itself.

use std::collections::BTreeSet;

use ojs_values::small;

use crate::config::values::limits::Uids;

/// The users that have no job.
#[derive(Debug)]
pub struct Users {
    /// None: jobs run as the user of the runner.
    free: Option<BTreeSet<u32>>,
}

impl Users {
    /// All of these, of whom at most `most` are needed at a time; none: jobs have no users of their
    /// own.
    pub fn new(range: Option<Uids>, most: u32) -> Self {
        let free = range.map(|Uids { first, last }| {
            let last = last.min(first.saturating_add(most.saturating_sub(1)));
            small::gather(first..=last)
        });
        Self { free }
    }

    /// Whether jobs have users of their own.
    pub fn are_used(&self) -> bool {
        self.free.is_some()
    }

    /// A user for a job; none if jobs have no separate users.
    ///
    /// # Errors
    ///
    /// Every user is in use.
    pub fn take(&mut self) -> Result<Option<u32>, ()> {
        match &mut self.free {
            Some(free) => free.pop_first().map(Some).ok_or(()),
            None => Ok(None),
        }
    }

    /// Frees a user that no process has any more.
    pub fn give_back(&mut self, user: u32) {
        if let Some(free) = &mut self.free {
            free.insert(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_jobs_have_the_same_user() {
        let range = Uids { first: 10, last: 99 };
        let mut users = Users::new(Some(range), 2);
        assert_eq!(users.take(), Ok(Some(10)));
        assert_eq!(users.take(), Ok(Some(11)));
        assert_eq!(users.take(), Err(()));
        users.give_back(10);
        assert_eq!(users.take(), Ok(Some(10)));
    }

    #[test]
    fn without_a_range_jobs_run_as_we_do() {
        let mut users = Users::new(None, 2);
        assert!(!users.are_used());
        assert_eq!(users.take(), Ok(None));
    }
}
