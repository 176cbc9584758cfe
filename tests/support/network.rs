//! A network of a test's own: a port that is in use in one is free in the others.

use nix::sched::{CloneFlags, unshare};

/// Runs `body` on a thread whose network nobody else has: a loopback interface, and every port
/// free. Threads and processes that it starts are in the same network.
pub fn in_own_network(body: impl FnOnce() + Send + 'static) {
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("making a network needs root");
        raise_loopback();
        body();
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

fn raise_loopback() {
    // SAFETY: zero is a valid request, and the kernel reads and writes no more than it.
    let is_up = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
            *place = libc::c_char::from_ne_bytes([*byte]);
        }
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap();
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        result == 0
    };
    assert!(is_up, "{}", std::io::Error::last_os_error());
}
