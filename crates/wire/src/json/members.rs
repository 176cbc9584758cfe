//! The members of a JSON object that can be read before something in it is broken or cut off.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of an object that somebody asked for, each as the text of its value.
pub(crate) struct Members<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a str>; N],
    /// The member whose value cannot be read, and the text from there on.
    broken: Option<(usize, &'a str)>,
}

impl<'a, const N: usize> Members<'a, N> {
    /// A member that can be read; `null` is none.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let mut members = self.names.iter().zip(self.values);
        members
            .find(|(known, _)| **known == name)?
            .1
            .filter(|value| *value != "null")
    }

    /// The text from the value of this member on, if that is where the reading ended.
    pub(crate) fn broken(&self, name: &str) -> Option<&'a str> {
        let (index, text) = self.broken?;
        (*self.names.get(index)? == name).then_some(text)
    }
}

/// Reads the members up to the first thing that is no JSON, or up to the end.
pub(crate) fn members<'a, const N: usize>(text: &'a str, names: [&'static str; N]) -> Members<'a, N> {
    let found = RefCell::new(Members {
        names,
        values: [None; N],
        broken: None,
    });
    // The error is where the reading ended. What was read before it is kept.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(Reading { text, found: &found });
    found.into_inner()
}

struct Reading<'a, 'f, const N: usize> {
    text: &'a str,
    found: &'f RefCell<Members<'a, N>>,
}

impl<'a, const N: usize> Visitor<'a> for Reading<'a, '_, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let names = self.found.borrow().names;
        while let Some(known) = map.next_key_seed(KnownMember { text: self.text, names })? {
            let Some((index, value_at)) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let mut found = self.found.borrow_mut();
            found.broken = value_at.and_then(|at| Some((index, self.text.get(at..)?)));
            drop(found);
            let value = map.next_value::<&RawValue>()?;
            let mut found = self.found.borrow_mut();
            found.broken = None;
            if let Some(slot) = found.values.get_mut(index) {
                *slot = Some(value.get());
            }
        }
        Ok(())
    }
}

/// Which member a key names, and where its value begins.
struct KnownMember<'a, const N: usize> {
    text: &'a str,
    names: [&'static str; N],
}

impl<'a, const N: usize> DeserializeSeed<'a> for KnownMember<'a, N> {
    type Value = Option<(usize, Option<usize>)>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a, const N: usize> KnownMember<'a, N> {
    fn index(&self, key: &str) -> Option<usize> {
        self.names.iter().position(|name| *name == key)
    }

    /// Behind the quote of the key and the colon.
    fn value_at(&self, key: &'a str) -> Option<usize> {
        let after = (key.as_ptr().addr() + key.len() + 1).checked_sub(self.text.as_ptr().addr())?;
        let rest = self.text.get(after..)?;
        let value = rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
        Some(self.text.len() - value.len())
    }
}

impl<'a, const N: usize> Visitor<'a> for KnownMember<'a, N> {
    type Value = Option<(usize, Option<usize>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'a str) -> Result<Self::Value, E> {
        Ok(self.index(key).map(|index| (index, self.value_at(key))))
    }

    /// A key with an escape: what its value is before it breaks cannot be found.
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.index(key).map(|index| (index, None)))
    }
}
