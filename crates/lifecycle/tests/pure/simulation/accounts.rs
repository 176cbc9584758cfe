//! Texts for the person who investigates why ojs-init ended.

use std::collections::BTreeSet;

use ojs_lifecycle::api::{EndReport, JobId};
use ojs_wire::termination_log::{self, MOST_BYTES};

use super::promise::{Kept, promise};

/// The accounts so far.
#[derive(Debug, Default)]
pub struct Accounts {
    last: Option<EndReport>,
    count: usize,
}

impl Accounts {
    pub fn written(&mut self, account: &EndReport) -> Kept {
        let text = termination_log::text(account, None, None);
        promise!("a termination log that fits", text.len() <= MOST_BYTES, "{text}");
        let names = &account.tally.names;
        promise!(
            "a name for each job that is cut off, and for no other",
            names.len() <= account.cut_off && names.is_empty() == (account.cut_off == 0),
            "{text}"
        );
        let is_over = self.last.as_ref().is_some_and(|last| last.status.is_some());
        promise!("the account of the exit is the last", !is_over, "{text}");
        self.last = Some(account.clone());
        self.count += 1;
        promise!("two accounts at most", self.count <= 2, "{text}");
        Ok(())
    }

    /// `at_risk` are the jobs that the shutdown may have cut off, `cut_off` the least and the
    /// highest number that it did. Neither is checked if a signal ended it at once.
    pub fn at_exit(&self, status: u8, cut_off: (usize, usize), at_risk: &BTreeSet<JobId>, is_abandoned: bool) -> Kept {
        let Some(account) = &self.last else {
            promise!("an account of each end", false, "there is none");
            return Ok(());
        };
        promise!(
            "an account of each end",
            account.status == Some(status) && account.is_abandoned == is_abandoned,
            "{account:?}"
        );
        promise!(
            "the account has what was cut off",
            is_abandoned
                || (cut_off.0..=cut_off.1).contains(&account.cut_off)
                    && account.tally.names.keys().all(|name| at_risk.contains(name)),
            "{account:?}, expected {cut_off:?} of {at_risk:?}"
        );
        Ok(())
    }
}
