//! Users and groups by name or number, from `/etc/passwd` and `/etc/group`.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use thiserror::Error;

/// The user and groups of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Why a user could not be resolved; the text is for the person who wrote the setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UserError {
    /// `/etc/passwd` has no such name.
    #[error("no user {0:?} in /etc/passwd; use a name that is there, or numbers: UID:GID")]
    UnknownUser(String),
    /// `/etc/group` has no such name.
    #[error("no group {0:?} in /etc/group; use a name that is there, or a number")]
    UnknownGroup(String),
    /// A number without an entry in `/etc/passwd`, so that its group is not known either.
    #[error("user {0} is not in /etc/passwd, so its group is not known; write {0}:GID")]
    GroupNeeded(u32),
}

impl Credentials {
    /// Resolves `user` and `group`, each a name or a number. Without a group it is the user's own
    /// from `/etc/passwd`, with the supplementary groups of `/etc/group`; with one it is that group
    /// alone.
    ///
    /// # Errors
    ///
    /// A name or number that the two files do not settle.
    pub fn resolve(user: &str, group: Option<&str>) -> Result<Self, UserError> {
        let number = user.parse::<u32>().ok();
        let entry = match number {
            Some(uid) => User::from_uid(Uid::from_raw(uid)),
            None => User::from_name(user),
        };
        let entry = entry.ok().flatten();
        let uid = match (&entry, number) {
            (_, Some(uid)) => uid,
            (Some(entry), None) => entry.uid.as_raw(),
            (None, None) => return Err(UserError::UnknownUser(user.to_owned())),
        };
        if let Some(group) = group {
            let gid = group_id(group)?;
            return Ok(Self {
                uid,
                gid,
                groups: vec![gid],
            });
        }
        let entry = entry.ok_or(UserError::GroupNeeded(uid))?;
        let gid = entry.gid.as_raw();
        let groups = CString::new(entry.name)
            .ok()
            .and_then(|name| getgrouplist(&name, entry.gid).ok())
            .map_or_else(|| vec![gid], |groups| groups.into_iter().map(Gid::as_raw).collect());
        Ok(Self { uid, gid, groups })
    }

    /// Whether this process already is exactly this user, so that nothing has to change and no
    /// capability is needed.
    pub fn are_ours(&self) -> bool {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        nix::unistd::getresuid().is_ok_and(|ours| [ours.real, ours.effective, ours.saved] == [uid; 3])
            && nix::unistd::getresgid().is_ok_and(|ours| [ours.real, ours.effective, ours.saved] == [gid; 3])
            && nix::unistd::getgroups().is_ok_and(|ours| {
                let ours: Vec<u32> = ours.into_iter().map(Gid::as_raw).collect();
                ours.iter().all(|group| self.groups.contains(group))
            })
    }
}

fn group_id(group: &str) -> Result<u32, UserError> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let entry = Group::from_name(group).ok().flatten();
    entry
        .map(|entry| entry.gid.as_raw())
        .ok_or_else(|| UserError::UnknownGroup(group.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_name_and_by_number_with_its_own_group() {
        let by_name = Credentials::resolve("root", None).unwrap();
        assert_eq!((by_name.uid, by_name.gid), (0, 0));
        assert_eq!(Credentials::resolve("0", None), Ok(by_name));
    }

    #[test]
    fn numbers_need_no_entry_when_both_are_given() {
        let expected = Credentials {
            uid: 54_321,
            gid: 54_322,
            groups: vec![54_322],
        };
        assert_eq!(Credentials::resolve("54321", Some("54322")), Ok(expected));
    }

    #[test]
    fn a_number_alone_that_nobody_knows_is_refused_rather_than_given_roots_group() {
        assert_eq!(Credentials::resolve("54321", None), Err(UserError::GroupNeeded(54_321)));
    }

    #[test]
    fn unknown_names_are_named() {
        assert_eq!(
            Credentials::resolve("no-such-user", None),
            Err(UserError::UnknownUser("no-such-user".into()))
        );
        assert_eq!(
            Credentials::resolve("0", Some("no-such-group")),
            Err(UserError::UnknownGroup("no-such-group".into()))
        );
    }
}
