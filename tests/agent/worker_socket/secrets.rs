//! The secrets of the environment: the worker does not get them, and nobody finds them in ours.

use crate::backend::Endpoint;
use crate::stage::Stage;

/// Execs the words behind it with each of these variables twice, as no shell can. glibc's getenv
/// finds the first.
const TWICE: &str = "import ctypes, os, sys
entries = [f'{name}={value}' for name, value in os.environ.items()]
entries += ['OJS_AUTH_TOKEN=sekrit-4712', 'OJS_INIT_HEADERS=X-Access: sekrit-4713']
array = lambda words: (ctypes.c_char_p * (len(words) + 1))(*[os.fsencode(word) for word in words], None)
ctypes.CDLL(None).execve(os.fsencode(sys.argv[1]), array(sys.argv[1:]), array(entries))";

/// Writes down what of the secrets is in its environment, entry by entry.
const NOTE: &str = "entries = open('/proc/self/environ', 'rb').read().split(b'\\0')
note('secrets', [e.decode() for e in entries if b'sekrit' in e]); link = Link(); link.ready(); link.work()";

const SECRETS: [(&str, &str); 2] = [
    ("OJS_AUTH_TOKEN", "sekrit-4711"),
    ("OJS_INIT_HEADERS", "X-Access: sekrit-4711\nX-OJS-Tenant: sekrit-4714"),
];

#[test]
fn token_and_headers_are_used_and_are_nowhere_to_be_seen_duplicates_included() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(NOTE)
        .with_all(&SECRETS)
        .with("OJS_LOG_LEVEL", "trace")
        .through(&["python3", "-c", TWICE])
        .start();
    stage.wait_for_outcomes();
    assert_eq!(init.noted("secrets"), "[]");
    let environ = std::fs::read(format!("/proc/{}/environ", init.pid)).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    let count = |name: &str| environ.split('\0').filter(|entry| entry.starts_with(name)).count();
    assert_eq!(count("OJS_INIT_HEADERS="), 2, "{environ}");
    assert!(!environ.contains("sekrit"), "{environ}");
    assert!(environ.contains("OJS_URL"));
    init.stops();
    assert!(!init.log().contains("sekrit"));
    assert!(init.log().contains("trace"));
    for record in stage.backend.records() {
        assert_eq!(record.request.header("authorization"), Some("Bearer sekrit-4711"));
        assert_eq!(record.request.header("x-access"), Some("sekrit-4711"));
        assert_eq!(record.request.header("x-ojs-tenant"), Some("sekrit-4714"));
    }
    assert!(!stage.backend.records_of(Endpoint::Heartbeat).is_empty());
}

#[test]
fn token_and_headers_stay_with_a_worker_that_is_to_have_them() {
    let stage = Stage::new();
    let mut init = stage
        .worker(NOTE)
        .with_all(&SECRETS)
        .with("OJS_PASS_TOKEN", "true")
        .start();
    let noted = init.noted("secrets");
    assert!(noted.contains("OJS_AUTH_TOKEN=sekrit-4711"), "{noted}");
    assert!(noted.contains("OJS_INIT_HEADERS=X-Access: sekrit-4711"), "{noted}");
    init.stops();
}

/// Tries what processes of the same user can do to each other, with PID 1, and notes the error of
/// each.
const ATTACKS: &str = "
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
class Piece(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
mine = Piece(ctypes.cast(ctypes.create_string_buffer(16), ctypes.c_void_p), 16)
theirs = Piece(0x400000, 16)
ATTACH, GET_FD, PIDFD_OPEN = 16, 438, 434
attacks = {
    'attach': lambda: libc.ptrace(ATTACH, 1, None, None),
    'read': lambda: libc.process_vm_readv(1, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0),
    'write': lambda: libc.process_vm_writev(1, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0),
    'take': lambda: libc.syscall(GET_FD, libc.syscall(PIDFD_OPEN, 1, 0), 3, 0),
}
for name, attack in attacks.items():
    ctypes.set_errno(0)
    note(name, errno.errorcode.get(ctypes.get_errno(), 'none') if attack() < 0 else 'done')
asks_for_an_end = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
others = signal.valid_signals() - asks_for_an_end - {signal.SIGCONT, signal.SIGTSTP}
for number in others - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    # The init passes them on to us.
    signal.signal(number, signal.SIG_IGN)
for number in others:
    os.kill(1, number)
note('tried')
link = Link()
link.ready()
link.work()";

#[test]
fn a_worker_of_our_own_user_neither_traces_the_init_nor_ends_it_by_a_signal_that_asks_for_no_end() {
    let stage = Stage::new();
    let mut init = stage
        .worker(ATTACKS)
        .through(&[
            "setpriv",
            "--reuid=54321",
            "--regid=54321",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .start();
    init.notes_line("tried");
    let notes = init.notes();
    for attack in ["attach", "read", "write", "take"] {
        assert!(notes.contains(&format!("{attack} EPERM")), "{notes:?}");
    }
    stage.enqueue([1]);
    stage.wait_for_outcomes();
    init.stops();
}
