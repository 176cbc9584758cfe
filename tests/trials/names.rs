//! How the URL of a trial names its backend: by its address, or by a name that a file or a name
//! server of its own knows.

use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::support::random::Random;
use crate::support::wait::pause;

/// The name, where it is not that of the machine itself.
const NAME: &str = "backend.test";

/// How long the name server takes for an answer, in milliseconds.
const NAME_SERVER_MS: [u64; 3] = [0, 50, 150];

/// Between two looks of the name server whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// A connection that is not taken within this time is not taken at all.
const FILLED: Duration = Duration::from_millis(20);

/// How the URL names the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// By its address.
    Address,
    /// As the machine itself, which has another address where nobody listens.
    Localhost,
    /// By a name with two addresses. At the first one nobody listens.
    OneRefuses,
    /// The same. Whoever connects to the first one hears nothing.
    OneHangs,
    /// By a name that a name server knows, which takes its time.
    NameServer,
}

impl Host {
    /// That of the trial of this number: by its address half of the time.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut random = Random::from_seed(seed.rotate_left(32) ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        match random.below(8) {
            0 => Self::Localhost,
            1 => Self::OneRefuses,
            2 => Self::OneHangs,
            3 => Self::NameServer,
            _ => Self::Address,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "an address",
            Self::Localhost => "localhost",
            Self::OneRefuses => "two addresses, one of which refuses,",
            Self::OneHangs => "two addresses, one of which hangs,",
            Self::NameServer => "a name",
        }
    }
}

/// Where a name leads, for one init.
pub struct AddressBook {
    host: Host,
    port: u16,
    /// The files that the init is to see in the place of others.
    files: Vec<(CString, CString)>,
    _name_server: Option<NameServer>,
    /// The listener that takes nobody, and those who wait for it.
    _hangs: Option<(TcpListener, Vec<TcpStream>)>,
}

impl AddressBook {
    /// For a backend that listens there. Trials of different numbers have addresses of their own.
    pub fn new(host: Host, backend: SocketAddr, number: u64, dir: &Path) -> Self {
        let port = backend.port();
        let own = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 64, 0, 0)) + own_number(number));
        let hosts = format!("127.0.0.1 localhost\n{own} {NAME}\n{} {NAME}\n", backend.ip());
        let mut book = Self {
            host,
            port,
            files: Vec::new(),
            _name_server: None,
            _hangs: None,
        };
        match host {
            Host::Address | Host::Localhost => {}
            Host::OneRefuses => book.shows(dir, "hosts", &hosts),
            Host::OneHangs => {
                book.shows(dir, "hosts", &hosts);
                book._hangs = Some(listener_that_takes_nobody(SocketAddrV4::new(own, port)).unwrap());
            }
            Host::NameServer => {
                let late = NAME_SERVER_MS[usize::try_from(number).unwrap() % NAME_SERVER_MS.len()];
                book._name_server = Some(NameServer::start(own, Duration::from_millis(late)));
                book.shows(dir, "hosts", "127.0.0.1 localhost\n");
                book.shows(dir, "resolv.conf", &format!("nameserver {own}\n"));
            }
        }
        book
    }

    /// The URL of the backend.
    pub fn url(&self) -> String {
        let host = match self.host {
            Host::Address => "127.0.0.1",
            Host::Localhost => "localhost",
            Host::OneRefuses | Host::OneHangs | Host::NameServer => NAME,
        };
        format!("http://{host}:{}", self.port)
    }

    fn shows(&mut self, dir: &Path, name: &str, text: &str) {
        let file = dir.join(name);
        std::fs::write(&file, text).unwrap();
        let place = CString::new(format!("/etc/{name}")).unwrap();
        self.files.push((CString::new(file.to_str().unwrap()).unwrap(), place));
    }

    /// The command, and whatever it starts, sees these files and nobody else does.
    pub fn show_to(&self, command: &mut Command) {
        let files = self.files.clone();
        if files.is_empty() {
            return;
        }
        let show = move || -> io::Result<()> {
            unshare(CloneFlags::CLONE_NEWNS)?;
            let nothing = None::<&str>;
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
            for (file, place) in &files {
                mount(
                    Some(file.as_c_str()),
                    place.as_c_str(),
                    nothing,
                    MsFlags::MS_BIND,
                    nothing,
                )?;
            }
            Ok(())
        };
        // SAFETY: system calls only; the paths fit into the buffers that the calls keep on their
        // stacks.
        unsafe { command.pre_exec(show) };
    }
}

/// Which of the addresses below 127.64.0.0 belongs to the trial of that number: no other one has it
/// at the same time.
fn own_number(number: u64) -> u32 {
    let number = u32::try_from(number % 4_096).unwrap();
    (std::process::id() % 256) << 12 | number
}

/// A listener whose queue is full, and those who fill it: whoever connects hears nothing.
fn listener_that_takes_nobody(address: SocketAddrV4) -> io::Result<(TcpListener, Vec<TcpStream>)> {
    let listener = TcpListener::bind(address)?;
    // The shortest queue that the system has.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0)?)?;
    let waiting = std::iter::from_fn(|| TcpStream::connect_timeout(&address.into(), FILLED).ok());
    let waiting = waiting.collect();
    Ok((listener, waiting))
}

/// A name server that knows one address, that of the machine itself, for every name.
struct NameServer(Arc<AtomicBool>);

impl NameServer {
    fn start(address: Ipv4Addr, late: Duration) -> Self {
        let socket = UdpSocket::bind((address, 53)).expect("a name server's port needs root");
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while !ends.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut question) else {
                    continue;
                };
                let Some(answer) = answer(&question[..length]) else {
                    continue;
                };
                let socket = socket.try_clone().unwrap();
                std::thread::spawn(move || {
                    pause(late);
                    let _ = socket.send_to(&answer, from);
                });
            }
        });
        Self(is_over)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The answer to a question for addresses: one of IPv4, none of IPv6.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    const IPV4: [u8; 2] = [0, 1];
    let name = question.get(HEAD..)?.iter().position(|byte| *byte == 0)? + 1;
    let end = HEAD + name + 4;
    let kind = question.get(end - 4..end - 2)?;
    let is_ipv4 = kind == IPV4;
    let mut answer = question.get(..2)?.to_vec();
    // A response, recursion wanted and had, no error; one question, as many answers, nothing else.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]);
    answer.extend(question.get(HEAD..end)?);
    if is_ipv4 {
        // The name of the question, an address of the internet, for a second, of four bytes.
        answer.extend([0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
