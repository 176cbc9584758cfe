//! The request that asks an HTTP proxy to connect to a host (CONNECT, RFC 9110 9.3.6), and the
//! proxy's answer.

use httparse::Response;

use crate::http::answer_head::{self, AnswerFraming};

/// Longest answer to a CONNECT that is read, in bytes.
pub const MOST_REPLY_BYTES: usize = 16 << 10;

/// The request for a connection to `target`, which is host and port. `credentials` is the value of
/// Proxy-Authorization.
pub fn request(target: &str, credentials: Option<&str>) -> Vec<u8> {
    let mut text = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: {}\r\n",
        concat!("ojs-init/", env!("CARGO_PKG_VERSION"))
    );
    if let Some(credentials) = credentials {
        text.push_str("Proxy-Authorization: ");
        text.push_str(credentials);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// The answer of a proxy to a CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectReply {
    /// The answer is not all here yet.
    Incomplete,
    /// The connection is there.
    Connected,
    /// The proxy did not connect, and answered with this status.
    Refused(u16),
    /// The bytes are no answer of a proxy: not HTTP, too long, or with a body in place of the
    /// connection.
    NotOfProxy,
}

/// Reads the bytes that have arrived so far.
pub fn read(bytes: &[u8]) -> ConnectReply {
    let mut rest = bytes;
    loop {
        let take = |head: &Response<'_, '_>, length, framing| (head.code.unwrap_or_default(), length, framing);
        let (status, length, framing) = match answer_head::read(rest, false, take) {
            Ok(Some(head)) => head,
            Ok(None) if bytes.len() < MOST_REPLY_BYTES => return ConnectReply::Incomplete,
            Ok(None) | Err(_) => return ConnectReply::NotOfProxy,
        };
        rest = rest.get(length..).unwrap_or_default();
        if framing == AnswerFraming::Interim {
            continue;
        }
        return match status {
            // The host sends nothing before the client does, so bytes behind the head are a page of
            // the proxy, or of a server that is no proxy.
            200..=299 if rest.is_empty() => ConnectReply::Connected,
            200..=299 => ConnectReply::NotOfProxy,
            status => ConnectReply::Refused(status),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_names_the_host_twice_and_the_credentials_if_there_are_some() {
        let text = |credentials| String::from_utf8(request("b:443", credentials)).unwrap_or_default();
        assert!(text(None).starts_with("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\nUser-Agent: ojs-init/"));
        assert!(!text(None).contains("Proxy-Authorization"));
        assert!(text(Some("Basic eA==")).ends_with("\r\nProxy-Authorization: Basic eA==\r\n\r\n"));
    }

    #[test]
    fn an_answer_is_read_however_it_comes() {
        let cases = [
            ("HTTP/1.1 200 Connection established\r\n\r\n", ConnectReply::Connected),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", ConnectReply::Connected),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
                ConnectReply::Connected,
            ),
            ("HTTP/1.1 407 Authenticate\r\n\r\n<html>", ConnectReply::Refused(407)),
            ("HTTP/1.1 301 Moved\r\n\r\n", ConnectReply::Refused(301)),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>",
                ConnectReply::NotOfProxy,
            ),
            ("SSH-2.0-OpenSSH\r\n", ConnectReply::NotOfProxy),
            ("", ConnectReply::Incomplete),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text.as_bytes()), expected, "{text}");
            // An interim answer does not count.
            let status = text.split(' ').nth(1).filter(|status| *status != "100");
            let head = text.find("\r\n\r\n").filter(|_| status.is_some());
            for end in 0..head.unwrap_or(0) {
                assert_eq!(read(&text.as_bytes()[..end]), ConnectReply::Incomplete, "{text} {end}");
            }
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(MOST_REPLY_BYTES));
        assert_eq!(read(endless.as_bytes()), ConnectReply::NotOfProxy);
    }
}
