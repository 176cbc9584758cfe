//! A server in front of the backend that serves some paths by itself: streams without end and
//! bodies that are never in memory. It closes connections that have been idle for as long as it
//! likes. Everything else is the backend's.

use std::io::{self, BufRead, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::stage::PATIENCE;
use crate::stage::Stage;

/// Paths that begin like this are for the front.
const OWN_PATHS: &[u8] = b"/front/";

/// Longest first line of a request, in bytes.
const LONGEST_FIRST_LINE: usize = 256;

/// The head of a request.
pub struct Head {
    pub line: String,
    lines: Vec<String>,
}

impl Head {
    /// The next one; `None`: the other side is done.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if line == "\r\n" {
                let line = lines.remove(0);
                return Ok(Some(Self { line, lines }));
            }
            lines.push(line.trim_end().to_owned());
        }
    }

    /// How long the body is.
    pub fn length(&self) -> u64 {
        let value = |line: &String| {
            Some(
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .unwrap(),
            )
        };
        self.lines.iter().find_map(value).unwrap_or(0)
    }
}

pub struct Front {
    address: SocketAddr,
}

impl Front {
    /// Has `serve` serve the connections whose first request is for a path below `/front/`, each
    /// with its number.
    pub fn start(
        stage: &Stage,
        serve: impl Fn(BufReader<TcpStream>, usize) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, backend, serve) = (listener.local_addr().unwrap(), stage.backend.address(), Arc::new(serve));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let serve = Arc::clone(&serve);
                // A connection that breaks is the other side's business.
                thread::spawn(move || {
                    if is_own(&stream)? {
                        serve(BufReader::with_capacity(1 << 20, stream), number)
                    } else {
                        pass(stream, backend)
                    }
                });
            }
        });
        Self { address }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Whether the first request is for us; none of it is taken.
fn is_own(stream: &TcpStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; LONGEST_FIRST_LINE];
    loop {
        let count = stream.peek(&mut bytes)?;
        let begun = &bytes[..count];
        if count == 0 || count == bytes.len() || begun.contains(&b'\r') {
            stream.set_read_timeout(None)?;
            let path = begun.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            return Ok(path.starts_with(OWN_PATHS));
        }
    }
}

fn pass(from: TcpStream, to: SocketAddr) -> io::Result<()> {
    let to = TcpStream::connect(to)?;
    let (mut up, mut down) = ((from.try_clone()?, to.try_clone()?), (to, from));
    let upward = thread::spawn(move || {
        io::copy(&mut up.0, &mut up.1)?;
        up.1.shutdown(Shutdown::Write)
    });
    io::copy(&mut down.0, &mut down.1)?;
    down.1.shutdown(Shutdown::Write)?;
    upward.join().unwrap()
}
