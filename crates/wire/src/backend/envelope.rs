//! The job envelope as text.

use std::borrow::Cow;

/// A JSON document on one line: line breaks between its tokens (`\n`, `\r`) become spaces,
/// everything else stays byte for byte. Within a JSON string there is no raw line break.
pub fn one_line(raw: &str) -> Cow<'_, str> {
    const BREAKS: [char; 2] = ['\n', '\r'];
    if memchr::memchr2(b'\n', b'\r', raw.as_bytes()).is_some() {
        Cow::Owned(raw.replace(BREAKS, " "))
    } else {
        Cow::Borrowed(raw)
    }
}

/// Puts a JSON document on one line. A document that is already on one line is not copied.
pub(crate) fn into_one_line(raw: String) -> String {
    match one_line(&raw) {
        Cow::Borrowed(_) => raw,
        Cow::Owned(line) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_one_line_is_not_copied() {
        for raw in ["", "{}", r#"{"a":"x\ny", "b" :1e400}"#, "{\"a\":\t\"\u{2028}\"}"] {
            assert!(matches!(one_line(raw), Cow::Borrowed(same) if same == raw), "{raw:?}");
        }
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces_one_for_one() {
        let pretty = "{\r\n  \"a\": \"x\\ny\",\n\t\"b\": [1,\r2]\n}\n";
        assert_eq!(one_line(pretty), "{    \"a\": \"x\\ny\", \t\"b\": [1, 2] } ");
    }
}
