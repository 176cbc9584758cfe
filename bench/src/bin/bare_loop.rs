//! The loop that ojs-init is compared with: the least that a worker's HTTP can cost. As many
//! threads as jobs at once, one kept connection each, FETCH with count 1 and ACK; no registration,
//! no heartbeats, no retries, nothing for errors but to end. Over http it is the standard library
//! alone; over https each connection is rustls'.
//!
//! `--address HOST:PORT --threads N [--ca FILE] [--stamps FILE] [--poll-ms N]`; without `--poll-ms`
//! a thread that finds no job ends.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ojs_bench::{Stamps, Trouble, job_id, option, required};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A thread does little more than read and write.
const STACK_BYTES: usize = 128 << 10;

/// Bytes read at once; an answer with a small job fits.
const READ_BYTES: usize = 64 << 10;

/// Longest head of an answer.
const MAX_HEAD_BYTES: usize = 8 << 10;

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// The parts that all threads have in common.
struct Plan {
    address: String,
    tls: Option<Arc<ClientConfig>>,
    poll: Option<Duration>,
    stamps: Stamps,
}

fn main() -> Result<(), Trouble> {
    let threads: usize = required("--threads")?;
    let ca: Option<String> = option("--ca")?;
    let plan = Arc::new(Plan {
        address: required("--address")?,
        tls: ca.map(|file| trusting(&file)).transpose()?.map(Arc::new),
        poll: option("--poll-ms")?.map(Duration::from_millis),
        stamps: Stamps::asked_for()?,
    });
    let mut running = Vec::new();
    for _ in 0..threads {
        let plan = Arc::clone(&plan);
        let work = move || work(&plan);
        running.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?);
    }
    for thread in running {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn trusting(file: &str) -> Result<ClientConfig, Trouble> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&fs::read(file)?)?)?;
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// One connection: fetches a job and says that it is done, again and again.
fn work(plan: &Plan) -> Result<(), Trouble> {
    let tcp = TcpStream::connect(&plan.address)?;
    tcp.set_nodelay(true)?;
    let mut stream: Box<dyn Stream> = match &plan.tls {
        None => Box::new(tcp),
        Some(config) => {
            let host = plan.address.rsplit_once(':').map_or("", |(host, _)| host);
            let name = ServerName::try_from(host.to_owned())?;
            Box::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name)?, tcp))
        }
    };
    let fetch = request(
        plan,
        "fetch",
        r#"{"queues":["default"],"count":1,"worker_id":"bare-loop"}"#,
    );
    let mut buffer = Vec::new();
    loop {
        stream.write_all(&fetch)?;
        let body = answer(&mut *stream, &mut buffer)?;
        let read = plan.stamps.now();
        let Some(job) = job_id(body) else {
            match plan.poll {
                Some(poll) => thread::sleep(poll),
                None => return Ok(()),
            }
            continue;
        };
        let job = job.to_owned();
        let ack = format!(r#"{{"job_id":"{job}","worker_id":"bare-loop"}}"#);
        let ack = request(plan, "ack", &ack);
        let answered = plan.stamps.now();
        stream.write_all(&ack)?;
        answer(&mut *stream, &mut buffer)?;
        plan.stamps.note(&job, read, answered)?;
    }
}

fn request(plan: &Plan, operation: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /ojs/v1/workers/{operation} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        plan.address,
        body.len()
    )
    .into_bytes()
}

/// Reads one answer, which must be a 200 with a length, and gives its body.
fn answer<'a>(stream: &mut dyn Stream, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Trouble> {
    let mut filled = 0;
    let head = loop {
        buffer.resize(filled + READ_BYTES, 0);
        let read = stream.read(buffer.get_mut(filled..).unwrap_or_default())?;
        filled += read;
        let have = buffer.get(..filled).unwrap_or_default();
        if let Some(end) = have.windows(4).take(MAX_HEAD_BYTES).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        if read == 0 || filled > MAX_HEAD_BYTES {
            return Err("the connection was closed, or the head of an answer does not end".into());
        }
    };
    let text = std::str::from_utf8(buffer.get(..head).unwrap_or_default())?;
    if !text.starts_with("HTTP/1.1 200") {
        return Err(format!("the answer is {text}").into());
    }
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    let length = length.ok_or("an answer without a length")??;
    buffer.resize(head + length, 0);
    if let Some(rest) = buffer.get_mut(filled..) {
        stream.read_exact(rest)?;
    }
    Ok(buffer.get(head..).unwrap_or_default())
}
