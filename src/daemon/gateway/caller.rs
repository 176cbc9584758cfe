//! The callers that may use the gateway. All containers of a pod share the loopback, and behind the
//! gateway's port lies the token of ojs-init. So ojs-init looks up each connection before it reads
//! a byte of it.
//!
//! The kernel knows the owner of the other end of a connection. If ojs-init may look into `/proc`,
//! the owner has to be the worker or a descendant of it. Otherwise another container with the
//! worker's uid looks alike, and a bearer that only the worker received is the second proof.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use log::{info, warn};
use subtle::ConstantTimeEq;

use crate::config::GatewayAllow;
use crate::daemon::gateway::known::KnownProcesses;
use crate::daemon::gateway::search::{Blind, Search, Sighting, Sought};
use crate::daemon::log::throttle::Throttle;
use ojs_os::child_lists;
use ojs_os::clock;
use ojs_os::descriptors::{self, Sight};
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::{self, Pid};
use ojs_os::random;
use ojs_os::socket_owner::SocketQuestions;

/// Random bytes of the bearer.
const BEARER_BYTES: usize = 32;

/// Least time between two warnings about a failed look-up.
const BLIND_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The proof by which a caller is known, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerProof {
    /// Its process is the worker or a descendant.
    Process,
    /// Its uid is the worker's, and it shows the bearer if it shows any.
    UidAndBearer,
    /// Its uid is the worker's.
    Uid,
    /// Every process on this machine may connect.
    Nothing,
}

impl CallerProof {
    /// The words of `status`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::UidAndBearer => "uid and bearer",
            Self::Uid => "uid",
            Self::Nothing => "none",
        }
    }
}

/// The decision about a connection.
#[derive(Debug)]
pub enum Admission {
    /// The connection is admitted. It holds the process behind it, if that was found.
    Taken(Option<Rc<ProcessWatch>>),
    /// Its uid is right; each request on it has to pass [`Callers::shows_bearer`] as well.
    AsksForBearer,
    /// Its process is searched for: [`Callers::search`] returns the result for this socket.
    Sought(u64),
    /// Every request on it is answered 403. The reason is for the log, not for the caller.
    Refused(String),
}

/// The part of the worker that ojs-init may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Insight {
    /// None was started yet.
    NoWorker,
    /// The open descriptors of each of its processes.
    Processes,
    /// Its uid.
    UidAlone,
}

/// Tells the worker's connections from others.
pub struct Callers {
    allow: GatewayAllow,
    uid: u32,
    bearer: String,
    questions: SocketQuestions,
    insight: Insight,
    known: KnownProcesses,
    /// Sockets that the next search is for.
    sought: BTreeSet<u64>,
    search: Option<Search>,
    /// The kernel lists children by their parents.
    has_lists: bool,
    was_without_bearer: bool,
    refusals: Throttle,
    blindness: Throttle,
}

impl Callers {
    /// The callers of a worker that runs as this user.
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
            insight: Insight::NoWorker,
            known: KnownProcesses::default(),
            sought: BTreeSet::new(),
            search: None,
            has_lists: child_lists::lists_children(),
            was_without_bearer: false,
            refusals: Throttle::default(),
            blindness: Throttle::every(BLIND_AGAIN_AFTER),
        })
    }

    /// The worker's bearer in the place of a token. Another one at each start of ojs-init.
    pub fn bearer(&self) -> &str {
        &self.bearer
    }

    /// The worker was started, as this process. From now on the proof of callers depends on whether
    /// ojs-init may look into it. `watch` is the shared hold on it.
    pub fn worker_started(&mut self, worker: Pid, watch: Option<&Rc<ProcessWatch>>) {
        if let Some(watch) = watch {
            self.known.add(watch, None);
        }
        let sight = descriptors::sight_of(worker);
        self.insight = match sight {
            Sight::Closed(_) => Insight::UidAlone,
            // The first look-up of a connection decides.
            Sight::Open | Sight::Unknown(_) => Insight::Processes,
        };
        let proof = self.proof();
        match (proof, sight) {
            (CallerProof::UidAndBearer, Sight::Closed(error)) => warn!(
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

    /// The proof by which callers are known.
    pub fn proof(&self) -> CallerProof {
        match self.allow {
            GatewayAllow::Worker => match self.insight {
                Insight::NoWorker | Insight::Processes => CallerProof::Process,
                Insight::UidAlone => CallerProof::UidAndBearer,
            },
            GatewayAllow::Uid => CallerProof::Uid,
            GatewayAllow::Any => CallerProof::Nothing,
        }
    }

    /// Looks up the owner of a new connection, from `client` to ojs-init at `server`. Never blocks.
    pub fn admit(&mut self, client: SocketAddr, server: SocketAddr) -> Admission {
        match self.look_up(client, server) {
            Ok(admission) => admission,
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// True if no process owns the other end of a connection any more, from `client` to ojs-init at
    /// `server`.
    ///
    /// # Errors
    ///
    /// The kernel does not report the owner.
    pub fn is_left(&mut self, client: SocketAddr, server: SocketAddr) -> io::Result<bool> {
        Ok(self.questions.owner(client, server)?.is_none())
    }

    fn refuse(&mut self, refusal: String) -> Admission {
        if self.allow == GatewayAllow::Any {
            return Admission::Taken(None);
        }
        self.refusals.warn(format_args!(
            "gateway: a connection is refused: {refusal}; only the worker may use it (gateway.allow)"
        ));
        Admission::Refused(refusal)
    }

    fn look_up(&mut self, client: SocketAddr, server: SocketAddr) -> Result<Admission, String> {
        let owner = self.questions.owner(client, server);
        let owner = owner.map_err(|error| format!("the kernel does not say whose it is: {error}"))?;
        let owner = owner.ok_or("the client has closed it")?;
        if owner.uid != self.uid {
            return Err(format!("it belongs to user {}", owner.uid));
        }
        match (self.insight, self.allow) {
            (Insight::NoWorker, GatewayAllow::Worker) => Err("no worker runs yet".to_owned()),
            (Insight::UidAlone, GatewayAllow::Worker) => Ok(Admission::AsksForBearer),
            (Insight::NoWorker | Insight::UidAlone, GatewayAllow::Uid | GatewayAllow::Any) => {
                Ok(Admission::Taken(None))
            }
            (Insight::Processes, _) => Ok(self.known.holder(owner.inode).map_or_else(
                || {
                    self.sought.insert(owner.inode);
                    Admission::Sought(owner.inode)
                },
                |watch| Admission::Taken(Some(watch)),
            )),
        }
    }

    /// Whether some sockets are searched for.
    pub fn is_searching(&self) -> bool {
        self.search.is_some() || !self.sought.is_empty()
    }

    /// Continues for one turn the search for the sockets of [`Admission::Sought`]. Returns the
    /// results of those whose search has ended.
    pub fn search(&mut self) -> Vec<(u64, Admission)> {
        if !self.is_searching() {
            return Vec::new();
        }
        let now = clock::monotonic();
        let mut search = self.search.take().unwrap_or_else(|| {
            let sought = Sought {
                uid: self.uid,
                wanted: std::mem::take(&mut self.sought),
                known: self.known.pids(),
                is_exact: self.allow == GatewayAllow::Worker,
                has_lists: self.has_lists,
            };
            Search::begin(sought, now)
        });
        let sightings = search.go_on();
        let mut done: Vec<(u64, Admission)> = sightings
            .into_iter()
            .map(|sighting| (sighting.inode, self.found(sighting)))
            .collect();
        match search.end(now) {
            None => self.search = Some(search),
            Some((missing, blind)) => {
                let blind = blind.as_ref();
                done.extend(missing.into_iter().map(|inode| (inode, self.not_found(blind))));
            }
        }
        done
    }

    /// A search has seen the socket in a process.
    fn found(&mut self, Sighting { inode, pid, descriptor }: Sighting) -> Admission {
        // The shared hold, if there is one.
        let known = self.known.hold_on(pid);
        let watch = match known.map_or_else(|| ProcessWatch::of(pid).map(Rc::new), Ok) {
            Ok(watch) => watch,
            Err(error) => return self.not_found(Some(&Blind::Failed(error.to_string()))),
        };
        // Another process may have got the pid before the hold began; from here on it cannot.
        let is_it = descriptors::socket_at(pid, descriptor).and_then(|found| {
            let is_it = found == Some(inode) && process::is_descendant(pid)?;
            Ok(is_it && !watch.has_ended())
        });
        match is_it {
            Ok(true) => {
                self.known.add(&watch, Some(descriptor));
                Admission::Taken(Some(watch))
            }
            Ok(false) => self.not_found(None),
            Err(error) => self.not_found(Some(&Blind::Failed(error.to_string()))),
        }
    }

    /// The search has ended without the socket. If it could not see all processes, the socket may
    /// still be the worker's.
    fn not_found(&mut self, blind: Option<&Blind>) -> Admission {
        if self.allow != GatewayAllow::Worker {
            return Admission::Taken(None);
        }
        let Some(blind) = blind else {
            return self.refuse("its process is not the worker's".to_owned());
        };
        self.blindness.warn(format_args!(
            "gateway: the process of a connection cannot be found ({blind}), so it is known by its uid and by the bearer in \
             OJS_AUTH_TOKEN and OJS_API_KEY"
        ));
        Admission::AsksForBearer
    }

    /// True if a request may pass whose connection was admitted with [`Admission::AsksForBearer`].
    /// Its header Authorization must be the worker's bearer, alone or behind the scheme. A request
    /// without the header passes as well, for SDKs that send none; one warning reports it.
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
                "gateway: a request is refused (403): its bearer is not the worker's; accepted in Authorization: the \
                 OJS_AUTH_TOKEN of the worker's environment, alone or behind Bearer; let the SDK read it there"
            ));
        }
        is_right
    }
}

/// Compares in constant time.
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
