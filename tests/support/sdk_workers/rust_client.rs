//! HTTP as the Rust SDK's client speaks it, by hand: connections are kept and used again, unless
//! the other side has closed them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::support::wait::pause;

/// Longest that an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Statuses after which a request is repeated, and the pauses before that.
const AGAIN: [u16; 4] = [429, 502, 503, 504];
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Longest head of an answer, in lines.
const HEAD_LINES: usize = 100;

/// The connections to one server.
#[derive(Debug)]
pub struct Client {
    address: String,
    prefix: String,
    token: Option<String>,
    kept: Mutex<Vec<TcpStream>>,
}

impl Client {
    /// For the server at that URL, whose path is kept.
    pub fn new(url: &str, token: Option<String>) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        Self {
            address: address.to_owned(),
            prefix,
            token,
            kept: Mutex::default(),
        }
    }

    /// Asks; the answer's body if it is a good one.
    pub fn post(&self, path: &str, body: &Value) -> io::Result<Value> {
        let mut pauses = PAUSES.iter();
        loop {
            let (status, answer) = self.send(path, body)?;
            match (status, pauses.next()) {
                (200..300, _) => return Ok(serde_json::from_str(&answer).unwrap_or_default()),
                (status, Some(&before)) if AGAIN.contains(&status) => pause(before),
                _ => return Err(io::Error::other(format!("status {status}"))),
            }
        }
    }

    fn send(&self, path: &str, body: &Value) -> io::Result<(u16, String)> {
        let mut stream = self.connection()?;
        let body = body.to_string();
        let token = self.token.as_ref();
        let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let request = format!(
            "POST {}/ojs/v1{path} HTTP/1.1\r\ncontent-type: application/openjobspec+json\r\naccept: application/openjobspec+json\r\n\
             ojs-version: 1.0\r\nx-request-id: {}\r\n{token}host: {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.prefix,
            std::process::id(),
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let (status, answer, is_kept) = read(&stream)?;
        if is_kept {
            self.kept.lock().unwrap().push(stream);
        }
        Ok((status, answer))
    }

    fn connection(&self) -> io::Result<TcpStream> {
        while let Some(stream) = self.kept.lock().unwrap().pop() {
            if is_open(&stream) {
                return Ok(stream);
            }
        }
        let addresses: Vec<_> = self.address.to_socket_addrs()?.collect();
        let stream = TcpStream::connect(addresses.as_slice())?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Nothing came on it since its last answer, not even its end.
fn is_open(stream: &TcpStream) -> bool {
    let look = || {
        stream.set_nonblocking(true)?;
        let seen = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        seen
    };
    matches!(look(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Status and body of one answer, and whether the connection is good for another request.
fn read(stream: &TcpStream) -> io::Result<(u16, String, bool)> {
    let mut reader = BufReader::new(stream);
    let (mut status, mut length, mut is_chunked, mut is_kept) = (0, None, false, true);
    for number in 0..HEAD_LINES {
        let line = line(&mut reader)?;
        if number == 0 {
            status = line.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        } else if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => length = value.parse::<u64>().ok(),
            ("transfer-encoding", value) => is_chunked = value.eq_ignore_ascii_case("chunked"),
            ("connection", value) => is_kept = !value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        while chunk(&mut reader, &mut body)? {}
    } else if let Some(length) = length {
        reader.take(length).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    } else {
        is_kept = false;
        reader.read_to_end(&mut body)?;
    }
    let body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok((status, body, is_kept))
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// Reads one chunk; whether there is another.
fn chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let size = line(reader)?;
    let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16).map_err(io::Error::other)?;
    reader.take(size).read_to_end(body)?;
    line(reader)?;
    Ok(size > 0)
}
