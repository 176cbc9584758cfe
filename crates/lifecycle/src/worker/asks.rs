//! The queues from which a holder has asked for jobs itself.

use std::collections::BTreeSet;

use crate::api::ids::Text;

/// Most queues that are remembered of one holder. A holder with more queues counts as one that
/// accepts jobs of any queue.
const MOST_QUEUES: usize = 64;

/// The queues of a holder's requests up to now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Asks {
    /// The holder has asked for no job.
    #[default]
    Nothing,
    /// The holder has named these queues.
    Queues(BTreeSet<Text>),
    /// The holder has named no queue, or too many.
    Anything,
}

impl Asks {
    /// The holder asks for jobs, of these queues or of any.
    pub fn add(&mut self, named: Option<&[Text]>) {
        let mut queues = match std::mem::replace(self, Self::Anything) {
            Self::Nothing => BTreeSet::new(),
            Self::Queues(queues) => queues,
            Self::Anything => return,
        };
        let Some(named) = named else { return };
        queues.extend(named.iter().cloned());
        if queues.len() <= MOST_QUEUES {
            *self = Self::Queues(queues);
        }
    }

    /// Whether the holder has asked for jobs.
    pub fn has_asked(&self) -> bool {
        *self != Self::Nothing
    }

    /// Whether the holder accepts jobs of this queue, as far as its requests show.
    pub fn take(&self, queue: &Text) -> bool {
        match self {
            Self::Nothing => false,
            Self::Queues(queues) => queues.contains(queue),
            Self::Anything => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: std::ops::Range<usize>) -> Vec<Text> {
        numbers.map(|number| number.to_string().as_str().into()).collect()
    }

    #[test]
    fn a_holder_takes_the_queues_that_it_has_named_and_any_once_it_named_none_or_too_many() {
        let mut asks = Asks::default();
        assert!(!asks.has_asked() && !asks.take(&"1".into()));
        asks.add(Some(&names(1..2)));
        asks.add(Some(&names(2..3)));
        assert!(asks.take(&"1".into()) && asks.take(&"2".into()) && !asks.take(&"3".into()));
        let mut of_many = asks.clone();
        of_many.add(Some(&names(3..66)));
        asks.add(None);
        assert!(asks.take(&"3".into()) && of_many.take(&"100".into()));
    }
}
