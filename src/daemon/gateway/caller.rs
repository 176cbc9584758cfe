//! Who may use the gateway. All containers of a pod share the loopback, and behind the gateway's port lies our token: so whoever
//! connects is looked up before a byte of it is read.
//!
//! The kernel knows whose the other end of a connection is. Where we may look into `/proc`, its process has to be the worker or a
//! descendant of it. Where we may not, another container with the same uid looks the same, and what only the worker was told
//! is the second proof.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use log::{info, warn};
use subtle::ConstantTimeEq;

use crate::config::GatewayAllow;
use crate::daemon::log::throttle::Throttle;
use crate::os::descriptors::{self, DescriptorsOf, Looks};
use crate::os::pidfd::ProcessWatch;
use crate::os::process::{self, Pid};
use crate::os::random;
use crate::os::socket_owner::SocketQuestions;

/// Random bytes of the bearer.
const BEARER_BYTES: usize = 32;

/// Most processes of the worker that are looked into for one connection.
const MOST_PROCESSES: usize = 1024;

/// Most descriptors that are looked at for one connection: some ten milliseconds.
const MOST_DESCRIPTORS: usize = 16 * 1024;

/// Processes that had connections lately, and are looked into first.
const RECENT_PROCESSES: usize = 16;

/// Descriptors of each that are looked at first: what goes through all of a process's costs a hundred microseconds.
const RECENT_DESCRIPTORS: usize = 16;

/// By what a caller is known, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerProof {
    /// Its process is the worker or a descendant.
    Process,
    /// Its uid is the worker's, and it shows the bearer if it shows any.
    UidAndBearer,
    /// Its uid is the worker's.
    Uid,
    /// Everybody on this machine may come.
    Nothing,
}

impl CallerProof {
    /// The words of `status`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::UidAndBearer => "uid and bearer",
            Self::Uid => "uid",
            Self::Nothing => "none",
        }
    }
}

/// What becomes of a connection.
#[derive(Debug)]
pub enum Admission {
    /// It is the worker's, or everybody's. The process behind it, where it could be found.
    Taken(Option<Rc<ProcessWatch>>),
    /// Its uid is right; each request on it has to pass [`Callers::shows_bearer`] as well.
    AsksForBearer,
    /// Everything on it is answered 403; for the log, not for the caller.
    Refused(Refusal),
}

/// Why somebody may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel says that another user has it.
    OtherUser(u32),
    /// No process of the worker has it: another container's, perhaps.
    OtherProcess,
    /// Nobody has it any more.
    Nobody,
    /// The kernel does not say whose it is.
    Unknown(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser(uid) => write!(f, "it belongs to user {uid}"),
            Self::OtherProcess => f.write_str("its process is not the worker's"),
            Self::Nobody => f.write_str("nobody has it any more"),
            Self::Unknown(error) => write!(f, "the kernel does not say whose it is: {error}"),
        }
    }
}

/// A process of the worker that had a connection.
struct KnownProcess {
    watch: Rc<ProcessWatch>,
    /// Its descriptors; none: there was no descriptor left for them.
    at_hand: Option<DescriptorsOf>,
    /// Where its connections were lately: a number is used again as soon as it is free.
    descriptors: VecDeque<i32>,
}

impl KnownProcess {
    fn new(watch: Rc<ProcessWatch>) -> Self {
        Self {
            at_hand: DescriptorsOf::open(watch.pid()).ok(),
            watch,
            descriptors: VecDeque::new(),
        }
    }

    /// Which of those it is.
    fn recent_descriptor(&self, inode: u64) -> Option<i32> {
        let at_hand = self.at_hand.as_ref()?;
        let is_it = |descriptor: &i32| at_hand.is_socket(*descriptor, inode);
        self.descriptors.iter().copied().find(is_it)
    }

    fn had(&mut self, descriptor: i32) {
        self.descriptors.retain(|known| *known != descriptor);
        self.descriptors.push_front(descriptor);
        self.descriptors.truncate(RECENT_DESCRIPTORS);
    }
}

/// Tells the worker's connections from others.
pub struct Callers {
    allow: GatewayAllow,
    uid: u32,
    bearer: String,
    questions: SocketQuestions,
    may_look: bool,
    recent: VecDeque<KnownProcess>,
    was_without_bearer: bool,
    refusals: Throttle,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl Callers {
    /// For a worker that runs as this user.
    ///
    /// # Errors
    ///
    /// There is no randomness for the bearer.
    pub fn new(allow: GatewayAllow, uid: u32) -> io::Result<Self> {
        let mut bytes = [0; BEARER_BYTES];
        random::fill(&mut bytes)?;
        Ok(Self {
            allow,
            uid,
            bearer: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            questions: SocketQuestions::open(),
            may_look: false,
            recent: VecDeque::new(),
            was_without_bearer: false,
            refusals: Throttle::default(),
        })
    }

    /// What the worker is given in the place of a token. Another one at each start of ours.
    #[must_use]
    pub fn bearer(&self) -> &str {
        &self.bearer
    }

    /// The worker was started, as this process: whether we may look into it decides by what callers are known from now on.
    /// `watch`, the hold that others have on it, is the one that is given to those who ask for the process of a connection.
    pub fn worker_started(&mut self, worker: Pid, watch: Option<Rc<ProcessWatch>>) {
        self.recent.clear();
        self.recent.extend(watch.map(KnownProcess::new));
        let looked = descriptors::may_look_into(worker);
        self.may_look = looked.is_ok();
        let proof = self.proof();
        match (proof, looked) {
            (CallerProof::UidAndBearer, Err(error)) => warn!(
                "gateway: we may not look into the worker's processes ({error}), so a caller is known by its uid and by \
                 the bearer in OJS_AUTH_TOKEN and OJS_API_KEY; a container of this pod that runs as the same user and \
                 sends no bearer is not told from the worker: give each its own uid, or ojs-init CAP_SYS_PTRACE"
            ),
            (CallerProof::Nothing, _) => {
                warn!("gateway.allow = any: every process that reaches the loopback uses the backend with our token");
            }
            (CallerProof::Process | CallerProof::Uid | CallerProof::UidAndBearer, _) => {
                info!("gateway: a caller is known by its {}", proof.words());
            }
        }
    }

    /// By what callers are known.
    #[must_use]
    pub fn proof(&self) -> CallerProof {
        match self.allow {
            GatewayAllow::Worker if self.may_look => CallerProof::Process,
            GatewayAllow::Worker => CallerProof::UidAndBearer,
            GatewayAllow::Uid => CallerProof::Uid,
            GatewayAllow::Any => CallerProof::Nothing,
        }
    }

    /// Looks up whose a new connection is, from `client` to us at `server`. Never waits.
    pub fn admit(&mut self, client: SocketAddr, server: SocketAddr) -> Admission {
        let refusal = match self.look_up(client, server) {
            Ok(admission) => return admission,
            Err(refusal) => refusal,
        };
        if self.allow == GatewayAllow::Any {
            return Admission::Taken(None);
        }
        self.refusals.warn(format_args!(
            "gateway: a connection is refused: {refusal}; only the worker may use it (gateway.allow)"
        ));
        Admission::Refused(refusal)
    }

    fn look_up(&mut self, client: SocketAddr, server: SocketAddr) -> Result<Admission, Refusal> {
        let owner = self.questions.owner(client, server);
        let owner = owner.map_err(|error| Refusal::Unknown(error.to_string()))?;
        let owner = owner.ok_or(Refusal::Nobody)?;
        if owner.uid != self.uid {
            return Err(Refusal::OtherUser(owner.uid));
        }
        if !self.may_look {
            let asks = self.allow == GatewayAllow::Worker;
            return Ok(if asks {
                Admission::AsksForBearer
            } else {
                Admission::Taken(None)
            });
        }
        match self.holder(owner.inode) {
            Some(watch) => Ok(Admission::Taken(Some(watch))),
            None if self.allow == GatewayAllow::Uid => Ok(Admission::Taken(None)),
            None => Err(Refusal::OtherProcess),
        }
    }

    /// The process of the worker that has this socket.
    fn holder(&mut self, inode: u64) -> Option<Rc<ProcessWatch>> {
        self.recent_holder(inode).or_else(|| self.search_holder(inode))
    }

    /// The same among those that had connections lately, and were found to be the worker's then.
    fn recent_holder(&mut self, inode: u64) -> Option<Rc<ProcessWatch>> {
        let all = || self.recent.iter().enumerate();
        let among_recent = || all().find_map(|(at, known)| Some((at, known.recent_descriptor(inode)?)));
        let mut looks = Looks::new(MOST_DESCRIPTORS);
        let mut among_all = || {
            all().find_map(|(at, known)| {
                let found = looks.descriptor_of(known.watch.pid(), inode).ok().flatten();
                Some((at, found?))
            })
        };
        // Who has it open at hand has not ended. By its pid that is only known as long as it has not: then it is nobody else's.
        let lives = |at: usize| self.recent.get(at).is_some_and(|known| !known.watch.has_ended());
        let (at, descriptor) = among_recent().or_else(|| among_all().filter(|(at, _)| lives(*at)))?;
        let mut known = self.recent.remove(at)?;
        known.had(descriptor);
        let watch = Rc::clone(&known.watch);
        self.recent.push_front(known);
        Some(watch)
    }

    /// The same among all of the worker's processes.
    fn search_holder(&mut self, inode: u64) -> Option<Rc<ProcessWatch>> {
        let mut looks = Looks::new(MOST_DESCRIPTORS);
        let descendants = process::descendants(MOST_PROCESSES).unwrap_or_default();
        let (pid, descriptor) = descendants.into_iter().find_map(|pid| {
            let found = looks.descriptor_of(pid, inode).ok().flatten();
            found.map(|descriptor| (pid, descriptor))
        })?;
        let watch = Rc::new(ProcessWatch::of(pid).ok()?);
        // Its pid may have changed hands until we took hold; from here on it cannot.
        let is_it = descriptors::is_socket(pid, descriptor, inode).unwrap_or(false)
            && process::is_descendant(pid).unwrap_or(false)
            && !watch.has_ended();
        if !is_it {
            return None;
        }
        self.recent
            .retain(|known| known.watch.pid() != pid && !known.watch.has_ended());
        let mut known = KnownProcess::new(Rc::clone(&watch));
        known.had(descriptor);
        self.recent.push_front(known);
        self.recent.truncate(RECENT_PROCESSES);
        Some(watch)
    }

    /// Whether a request may pass whose connection was taken with [`Admission::AsksForBearer`]: its header Authorization names our
    /// bearer, alone or behind the scheme. Nothing at all passes as well, for SDKs that send nothing; one warning tells of it.
    pub fn shows_bearer(&mut self, authorization: Option<&[u8]>) -> bool {
        let Some(value) = authorization else {
            if !std::mem::replace(&mut self.was_without_bearer, true) {
                warn!(
                    "gateway: the worker sends no bearer, so its uid alone has to do: hand OJS_AUTH_TOKEN to its SDK, so that \
                     no other container of this pod with the same uid is taken for it"
                );
            }
            return true;
        };
        let is_right = is_bearer(value, self.bearer.as_bytes());
        if !is_right {
            self.refusals.warn(format_args!(
                "gateway: a request is refused: its bearer is not the worker's"
            ));
        }
        is_right
    }
}

/// How long that takes tells nothing of where the two differ.
fn is_bearer(value: &[u8], bearer: &[u8]) -> bool {
    const SCHEME: &[u8] = b"bearer ";
    let value = value.trim_ascii();
    let has_scheme = value
        .get(..SCHEME.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SCHEME));
    let shown = if has_scheme {
        value.get(SCHEME.len()..).unwrap_or_default().trim_ascii()
    } else {
        value
    };
    shown.ct_eq(bearer).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its subject has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_passes_with_and_without_its_scheme_and_no_other_does() {
        let mut callers = Callers::new(GatewayAllow::Worker, 0).unwrap();
        let bearer = callers.bearer().to_owned();
        for right in [bearer.clone(), format!("Bearer {bearer}"), format!("bearer  {bearer} ")] {
            assert!(callers.shows_bearer(Some(right.as_bytes())), "{right}");
        }
        let cut = bearer.get(1..).unwrap();
        for wrong in [
            "",
            "Bearer",
            "Bearer hunter2",
            cut,
            &format!("Basic {bearer}"),
            &format!("{bearer}0"),
        ] {
            assert!(!callers.shows_bearer(Some(wrong.as_bytes())), "{wrong}");
        }
        assert!(callers.shows_bearer(None), "an SDK that sends none");
        assert_ne!(Callers::new(GatewayAllow::Worker, 0).unwrap().bearer(), bearer);
    }
}
