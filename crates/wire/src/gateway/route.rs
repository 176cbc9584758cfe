//! Routes a request by its method and its path, with or without the prefix of the specification.

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A worker asks for jobs.
    Fetch,
    /// A job is done.
    Ack,
    /// A job failed.
    Fail,
    /// A worker is there, with these jobs.
    Heartbeat,
    /// A worker registers. The backend sees one worker, which is ojs-init.
    Register,
    /// A worker deregisters.
    Deregister,
    /// Not about being a worker: the backend's business.
    Other,
    /// The backend may read it as one of the above, but ojs-init does not. So ojs-init does not
    /// send it to the backend with its token.
    Doubtful,
}

/// The prefix of everything but the manifest and the health endpoints.
const PREFIX: [&str; 2] = ["ojs", "v1"];

/// The part of a path that all requests of workers share.
const WORKERS: &str = "workers";

/// Most times that a path is decoded to find out how a server could read it.
const MOST_DECODINGS: usize = 4;

/// Characters that may end a part of a path, or be dropped from it, for a server that decodes once
/// more than ojs-init does. `%` begins a further escape.
const DOUBTFUL: &[char] = &['/', '\\', ';', '?', '#', '%'];

/// The kind of this request. A path is compared as a server may understand it: decoded, without
/// empty parts, and with `..` resolved.
pub fn route(method: &str, target: &str) -> RequestKind {
    let path = target.split('?').next().unwrap_or_default();
    let decoded: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let found = resolve(method, &decoded);
    if found == RequestKind::Other && is_doubtful(method, path, &decoded) {
        return RequestKind::Doubtful;
    }
    found
}

/// Whether another server may read one of the routes in this path. That server may decode a path
/// again, drop the part behind a `;`, read `\` as `/`, or ignore capitals. All of these routes are
/// POST or DELETE.
fn is_doubtful(method: &str, path: &str, decoded: &[String]) -> bool {
    let method = method.to_ascii_uppercase();
    if !matches!(method.as_str(), "POST" | "DELETE") || !is_about_workers(path) {
        return false;
    }
    let is_odd = |letter: char| DOUBTFUL.contains(&letter) || letter.is_control() || letter.is_whitespace();
    // UTF-8 never has these bytes; some decoders read them as the first half of a slash or a
    // letter.
    let has_overlong = ["%c0", "%c1"]
        .iter()
        .any(|escape| path.to_ascii_lowercase().contains(escape));
    let has_odd = decoded.iter().any(|part| part.contains(is_odd) && !is_cut_escape(part));
    let lower: Vec<String> = decoded.iter().map(|part| part.to_ascii_lowercase()).collect();
    has_odd || has_overlong || resolve(&method, &lower) != RequestKind::Other
}

/// Whether a path contains the name of the workers' routes, after any number of decodings.
fn is_about_workers(path: &str) -> bool {
    let mut path = path.as_bytes().to_vec();
    for _ in 0..=MOST_DECODINGS {
        let text = String::from_utf8_lossy(&path).to_ascii_lowercase();
        if text.contains(WORKERS) {
            return true;
        }
        let decoded = unescaped(&path);
        if decoded == path {
            return false;
        }
        path = decoded;
    }
    // No honest client encodes a path so often.
    true
}

/// Whether all that is odd in this part is a `%` that begins no escape.
fn is_cut_escape(part: &str) -> bool {
    let others = part.chars().filter(|letter| *letter != '%');
    let is_plain = !others
        .clone()
        .any(|letter| DOUBTFUL.contains(&letter) || letter.is_control() || letter.is_whitespace());
    is_plain && unescaped(part.as_bytes()) == part.as_bytes()
}

fn resolve(method: &str, decoded: &[String]) -> RequestKind {
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded {
        match part.as_str() {
            "." => {}
            // The backend may resolve it, and hand out jobs that ojs-init does not know of.
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let parts = parts.strip_prefix(&PREFIX).unwrap_or(&parts);
    match (method, parts) {
        ("POST", ["workers", "fetch"]) => RequestKind::Fetch,
        ("POST", ["workers", "ack"]) => RequestKind::Ack,
        ("POST", ["workers", "nack"]) => RequestKind::Fail,
        ("POST", ["workers", "heartbeat" | "beat"]) => RequestKind::Heartbeat,
        ("POST", ["workers", "register"]) => RequestKind::Register,
        ("POST", ["workers", "deregister"]) | ("DELETE", ["workers", _]) => RequestKind::Deregister,
        _ => RequestKind::Other,
    }
}

/// A part of a path with its escapes undone. A part that is no text then matches no route.
fn decoded(part: &str) -> String {
    String::from_utf8(unescaped(part.as_bytes())).unwrap_or_default()
}

/// Undoes escapes once. Other characters stay.
fn unescaped(part: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let [first, after @ ..] = rest {
        let escaped = match after {
            [high, low, ..] if *first == b'%' => digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    bytes
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_asks_is_known_with_and_without_the_prefix() {
        for prefix in [
            "/ojs/v1",
            "",
            "//ojs/./v1/",
            "/%6fjs/v1",
            "/ojs/v2/../v1",
            "/../ojs/x/%2e%2e/v1",
        ] {
            let post = |path: &str| route("POST", &format!("{prefix}{path}"));
            assert_eq!(post("/workers/fetch"), RequestKind::Fetch);
            assert_eq!(post("/workers/fetch/"), RequestKind::Fetch);
            assert_eq!(post("/workers/%66etch?x=1"), RequestKind::Fetch);
            assert_eq!(post("/workers/ack"), RequestKind::Ack);
            assert_eq!(post("/workers/nack"), RequestKind::Fail);
            assert_eq!(post("/workers/heartbeat"), RequestKind::Heartbeat);
            assert_eq!(post("/workers/beat"), RequestKind::Heartbeat);
            assert_eq!(post("/workers/register"), RequestKind::Register);
            assert_eq!(post("/workers/deregister"), RequestKind::Deregister);
            assert_eq!(
                route("DELETE", &format!("{prefix}/workers/w%201")),
                RequestKind::Deregister
            );
        }
    }

    #[test]
    fn what_a_backend_may_read_as_one_of_our_routes_is_not_passed_on() {
        for path in [
            "/ojs/v1/workers%2Ffetch",
            "/ojs/v1/workers%2ffetch",
            "/ojs/v1%2Fworkers/fetch",
            "/ojs%2fv1/workers/fetch",
            "/ojs/v1/workers%252Ffetch",
            "/ojs/v1/workers%25252Ffetch",
            "/ojs/v1/%2577orkers/fetch",
            "/ojs/v1/work%65rs%5cfetch",
            "/workers/fetch;x=1",
            "/workers;x=1/fetch",
            "/workers/fetch%3Bx",
            "/workers/fetch%3Fx=1",
            "/workers/fetch%23x",
            "/workers/fetch%00",
            "/workers/fetch%20",
            "/WORKERS/fetch",
            "/ojs/V1/workers/fetch",
            "/ojs/v1/Workers/%46etch",
            "/x/..;/workers/fetch",
            "/x/..%2fworkers/fetch",
            "/x/%252e%252e/workers/fetch",
            r"/workers\fetch",
            r"/x\..\workers/fetch",
            "/workers%c0%affetch",
        ] {
            assert_eq!(route("POST", path), RequestKind::Doubtful, "{path}");
        }
        assert_eq!(route("DELETE", "/ojs/v1/workers%2Fw1"), RequestKind::Doubtful);
        assert_eq!(route("post", "/ojs/v1/workers/fetch"), RequestKind::Doubtful);
        let often = format!("/%{}77orkers/fetch", "25".repeat(9));
        assert_eq!(route("POST", &often), RequestKind::Doubtful, "{often}");
        for path in [
            "/ojs/v1/jobs/a%2Fb",
            "/ojs/v1/jobs;x=1",
            r"/ojs/v1/jobs/a\b",
            "/ojs/v1/jobs/a%252Fb",
            "/JOBS",
        ] {
            assert_eq!(route("POST", path), RequestKind::Other, "{path}");
        }
        assert_eq!(route("GET", "/ojs/v1/jobs?x=workers%2Ffetch;y"), RequestKind::Other);
        for method in ["GET", "HEAD", "PUT", "PATCH", "OPTIONS"] {
            assert_eq!(
                route(method, "/ojs/v1/admin/workers/a%2Fb"),
                RequestKind::Other,
                "{method}"
            );
        }
    }

    #[test]
    fn everything_else_is_the_backends_business() {
        for (method, target) in [
            ("POST", "/ojs/v1/jobs"),
            ("GET", "/ojs/v1/workers/fetch"),
            ("POST", "/ojs/v1/workers/progress"),
            ("DELETE", "/ojs/v1/admin/workers/1"),
            ("POST", "/ojs/v2/workers/fetch"),
            ("POST", "/x/workers/fetch"),
            ("POST", "/workers/%ff"),
            ("POST", "/workers/fetch%"),
            ("GET", "/ojs/manifest"),
            ("GET", "/"),
        ] {
            assert_eq!(route(method, target), RequestKind::Other, "{method} {target}");
        }
    }
}
