//! The router: the only code that sees more than one part of the machine.
//!
//! A part decides with facts about the others, and returns a list: orders for the shell, and
//! requests to other parts. The router gathers the facts, lets the part decide, and carries out the
//! list in order, before anything else happens. A request to another part is a decision of that
//! part, with a list of its own.
//!
//! The router may use everything of the machine. Start with `jobs`: it has the most requests.
//! `link`, `workers` and `end` do the same for the other parts.

mod credit;
mod deaths;
mod end;
mod job_facts;
mod jobs;
mod link;
mod workers;

use crate::api::Moment;
use crate::machine::Lifecycle;

impl Lifecycle {
    /// Carries out the list of a part, which costs nothing if it is empty. Its memory is used for
    /// the next list, unless a request of this one has made the part begin another.
    fn carry_out<S>(&mut self, list_of: fn(&mut Self) -> &mut Vec<S>, act: fn(&mut Self, S, Moment), now: Moment) {
        if list_of(self).is_empty() {
            return;
        }
        let mut list = std::mem::take(list_of(self));
        for said in list.drain(..) {
            act(self, said, now);
        }
        let next = list_of(self);
        if next.capacity() == 0 {
            *next = list;
        }
    }
}
