//! An HTTP proxy that does as it is told. Whatever host it is asked for, it connects to that port
//! of 127.0.0.1: it knows names that nobody else knows.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Reactions of the proxy to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Connects, or passes the request on.
    Usual,
    /// Answers with these bytes, and closes.
    Answers(&'static str),
    /// Connects to nothing, and says that it has.
    HangsBehind,
    /// Says nothing.
    Hangs,
    /// Closes the connection.
    Closes,
}

/// A running proxy; dropping it ends it.
pub struct ProxyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The heads of all requests.
    heads: Mutex<Vec<String>>,
    open: Mutex<Vec<TcpStream>>,
    is_over: Mutex<bool>,
}

impl ProxyServer {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<Shared> = Arc::default();
        let server = Self {
            address,
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for stream in listener.incoming() {
                if *locked(&shared.is_over) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&shared);
                // A connection that breaks is the other side's business.
                thread::spawn(move || shared.serve(stream, manner).ok());
            }
        });
        server
    }

    /// Host and port.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        locked(&self.shared.heads).clone()
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        *locked(&self.shared.is_over) = true;
        for stream in locked(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn serve(&self, mut client: TcpStream, manner: Manner) -> io::Result<()> {
        locked(&self.open).push(client.try_clone()?);
        let mut reader = BufReader::new(client.try_clone()?);
        let mut backend: Option<BufReader<TcpStream>> = None;
        while let Some(head) = read_head(&mut reader)? {
            locked(&self.heads).push(head.clone());
            match manner {
                Manner::Usual => {}
                Manner::Answers(text) => {
                    client.write_all(text.as_bytes())?;
                    return client.shutdown(Shutdown::Both);
                }
                Manner::HangsBehind => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?,
                Manner::Hangs => {}
                Manner::Closes => return client.shutdown(Shutdown::Both),
            }
            if manner != Manner::Usual {
                io::copy(&mut reader, &mut io::sink())?;
                return Ok(());
            }
            let target = head.split(' ').nth(1).unwrap();
            if head.starts_with("CONNECT ") {
                let host = self.connect(target)?;
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
                return splice(client, host);
            }
            let (authority, path) = target.strip_prefix("http://").unwrap().split_once('/').unwrap();
            let backend = match &mut backend {
                Some(backend) => backend,
                None => backend.insert(BufReader::new(self.connect(authority)?)),
            };
            let head = head.replacen(target, &format!("/{path}"), 1);
            let lines = head.split_inclusive("\r\n");
            let passed_on: String = lines.filter(|line| !line.starts_with("Proxy-")).collect();
            pass(&passed_on, &mut reader, backend.get_mut())?;
            let answer = read_head(backend)?.unwrap_or_default();
            pass(&answer, backend, &mut client)?;
        }
        Ok(())
    }

    /// To the port of `HOST:PORT`, on this machine.
    fn connect(&self, authority: &str) -> io::Result<TcpStream> {
        let port = authority.rsplit_once(':').map_or("80", |(_, port)| port);
        let stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap()))?;
        locked(&self.open).push(stream.try_clone()?);
        Ok(stream)
    }
}

/// A head with the empty line behind it.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// Writes a head, and its body as it comes.
fn pass(head: &str, from: &mut impl Read, to: &mut TcpStream) -> io::Result<()> {
    to.write_all(head.as_bytes())?;
    let lengths = head.lines().filter_map(|line| line.split_once(": "));
    let length = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: u64 = length.map(|(_, value)| value.parse::<u64>().unwrap()).sum();
    io::copy(&mut from.take(length), to).map(drop)
}

fn splice(client: TcpStream, host: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_host) = (client.try_clone()?, host.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Write);
    });
    let (mut from_host, mut to_client) = (host, client);
    io::copy(&mut from_host, &mut to_client)?;
    to_client.shutdown(Shutdown::Both)
}
