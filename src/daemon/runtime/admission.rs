//! The processes that may connect to the worker socket. The kernel names the peer. The modes of
//! file and directory are only the first hurdle.

use thiserror::Error;

use ojs_os::socket::Peer;
use ojs_os::user::Credentials;

/// The users that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    own: u32,
    child: Option<Credentials>,
    others: Vec<u32>,
}

/// Why a peer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    /// The peer has no pid in this namespace. ojs-init could not watch it, and lost jobs would go
    /// unnoticed.
    #[error(
        "it is in another PID namespace, where its end could not be noticed; run it in the same container, or share \
         the process namespace"
    )]
    OtherPidNamespace,
    /// The peer runs as a user that is not allowed.
    #[error("user {0} is not allowed; worker.socket_users (OJS_SOCKET_USERS) lists further ones")]
    User(u32),
}

impl Allowed {
    /// Allows ojs-init's own user, root, the child's, which is `child` (`None`: ojs-init's), and
    /// `socket_users`.
    pub fn new(child: Option<Credentials>, socket_users: &[u32]) -> Self {
        let own = nix::unistd::geteuid().as_raw();
        let others = socket_users.to_vec();
        Self { own, child, others }
    }

    /// The user of ojs-init.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// The child, if it has another user than ojs-init.
    pub fn other_child(&self) -> Option<&Credentials> {
        self.child.as_ref().filter(|child| child.uid != self.own)
    }

    /// True if other users are allowed besides root, the child's and that of ojs-init.
    pub fn has_others(&self) -> bool {
        let known = [0, self.own, self.child.as_ref().map_or(self.own, |child| child.uid)];
        self.others.iter().any(|uid| !known.contains(uid))
    }

    fn contains(&self, uid: u32) -> bool {
        let is_child = self.child.as_ref().is_some_and(|child| child.uid == uid);
        uid == 0 || uid == self.own || is_child || self.others.contains(&uid)
    }
}

/// Whether this peer may connect.
///
/// # Errors
///
/// The peer may not connect: see [`NotAdmitted`].
pub fn may_connect(peer: &Peer, allowed: &Allowed) -> Result<(), NotAdmitted> {
    if peer.pid.is_none() {
        return Err(NotAdmitted::OtherPidNamespace);
    }
    if allowed.contains(peer.uid) {
        Ok(())
    } else {
        Err(NotAdmitted::User(peer.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ojs_os::process::Pid;

    const CHILD: u32 = 1000;

    fn allowed(others: &[u32]) -> Allowed {
        let child = Credentials {
            uid: CHILD,
            gid: 1001,
            groups: vec![1002],
        };
        Allowed {
            own: 500,
            child: Some(child),
            others: others.to_vec(),
        }
    }

    fn peer(uid: u32) -> Peer {
        let pid = Some(Pid::own());
        Peer { pid, uid, gid: uid }
    }

    #[test]
    fn the_child_root_we_and_the_listed_users_may_connect_and_nobody_else() {
        let allowed = allowed(&[2000, 2001]);
        for uid in [CHILD, 0, 500, 2000, 2001] {
            assert_eq!(may_connect(&peer(uid), &allowed), Ok(()), "{uid}");
        }
        // The child's groups are no users.
        for uid in [1, 501, 1001, 1002, 2002, u32::MAX] {
            assert_eq!(may_connect(&peer(uid), &allowed), Err(NotAdmitted::User(uid)));
        }
    }

    #[test]
    fn a_child_that_runs_as_we_do_adds_nobody() {
        let allowed = Allowed {
            child: None,
            ..allowed(&[])
        };
        assert_eq!(may_connect(&peer(500), &allowed), Ok(()));
        assert_eq!(may_connect(&peer(CHILD), &allowed), Err(NotAdmitted::User(CHILD)));
    }

    #[test]
    fn a_peer_of_another_pid_namespace_is_refused_whoever_it_is() {
        for uid in [0, 500, CHILD] {
            let peer = Peer { pid: None, ..peer(uid) };
            assert_eq!(may_connect(&peer, &allowed(&[])), Err(NotAdmitted::OtherPidNamespace));
        }
    }

    #[test]
    fn users_that_may_connect_anyway_are_no_others() {
        assert!(!allowed(&[]).has_others());
        assert!(!allowed(&[0, 500, CHILD]).has_others());
        assert!(allowed(&[0, 2000]).has_others());
        assert_eq!(allowed(&[]).other_child().map(|child| child.uid), Some(CHILD));
        assert_eq!(
            Allowed {
                own: CHILD,
                ..allowed(&[])
            }
            .other_child(),
            None
        );
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        assert!(NotAdmitted::User(7).to_string().contains("user 7"));
        assert!(NotAdmitted::User(7).to_string().contains("OJS_SOCKET_USERS"));
        assert!(
            NotAdmitted::OtherPidNamespace
                .to_string()
                .contains("share the process namespace")
        );
    }
}
