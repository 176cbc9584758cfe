//! The error in an answer of the backend.

use std::borrow::Cow;

use crate::json::object::Object;

/// The phrases by which an error reports a missing object.
const MISSING: [&str; 6] = [
    "not found",
    "unknown",
    "no such",
    "there is no",
    "does not exist",
    "not registered",
];

/// The error of an answer, or whatever the object holds that stands where an error is expected.
pub(crate) struct BackendError<'a>(Object<'a>);

impl<'a> BackendError<'a> {
    /// The error of this body: nested as in the binding, or flat as in the error catalogue
    /// (requirements C-23). `None`: the body is no object.
    pub(crate) fn of(body: &'a [u8]) -> Option<Self> {
        let fields = Object::read_bytes(body)?;
        Some(Self(fields.object("error").unwrap_or(fields)))
    }

    /// A text of the error that is not empty.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.0.text(key).filter(|text| !text.is_empty())
    }

    /// Whether the backend itself wrote it, and not a proxy in front of the backend.
    pub(crate) fn is_of_ojs(&self) -> bool {
        self.text("code").is_some()
    }

    /// The job's state in a conflict. Not every backend has it.
    pub(crate) fn current_state(&self) -> Option<Cow<'a, str>> {
        let state = self.0.object("details")?.text("current_state");
        state.filter(|state| !state.is_empty())
    }

    /// Whether a 404 is about the worker, and not about the path: a backend without heartbeats does
    /// not know workers.
    pub(crate) fn is_unknown_worker(&self) -> bool {
        let says_registered = |key| self.lowercase(key).replace('_', " ").contains("not registered");
        says_registered("code") || says_registered("message") || self.speaks_of("worker")
    }

    /// Whether it speaks of a missing `worker` or a `job`, and not just of a path with that word.
    pub(crate) fn speaks_of(&self, thing: &str) -> bool {
        let path = format!("/{thing}s");
        let says_so = |text: String| {
            let is_missing = MISSING.iter().any(|words| text.contains(words));
            text.contains(thing) && is_missing && !text.contains(&path)
        };
        let details = self.0.object("details");
        let names_it = details.is_some_and(|details| {
            let is_of_the_type = details.text("resource_type").is_some_and(|kind| kind == thing);
            is_of_the_type || details.raw(&format!("{thing}_id")).is_some()
        });
        says_so(self.lowercase("code").replace('_', " ")) || says_so(self.lowercase("message")) || names_it
    }

    fn lowercase(&self, key: &str) -> String {
        self.text(key).unwrap_or_default().to_ascii_lowercase()
    }
}

/// Whether the backend itself wrote the error of this body, and not a proxy in front of it.
pub fn is_of_ojs(body: &[u8]) -> bool {
    BackendError::of(body).is_some_and(|error| error.is_of_ojs())
}
