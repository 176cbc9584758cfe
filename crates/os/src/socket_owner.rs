//! The owner of a TCP connection on this machine, by sock_diag or by `/proc/net`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

/// Most bytes read of a table in `/proc/net`: more than 200,000 connections. Ended connections stay
/// in it for another minute. The kernel keeps at most 131,072 of them on a machine with plenty of
/// memory (`net.ipv4.tcp_max_tw_buckets`).
const MOST_TABLE_BYTES: u64 = 32 << 20;

/// How often the tables are looked at for a socket that is in none.
const LOOKS_AT_TABLES: usize = 2;

/// Most messages read for one question. The kernel sends one message for each; any other message
/// answers an earlier question.
const MOST_MESSAGES: usize = 8;

/// Longest message that is read, in bytes.
const MESSAGE_BYTES: usize = 512;

/// The owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOwner {
    /// The user that opened it, as seen from this user namespace.
    pub uid: u32,
    /// The number of the socket, by which its descriptors are known. Never 0, which is the number
    /// of sockets without an owner.
    pub inode: u64,
}

/// Asks the kernel for one socket at a time.
#[derive(Debug)]
pub struct SocketQuestions {
    /// `None`: the kernel, its seccomp filter or its stand-in (gVisor) refuses such questions.
    netlink: Option<OwnedFd>,
    sequence: u32,
}

impl SocketQuestions {
    /// Opens the netlink socket for the questions. Without it the tables in `/proc/net` answer
    /// them.
    pub fn open() -> Self {
        Self {
            netlink: open_netlink().ok(),
            sequence: 0,
        }
    }

    /// The owner of the other end of a connection: of the socket with the address `local`,
    /// connected to `remote`. `None`: there is no such socket, or no process has it any more.
    ///
    /// # Errors
    ///
    /// Neither source answers, or the kernel has more connections than are searched.
    pub fn owner(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketOwner>> {
        let (local, remote) = (canonical(local), canonical(remote));
        if let Some(netlink) = &self.netlink {
            self.sequence = self.sequence.wrapping_add(1);
            match ask(netlink, self.sequence, local, remote) {
                Ok(owner) => return Ok(owner.filter(|owner| owner.inode != 0)),
                Err(error) if is_passing(&error) => return Err(error),
                // The kernel does not answer netlink questions at all.
                Err(_) => self.netlink = None,
            }
        }
        // A socket of IPv6 may speak IPv4.
        let tables = match local {
            SocketAddr::V4(_) => &["/proc/net/tcp", "/proc/net/tcp6"][..],
            SocketAddr::V6(_) => &["/proc/net/tcp6"],
        };
        // A table that changes while it is read may leave out a line.
        for table in tables.repeat(LOOKS_AT_TABLES) {
            if let Some(owner) = look_up(table, local, remote)? {
                return Ok(Some(owner).filter(|owner| owner.inode != 0));
            }
        }
        Ok(None)
    }
}

/// Whether the next question may be answered.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// An address of IPv4 in the clothes of IPv6 is one of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn open_netlink() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let protocol = SockProtocol::NetlinkSockDiag;
    Ok(socket::socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?)
}

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;

/// The places of fields in `struct inet_diag_msg`.
const ANSWER_BYTES: usize = 72;
const STATE_AT: usize = 1;
const ID_AT: usize = 4;
const UID_AT: usize = 64;
const INODE_AT: usize = 68;

/// The question for exactly this socket, as `linux/inet_diag.h` has it: a netlink header and
/// `struct inet_diag_req_v2`.
fn question(sequence: u32, local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_BYTES] {
    const REQUEST: u16 = 1;
    const ALL_STATES: u32 = u32::MAX;
    let mut bytes = [0; REQUEST_BYTES];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        if let Some(to) = bytes.get_mut(at..at + part.len()) {
            to.copy_from_slice(part);
        }
        at += part.len();
    };
    put(&u32::try_from(REQUEST_BYTES).unwrap_or(0).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&REQUEST.to_ne_bytes());
    put(&sequence.to_ne_bytes());
    put(&0_u32.to_ne_bytes());
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let number = |number: i32| u8::try_from(number).unwrap_or(0);
    put(&[number(family), number(libc::IPPROTO_TCP), 0, 0]);
    put(&ALL_STATES.to_ne_bytes());
    put(&local.port().to_be_bytes());
    put(&remote.port().to_be_bytes());
    put(&address_bytes(local.ip()));
    put(&address_bytes(remote.ip()));
    put(&0_u32.to_ne_bytes());
    // No cookie: this socket is new to this process.
    put(&[0xff; 8]);
    bytes
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn ask(netlink: &OwnedFd, sequence: u32, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketOwner>> {
    let question = question(sequence, local, remote);
    socket::send(
        netlink.as_raw_fd(),
        &question,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
    )?;
    let mut answer = [0; MESSAGE_BYTES];
    for _ in 0..MOST_MESSAGES {
        // The kernel has answered before the send returns.
        let count = socket::recv(netlink.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        let answer = answer.get(..count).unwrap_or_default();
        if u32_at(answer, 8) == Some(sequence) {
            return understand(answer, local, remote);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

fn understand(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketOwner>> {
    const ERROR: u16 = 2;
    let no_sense = || io::Error::other("sock_diag answers something else");
    let kind = answer.get(4..6).ok_or_else(no_sense)?;
    let body = answer.get(HEADER_BYTES..).unwrap_or_default();
    if kind == ERROR.to_ne_bytes() {
        let code = u32_at(body, 0).ok_or_else(no_sense)?.cast_signed();
        return match -code {
            libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(code)),
        };
    }
    if kind != BY_FAMILY.to_ne_bytes() || body.len() < ANSWER_BYTES {
        return Err(no_sense());
    }
    let found = (
        address_at(body, ID_AT, ID_AT + 4).ok_or_else(no_sense)?,
        address_at(body, ID_AT + 2, ID_AT + 20).ok_or_else(no_sense)?,
    );
    // If there is no such connection the kernel names the listener at that port.
    let state = body.get(STATE_AT).copied().ok_or_else(no_sense)?;
    if found != (local, remote) || !is_connection(state) {
        return Ok(None);
    }
    Ok(Some(SocketOwner {
        uid: u32_at(body, UID_AT).ok_or_else(no_sense)?,
        inode: u32_at(body, INODE_AT).ok_or_else(no_sense)?.into(),
    }))
}

/// Whether a socket in this state is the end of a connection that may still receive bytes:
/// established, or half closed.
fn is_connection(state: u8) -> bool {
    matches!(state, 1 | 4 | 5 | 8)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Of an answer: its first byte is the family.
fn address_at(body: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
    let octets: [u8; 16] = body.get(address..address + 16)?.try_into().ok()?;
    let is_v4 = body.first().copied().map(i32::from) == Some(libc::AF_INET);
    let [a, b, c, d, ..] = octets;
    let address: IpAddr = if is_v4 {
        Ipv4Addr::new(a, b, c, d).into()
    } else {
        Ipv6Addr::from(octets).into()
    };
    Some(canonical(SocketAddr::new(address, port)))
}

/// The line of this socket in a table of `/proc/net`.
fn look_up(table: &str, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketOwner>> {
    let file = match File::open(table) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => return Ok(None),
        file => file?,
    };
    let mut reader = BufReader::new(file.take(MOST_TABLE_BYTES));
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        if let Some(owner) = owner_in(&line, local, remote) {
            return Ok(Some(owner));
        }
        line.clear();
    }
    if reader.into_inner().limit() == 0 {
        return Err(io::Error::other(format!(
            "{table} is longer than {MOST_TABLE_BYTES} bytes"
        )));
    }
    Ok(None)
}

/// `  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000  0 12345 ...`
fn owner_in(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<SocketOwner> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let found = (table_address(fields.next()?)?, table_address(fields.next()?)?);
    if found != (local, remote) {
        return None;
    }
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    is_connection(state).then_some(SocketOwner { uid, inode })
}

/// `0100007F:1F90`: words of four bytes in the order of this machine, and a number.
fn table_address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let mut octets = [0; 16];
    let word = |index: usize| u32::from_str_radix(words.get(index * 8..index * 8 + 8)?, 16).ok();
    for (index, four) in octets.chunks_exact_mut(4).take(words.len() / 8).enumerate() {
        four.copy_from_slice(&word(index)?.to_ne_bytes());
    }
    let [a, b, c, d, ..] = octets;
    let address: IpAddr = match words.len() {
        8 => Ipv4Addr::new(a, b, c, d).into(),
        32 => Ipv6Addr::from(octets).into(),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?)))
}

#[cfg(test)]
#[path = "socket_owner_tests.rs"]
mod tests;
