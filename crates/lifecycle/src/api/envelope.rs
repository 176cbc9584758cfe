//! The envelope of a job, which ojs-init passes on without parsing.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::api::ids::Text;

/// The envelope of a job: JSON on one line. A clone shares the text.
#[derive(Clone)]
pub struct Envelope(Storage);

/// Where the text is.
#[derive(Clone)]
enum Storage {
    Small(Text),
    /// A large envelope stays in the memory that it was received in. A copy would cost as much as
    /// all other work on it.
    Large(Arc<String>),
}

impl Envelope {
    /// An envelope in this memory.
    pub fn large(text: String) -> Self {
        Self(Storage::Large(Arc::new(text)))
    }

    /// The memory of a large envelope, for the next one. `None`: the envelope is not large, or
    /// another clone still needs the memory.
    pub fn into_memory(self) -> Option<Vec<u8>> {
        match self.0 {
            Storage::Small(_) => None,
            Storage::Large(text) => Arc::try_unwrap(text).ok().map(String::into_bytes),
        }
    }
}

impl Default for Envelope {
    fn default() -> Self {
        Self(Storage::Small(Text::default()))
    }
}

impl Deref for Envelope {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Storage::Small(text) => text,
            Storage::Large(text) => text,
        }
    }
}

impl<T: Into<Text>> From<T> for Envelope {
    fn from(text: T) -> Self {
        Self(Storage::Small(text.into()))
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Envelope {}

impl Hash for Envelope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        str::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_its_text_wherever_that_is() {
        let small = Envelope::from("{\"id\":1}");
        let large = Envelope::large("{\"id\":1}".to_owned());
        assert_eq!((&small, &*small), (&large, &*large));
        assert_eq!(format!("{small:?}"), format!("{large:?}"));
        assert_eq!(&*Envelope::default(), "");
    }

    #[test]
    fn the_last_clone_of_a_large_envelope_gives_its_memory_back() {
        let text = "{}".to_owned();
        let place = text.as_ptr();
        let large = Envelope::large(text);
        assert_eq!(large.clone().into_memory(), None);
        let memory = large.into_memory().unwrap();
        assert_eq!(memory.as_ptr(), place);
        assert_eq!(Envelope::from("{}").into_memory(), None);
    }
}
