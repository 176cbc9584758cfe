//! The known name that is most like a mistyped one.

/// How alike two names must be for a suggestion: 0 nothing in common, 1 equal (Jaro-Winkler).
const ALIKE: f64 = 0.85;

/// The known name that is most like the wrong one, if any is.
pub fn most_alike<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let scored = known
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(score, _)| *score >= ALIKE);
    scored
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_finds_the_name_that_was_meant() {
        let known = ["grace_period", "prestop_time", "url"];
        assert_eq!(most_alike("grace_perod", known.into_iter()), Some("grace_period"));
        assert_eq!(most_alike("colour", known.into_iter()), None);
    }
}
