//! What went wrong between a request and its answer, in words for a person.

use std::io;

use nix::errno::Errno;

use crate::daemon::backend::connect::{ClosedInHandshake, EndlessHead};

/// What to look at where the two sides do not speak the same.
const CHECK: &str = "check the scheme (http or https) and the port of backend.url";

/// Most bytes of an answer in which a server says that it wants TLS.
const MOST_LOOKED_AT: usize = 4 << 10;

/// Whether the other side closed the connection.
pub(in crate::daemon) fn is_hang_up(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if hung_up(error))
}

fn hung_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// Whether the connection was never there, or was gone before the last byte of the request was on it.
pub(in crate::daemon) fn is_before_end_of_request(error: &ureq::Error) -> bool {
    matches!(
        error,
        ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect)
    ) || matches!(
        error,
        // A broken pipe comes from writing only, and the kernel has taken nothing of that write.
        ureq::Error::Io(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::BrokenPipe)
    )
}

/// Why there is no answer, for a person; `is_new`: on a connection that had served no other request.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of a library, which grows")]
pub(in crate::daemon) fn reason(error: &ureq::Error, is_https: bool, is_new: bool) -> String {
    match error {
        ureq::Error::HostNotFound => "there is no host of this name".to_owned(),
        ureq::Error::Timeout(ureq::Timeout::Resolve) => "its name could not be resolved in time".to_owned(),
        ureq::Error::Timeout(ureq::Timeout::Connect) => "no connection within backend.connect_timeout".to_owned(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::Protocol(_) if !is_https => format!("what answers there does not speak HTTP; {CHECK}"),
        ureq::Error::Protocol(_) => "its answer is no HTTP; look at what listens at the port of backend.url".to_owned(),
        ureq::Error::LargeResponseHeader(..) => "the head of its answer is too long".to_owned(),
        ureq::Error::Io(error) => of_io(error, is_https, is_new),
        error => format!("the request failed: {error}"),
    }
}

fn of_io(error: &io::Error, is_https: bool, is_new: bool) -> String {
    if let Some(own) = error.get_ref()
        && (own.is::<ClosedInHandshake>() || own.is::<EndlessHead>())
    {
        return own.to_string();
    }
    if hung_up(error) {
        // A server that waits for TLS, and gets a request instead.
        let hint = if is_https || !is_new {
            String::new()
        } else {
            format!("; {CHECK}")
        };
        return format!("the connection was closed before there was an answer{hint}");
    }
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return "connection refused: nothing listens there".to_owned();
    }
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::ENETDOWN) => {
            "there is no way to it: the network or the host is not there".to_owned()
        }
        Some(Errno::EADDRNOTAVAIL) => "no local port is free for a connection".to_owned(),
        Some(Errno::EMFILE | Errno::ENFILE) => "no descriptor is free for a connection; raise ulimit -n".to_owned(),
        Some(errno) => format!("the connection failed: {}", errno.desc()),
        None => format!("the connection failed: {error}"),
    }
}

/// Whether a server says that it wants TLS and got a plain request: as nginx, Go and Apache do.
pub(in crate::daemon) fn wants_tls(status: u16, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body.get(..MOST_LOOKED_AT).unwrap_or(body));
    let says = ["to HTTPS port", "to an HTTPS server", "SSL-enabled server port"];
    status == 400 && says.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_a_connection_has_words_of_its_own_and_no_number() {
        let os = |errno: Errno| ureq::Error::Io(io::Error::from_raw_os_error(errno as i32));
        let eof = || ureq::Error::Io(io::Error::new(io::ErrorKind::UnexpectedEof, "Peer disconnected"));
        let cases = [
            (os(Errno::ECONNREFUSED), "nothing listens there"),
            (os(Errno::EHOSTUNREACH), "no way to it"),
            (os(Errno::EADDRNOTAVAIL), "no local port"),
            (os(Errno::EACCES), "the connection failed: Permission denied"),
            (
                os(Errno::ECONNRESET),
                "closed before there was an answer; check the scheme",
            ),
            (eof(), "closed before there was an answer; check the scheme"),
            (ureq::Error::HostNotFound, "no host of this name"),
            (ureq::Error::LargeResponseHeader(2, 1), "too long"),
        ];
        for (error, words) in cases {
            let text = reason(&error, false, true);
            assert!(
                text.contains(words) && !text.contains("os error") && !text.contains("io:"),
                "{text}"
            );
        }
        for (is_https, is_new) in [(true, true), (false, false)] {
            assert!(!reason(&eof(), is_https, is_new).contains("scheme"));
        }
    }

    #[test]
    fn a_server_that_asks_for_tls_is_understood() {
        for body in [
            "<title>400 The plain HTTP request was sent to HTTPS port</title>",
            "Client sent an HTTP request to an HTTPS server.\n",
            "Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />",
        ] {
            assert!(wants_tls(400, body.as_bytes()), "{body}");
            assert!(!wants_tls(500, body.as_bytes()), "{body}");
        }
        assert!(!wants_tls(400, b"{\"error\":{\"code\":\"invalid_request\"}}"));
    }
}
