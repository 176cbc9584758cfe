//! The elements of an answer to a FETCH: `jobs`, or `job` if `jobs` has none.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::object::{Name, Object};

/// Reads a regular answer: complete, and each element is an object. `take` gets the range and the
/// fields of each element, and returns whether to continue. Each byte is read once.
///
/// False: the answer is not regular, and the elements passed to `take` do not count.
pub(crate) fn regular(text: &str, take: &mut dyn FnMut(Range<usize>, &Object<'_>) -> bool) -> bool {
    let mut is_empty = true;
    let mut jobs = |element: Object<'_>| {
        is_empty = false;
        element.span(text).is_some_and(|span| take(span, &element))
    };
    read(text, &mut jobs, &mut |_| true) && !is_empty
}

/// Reads as much of any answer as can be read. Whether that is all of it.
pub(crate) fn readable(text: &str, take: &mut dyn FnMut(&str)) -> bool {
    let (mut jobs, mut job): (Vec<&RawValue>, Vec<&RawValue>) = (Vec::new(), Vec::new());
    let mut keep = |element| {
        jobs.push(element);
        true
    };
    let is_whole = read(text, &mut keep, &mut |element| {
        job.push(element);
        true
    });
    let found = if jobs.is_empty() { job } else { jobs };
    found.into_iter().for_each(|element| take(element.get()));
    is_whole
}

/// Gets an element, and returns whether to continue.
type Each<'s, E> = &'s mut dyn FnMut(E) -> bool;

/// Whether the text could be read to its end.
fn read<'a, E: Deserialize<'a>>(text: &'a str, jobs: Each<'_, E>, job: Each<'_, E>) -> bool {
    let mut parser = serde_json::Deserializer::from_str(text);
    FetchAnswer { jobs, job }.deserialize(&mut parser).is_ok() && parser.end().is_ok()
}

/// The whole answer.
struct FetchAnswer<'s, E> {
    /// Gets the elements of the array `jobs`.
    jobs: Each<'s, E>,
    /// Gets `job`: some backends repeat the first job here.
    job: Each<'s, E>,
}

impl<'a, E: Deserialize<'a>> DeserializeSeed<'a> for FetchAnswer<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a, E: Deserialize<'a>> Visitor<'a> for FetchAnswer<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(key)) = map.next_key()? {
            match &*key {
                "jobs" => map.next_value_seed(Array(&mut *self.jobs))?,
                "job" => {
                    if let Some(element) = map.next_value()? {
                        (self.job)(element);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The array, or null: Go writes an empty one as null.
struct Array<'s, E>(Each<'s, E>);

impl<'a, E: Deserialize<'a>> DeserializeSeed<'a> for Array<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a, E: Deserialize<'a>> Visitor<'a> for Array<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of jobs")
    }

    fn visit_unit<R>(self) -> Result<(), R> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut elements: S) -> Result<(), S::Error> {
        while let Some(element) = elements.next_element()? {
            if !(self.0)(element) {
                return Err(S::Error::custom("not regular"));
            }
        }
        Ok(())
    }
}
