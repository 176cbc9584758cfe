//! The job envelope as text.

use std::borrow::Cow;

/// A JSON document on one line: line breaks between its tokens (`\n`, `\r`) become spaces,
/// everything else stays byte for byte. Within a JSON string there is no raw line break.
#[must_use]
pub fn one_line(raw: &str) -> Cow<'_, str> {
    const BREAKS: [char; 2] = ['\n', '\r'];
    // Byte by byte: character by character it took longer than all else that is done with a large
    // job.
    let bytes = raw.as_bytes();
    if bytes.contains(&b'\n') || bytes.contains(&b'\r') {
        Cow::Owned(raw.replace(BREAKS, " "))
    } else {
        Cow::Borrowed(raw)
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
