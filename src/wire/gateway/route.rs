//! Which request is what: by its method and its path, with or without the prefix of the specification.

/// What a request is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// A worker asks for jobs.
    Fetch,
    /// A job is done.
    Ack,
    /// A job failed.
    Fail,
    /// A worker is there, with these jobs.
    Heartbeat,
    /// A worker says who it is. There is one worker towards the backend, which is us.
    Register,
    /// A worker says that it goes.
    Deregister,
    /// Not about being a worker: the backend's business.
    Other,
}

/// What everything but the manifest and the health endpoints is below.
const PREFIX: [&str; 2] = ["ojs", "v1"];

/// What this request is. A path is compared as a server may understand it: decoded, without empty
/// parts, and with those that lead back taken back.
#[must_use]
pub fn route(method: &str, target: &str) -> Route {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let decoded: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let mut parts: Vec<&str> = Vec::new();
    for part in &decoded {
        match part.as_str() {
            "." => {}
            // The backend may resolve it, and give out jobs of which we know nothing.
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let parts = parts.strip_prefix(&PREFIX).unwrap_or(&parts);
    match (method, parts) {
        ("POST", ["workers", "fetch"]) => Route::Fetch,
        ("POST", ["workers", "ack"]) => Route::Ack,
        ("POST", ["workers", "nack"]) => Route::Fail,
        ("POST", ["workers", "heartbeat" | "beat"]) => Route::Heartbeat,
        ("POST", ["workers", "register"]) => Route::Register,
        ("POST", ["workers", "deregister"]) | ("DELETE", ["workers", _]) => Route::Deregister,
        _ => Route::Other,
    }
}

/// A part of a path with its escapes undone; what is no text then is not one of ours.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
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
    String::from_utf8(bytes).unwrap_or_default()
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
            assert_eq!(post("/workers/fetch"), Route::Fetch);
            assert_eq!(post("/workers/fetch/"), Route::Fetch);
            assert_eq!(post("/workers/%66etch?x=1"), Route::Fetch);
            assert_eq!(post("/workers/ack"), Route::Ack);
            assert_eq!(post("/workers/nack"), Route::Fail);
            assert_eq!(post("/workers/heartbeat"), Route::Heartbeat);
            assert_eq!(post("/workers/beat"), Route::Heartbeat);
            assert_eq!(post("/workers/register"), Route::Register);
            assert_eq!(post("/workers/deregister"), Route::Deregister);
            assert_eq!(route("DELETE", &format!("{prefix}/workers/w%201")), Route::Deregister);
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
            assert_eq!(route(method, target), Route::Other, "{method} {target}");
        }
    }
}
