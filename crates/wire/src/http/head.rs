//! The head of an HTTP/1 request, whatever is asked for.

/// Longest head of a request in bytes, its empty line included. An orchestrator's has about 150.
pub const MAX_HEAD: usize = 4 << 10;

/// Most header lines of a request.
pub const MAX_HEADERS: usize = 64;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    pub method: &'a str,
    /// The path, without a query.
    pub path: &'a str,
}

/// Why a head cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHead {
    /// The bytes are no HTTP/1 request.
    Malformed,
    /// The head has more than [`MAX_HEAD`] bytes, or more than [`MAX_HEADERS`] lines.
    TooLarge,
}

/// Reads the head of a request from everything that came so far; `None` when its end is still
/// missing.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Result<Head<'_>, NoHead>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => Some(Ok(Head {
            method: request.method.unwrap_or_default(),
            path: path(request.path.unwrap_or_default()),
        })),
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Some(Err(NoHead::TooLarge)),
        Err(_) => Some(Err(NoHead::Malformed)),
    }
}

fn path(target: &str) -> &str {
    let target = origin_form(target);
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// The path of a target that names the host as well, as to a proxy: a server takes that, too (RFC
/// 9112 3.2.2). The host is not looked at, as it is not in its header either.
fn origin_form(target: &str) -> &str {
    let rest = target.split_once("://").filter(|(scheme, _)| {
        let is = |known: &str| scheme.eq_ignore_ascii_case(known);
        is("http") || is("https")
    });
    match rest {
        Some((_, rest)) => rest.find(['/', '?']).and_then(|start| rest.get(start..)).unwrap_or("/"),
        None => target,
    }
}
