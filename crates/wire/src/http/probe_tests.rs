#![allow(clippy::unwrap_used, reason = "a test without its answer has failed")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use ojs_lifecycle::api::{Failure, Trouble, Unhealthy, WorkerState};

const KUBELET: &str = "GET /readyz HTTP/1.1\r\nHost: 10.0.0.7:8081\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\n\
                       Connection: close\r\n\r\n";

fn asks(head: &str) -> Result<ProbePath, ProbeRefusal> {
    read(head.as_bytes()).unwrap().asks
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_request_is_read_when_its_whole_head_is_there() {
    for end in 0..KUBELET.len() {
        assert_eq!(read(&KUBELET.as_bytes()[..end]), None, "{end}");
    }
    assert_eq!(asks(KUBELET), Ok(ProbePath::Probe(Probe::Ready)));
    assert_eq!(
        asks(&format!("{KUBELET}GET /livez HTTP/1.1\r\n\r\n")),
        Ok(ProbePath::Probe(Probe::Ready))
    );
}

#[test]
fn a_target_that_names_a_host_is_served_by_its_path() {
    for target in [
        "http://10.0.0.7:8081/livez",
        "HTTPS://[::1]/livez?x=http://b/readyz",
        "http:///livez",
    ] {
        assert_eq!(
            asks(&format!("GET {target} HTTP/1.1\r\nHost: b\r\n\r\n")),
            Ok(ProbePath::Probe(Probe::Live)),
            "{target}"
        );
    }
}

#[test]
fn each_path_is_its_own_probe_whatever_the_query_says() {
    assert_eq!(asks("GET /livez HTTP/1.1\r\n\r\n"), Ok(ProbePath::Probe(Probe::Live)));
    assert_eq!(
        asks("GET /readyz?verbose=1 HTTP/1.0\r\n\r\n"),
        Ok(ProbePath::Probe(Probe::Ready))
    );
    assert_eq!(
        asks("HEAD /healthz HTTP/1.1\r\n\r\n"),
        Ok(ProbePath::Probe(Probe::Healthy))
    );
    assert_eq!(asks("GET /metrics HTTP/1.1\r\n\r\n"), Ok(ProbePath::Metrics));
    for path in ["/", "/health", "/livez/", "/LIVEZ", "//livez", "http://a"] {
        assert_eq!(
            asks(&format!("GET {path} HTTP/1.1\r\n\r\n")),
            Err(ProbeRefusal::NotFound),
            "{path}"
        );
    }
    for target in ["*", "ftp://a/livez", "http://a?/livez", "://a/livez"] {
        assert_eq!(
            asks(&format!("GET {target} HTTP/1.1\r\n\r\n")),
            Err(ProbeRefusal::Malformed),
            "{target}"
        );
    }
}

#[test]
fn other_methods_are_refused_where_there_is_something() {
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
        assert_eq!(
            asks(&format!("{method} /livez HTTP/1.1\r\n\r\n")),
            Err(ProbeRefusal::MethodNotAllowed)
        );
        assert_eq!(
            asks(&format!("{method} / HTTP/1.1\r\n\r\n")),
            Err(ProbeRefusal::NotFound)
        );
    }
    assert!(text(refuse(ProbeRefusal::MethodNotAllowed, true)).contains("\r\nAllow: GET, HEAD\r\n"));
}

#[test]
fn what_is_no_http_request_is_malformed() {
    for head in [
        "\u{16}\u{3}\u{1}",
        "GET\r\n",
        "GET /livez HTTP/2.0\r\n\r\n",
        "{}\n",
        "GET /livez HTTP/1.1\r\n: a\r\n\r\n",
    ] {
        assert_eq!(asks(head), Err(ProbeRefusal::Malformed), "{head:?}");
    }
}

#[test]
fn a_head_is_bounded_in_bytes_and_in_lines() {
    let padded = |size: usize| {
        let begin = "GET /livez HTTP/1.1\r\nA: ";
        format!("{begin}{}\r\n\r\n", "a".repeat(size - begin.len() - 4))
    };
    assert_eq!(asks(&padded(MOST_HEAD_BYTES)), Ok(ProbePath::Probe(Probe::Live)));
    assert_eq!(asks(&padded(MOST_HEAD_BYTES + 1)), Err(ProbeRefusal::TooLarge));
    assert_eq!(
        asks(&padded(2 * MOST_HEAD_BYTES)[..MOST_HEAD_BYTES]),
        Err(ProbeRefusal::TooLarge)
    );
    assert_eq!(
        read(&padded(2 * MOST_HEAD_BYTES).as_bytes()[..MOST_HEAD_BYTES - 1]),
        None
    );
    let lines = |count: usize| format!("GET /livez HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(asks(&lines(MOST_HEADER_LINES)), Ok(ProbePath::Probe(Probe::Live)));
    assert_eq!(asks(&lines(MOST_HEADER_LINES + 1)), Err(ProbeRefusal::TooLarge));
}

#[test]
fn a_yes_is_short_and_a_no_says_why() {
    let running = |troubles| Health {
        state: WorkerState::Running,
        troubles,
        backend: Some(Trouble {
            failure: Failure::NotSent,
            failed: 0,
            lasted: Duration::from_secs(14),
            waiting: 0,
            lapses_in: Some(Duration::from_secs(59)),
            is_from_the_start: false,
        }),
    };
    let yes = text(answer(&running(vec![]), true));
    assert!(yes.starts_with("HTTP/1.1 200 OK\r\n"), "{yes}");
    assert!(yes.contains("\r\nConnection: close\r\n"), "{yes}");
    assert!(
        yes.ends_with("\r\n\r\n{\"status\":\"ok\",\"state\":\"running\"}\n"),
        "{yes}"
    );
    let lost = Unhealthy::HeartbeatsLost {
        since: Duration::from_secs(16),
        interval: Duration::from_secs(5),
    };
    let no = text(answer(&running(vec![Unhealthy::WorkerNotReady, lost]), true));
    let (head, body) = no.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    assert!(
        head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())),
        "{head}"
    );
    assert_eq!(
        body,
        "{\"status\":\"unavailable\",\"state\":\"running\",\"reasons\":[{\"code\":\"worker_not_ready\",\"message\":\"no \
         connection of the worker has said ready\"},{\"code\":\"heartbeats_lost\",\"message\":\"the backend accepted the \
         last heartbeat 16 s ago, more than three intervals of 5 s: the backend is unreachable for 14 s; \
         reservations lapse in 59 s\"}]}\n"
    );
}

#[test]
fn head_gets_the_head_that_get_would_get() {
    assert!(!read(b"HEAD / HTTP/1.1\r\n\r\n").unwrap().wants_body);
    for refusal in [ProbeRefusal::NotFound, ProbeRefusal::TooLarge] {
        let (with, without) = (text(refuse(refusal, true)), text(refuse(refusal, false)));
        assert_eq!(
            with.split_once("\r\n\r\n").unwrap().0,
            without.strip_suffix("\r\n\r\n").unwrap()
        );
    }
}

#[test]
fn metrics_are_prometheus_text_for_get_and_their_head_for_head() {
    let get = text(metrics("a 1\n", true));
    let head = text(metrics("a 1\n", false));
    assert_eq!(get, format!("{head}a 1\n"));
    for line in [
        "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
        "\r\nContent-Length: 4\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[test]
fn a_refusal_says_what_there_is() {
    for refusal in [
        ProbeRefusal::NotFound,
        ProbeRefusal::MethodNotAllowed,
        ProbeRefusal::Malformed,
        ProbeRefusal::TooLarge,
    ] {
        let said = text(refuse(refusal, true));
        assert!(
            said.ends_with(",\"paths\":[\"/livez\",\"/readyz\",\"/healthz\",\"/status\",\"/metrics\"]}\n"),
            "{said}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm_and_never_waited_for_beyond_the_bound(bytes in prop::collection::vec(any::<u8>(), 0..2 * MOST_HEAD_BYTES)) {
        let read = read(&bytes);
        prop_assert!(read.is_some() || bytes.len() < MOST_HEAD_BYTES);
    }
}
