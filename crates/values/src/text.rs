//! Text of a bounded length.

/// Marks the place where a text was cut off.
pub const CUT: char = '…';

/// The longest beginning of a text that has at most `most` bytes and ends between two characters.
pub fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// The text, or the beginning of it that has at most `most` bytes together with [`CUT`].
pub fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}{CUT}", beginning(text, most.saturating_sub(CUT.len_utf8())))
}
