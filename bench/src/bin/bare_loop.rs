//! The loop that ojs-init is compared with: the least that a worker's HTTP can cost. As many
//! threads as jobs at once, one kept connection each, FETCH with count 1 and ACK; no registration,
//! no heartbeats, no retries, nothing for errors but to end. Over http it is the standard library
//! alone; over https each connection is rustls'.
//!
//! `--address HOST:PORT --threads N [--ca FILE] [--stamps FILE] [--poll-ms N] [--batches yes]`;
//! without `--poll-ms` a thread that finds no job ends. With `--batches yes` one more connection
//! fetches for all threads: as many jobs as threads are free. The threads only acknowledge.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ojs_bench::{Stamps, Trouble, job_id, job_ids, option, required};
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
    let (give, jobs) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let in_batches = option::<String>("--batches")?.is_some();
    let mut running = Vec::new();
    for _ in 0..threads {
        let (plan, jobs, leave) = (Arc::clone(&plan), Arc::clone(&jobs), leave.clone());
        let work = move || match in_batches {
            true => acknowledge(&plan, &jobs, &leave),
            false => work(&plan),
        };
        running.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?);
    }
    if in_batches {
        fetch_batches(&plan, threads, &give, &left)?;
    }
    // The threads end when they have acknowledged all jobs.
    drop(give);
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

fn connect(plan: &Plan) -> Result<Box<dyn Stream>, Trouble> {
    let tcp = TcpStream::connect(&plan.address)?;
    tcp.set_nodelay(true)?;
    Ok(match &plan.tls {
        None => Box::new(tcp),
        Some(config) => {
            let host = plan.address.rsplit_once(':').map_or("", |(host, _)| host);
            let name = ServerName::try_from(host.to_owned())?;
            Box::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name)?, tcp))
        }
    })
}

/// One connection: fetches a job and says that it is done, again and again.
fn work(plan: &Plan) -> Result<(), Trouble> {
    let mut stream = connect(plan)?;
    let fetch = fetch(plan, 1);
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
        is_done(plan, &mut *stream, &mut buffer, &job, read)?;
    }
}

/// Fetches as many jobs as threads are free, again and again, until there are none.
fn fetch_batches(plan: &Plan, threads: usize, give: &Sender<String>, left: &Receiver<()>) -> Result<(), Trouble> {
    let mut stream = connect(plan)?;
    let mut buffer = Vec::new();
    let mut free = threads;
    loop {
        if free == 0 {
            left.recv()?;
            free = 1;
        }
        free += left.try_iter().count();
        stream.write_all(&fetch(plan, free))?;
        let body = answer(&mut *stream, &mut buffer)?;
        let before = free;
        for job in job_ids(body) {
            give.send(job.to_owned())?;
            free -= 1;
        }
        if free == before {
            return Ok(());
        }
    }
}

/// One connection: takes a job that was fetched and says that it is done, again and again.
fn acknowledge(plan: &Plan, jobs: &Mutex<Receiver<String>>, leave: &Sender<()>) -> Result<(), Trouble> {
    let mut stream = connect(plan)?;
    let mut buffer = Vec::new();
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        // The jobs are all done.
        let Ok(job) = next else { return Ok(()) };
        is_done(plan, &mut *stream, &mut buffer, &job, plan.stamps.now())?;
        // Nobody fetches any more at the end.
        let _ = leave.send(());
    }
}

/// Says that the job is done, which was read at that time.
fn is_done(plan: &Plan, stream: &mut dyn Stream, buffer: &mut Vec<u8>, job: &str, read: u128) -> Result<(), Trouble> {
    let ack = request(plan, "ack", &format!(r#"{{"job_id":"{job}","worker_id":"bare-loop"}}"#));
    let answered = plan.stamps.now();
    stream.write_all(&ack)?;
    answer(stream, buffer)?;
    plan.stamps.note(job, read, answered)?;
    Ok(())
}

fn fetch(plan: &Plan, count: usize) -> Vec<u8> {
    let body = format!(r#"{{"queues":["default"],"count":{count},"worker_id":"bare-loop"}}"#);
    request(plan, "fetch", &body)
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
