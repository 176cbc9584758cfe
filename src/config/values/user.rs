//! Users and groups as people write them; they are looked up where the child is started.

use std::fmt;

use super::duration::whole;
use super::{Form, Notation, Problem, Value, only};

/// Highest user or group id: the kernel keeps the one above for "unchanged".
const MAX_ID: u32 = u32::MAX - 1;

/// The user that COMMAND runs as, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    /// Name or uid.
    pub user: String,
    /// Name or gid; without it the user's own group.
    pub group: Option<String>,
}

/// A numeric user or group id.
pub(super) fn id(text: &str) -> Option<u32> {
    whole(text)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|id| *id <= MAX_ID)
}

/// A number that is an id, or a text that could stand in the first column of /etc/passwd.
fn is_account(text: &str) -> bool {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return id(text).is_some();
    }
    let is_usual = |c: char| !c.is_control() && !c.is_whitespace() && !":/,".contains(c);
    !text.starts_with(['-', '+']) && text.chars().all(is_usual)
}

impl fmt::Display for UserSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, ":{group}"))
    }
}

impl Value for UserSpec {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "USER[:GROUP]",
        "65532:65532",
        "USER or USER:GROUP, each a name or a number",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let text = only(texts);
        let (user, group) = text
            .split_once(':')
            .map_or((text, None), |(user, group)| (user, Some(group)));
        if ![Some(user), group].into_iter().flatten().all(is_account) {
            return Err("is not a user".into());
        }
        Ok(Self {
            user: user.to_owned(),
            group: group.map(str::to_owned),
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_name_or_an_id_with_or_without_a_group() {
        for text in [
            "app",
            "1000",
            "1000:1000",
            "app:www-data",
            "0:0",
            "machine$",
            "4294967294",
        ] {
            assert_eq!(UserSpec::read(&[text], &()).unwrap().to_string(), text);
        }
        for text in ["", ":", "app:", ":app", "a:b:c", "-1", "4294967295", "a b", "/x", "a\n"] {
            assert!(UserSpec::read(&[text], &()).is_err(), "{text:?}");
        }
    }
}
