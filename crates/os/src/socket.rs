//! A Unix stream socket that listens, and the connections to it. Nothing here ever waits, and a
//! peer that has closed its end never raises SIGPIPE.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use thiserror::Error;

use crate::errno::check;
use crate::pidfd::ProcessWatch;
use crate::process::Pid;

/// Longest path of a socket in bytes: the room in `sockaddr_un`, less the terminating NUL.
pub const LONGEST_PATH: usize = 107;

/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 1024;
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Why no socket listens.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The kernel has no room for a path this long.
    #[error(
        "the path of a Unix socket has at most {limit} bytes, and this one has {length}: {path}; use a directory \
         with a shorter path"
    )]
    PathTooLong {
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// Most bytes that it may have.
        limit: usize,
    },
    /// A system call failed.
    #[error("cannot listen on {path}: {step}: {error}")]
    Failed {
        /// The system call.
        step: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

/// A socket that is bound and does not listen yet: the kernel refuses connections, so the caller
/// has time to set the rights.
///
/// Dropping this does not remove the name: the owner of the directory does that.
#[derive(Debug)]
pub struct BoundSocket {
    socket: Socket,
    path: PathBuf,
}

/// A listening socket, readable when a connection waits.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    path: PathBuf,
}

impl BoundSocket {
    /// Binds a socket to this path, which must be free, for this process's user alone (mode 0600,
    /// regardless of the umask). No other user may be able to replace files in the directory.
    ///
    /// # Errors
    ///
    /// The path is too long, or a system call failed.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let address = address(path)?;
        let socket = new_socket().map_err(|error| failed("socket", path, error))?;
        socket.bind(&address).map_err(|error| failed("bind", path, error))?;
        let bound = Self {
            path: path.to_owned(),
            socket,
        };
        bound.set_mode(0o600)?;
        Ok(bound)
    }

    /// Makes another user the owner: only that user may connect then.
    ///
    /// # Errors
    ///
    /// EPERM: this process lacks `CAP_CHOWN`, and keeps the socket.
    pub fn give_to(&self, uid: u32) -> io::Result<()> {
        std::os::unix::fs::lchown(&self.path, Some(uid), None)
    }

    /// Lets every user connect who can reach the directory. For a caller that checks the peer.
    ///
    /// # Errors
    ///
    /// The error of `chmod`.
    pub fn open_to_all(&self) -> Result<(), SocketError> {
        self.set_mode(0o666)
    }

    fn set_mode(&self, mode: u32) -> Result<(), SocketError> {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&self.path, mode).map_err(|error| failed("chmod", &self.path, error))
    }

    /// Listens: from now on every user who has the right can connect.
    ///
    /// # Errors
    ///
    /// The error of `listen`; none is known.
    pub fn listen(self) -> Result<Listener, SocketError> {
        let Self { socket, path } = self;
        match socket.listen(BACKLOG) {
            Ok(()) => Ok(Listener { socket, path }),
            Err(error) => Err(failed("listen", &path, error)),
        }
    }
}

/// The peer of a connection, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process; `None` if it has no number here, because it is in another PID namespace.
    pub pid: Option<Pid>,
    /// Its effective user id when it connected.
    pub uid: u32,
    /// Its effective group id when it connected.
    pub gid: u32,
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    pub stream: Stream,
    /// The user and the process at the other end.
    pub peer: Peer,
    /// A hold on the peer's process; `None` exactly when the peer has no pid.
    pub process: Option<ProcessWatch>,
}

impl Listener {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection; `None` if none waits. With an edge-triggered poll: call it
    /// until it returns `None`.
    ///
    /// # Errors
    ///
    /// ECONNABORTED: the client has given up, and the next one may follow at once. EMFILE, ENFILE,
    /// ENOBUFS, ENOMEM: the client still waits, or was closed because there was no descriptor for
    /// its process. With an edge-triggered poll no event reports a client that waits, so retry when
    /// a descriptor was closed, or after some time.
    pub fn accept(&self) -> io::Result<Option<Accepted>> {
        let socket = match self.socket.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        let stream = Stream(socket.into());
        let peer = stream.peer()?;
        let process = peer.pid.map(|pid| ProcessWatch::of_peer(stream.as_fd(), pid));
        let process = process.transpose()?;
        Ok(Some(Accepted { stream, peer, process }))
    }
}

/// One connection. Reading and writing give `WouldBlock` instead of waiting; writing to a peer that
/// has closed its end is EPIPE and no signal. If a peer closes before it has read all bytes,
/// reading returns ECONNRESET, once, after all bytes that the peer had sent.
#[derive(Debug)]
pub struct Stream(OwnedFd);

impl Stream {
    /// Connects to the socket at this path.
    ///
    /// # Errors
    ///
    /// ENOENT, EACCES ...; ECONNREFUSED: no process listens; EAGAIN (`WouldBlock`): its queue is
    /// full.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let address = address(path).map_err(|error| io::Error::other(error.to_string()))?;
        let socket = new_socket()?;
        socket.connect(&address)?;
        Ok(Self(socket.into()))
    }

    /// The process at the other end, as the kernel noted it at `connect` or at `listen`.
    ///
    /// # Errors
    ///
    /// The error of `getsockopt`; none is known.
    pub fn peer(&self) -> io::Result<Peer> {
        let found = getsockopt(self, PeerCredentials)?;
        Ok(Peer {
            pid: (found.pid() > 0).then(|| Pid::new(found.pid())),
            uid: found.uid(),
            gid: found.gid(),
        })
    }

    /// Whether the peer has closed its end completely, even if bytes of it are still to be read. A
    /// peer that has only shut its writing side may still read.
    ///
    /// # Errors
    ///
    /// The error of `poll`.
    pub fn has_hung_up(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(self.as_fd(), PollFlags::empty())];
        poll(&mut asked, PollTimeout::ZERO)?;
        let [asked] = asked;
        let closed = PollFlags::POLLHUP | PollFlags::POLLERR;
        Ok(asked.revents().is_some_and(|events| events.intersects(closed)))
    }

    /// The number of bytes that can be read now.
    ///
    /// # Errors
    ///
    /// The error of `ioctl`; none is known, but a seccomp filter may forbid it.
    pub fn readable(&self) -> io::Result<usize> {
        let mut count: libc::c_int = 0;
        // SAFETY: the number is valid to write to.
        check(unsafe { libc::ioctl(self.as_raw_fd(), libc::FIONREAD, &raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// How many bytes.
    pub length: usize,
    /// The peer sent a descriptor with these bytes; it is closed by now. The kernel ends a read
    /// there, even if more bytes follow.
    pub is_cut: bool,
}

/// Reads like [`Read`], without waiting, from a Unix stream socket, and returns whether a read that
/// fills less than its buffer got all available bytes. That is so, unless the piece is cut or the
/// peer has closed or sent urgent data; epoll reports the last two.
///
/// # Errors
///
/// The error of a read; `WouldBlock` if there are no bytes.
pub fn read_piece(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Piece> {
    let mut into = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a structure of numbers and pointers, for which zero means that there is none.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut into;
    message.msg_iovlen = 1;
    // SAFETY: the message names one buffer, which is valid to write that many bytes to, and no
    // other room.
    let length = count(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })?;
    let is_cut = message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(Piece { length, is_cut })
}

// A shared stream is enough for both, as for those of the standard library.
impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pointer, size) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the buffer is valid to write that many bytes to.
        count(unsafe { libc::recv(self.as_raw_fd(), pointer, size, libc::MSG_DONTWAIT) })
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        SockRef::from(*self).send_with_flags(bytes, SEND_FLAGS)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        SockRef::from(*self).send_vectored_with_flags(slices, SEND_FLAGS)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A socket that never waits, and that no other program inherits.
fn new_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn address(path: &Path) -> Result<SockAddr, SocketError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > LONGEST_PATH {
        return Err(SocketError::PathTooLong {
            path: path.to_owned(),
            length: bytes.len(),
            limit: LONGEST_PATH,
        });
    }
    // An empty path would be no file but a name that the kernel makes up, and a NUL would cut it
    // short.
    let made = if bytes.is_empty() || bytes.contains(&0) {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    } else {
        SockAddr::unix(path)
    };
    made.map_err(|error| failed("path", path, error))
}

fn failed(step: &'static str, path: &Path, error: io::Error) -> SocketError {
    SocketError::Failed {
        step,
        path: path.to_owned(),
        error,
    }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
