//! Arguments as types of the program's own.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Discard, Error, Result};
use crate::json;

/// Reads all arguments: a tuple, a struct or a `Vec` takes them in their order; where there is only
/// one, it may be the type itself, or an object whose members are the fields of a struct.
pub(crate) fn read<A: DeserializeOwned>(args: &str) -> Result<A> {
    let items: Vec<Box<RawValue>> = json::decode(args).map_err(|error| invalid::<A>(0, &error))?;
    let [only] = items.as_slice() else {
        // `()` takes none, as it is no result.
        let none = items.is_empty().then(|| json::decode("null").ok()).flatten();
        return json::decode(args).or_else(|error| none.ok_or_else(|| invalid::<A>(items.len(), &error)));
    };
    let only = only.get();
    let (first, second) = if only.starts_with('{') { (only, args) } else { (args, only) };
    json::decode(first).or_else(|error| {
        json::decode(second).map_err(|other| {
            // An object is meant by name, and where more are wanted it is the number that is wrong;
            // else it is the one value that it is.
            let is_first = only.starts_with('{') || error.to_string().starts_with("invalid length ");
            invalid::<A>(1, if is_first { &error } else { &other })
        })
    })
}

fn invalid<A>(count: usize, error: &serde_json::Error) -> Error {
    let wanted = std::any::type_name::<A>();
    let they = if count == 1 { "argument does" } else { "arguments do" };
    let message = format!("the job's {count} {they} not fit into {wanted}: {}", without_value(error));
    Discard::of_library("InvalidArgs", message)
}

/// What is wrong, without the value: it may be somebody's secret.
pub(crate) fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (text, place) = match text.rfind(" at line ") {
        Some(at) => (&text[..at], format!(" at byte {}", error.column())),
        None => (text.as_str(), String::new()),
    };
    let said = ["invalid type: ", "invalid value: "].iter().find_map(|start| {
        let found = text.strip_prefix(start)?;
        let wanted = found.rfind(", expected ").map_or("", |at| &found[at..]);
        let kind: String = found.chars().take_while(|c| c.is_alphabetic() || *c == ' ').collect();
        Some(format!("{start}{}{wanted}", kind.trim_end()))
    });
    let is_harmless = ["missing field ", "invalid length ", "duplicate field ", "EOF ", "expected "]
        .iter()
        .any(|start| text.starts_with(start));
    let said = said.unwrap_or_else(|| match text {
        _ if text.starts_with("trailing characters") => "more values than it takes".to_owned(),
        _ if text.starts_with("unknown field ") => "a field that is not known".to_owned(),
        _ if text.starts_with("unknown variant ") => "a variant that is not known".to_owned(),
        _ if is_harmless => text.to_owned(),
        _ => "a value that it does not take".to_owned(),
    });
    said + &place
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Mail {
        to: String,
        #[serde(default)]
        copies: u32,
    }

    fn message<A: DeserializeOwned + std::fmt::Debug>(args: &str) -> String {
        read::<A>(args).unwrap_err().message().to_owned()
    }

    #[test]
    fn arguments_come_by_place_by_name_or_as_the_only_one() {
        let mail = |copies| Mail { to: "a".to_owned(), copies };
        assert_eq!(read::<(String, u32)>(r#"["a",2]"#).unwrap(), ("a".to_owned(), 2));
        assert_eq!(read::<Mail>(r#"["a",2]"#).unwrap(), mail(2));
        assert_eq!(read::<Mail>(r#"["a"]"#).unwrap(), mail(0));
        assert_eq!(read::<Mail>(r#"[{"copies":3,"to":"a"}]"#).unwrap(), mail(3));
        assert_eq!(read::<(Mail,)>(r#"[{"to":"a"}]"#).unwrap(), (mail(0),));
        assert_eq!(read::<Vec<u8>>("[1,2]").unwrap(), [1, 2]);
        assert_eq!(read::<Vec<u8>>("[[1,2]]").unwrap(), [1, 2]);
        assert_eq!(read::<u8>("[1]").unwrap(), 1);
        assert_eq!(read::<Option<u8>>("[null]").unwrap(), None);
        assert_eq!(read::<[u8; 0]>("[]").unwrap(), [0; 0]);
        read::<()>("[]").unwrap();
        assert!(read::<()>("[1]").is_err());
    }

    #[test]
    fn what_does_not_fit_is_said_without_its_value() {
        assert!(message::<(String, u32)>(r#"["a","secret"]"#).contains("invalid type: string, expected u32"));
        assert!(message::<u8>(r#"["secret"]"#).contains("invalid type: string, expected u8"));
        assert!(message::<u8>("[70000]").contains("invalid value: integer, expected u8"));
        assert!(message::<(String, u32)>(r#"["secret"]"#)
            .contains("1 argument does not fit into (alloc::string::String, u32): invalid length 1,"));
        assert!(message::<(String, u32)>("[]").contains("0 arguments do not fit into"));
        assert!(message::<Mail>(r#"[{"copies":1}]"#).contains("missing field `to`"));
        assert!(message::<(String,)>(r#"["a","secret"]"#)
            .starts_with("the job's 2 arguments do not fit into (alloc::string::String,): more values than it takes"));
        for args in [r#"["secret"]"#, r#"[{"secret":1}]"#, r#"["secret",1,2]"#] {
            assert!(!message::<(bool, bool)>(args).contains("secret"));
            assert!(!message::<std::net::IpAddr>(args).contains("secret"));
        }
    }
}
