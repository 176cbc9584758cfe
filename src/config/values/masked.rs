//! Values that may be a URL with a secret in it, as people may see them.

use std::borrow::Cow;

/// A URL as an error may show it: without user, password, query and fragment, even when it is no
/// URL at all.
pub(super) fn without_secrets(url: &str) -> String {
    // The text before the last @ may be a password, question marks included.
    let (hidden, rest) = match url.rsplit_once('@') {
        Some((before, rest)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            (
                if scheme.is_empty() {
                    "...@".to_owned()
                } else {
                    format!("{scheme}://...@")
                },
                rest,
            )
        }
        None => (String::new(), url),
    };
    match rest.find(['?', '#']) {
        Some(end) => format!("{hidden}{}?...", &rest[..end]),
        None => format!("{hidden}{rest}"),
    }
}

/// A text as an error may show it: if it may be a URL, without its secrets.
pub fn masked(text: &str) -> Cow<'_, str> {
    let has_user = text.rsplit_once('@').is_some_and(|(before, _)| before.contains(':'));
    if has_user || text.contains("://") {
        Cow::Owned(without_secrets(text))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_a_url_is_shown_even_when_it_is_no_url() {
        let cases = [
            ("https://user:hunter2@b/x", "https://...@b/x"),
            ("user:hunter2@b", "...@b"),
            ("http://b/?token=hunter2", "http://b/?..."),
            ("http://u:hunter@2@b", "http://...@b"),
            ("http://b#hunter2", "http://b?..."),
            ("hunter2@://b", "...@://b"),
            ("http://u:a?hunter2@b", "http://...@b"),
            ("http://b", "http://b"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_secrets(text), expected);
        }
    }
}
