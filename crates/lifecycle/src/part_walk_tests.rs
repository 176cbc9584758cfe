//! Tests only: every state that one part of the machine can reach, breadth first, with any
//! behaviour of the other parts and the outside. A broken promise is shown with the shortest way to
//! it.
//!
//! The exploration in `tests/pure` walks the whole machine and has to bound its worlds, because
//! four parts multiply. One part alone is small enough to be walked to its end, against facts that
//! no real machine would give it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// A part with everything that its test remembers.
pub(crate) trait Walk: Clone + Debug + Hash {
    /// An event, with the answers of the other parts at that moment.
    type Step: Clone + Debug;

    /// Every step that is possible now. None: the walk ends here.
    fn steps(&self) -> Vec<Self::Step>;

    /// Carries out one step. An error is a broken promise.
    fn take(&mut self, step: &Self::Step) -> Result<(), String>;

    /// Whether the walk may end here.
    fn may_end(&self) -> bool;
}

/// Walks from `first` to every state. Returns the number of states. Fails if a promise is broken or
/// no step leads on.
pub(crate) fn walk<W: Walk>(first: W, most_states: usize) -> usize {
    let mut ways: Vec<Option<(usize, W::Step)>> = vec![None];
    let mut known = BTreeSet::from([identity(&first)]);
    let mut open = VecDeque::from([(first, 0)]);
    while let Some((state, at)) = open.pop_front() {
        let steps = state.steps();
        assert!(
            !steps.is_empty() || state.may_end(),
            "no step leads on\n{}{state:?}",
            way_to(&ways, at)
        );
        for step in steps {
            let mut next = state.clone();
            if let Err(broken) = next.take(&step) {
                panic!("{broken}\n{}{step:?}\n{next:?}", way_to(&ways, at));
            }
            if known.insert(identity(&next)) {
                assert!(known.len() <= most_states, "more than {most_states} states");
                ways.push(Some((at, step)));
                open.push_back((next, ways.len() - 1));
            }
        }
    }
    known.len()
}

/// 64 bits that stand for a state. The states themselves would fill the memory.
fn identity(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The steps to a state, one on a line.
fn way_to<S: Debug>(ways: &[Option<(usize, S)>], mut at: usize) -> String {
    let mut lines = Vec::new();
    while let Some((from, step)) = &ways[at] {
        lines.push(format!("{step:?}\n"));
        at = *from;
    }
    lines.reverse();
    lines.concat()
}
