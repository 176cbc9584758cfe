//! Texts from elsewhere, made fit for a frame or a line of the log.

/// Most characters of a message.
pub(crate) const MAX_MESSAGE_CHARS: usize = 10_000;

/// The text with at most so many characters; three points stand for what is left out.
pub(crate) fn clean(text: &str, most_chars: usize) -> String {
    if text.len() <= most_chars || text.chars().nth(most_chars).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most_chars.saturating_sub(3)).collect();
    cut.push_str("...");
    cut
}

/// The text on one line: a space for each control character. Ids and messages come from elsewhere.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_stays_and_a_longer_one_is_cut_between_characters() {
        assert_eq!(clean("äöü", 3), "äöü");
        assert_eq!(clean("äöüßé", 4), "ä...");
        assert_eq!(one_line("a\nb\u{85}c"), "a b c");
    }
}
