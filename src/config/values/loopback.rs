//! An address that only this machine, or this pod, can reach.

use std::fmt;
use std::net::SocketAddr;

use super::network::Listen;
use super::{Form, Notation, Problem, Value, only};

/// The address of the gateway; port 0 lets the system choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback(pub SocketAddr);

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Loopback {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "ADDRESS",
        "127.0.0.1:4780",
        "127.0.0.1:PORT, [::1]:PORT or localhost:PORT; port 0 for any free one",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        match Listen::parse(only(texts)) {
            Some(Listen::At(address)) if address.ip().is_loopback() => Ok(Self(address)),
            Some(Listen::At(_)) => Err("can be reached from elsewhere, and our token lies behind it".into()),
            Some(Listen::Off) | None => Err("is not an address of the loopback to listen on".into()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_will_do() {
        for (text, shown) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.2:80", "127.0.0.2:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(
                Loopback::read(&[text], &()).map(|address| address.show()),
                Ok(shown.to_owned())
            );
        }
        for text in ["0.0.0.0:80", ":80", "[::]:80", "10.0.0.1:80"] {
            assert!(
                Loopback::read(&[text], &()).is_err_and(|problem| problem.contains("token")),
                "{text}"
            );
        }
        for text in ["off", "", "127.0.0.1", "host:80"] {
            assert!(
                Loopback::read(&[text], &()).is_err_and(|problem| problem.contains("loopback")),
                "{text}"
            );
        }
    }
}
