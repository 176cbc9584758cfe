//! The faults between a request and its answer, in words for a person.

use std::io;

use nix::errno::Errno;

use crate::config::{Backend, BackendUrl};
use crate::daemon::backend::tls_words;

/// The advice if the two sides use different protocols.
const CHECK: &str = "check the scheme (http or https) and the port of backend.url";

/// Most bytes of an answer that are searched for the demand of TLS.
const MOST_LOOKED_AT: usize = 4 << 10;

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::daemon) enum Fault {
    /// The host does not exist, by the answer of the name server.
    NoHost,
    /// The name exists and has no address.
    NoAddress,
    /// The name server failed or did not answer, so nothing is known of the host.
    NameServerFailed,
    /// There was no thread to look up the addresses of a name.
    NoResolver,
    /// The name server did not answer in time.
    NameTooSlow,
    /// There was no connection within its time.
    NoConnectionInTime,
    /// The proxy answered the request for a connection with this status.
    ProxyRefused(u16),
    /// The proxy closed the connection before it answered.
    ProxyClosed,
    /// The proxy did not answer the request for a connection in time.
    ProxySilent,
    /// The proxy connected, and then no bytes arrived in time.
    NothingThroughProxy,
    /// The address of the proxy is no proxy.
    NoProxy,
    /// No socket is left within the limit.
    NoSocket,
    /// The time of the request ended before it could be sent.
    TooLate,
    /// The machine wants no answer any more.
    Abandoned,
    /// The answer did not arrive in time.
    NoAnswerInTime,
    /// The peer closed the connection.
    Closed,
    /// The peer closed the connection before there was TLS on it.
    ClosedInHandshake,
    /// A fault of TLS.
    Tls(rustls::Error),
    /// An error of the system.
    Io(io::Error),
    /// The bytes are no answer of HTTP.
    NotHttp,
    /// One head is longer than ojs-init reads.
    LongHead,
    /// The answer does not begin: interim answers (100 to 199) or headers without an end.
    EndlessHead,
    /// A bug of ojs-init.
    Internal,
}

impl Fault {
    /// True if the peer closed the connection.
    pub(in crate::daemon) fn is_hang_up(&self) -> bool {
        matches!(self, Self::Closed) || matches!(self, Self::Io(error) if hung_up(error))
    }

    /// Whether nothing listens at the address.
    pub(in crate::daemon) fn is_no_listener(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// The fault of a connection that has no TLS yet.
    pub(in crate::daemon) fn in_handshake(self) -> Self {
        if self.is_hang_up() {
            Self::ClosedInHandshake
        } else {
            self
        }
    }

    /// The fault of a proxy that has not connected yet.
    pub(in crate::daemon) fn at_proxy(self) -> Self {
        if self.is_hang_up() { Self::ProxyClosed } else { self }
    }

    /// True if one side has refused the other before the backend accepted the request.
    pub(in crate::daemon) fn is_refusal(&self, backend: &Backend) -> bool {
        matches!(self, Self::Tls(error) if tls_words::refusal(error, backend).is_certain)
    }

    /// Why there is no answer, for a person. `is_new`: the connection had served no other request.
    /// Names the proxy, if there is one.
    pub(in crate::daemon) fn reason(&self, backend: &Backend, is_new: bool) -> String {
        let text = self.words(backend, is_new);
        let Some(proxy) = &backend.proxy else { return text };
        let place = proxy.place();
        match self {
            // Only the proxy is looked up and connected to.
            Self::NoHost
            | Self::NoAddress
            | Self::NameServerFailed
            | Self::NameTooSlow
            | Self::NoConnectionInTime
            | Self::ProxyRefused(_)
            | Self::ProxyClosed
            | Self::ProxySilent
            | Self::NothingThroughProxy
            | Self::NoProxy => format!("the proxy {place}: {text}"),
            Self::Io(error) if !hung_up(error) => format!("the proxy {place}: {text}"),
            Self::NoResolver | Self::NoSocket | Self::TooLate | Self::Abandoned | Self::Internal => text,
            Self::NoAnswerInTime
            | Self::Closed
            | Self::ClosedInHandshake
            | Self::Tls(_)
            | Self::Io(_)
            | Self::NotHttp
            | Self::LongHead
            | Self::EndlessHead => format!("{text} (through the proxy {place})"),
        }
    }

    fn words(&self, backend: &Backend, is_new: bool) -> String {
        let is_https = backend.is_https();
        let text = match self {
            Self::NoHost => "there is no host of this name",
            Self::NoAddress => "its name has no address: the name server has neither an A nor an AAAA record for it",
            Self::NameServerFailed => {
                "the name server failed or did not answer; whether there is a host of this name is not known"
            }
            Self::NoResolver => {
                "no thread can be had that looks up its name; raise the limit of processes or of memory"
            }
            Self::NameTooSlow => "its name could not be resolved in time",
            Self::NoConnectionInTime => "no connection within backend.connect_timeout",
            Self::ProxyRefused(status) => return refused_by_proxy(*status, backend),
            Self::ProxyClosed => "it closed the connection before it answered; check whether it is an HTTP proxy",
            Self::ProxySilent => "it did not answer the request for a connection (CONNECT) in time",
            Self::NothingThroughProxy => "it connected to the backend, and nothing came through it in time",
            Self::NoProxy => "what answers there is no HTTP proxy; check its address in backend.proxy",
            Self::NoSocket => "there are too many connections to it already",
            Self::TooLate => "its time was over before it could be sent",
            Self::Abandoned => "its answer is no longer waited for",
            Self::NoAnswerInTime => "no answer in time",
            Self::Closed => return closed(is_https, is_new),
            Self::ClosedInHandshake => {
                "the connection was closed in the TLS handshake; check the port of backend.url, and whether what listens \
                 there speaks TLS"
            }
            Self::Tls(error) => return tls_words::refusal(error, backend).text,
            Self::Io(error) => return of_io(error, is_https, is_new),
            Self::NotHttp if is_https => "its answer is no HTTP; look at what listens at the port of backend.url",
            Self::NotHttp => return format!("what answers there does not speak HTTP; {CHECK}"),
            Self::LongHead => "the head of its answer is too long",
            Self::EndlessHead => {
                "its answer does not begin: interim answers (status 100 to 199) and headers without an end"
            }
            Self::Internal => "an internal error of ojs-init",
        };
        text.to_owned()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The meaning of a proxy's status, and the advice.
pub(in crate::daemon) fn refused_by_proxy(status: u16, backend: &Backend) -> String {
    let url = backend.url.as_ref().map_or("", BackendUrl::as_str);
    match status {
        407 if backend
            .proxy
            .as_ref()
            .is_some_and(|proxy| proxy.reveal_credentials().is_some()) =>
        {
            "it does not accept the user and the password in backend.proxy (status 407)".to_owned()
        }
        407 => {
            "it wants a user and a password (status 407): http://USER:PASSWORD@HOST:PORT in backend.proxy".to_owned()
        }
        403 | 405 => format!(
            "it does not let us through to {url} (status {status}): its rules have to allow this host and port, or NO_PROXY has to \
             exempt the host"
        ),
        502..=504 => format!("it cannot reach {url} (status {status})"),
        _ => format!("it refuses the connection to {url} (status {status})"),
    }
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

fn closed(is_https: bool, is_new: bool) -> String {
    // A server that waits for TLS, and gets a request instead.
    let hint = if is_https || !is_new {
        String::new()
    } else {
        format!("; {CHECK}")
    };
    format!("the connection was closed before there was an answer{hint}")
}

fn of_io(error: &io::Error, is_https: bool, is_new: bool) -> String {
    if hung_up(error) {
        return closed(is_https, is_new);
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

/// True if a server demands TLS after a plain request, in the words of nginx, Go or Apache.
pub(in crate::daemon) fn wants_tls(status: u16, body: &[u8]) -> bool {
    if status != 400 {
        return false;
    }
    let text = String::from_utf8_lossy(body.get(..MOST_LOOKED_AT).unwrap_or(body));
    let says = ["to HTTPS port", "to an HTTPS server", "SSL-enabled server port"];
    says.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_a_connection_has_words_of_its_own_and_no_number() {
        let os = |errno: Errno| Fault::Io(io::Error::from_raw_os_error(errno as i32));
        let eof = || Fault::Io(io::Error::new(io::ErrorKind::UnexpectedEof, "Peer disconnected"));
        let cases = [
            (os(Errno::ECONNREFUSED), "nothing listens there"),
            (os(Errno::EHOSTUNREACH), "no way to it"),
            (os(Errno::EADDRNOTAVAIL), "no local port"),
            (os(Errno::EMFILE), "ulimit -n"),
            (os(Errno::EACCES), "the connection failed: Permission denied"),
            (
                os(Errno::ECONNRESET),
                "closed before there was an answer; check the scheme",
            ),
            (eof(), "closed before there was an answer; check the scheme"),
            (Fault::Closed, "closed before there was an answer; check the scheme"),
            (Fault::NoHost, "no host of this name"),
            (Fault::NoAddress, "has no address"),
            (Fault::NameServerFailed, "the name server failed or did not answer"),
            (Fault::LongHead, "too long"),
            (Fault::NotHttp, "does not speak HTTP; check the scheme"),
        ];
        let backend = |url: &[u8]| {
            let environment = crate::config::Environment::from_entries([url].into_iter());
            crate::config::load(&Default::default(), &environment).unwrap().backend
        };
        let (plain, encrypted) = (backend(b"OJS_URL=http://b"), backend(b"OJS_URL=https://b"));
        for (fault, words) in cases {
            let text = fault.reason(&plain, true);
            assert!(
                text.contains(words) && !text.contains("os error") && !text.contains("io:"),
                "{text}"
            );
        }
        for (backend, is_new) in [(&encrypted, true), (&plain, false)] {
            assert!(!eof().reason(backend, is_new).contains("scheme"));
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
