//! A pod, and what the kubelet does to one that it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use ojs_devserver::{Options, Server};

use crate::container::{Container, Over, Start};
use crate::support::wait::{now, pause, wait_until};
use crate::support::{proc, sys};
use crate::{PATIENCE, engine, images};

/// Where the backend is, in the network of a pod.
const BACKEND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The port that the probes of every manifest go to.
const HEALTH_PORT: u16 = 8081;

/// Between two probes; the kubelet's own are seconds apart.
const PROBE_PERIOD: Duration = Duration::from_millis(250);

/// The least that the kubelet leaves a container between SIGTERM and SIGKILL, however long its hook
/// took.
const LEAST: Duration = Duration::from_secs(2);

/// A network of its own, kept by a container that does nothing, with a backend in it.
pub struct Pod {
    pub server: Server,
    network: Container,
    message: PathBuf,
}

impl Pod {
    /// A pod without a worker.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let network = Start::of(images::PYTHON_BASE)
            .option("--network=none")
            .words(&["sleep", "600"])
            .start();
        let options = Options {
            listen: BACKEND,
            ..Options::default()
        };
        let server = inside(&network, || Server::start(options).unwrap());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let message = engine().at(&format!("termination-log-{number}"));
        std::fs::write(&message, "").unwrap();
        std::fs::set_permissions(&message, std::fs::Permissions::from_mode(0o666)).unwrap();
        Self {
            server,
            network,
            message,
        }
    }

    /// A worker in it, as the kubelet starts one.
    pub fn worker(&self) -> Start {
        Start::of("myapp/ojs-worker:latest")
            .option(&format!("--network=container:{}", self.network.name))
            .option(&format!("--volume={}:/dev/termination-log", self.message.display()))
            .with("KUBERNETES_SERVICE_HOST", "10.96.0.1")
            .with("OJS_URL", &format!("http://{BACKEND}"))
    }

    /// The lines that `kubectl describe pod` would show.
    pub fn message(&self) -> String {
        std::fs::read_to_string(&self.message).unwrap()
    }

    /// The status of an `httpGet` probe; `None`: no answer.
    pub fn probe(&self, path: &str) -> Option<u16> {
        inside(&self.network, || get(path))
    }

    /// Ends a worker as the kubelet does.
    pub fn terminate(&self, worker: &Container, spec: &Spec) -> Terminated {
        let is_over = AtomicBool::new(false);
        let init = worker.pid();
        let began = now();
        let watch = || {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let status = get("/healthz");
                seen.push(Probe {
                    at: began.elapsed(),
                    health: status,
                    live: get("/livez"),
                });
                pause(PROBE_PERIOD);
            }
            seen
        };
        std::thread::scope(|scope| {
            let probes = scope.spawn(|| inside(&self.network, watch));
            let over = Over(&is_over);
            let mut terminated = sequence(worker, init, spec, began);
            drop(over);
            terminated.probes = probes.join().unwrap();
            terminated
        })
    }
}

/// The manifest's words about the end.
#[derive(Debug, Clone)]
pub struct Spec {
    /// `terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// The command of `lifecycle.preStop.exec`.
    pub pre_stop: Option<Vec<String>>,
}

/// The pod at one moment after the begin.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    pub at: Duration,
    pub health: Option<u16>,
    pub live: Option<u16>,
}

/// How it went.
#[derive(Debug)]
pub struct Terminated {
    pub status: i64,
    /// From the begin to the end.
    pub took: Duration,
    /// From the begin to SIGTERM.
    pub sigterm: Duration,
    /// The exit status of the hook.
    pub hook: Option<i32>,
    pub probes: Vec<Probe>,
}

/// The hook, SIGTERM, and SIGKILL when the time from the begin of the hook is over. The signals are
/// sent from here to the first process of the container, and its end is seen from here: what the
/// engine's client takes for that is not in the times.
fn sequence(worker: &Container, init: i32, spec: &Spec, began: Instant) -> Terminated {
    let mut hook = None;
    if let Some(words) = &spec.pre_stop {
        let running = worker.start_exec(words);
        // A hook that takes longer is left alone, and SIGTERM comes all the same.
        wait_until(spec.grace, || running.is_finished());
        if running.is_finished() {
            hook = running.join().unwrap().status.code();
        }
    }
    let sigterm = began.elapsed();
    let left = spec.grace.saturating_sub(sigterm).max(LEAST);
    sys::send(init, libc::SIGTERM).unwrap();
    if !wait_until(left, || !proc::lives(init)) {
        let _ = sys::send(init, libc::SIGKILL);
        wait_until(PATIENCE, || !proc::lives(init));
    }
    let took = began.elapsed();
    Terminated {
        status: worker.ends(PATIENCE).status,
        took,
        sigterm,
        hook,
        probes: Vec::new(),
    }
}

/// Does something in the network of a container. What it opens stays there.
fn inside<T: Send>(container: &Container, act: impl FnOnce() -> T + Send) -> T {
    let network = File::open(format!("/proc/{}/ns/net", container.pid())).unwrap();
    let enter = || {
        setns(network, CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    // A thread that has gone elsewhere does not come back.
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// GET, and the status of the answer.
fn get(path: &str) -> Option<u16> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, HEALTH_PORT));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
