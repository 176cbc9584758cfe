//! A server that reads requests and then does with the connection whatever a test wants.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest that the server waits for anybody.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most bytes of a request that are read.
const MOST_REQUEST_BYTES: u64 = 64 << 20;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// Its first line.
    pub line: String,
}

impl Asked {
    pub fn is_beat(&self) -> bool {
        self.line.contains("/heartbeat")
    }
}

/// How much of a request is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    All,
    Head,
    HeadUnlessBeat,
}

/// A running server; dropping it closes its connections.
pub struct RawServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Asked>>,
    open: Mutex<Vec<TcpStream>>,
    ended: AtomicUsize,
    is_over: AtomicBool,
}

impl RawServer {
    /// Calls `answer` after each request; the connection ends with the first error.
    pub fn start(answer: impl Fn(&mut TcpStream, &Asked) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start_reading(Part::All, answer)
    }

    /// The same, but perhaps not all of each request is read.
    pub fn start_reading(
        part: Part,
        answer: impl Fn(&mut TcpStream, &Asked) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        // Not where other tests close a port and need it back.
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::default(),
        };
        let (shared, answer) = (Arc::clone(&server.shared), Arc::new(answer));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let copy = stream.try_clone();
                shared.open.lock().unwrap_or_else(PoisonError::into_inner).extend(copy);
                let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                // A connection that breaks is the other side's business.
                thread::spawn(move || shared.serve(stream, number + 1, part, &*answer).ok());
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections that are closed.
    pub fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::SeqCst)
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for stream in self
            .shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(
        &self,
        stream: TcpStream,
        connection: usize,
        part: Part,
        answer: &dyn Fn(&mut TcpStream, &Asked) -> io::Result<()>,
    ) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?.take(MOST_REQUEST_BYTES));
        let mut stream = stream;
        let result = (|| {
            while let Some((line, length)) = read_head(&mut reader)? {
                let asked = Asked { connection, line };
                if part == Part::All || (part == Part::HeadUnlessBeat && asked.is_beat()) {
                    skip(&mut reader, length)?;
                }
                self.asked
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(asked.clone());
                answer(&mut stream, &asked)?;
            }
            Ok(())
        })();
        let _ = stream.shutdown(Shutdown::Both);
        self.ended.fetch_add(1, Ordering::SeqCst);
        result
    }
}

/// Reads that much and drops it.
pub fn skip(reader: &mut impl Read, length: u64) -> io::Result<()> {
    io::copy(&mut reader.take(length), &mut io::sink()).map(drop)
}

/// The first line of the next request and the length of its body; `None`: there is none any more.
pub fn read_head(reader: &mut impl BufRead) -> io::Result<Option<(String, u64)>> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim();
        if line.is_empty() {
            return Ok(first.map(|first| (first, length)));
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        first.get_or_insert_with(|| line.to_owned());
    }
}
