//! HTTP/1.1 responses.

/// The bytes of a response. `lines` are further header lines, each with its end. Without a body it
/// is the response to HEAD.
pub fn response(status: &str, lines: &str, body: &[u8], wants_body: bool) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{lines}\r\n", body.len());
    let body = if wants_body { body } else { &[] };
    [head.as_bytes(), body].concat()
}
