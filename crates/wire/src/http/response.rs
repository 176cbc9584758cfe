//! HTTP/1.1 responses, whatever was asked for.

use serde::Serialize;

/// A response whose body is this as JSON, on a line.
#[must_use]
pub fn json(status: &str, headers: &str, body: &impl Serialize, wants_body: bool) -> Vec<u8> {
    // Words and numbers only: it cannot fail.
    let body = serde_json::to_string(body).unwrap_or_default();
    response(status, "application/json", headers, &format!("{body}\n"), wants_body)
}

/// The bytes of a response, after which the connection is closed. `headers` are further lines, each
/// with its end; without a body it is what HEAD gets.
#[must_use]
pub fn response(status: &str, content_type: &str, headers: &str, body: &str, wants_body: bool) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: \
         no-store\r\n{headers}Connection: close\r\n\r\n"
    );
    let body = if wants_body { body } else { "" };
    [head.as_str(), body].concat().into_bytes()
}
