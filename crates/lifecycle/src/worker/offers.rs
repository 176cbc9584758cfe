//! Offers of holders, and the order in which the holders are served. Many holders make one offer,
//! so a search for a holder reads the few offers and not the many holders.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::ids::{HolderId, Text};
use crate::groups::{Groups, set};

/// Most types that a record about a job without a handler can name.
const MOST_NAMED_TYPES: usize = 20;

/// The types and the frame limit that some holders have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// The types of jobs; none: every type.
    pub types: Option<Vec<Text>>,
    /// The longest frame, in bytes; none: any.
    pub frame_limit: Option<usize>,
}

/// The number of an offer, valid as long as a holder makes the offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferNumber(usize);

/// The rank of a holder that makes an offer. The holder that may get most jobs is the first. Among
/// equals the holder that was served least recently is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderRank {
    /// How many more jobs the holder may get.
    pub free: Reverse<usize>,
    /// The number of the holder's last job, in a count of all jobs given out.
    pub served: u64,
    /// Which holder.
    pub holder: HolderId,
}

/// The holders that make one offer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Takers {
    /// How many holders have made the offer, with or without room.
    members: usize,
    /// How many of the holders can receive messages.
    present: usize,
    /// The holders that can get a job now.
    idle: BTreeSet<HolderRank>,
}

/// All offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Offers {
    numbers: BTreeMap<Offer, OfferNumber>,
    made: BTreeMap<OfferNumber, (Offer, Takers)>,
    /// The offers that name a type.
    by_type: Groups<Text, OfferNumber>,
    /// The offers that accept every type.
    of_any_type: BTreeSet<OfferNumber>,
    /// The offers with a holder that can get a job now.
    idle: BTreeSet<OfferNumber>,
}

impl Offers {
    /// Adds a holder to this offer.
    pub fn join(&mut self, offer: Offer) -> OfferNumber {
        let number = match self.numbers.get(&offer) {
            Some(number) => *number,
            None => self.begin(offer),
        };
        if let Some((_, takers)) = self.made.get_mut(&number) {
            takers.members += 1;
        }
        number
    }

    fn begin(&mut self, offer: Offer) -> OfferNumber {
        let free = (0..).map(OfferNumber).zip(self.made.keys());
        let gap = free.clone().find(|(number, taken)| number != *taken);
        let number = gap.map_or(OfferNumber(self.made.len()), |(number, _)| number);
        match &offer.types {
            None => {
                self.of_any_type.insert(number);
            }
            Some(types) => {
                for kind in types {
                    self.by_type.insert(kind.clone(), number);
                }
            }
        }
        self.numbers.insert(offer.clone(), number);
        self.made.insert(number, (offer, Takers::default()));
        number
    }

    /// Removes a holder from the offer, and the offer with its last holder.
    pub fn leave(&mut self, number: OfferNumber) {
        let Some((_, takers)) = self.made.get_mut(&number) else {
            return;
        };
        takers.members -= 1;
        if takers.members > 0 {
            return;
        }
        let Some((offer, _)) = self.made.remove(&number) else {
            return;
        };
        self.numbers.remove(&offer);
        self.of_any_type.remove(&number);
        for kind in offer.types.iter().flatten() {
            self.by_type.remove(kind, &number);
        }
    }

    /// The types that are named; of many the first [`MOST_NAMED_TYPES`].
    pub fn types(&self) -> Vec<Text> {
        self.by_type.names().take(MOST_NAMED_TYPES).cloned().collect()
    }

    /// Notes that one more holder of the offer can receive messages, or one fewer. Returns whether
    /// it is the first, or was the last.
    pub fn is_present(&mut self, number: OfferNumber, is_present: bool) -> bool {
        let Some((_, takers)) = self.made.get_mut(&number) else {
            return false;
        };
        let was_anybody = takers.present > 0;
        if is_present {
            takers.present += 1;
        } else {
            takers.present -= 1;
        }
        was_anybody != (takers.present > 0)
    }

    /// Notes whether a holder of the offer can get a job now.
    pub fn set_idle(&mut self, number: OfferNumber, rank: HolderRank, is_idle: bool) {
        if let Some((_, takers)) = self.made.get_mut(&number) {
            set(&mut takers.idle, rank, is_idle);
            set(&mut self.idle, number, !takers.idle.is_empty());
        }
    }

    /// The offers that accept this job, in a frame of this many bytes.
    fn to_take(&self, kind: &Text, bytes: usize) -> impl Iterator<Item = &Takers> {
        let named = self.by_type.of(kind).iter();
        let made = named
            .chain(&self.of_any_type)
            .filter_map(|number| self.made.get(number));
        made.filter(move |(offer, _)| offer.frame_limit.is_none_or(|most| bytes <= most))
            .map(|(_, takers)| takers)
    }

    /// Whether a holder accepts this job, now or later.
    pub fn take(&self, kind: &Text, bytes: usize) -> bool {
        self.to_take(kind, bytes).any(|takers| takers.present > 0)
    }

    /// The holder that gets this job next.
    pub fn choose(&self, kind: &Text, bytes: usize) -> Option<HolderId> {
        let first = self.to_take(kind, bytes).filter_map(|takers| takers.idle.first()).min();
        first.map(|rank| rank.holder)
    }

    /// The offers with a holder that can get a job now.
    pub fn idle(&self) -> impl Iterator<Item = &Offer> {
        let made = self.idle.iter().filter_map(|number| self.made.get(number));
        made.map(|(offer, _)| offer)
    }

    /// Whether both have equal offers with equal holders, under any numbers, and each index lists
    /// each of its offers.
    pub fn are_like(&self, other: &Self) -> bool {
        let by_content = |offers: &Self| -> BTreeMap<Offer, Takers> { offers.made.values().cloned().collect() };
        let is_found = |(number, (offer, takers)): (&OfferNumber, &(Offer, Takers))| {
            let is_listed = |offers: &BTreeSet<OfferNumber>| offers.contains(number);
            let is_by_type = match &offer.types {
                None => is_listed(&self.of_any_type),
                Some(types) => types.iter().all(|kind| is_listed(self.by_type.of(kind))),
            };
            let is_idle = is_listed(&self.idle);
            self.numbers.get(offer) == Some(number) && is_by_type && is_idle != takers.idle.is_empty()
        };
        by_content(self) == by_content(other) && self.made.iter().all(is_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(free: usize, served: u64, holder: u64) -> HolderRank {
        HolderRank {
            free: Reverse(free),
            served,
            holder: HolderId(holder),
        }
    }

    fn offer(types: Option<&[&str]>) -> Offer {
        Offer {
            types: types.map(|types| types.iter().map(|kind| Text::from(*kind)).collect()),
            frame_limit: Some(100),
        }
    }

    fn text(name: &str) -> Text {
        name.into()
    }

    #[test]
    fn the_one_with_most_room_is_the_first_and_between_equals_whoever_was_served_least_recently() {
        let mut offers = Offers::default();
        let mail = offers.join(offer(Some(&["mail"])));
        let any = offers.join(offer(None));
        for rank in [rank(1, 1, 1), rank(2, 9, 2)] {
            offers.set_idle(mail, rank, true);
        }
        offers.set_idle(any, rank(2, 3, 3), true);
        assert_eq!(offers.choose(&text("mail"), 1), Some(HolderId(3)));
        offers.set_idle(any, rank(2, 3, 3), false);
        assert_eq!(offers.choose(&text("mail"), 1), Some(HolderId(2)));
        assert_eq!(offers.choose(&text("sms"), 1), None);
        assert_eq!(offers.choose(&text("mail"), 101), None);
    }

    #[test]
    fn an_offer_lasts_as_long_as_somebody_makes_it_and_is_taken_up_while_one_of_them_is_there() {
        let mut offers = Offers::default();
        let first = offers.join(offer(Some(&["mail"])));
        assert_eq!(offers.join(offer(Some(&["mail"]))), first);
        assert!(!offers.take(&text("mail"), 1));
        assert!(offers.is_present(first, true));
        assert!(!offers.is_present(first, true));
        assert!(offers.take(&text("mail"), 1));
        assert!(!offers.is_present(first, false));
        assert!(offers.is_present(first, false));
        offers.leave(first);
        offers.leave(first);
        assert_eq!(offers, Offers::default());
    }
}
