//! Room for the bodies of requests that are for us.

use std::rc::Rc;

/// Most bodies above a small size that are here at the same time; the next ones wait.
const LARGE_BODIES: usize = 16;

/// How much of bodies that are for us is kept.
#[derive(Debug)]
pub(super) struct BodyBounds {
    /// Longest body in bytes.
    pub(super) most: usize,
    /// As many as there are larger bodies, and one.
    places: Rc<()>,
}

/// Room for a large body, for as long as this lives.
#[derive(Debug)]
pub(super) struct LargePlace(#[expect(dead_code, reason = "it is counted, not read")] Rc<()>);

impl BodyBounds {
    /// Bodies have at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            places: Rc::default(),
        }
    }

    /// Whether there is room for one more large body.
    pub(super) fn has_place(&self) -> bool {
        Rc::strong_count(&self.places) <= LARGE_BODIES
    }

    /// Room for one, if there is any.
    pub(super) fn place(&self) -> Option<LargePlace> {
        self.has_place().then(|| LargePlace(Rc::clone(&self.places)))
    }
}
