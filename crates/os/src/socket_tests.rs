//! Real sockets in a directory of each test's own.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::signals::SignalSet;
use crate::test_support::wait_until_the_other_end_is_closed;

/// A directory that is removed when its owner is dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ojs-socket-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn listener(&self) -> Listener {
        BoundSocket::bind(&self.socket()).unwrap().listen().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn flags(of: &impl AsFd) -> (bool, bool) {
    use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
    let is_closed = fcntl(of.as_fd(), FcntlArg::F_GETFD).unwrap() == FdFlag::FD_CLOEXEC.bits();
    let status = OFlag::from_bits_retain(fcntl(of.as_fd(), FcntlArg::F_GETFL).unwrap());
    (is_closed, status.contains(OFlag::O_NONBLOCK))
}

#[test]
fn who_connects_is_known_and_may_talk_at_once() {
    let place = Place::new();
    let listener = place.listener();
    assert!(listener.accept().unwrap().is_none(), "nobody is waiting");
    let mut client = UnixStream::connect(place.socket()).unwrap();
    let accepted = listener.accept().unwrap().unwrap();
    let peer = Peer {
        pid: Some(Pid::own()),
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
    };
    assert_eq!(accepted.peer, peer);
    let watch = accepted.process.unwrap();
    assert_eq!((watch.pid(), watch.has_ended()), (Pid::own(), false));
    assert!(listener.accept().unwrap().is_none(), "one connection, once");

    let stream = accepted.stream;
    let mut buffer = [0; 8];
    assert_eq!(
        (&stream).read(&mut buffer).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    (&client).write_all(b"question").unwrap();
    assert_eq!((&stream).read(&mut buffer).unwrap(), 8);
    (&stream).write_all(&buffer).unwrap();
    client.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"question");
    drop(client);
    wait_until_the_other_end_is_closed(&stream);
    assert_eq!((&stream).read(&mut buffer).unwrap(), 0);
}

#[test]
fn nothing_waits_and_nothing_is_left_open_for_a_child() {
    let place = Place::new();
    let listener = place.listener();
    let _client = UnixStream::connect(place.socket()).unwrap();
    let accepted = listener.accept().unwrap().unwrap();
    assert_eq!(flags(&listener), (true, true));
    assert_eq!(flags(&accepted.stream), (true, true));
    assert!(flags(&accepted.process.unwrap().as_fd().unwrap()).0);
}

#[test]
fn a_peer_that_reads_nothing_makes_the_writer_wait_only_in_its_own_time() {
    let place = Place::new();
    let listener = place.listener();
    let _client = UnixStream::connect(place.socket()).unwrap();
    let stream = listener.accept().unwrap().unwrap().stream;
    let refused = std::iter::repeat_with(|| (&stream).write(&[0; 65_536]))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_no_signal() {
    let place = Place::new();
    let listener = place.listener();
    drop(UnixStream::connect(place.socket()).unwrap());
    let stream = listener.accept().unwrap().unwrap().stream;
    wait_until_the_other_end_is_closed(&stream);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Blocked, a SIGPIPE would stay pending for this thread.
            SignalSet::ALL.set_as_mask();
            let refused = (&stream).write(b"x").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPIPE));
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:\t")).unwrap();
            let pending = u64::from_str_radix(pending, 16).unwrap();
            assert_eq!(pending & 1 << (libc::SIGPIPE - 1), 0);
        });
    });
}

#[test]
fn all_that_a_peer_wrote_is_read_before_the_reset_that_its_leaving_left() {
    let place = Place::new();
    let listener = place.listener();
    let client = UnixStream::connect(place.socket()).unwrap();
    let stream = listener.accept().unwrap().unwrap().stream;
    (&stream).write_all(b"never read").unwrap();
    (&client).write_all(b"ack").unwrap();
    drop(client);
    wait_until_the_other_end_is_closed(&stream);
    let mut buffer = [0; 8];
    assert_eq!((&stream).read(&mut buffer).unwrap(), 3);
    assert_eq!(
        (&stream).read(&mut buffer).unwrap_err().raw_os_error(),
        Some(libc::ECONNRESET)
    );
    assert_eq!((&stream).read(&mut buffer).unwrap(), 0);
}

#[test]
fn nobody_can_connect_before_it_was_settled_who_may() {
    let place = Place::new();
    let bound = BoundSocket::bind(&place.socket()).unwrap();
    assert_eq!(mode(&place.socket()), 0o600);
    let refused = UnixStream::connect(place.socket()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    bound.open_to_all().unwrap();
    assert_eq!(mode(&place.socket()), 0o666);
    let listener = bound.listen().unwrap();
    let _client = UnixStream::connect(listener.path()).unwrap();
}

#[test]
fn a_socket_given_to_another_user_is_that_users() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let bound = BoundSocket::bind(&place.socket()).unwrap();
    bound.give_to(12_345).unwrap();
    let found = std::fs::metadata(place.socket()).unwrap();
    assert_eq!((found.uid(), found.gid()), (12_345, nix::unistd::getegid().as_raw()));
    assert_eq!(mode(&place.socket()), 0o600);
}

#[test]
fn the_longest_path_works_and_one_byte_more_is_refused_with_advice() {
    let place = Place::new();
    let room = LONGEST_PATH - place.0.as_os_str().len() - 1;
    let longest = place.0.join("x".repeat(room));
    let listener = BoundSocket::bind(&longest).unwrap().listen().unwrap();
    let _client = UnixStream::connect(listener.path()).unwrap();

    let too_long = place.0.join("x".repeat(room + 1));
    let refused = BoundSocket::bind(&too_long).unwrap_err();
    assert!(matches!(
        refused,
        SocketError::PathTooLong {
            length: 108,
            limit: 107,
            ..
        }
    ));
    let text = refused.to_string();
    assert!(text.contains(&too_long.display().to_string()), "{text}");
    assert!(text.contains("at most 107 bytes"), "{text}");
    assert!(text.contains("shorter path"), "{text}");
}

#[test]
fn a_path_that_is_none_or_would_be_cut_is_refused() {
    for path in ["", "/tmp/a\0b"] {
        let refused = BoundSocket::bind(Path::new(path)).unwrap_err();
        assert!(matches!(refused, SocketError::Failed { step: "path", .. }), "{refused}");
    }
}

#[test]
fn a_name_that_is_taken_is_not_taken_away() {
    let place = Place::new();
    let _listener = place.listener();
    let refused = BoundSocket::bind(&place.socket()).unwrap_err();
    let SocketError::Failed { step, error, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((*step, error.raw_os_error()), ("bind", Some(libc::EADDRINUSE)));
    assert!(refused.to_string().contains(&place.socket().display().to_string()));
}

#[test]
fn a_read_that_ends_at_a_descriptor_says_so() {
    let place = Place::new();
    let listener = place.listener();
    let client = UnixStream::connect(place.socket()).unwrap();
    let stream = listener.accept().unwrap().unwrap().stream;
    let mut buffer = [0; 64];
    let descriptors = [client.as_raw_fd()];
    for (bytes, passed) in [("first", &descriptors[..]), ("second", &[]), ("third", &[])] {
        let passed = nix::sys::socket::ControlMessage::ScmRights(passed);
        let none = nix::sys::socket::MsgFlags::empty();
        let bytes = [io::IoSlice::new(bytes.as_bytes())];
        nix::sys::socket::sendmsg::<()>(client.as_raw_fd(), &bytes, &[passed], none, None).unwrap();
    }
    let pieces = [(5, true), (11, false)].map(|(length, is_cut)| Piece { length, is_cut });
    assert_eq!(pieces.map(|_| read_piece(&stream, &mut buffer).unwrap()), pieces);
    assert_eq!(
        read_piece(&stream, &mut buffer).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
}
