//! Real processes, each way to hold on to them.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::test_support::wait_until_the_other_end_is_closed;

const EACH_WAY: [Way; 3] = [Way::OfSocket, Way::OfPid, Way::StartTime];

/// A process that ends with 7 when its standard input does.
fn process() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "read line; exit 7"]).stdin(Stdio::piped());
    command.spawn().unwrap()
}

fn pid(child: &Child) -> Pid {
    Pid::new(child.id().cast_signed())
}

/// Waits until the child is a zombie, which it stays because it is not reaped.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    let descriptor = descriptor(pid(child)).expect("this kernel has pidfds");
    let mut waiting = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut waiting, PollTimeout::from(20_000_u16)).unwrap(), 1);
}

fn kill_and_reap(mut child: Child) -> std::process::ExitStatus {
    let _ = child.kill();
    child.wait().unwrap()
}

#[test]
fn a_zombie_has_ended_and_so_has_one_that_was_reaped() {
    for way in EACH_WAY {
        let mut child = process();
        let watch = ProcessWatch::by(way, pid(&child)).unwrap();
        assert!(!watch.has_ended(), "{way:?}");
        end(&mut child);
        assert!(watch.has_ended(), "{way:?}: zombie");
        child.wait().unwrap();
        assert!(watch.has_ended(), "{way:?}: reaped");
        assert_eq!(
            watch.signal(Signal::TERM).unwrap_err().raw_os_error(),
            Some(libc::ESRCH),
            "{way:?}"
        );
    }
}

#[test]
fn a_living_process_gets_the_signal() {
    for way in EACH_WAY {
        let mut child = process();
        let watch = ProcessWatch::by(way, pid(&child)).unwrap();
        watch.signal(Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM), "{way:?}");
    }
}

#[test]
fn a_process_that_got_the_pid_of_another_is_not_taken_for_it() {
    let child = process();
    let started = process::start_time(pid(&child)).unwrap().unwrap();
    let hold = Hold::StartTime(started - 1);
    let watch = ProcessWatch { pid: pid(&child), hold };
    assert!(watch.has_ended());
    assert_eq!(
        watch.signal(Signal::TERM).unwrap_err().raw_os_error(),
        Some(libc::ESRCH)
    );
    // The child was not signalled: SIGKILL is its first signal.
    assert_eq!(kill_and_reap(child).signal(), Some(libc::SIGKILL));
}

#[test]
fn a_descriptor_becomes_readable_when_the_process_ends() {
    let mut child = process();
    let watch = ProcessWatch::of(pid(&child)).unwrap();
    let descriptor = watch.as_fd().expect("this kernel has pidfds");
    assert!(!is_readable(descriptor));
    drop(child.stdin.take());
    let mut waiting = [PollFd::new(descriptor, PollFlags::POLLIN)];
    assert_eq!(poll(&mut waiting, PollTimeout::from(20_000_u16)).unwrap(), 1);
    assert!(watch.has_ended());
    child.wait().unwrap();
}

#[test]
fn there_is_no_descriptor_where_there_are_no_pidfds() {
    let child = process();
    let watch = ProcessWatch::by(Way::StartTime, pid(&child)).unwrap();
    assert!(watch.as_fd().is_none());
    kill_and_reap(child);
}

#[test]
fn a_process_that_is_gone_already_has_ended() {
    for way in EACH_WAY {
        let child = process();
        let pid = pid(&child);
        kill_and_reap(child);
        assert!(ProcessWatch::by(way, pid).unwrap().has_ended(), "{way:?}");
    }
}

#[test]
fn a_peer_is_watched_each_way_and_known_by_its_pid() {
    for way in EACH_WAY {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let watch = ProcessWatch::of_peer_by(way, ours.as_fd(), Pid::own()).unwrap();
        assert_eq!(watch.pid(), Pid::own());
        assert!(!watch.has_ended(), "{way:?}");
        assert_eq!(watch.as_fd().is_some(), way != Way::StartTime);
        drop(theirs);
    }
}

#[test]
fn without_its_own_word_for_it_a_peer_that_has_closed_its_end_counts_as_ended_and_is_not_signalled() {
    for way in [Way::OfPid, Way::StartTime] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        wait_until_the_other_end_is_closed(&ours);
        let watch = ProcessWatch::of_peer_by(way, ours.as_fd(), Pid::own()).unwrap();
        assert!(watch.has_ended(), "{way:?}");
        assert_eq!(
            watch.signal(Signal::CONT).unwrap_err().raw_os_error(),
            Some(libc::ESRCH),
            "{way:?}"
        );
    }
}

#[test]
fn a_peer_that_only_stopped_writing_is_still_there() {
    for way in EACH_WAY {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let watch = ProcessWatch::of_peer_by(way, ours.as_fd(), Pid::own()).unwrap();
        assert!(!watch.has_ended(), "{way:?}");
    }
}

#[test]
fn the_socket_names_the_process_that_connected_and_not_one_that_has_its_number() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"x").unwrap();
    let stranger = process();
    // The number is a stranger's, as after a pid was reused. The socket still names the right
    // process.
    let watch = ProcessWatch::of_peer(ours.as_fd(), pid(&stranger)).unwrap();
    kill_and_reap(stranger);
    assert!(!watch.has_ended());
    let mut byte = [0];
    (&ours).read_exact(&mut byte).unwrap();
}
