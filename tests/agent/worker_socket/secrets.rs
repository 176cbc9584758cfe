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
