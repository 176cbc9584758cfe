//! A client that probes: HTTP/1.1 by hand, one connection for each request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::stage::{Init, PATIENCE};
use crate::support::wait::{wait_for, wait_until};

/// The answer to a probe.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Self {
            status: head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The codes of the reasons.
    pub fn reasons(&self) -> Vec<String> {
        let json = self.json();
        let reasons = json["reasons"].as_array().into_iter().flatten();
        reasons
            .map(|reason| reason["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The health endpoints of an init.
#[derive(Debug, Clone, Copy)]
pub struct Probes(pub SocketAddr);

impl Probes {
    /// Where its log says that they are.
    pub fn of(init: &mut Init) -> Self {
        let address = wait_for(PATIENCE, || {
            let log = init.log();
            let (_, rest) = log.split_once("listening for probes on ")?;
            rest.split_once('\n')?.0.parse().ok()
        });
        Self(address.unwrap_or_else(|| panic!("nothing is listened on: {}", init.story())))
    }

    /// A connection on which nothing was said yet.
    pub fn connect(self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.0, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Says this and reads what comes, to the end of the stream.
    pub fn say(self, request: &[u8]) -> io::Result<String> {
        let mut stream = self.connect()?;
        stream.write_all(request)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The answer to this request, which must be one.
    pub fn ask(self, request: &str) -> Answer {
        let text = self.say(request.as_bytes()).unwrap();
        Answer::parse(&text).unwrap_or_else(|| panic!("{text:?}"))
    }

    /// As an orchestrator asks.
    pub fn get(self, path: &str) -> Answer {
        self.ask(&get(path))
    }

    /// The same, of an init that may be gone by now.
    pub fn try_get(self, path: &str) -> Option<Answer> {
        Answer::parse(&self.say(get(path).as_bytes()).ok()?)
    }

    /// The statuses of `/livez`, `/readyz` and `/healthz`.
    pub fn statuses(self) -> [u16; 3] {
        ["/livez", "/readyz", "/healthz"].map(|path| self.get(path).status)
    }

    /// Waits until these are the statuses of the three.
    pub fn become_(self, expected: [u16; 3]) {
        let reached = wait_until(PATIENCE, || self.statuses() == expected);
        assert!(reached, "{:?} instead of {expected:?}", self.statuses());
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n")
}
