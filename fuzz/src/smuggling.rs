//! Request smuggling: the gateway's reader and the development server's reader see the same
//! requests in the same bytes, and the development server sees one request in each that is passed
//! on.

use super::http::{End, ReadRequest, passed_on, read_requests};
use super::other_server::{self, SeenBody, SeenRequest};

/// The bytes of a connection, with any number of requests.
pub fn smuggling(data: &[u8]) {
    let (ours, end) = read_requests(&[data]);
    let theirs = other_server::requests(data);
    for (our, their) in ours.iter().zip(&theirs.requests) {
        assert_eq!(
            (our.head.method.as_str(), our.head.target.as_str()),
            (their.method.as_str(), their.target.as_str())
        );
        assert_eq!(our_headers(our), their.headers);
        compare_bodies(our, their, end);
    }
    // Either may refuse what the other one reads. Neither may wait for the rest of a request whose
    // bytes the other one has taken for another request.
    if ours.len() > theirs.requests.len() {
        assert!(!theirs.waits, "hyper waits, we have {:?}", ours[theirs.requests.len()]);
    }
    if theirs.requests.len() > ours.len() {
        assert_ne!(end, End::Waits, "we wait, hyper has {:?}", theirs.requests[ours.len()]);
    }
    for request in ours.iter().filter(|request| request.is_whole) {
        check_passed_on(request);
    }
}

fn compare_bodies(our: &ReadRequest, their: &SeenRequest, end: End) {
    match (&their.body, our.is_whole) {
        (SeenBody::Whole(body), true) => assert_eq!(body, &our.body),
        (SeenBody::Whole(_), false) => assert_eq!(end, End::BadChunk, "only hyper has the whole body"),
        (SeenBody::Waits, is_whole) => assert!(!is_whole, "only we have the whole body"),
        // hyper refuses the body.
        (SeenBody::Bad, _) => {}
    }
}

fn our_headers(request: &ReadRequest) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lines = request.head.headers.iter();
    let mut lines: Vec<_> = lines
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
        .collect();
    lines.sort();
    lines
}

fn check_passed_on(request: &ReadRequest) {
    let bytes = passed_on(request);
    let seen = other_server::requests(&bytes);
    let [their] = seen.requests.as_slice() else {
        // hyper refuses some targets.
        assert!(seen.requests.is_empty() && !seen.waits, "{seen:?}");
        return;
    };
    assert_eq!(their.method, request.head.method);
    assert_eq!(their.target, format!("/prefix{}", request.head.target));
    assert_eq!(their.body, SeenBody::Whole(request.body.clone()));
}
