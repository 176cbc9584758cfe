//! The backend behind an HTTP proxy that works, refuses, hangs, closes or is none, and who gets to
//! see which credentials.

use std::time::Duration;

use ojs_init::config::Proxy;
use ojs_init::daemon::backend::settings::BackendSettings;
use ojs_init::daemon::backend::tunnel::TunnelFailureKind;
use ojs_lifecycle::api::{Failure, Reply};

use crate::backend::{Backend, Endpoint};
use crate::proxy::{Manner, ProxyServer};
use crate::rig::*;
use crate::support::temp::TempDir;
use crate::tls::{Authority, Manner as TlsManner, TlsServer};
use crate::tunnel_rig::{TunnelRig, get};

/// A name that only the proxy knows.
const HIDDEN: &str = "known-to-the-proxy-alone.invalid";

/// User and password as a URL and as the header has them.
const SPELLED: &str = "somebody:hunter2%40p";
const BASIC: &str = "Proxy-Authorization: Basic c29tZWJvZHk6aHVudGVyMkBw\r\n";

fn through(proxy: &str, mut settings: BackendSettings) -> BackendSettings {
    settings.backend.proxy = Some(Proxy::parse(proxy).unwrap());
    settings
}

fn is_beaten(reply: &Reply) -> bool {
    matches!(reply, Reply::HeartbeatOk { .. })
}

/// Panics if a text shows a credential.
fn hides_secrets(text: &str) {
    for secret in ["hunter2", "somebody", "c29tZWJvZHk6"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn an_https_backend_is_reached_by_connect_and_the_proxy_sees_its_own_credentials_alone() {
    let proxy = ProxyServer::start(Manner::Usual);
    let root = Authority::root("ours");
    let server = TlsServer::start(&root.certify(&[HIDDEN]), &[], None, TlsManner::Usual);
    let dir = TempDir::new(std::env::temp_dir().join(format!("ojs-proxy-{}", std::process::id()))).unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, root.pem()).unwrap();
    let settings = || {
        let url = format!("https://{HIDDEN}:{}", server.port());
        let mut settings = through(&format!("http://{SPELLED}@{}", proxy.place()), settings(&url));
        settings.backend.ca_file = Some(ca_file.clone());
        settings
    };
    let mut rig = Rig::new(settings());
    assert!(is_beaten(&rig.ask(beat())));
    assert!(is_beaten(&rig.ask(beat())));
    assert_eq!(TunnelRig::new(settings()).pass(get("/jobs"), b"").failure(), None);
    let heads = proxy.heads();
    // One connection for the two heartbeats, one for what passes through.
    assert_eq!(heads.len(), 2, "{heads:?}");
    for head in heads {
        let line = format!("CONNECT {HIDDEN}:{} HTTP/1.1\r\n", server.port());
        assert!(head.starts_with(&line) && head.contains(BASIC), "{head}");
        assert!(!head.contains(TOKEN) && !head.contains("hunter2-key"), "{head}");
    }
}

#[test]
fn an_http_backend_is_asked_for_by_its_whole_url_and_never_sees_the_credentials_of_the_proxy() {
    let (proxy, backend) = (ProxyServer::start(Manner::Usual), Backend::start());
    let url = format!("http://{HIDDEN}:{}", backend.address().port());
    let settings = || through(&format!("http://{SPELLED}@{}", proxy.place()), settings(&url));
    let mut rig = Rig::new(settings());
    assert!(is_beaten(&rig.ask(beat())));
    assert!(is_beaten(&rig.ask(beat())));
    let passed = TunnelRig::new(settings()).pass(get("/ojs/v1/jobs/a"), b"");
    assert_eq!(passed.status(), 404);
    let heads = proxy.heads();
    let line = format!("POST {url}/ojs/v1/workers/heartbeat HTTP/1.1\r\n");
    assert!(heads[0].starts_with(&line) && heads[1].starts_with(&line), "{heads:?}");
    assert!(
        heads[2].starts_with(&format!("GET {url}/ojs/v1/jobs/a HTTP/1.1\r\n")),
        "{heads:?}"
    );
    assert!(heads.iter().all(|head| head.matches(BASIC).count() == 1), "{heads:?}");
    let beats = backend.records_of(Endpoint::Heartbeat);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(beats[0].request.header("authorization"), Some(bearer.as_str()));
    assert_eq!(beats[0].connection, beats[1].connection);
    assert!(
        backend
            .records()
            .iter()
            .all(|record| record.request.header("proxy-authorization").is_none())
    );
}

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>";
const WANTS_LOGIN: &str = "HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
const FORBIDS: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
const FAILS: &str = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";

/// Each row: what a proxy does, whether the backend's URL is https, whether we have credentials,
/// and what is said of it.
const CASES: [(Manner, bool, bool, &str); 14] = [
    (Manner::Answers(WANTS_LOGIN), true, false, "wants a user and a password"),
    (
        Manner::Answers(WANTS_LOGIN),
        true,
        true,
        "does not accept the user and the password",
    ),
    (
        Manner::Answers(FORBIDS),
        true,
        true,
        "does not let us through to https://b:1",
    ),
    (
        Manner::Answers(FAILS),
        true,
        true,
        "cannot reach https://b:1 (status 502)",
    ),
    (
        Manner::Answers("HTTP/1.1 400 Bad\r\n\r\n"),
        true,
        true,
        "refuses the connection",
    ),
    (Manner::Answers(PAGE), true, true, "no HTTP proxy"),
    (Manner::Answers("SSH-2.0-OpenSSH\r\n"), true, true, "no HTTP proxy"),
    (Manner::Closes, true, true, "closed the connection before it answered"),
    (Manner::Hangs, true, true, "did not answer the request for a connection"),
    (Manner::HangsBehind, true, true, "nothing came through it in time"),
    (
        Manner::Answers(WANTS_LOGIN),
        false,
        true,
        "does not accept the user and the password",
    ),
    (
        Manner::Answers(FORBIDS),
        false,
        true,
        "does not let us through to http://b:1",
    ),
    (
        Manner::Answers(FAILS),
        false,
        true,
        "cannot reach http://b:1 (status 502)",
    ),
    (Manner::Closes, false, true, "through the proxy"),
];

#[test]
fn what_a_proxy_does_wrong_is_said_of_the_proxy_and_the_backend_has_got_nothing() {
    for (manner, is_https, has_credentials, says) in CASES {
        let proxy = ProxyServer::start(manner);
        let credentials = if has_credentials {
            format!("{SPELLED}@")
        } else {
            String::new()
        };
        let scheme = if is_https { "https" } else { "http" };
        let url = format!("{scheme}://b:1");
        let settings = || {
            let mut settings = through(&format!("http://{credentials}{}", proxy.place()), settings(&url));
            settings.backend.connect_timeout = Duration::from_secs(1);
            settings
        };
        let (reply, heard) = Rig::new(settings()).hear(ack("a"));
        let text = heard.words.failure.unwrap();
        assert!(
            text.contains(says) && text.contains(&proxy.place()),
            "{manner:?} {is_https}: {text}"
        );
        hides_secrets(&text);
        if is_https {
            assert_eq!(reply, failed(Failure::NotSent), "{manner:?}");
            let passed = TunnelRig::new(settings()).pass(get("/"), b"");
            assert_eq!(passed.failure(), Some(TunnelFailureKind::NotSent), "{manner:?}");
        } else {
            // Nothing of this is the backend's word on the job.
            let is_word = matches!(
                reply,
                Reply::Accepted | Reply::Failed(Failure::Unauthorized | Failure::Refused | Failure::Lost)
            );
            assert!(!is_word, "{manner:?}: {reply:?}");
        }
    }
}

#[test]
fn a_proxy_that_is_not_there_is_named_and_a_403_of_the_backend_itself_is_its_own() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let (reply, heard) = Rig::new(through(&place, settings("https://b"))).hear(beat());
    assert_eq!(reply, failed(Failure::NotSent));
    let text = heard.words.failure.unwrap();
    assert!(
        text.contains(&format!("the proxy {place}: connection refused")),
        "{text}"
    );

    let (proxy, backend) = (ProxyServer::start(Manner::Usual), Backend::start());
    let body = r#"{"error":{"code":"forbidden","message":"no"}}"#.to_owned();
    backend.always(
        Endpoint::Heartbeat,
        crate::backend::Behaviour::Answer(403, body, Vec::new()),
    );
    let (reply, heard) = Rig::new(through(&proxy.place(), settings(&backend.url()))).hear(beat());
    assert_eq!(reply, failed(Failure::Unauthorized));
    assert!(!heard.words.failure.unwrap().contains("proxy"));
}
