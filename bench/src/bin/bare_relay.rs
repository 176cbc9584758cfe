//! The relay that the gateway is compared with: about the least that a process between a client and
//! its backend can cost. Each of the threads has one kept connection to the backend, takes one
//! client after the other, reads, writes, reads, writes, and knows of HTTP only where an answer
//! ends and whether another request follows. No look at who the client is, no token, nothing for
//! errors but to drop the connections.
//!
//! `--to HOST:PORT --port-file FILE --threads N`: the backend, where the port is written, and the
//! most clients at a time.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use ojs_bench::{Trouble, required};

/// A thread does little more than read and write.
const STACK_BYTES: usize = 128 << 10;

/// Bytes read at once: all of a request of the bench, and of its answer at least the head.
const PIECE_BYTES: usize = 16 << 10;

/// The line of a client that has one request only. It is about that client's connection, and the
/// one to the backend stays.
const LAST: &[u8] = b"Connection: close\r\n";

fn main() -> Result<(), Trouble> {
    let to: String = required("--to")?;
    let threads: usize = required("--threads")?;
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0")?);
    let mut running = Vec::new();
    for _ in 0..threads {
        let (listener, to) = (Arc::clone(&listener), to.clone());
        let work = move || work(&listener, &to);
        running.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?);
    }
    let port_file: String = required("--port-file")?;
    // Under its name it is whole.
    let part = format!("{port_file}.part");
    fs::write(&part, listener.local_addr()?.port().to_string())?;
    fs::rename(part, port_file)?;
    for thread in running {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

/// Clients one after the other, all on one connection to the backend.
fn work(listener: &TcpListener, to: &str) -> Result<(), Trouble> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let mut backend = TcpStream::connect(to)?;
        backend.set_nodelay(true)?;
        // A client that is gone in the middle of an answer leaves the rest of it on that
        // connection: then the next one has another.
        while pass_on(listener.accept()?.0, &mut backend, &mut piece).is_ok() {}
    }
}

/// One client, until it has had its last answer.
fn pass_on(mut client: TcpStream, backend: &mut TcpStream, piece: &mut [u8]) -> Result<(), Trouble> {
    client.set_nodelay(true)?;
    loop {
        let read = client.read(piece)?;
        let request = piece.get(..read).unwrap_or_default();
        if request.is_empty() {
            return Ok(());
        }
        let last = find(request, LAST);
        match last {
            None => backend.write_all(request)?,
            Some(at) => backend.write_all(&without(request, at, LAST.len()))?,
        }
        let mut left = None;
        while left != Some(0) {
            let read = backend.read(piece)?;
            let answer = piece.get(..read).unwrap_or_default();
            if answer.is_empty() {
                return Err("the backend has closed its connection".into());
            }
            client.write_all(answer)?;
            let before = match left {
                Some(left) => left,
                None => whole(answer)?,
            };
            left = Some(before.checked_sub(read).ok_or("an answer is longer than it says")?);
        }
        if last.is_some() {
            return Ok(());
        }
    }
}

/// How long an answer is altogether; its head must be here.
fn whole(start: &[u8]) -> Result<usize, Trouble> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = find(start, b"\r\n\r\n").ok_or("an answer without a whole head")? + 4;
    let lower = start.get(..head).unwrap_or_default().to_ascii_lowercase();
    let at = find(&lower, NAME).ok_or("an answer without a length")? + NAME.len();
    let digits = lower.get(at..).unwrap_or_default();
    let digits = digits.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(head + std::str::from_utf8(digits)?.parse::<usize>()?)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn without(text: &[u8], at: usize, length: usize) -> Vec<u8> {
    let (before, after) = (text.get(..at), text.get(at + length..));
    [before.unwrap_or_default(), after.unwrap_or_default()].concat()
}
