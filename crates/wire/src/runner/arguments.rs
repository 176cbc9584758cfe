//! The arguments of a job in the form that a program gets: strings unchanged, any other value as
//! its JSON text, with the envelope's spelling of numbers.
//!
//! ```
//! use ojs_wire::runner::arguments::Path;
//!
//! let path: Path = "1.path".parse().unwrap();
//! assert_eq!(path.find(r#"["ada", {"path": "/srv/in.mp4"}]"#).as_deref(), Some("/srv/in.mp4"));
//! ```

use std::str::FromStr;

use serde_json::value::RawValue;

use crate::json::object::Object;
use crate::json::values;

/// The place of a value in a job's `args`: the number of an argument, then names of fields and
/// numbers of elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Vec<String>);

impl FromStr for Path {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let keys: Vec<String> = text.split('.').map(str::to_owned).collect();
        if keys.iter().any(String::is_empty) {
            return Err("it has an empty part");
        }
        if keys.first().is_none_or(|first| index(first).is_none()) {
            return Err("args is a list, so the number of an argument comes first: 0, 1 ...");
        }
        Ok(Self(keys))
    }
}

impl Path {
    /// The value at this place of `args`, which is JSON; `None`: there is no such place.
    pub fn find(&self, args: &str) -> Option<String> {
        let mut json = args;
        for key in &self.0 {
            json = step(json, key)?;
        }
        Some(word(json))
    }
}

/// Each argument.
pub fn words(args: &str) -> Vec<String> {
    let items: Vec<&RawValue> = serde_json::from_str(args).unwrap_or_default();
    items.into_iter().map(|item| word(item.get())).collect()
}

/// Of a whole envelope its `args`; a list is the arguments themselves.
pub fn args_of(input: &str) -> Option<&str> {
    if input.trim_start().starts_with('[') {
        return Some(input);
    }
    Object::read(input)?.any("args")
}

fn step<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    if json.trim_start().starts_with('{') {
        return Object::read(json)?.any(key);
    }
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    items.get(index(key)?).map(|item| item.get())
}

fn word(json: &str) -> String {
    values::text(json).unwrap_or_else(|| json.trim().to_owned())
}

fn index(key: &str) -> Option<usize> {
    let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
    key.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(args: &str, path: &str) -> Option<String> {
        path.parse::<Path>().unwrap().find(args)
    }

    #[test]
    fn strings_are_given_as_they_are_and_anything_else_as_its_json_text() {
        let args =
            r#" [ "a \"b\"\n\u00e4", 1.50, true, null, {"k": [1, {"x.y": 2, "z": "deep"}], "n": null}, -0, "" ] "#;
        for (path, expected) in [
            ("0", Some("a \"b\"\nä")),
            ("1", Some("1.50")),
            ("2", Some("true")),
            ("3", Some("null")),
            ("4.k.0", Some("1")),
            ("4.k.1.z", Some("deep")),
            ("4.k.1", Some(r#"{"x.y": 2, "z": "deep"}"#)),
            ("4.n", Some("null")),
            ("5", Some("-0")),
            ("6", Some("")),
            ("7", None),
            ("00", Some("a \"b\"\nä")),
            ("4.q", None),
            ("4.k.2", None),
            ("4.k.z", None),
            ("0.length", None),
            ("1.0", None),
        ] {
            assert_eq!(find(args, path).as_deref(), expected, "{path}");
        }
        assert_eq!(words(args).len(), 7);
        assert_eq!(find("{}", "0"), None);
        assert_eq!(find("null", "0"), None);
        assert!(words("null").is_empty());
    }

    #[test]
    fn of_a_field_that_is_there_twice_the_last_one_counts() {
        assert_eq!(find(r#"[{"a":1,"a":2}]"#, "0.a").as_deref(), Some("2"));
    }

    #[test]
    fn a_path_begins_with_the_number_of_an_argument() {
        for wrong in ["", ".", "x", "0.", ".0", "0..a", "-1", "+1", "1x"] {
            assert!(wrong.parse::<Path>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn args_are_found_in_an_envelope_and_by_themselves() {
        assert_eq!(args_of(r#"{"id":"a","args":[1]}"#), Some("[1]"));
        assert_eq!(args_of("[1]"), Some("[1]"));
        assert_eq!(args_of(r#"{"id":"a"}"#), None);
        assert_eq!(args_of("nothing"), None);
    }
}
