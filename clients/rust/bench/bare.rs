//! A worker with the standard library alone, to compare with: it fetches and acknowledges jobs over
//! HTTP. `OJS_URL` is the backend, `CONCURRENCY` the number of threads, `JOBS` the number of jobs after
//! which it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

static DONE: AtomicUsize = AtomicUsize::new(0);

fn main() {
    let url = env::var("OJS_URL").expect("OJS_URL is set");
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let (concurrency, jobs) = (number("CONCURRENCY", 10), number("JOBS", 1000));
    thread::scope(|scope| {
        for _ in 0..concurrency {
            scope.spawn(|| {
                let mut backend = Backend::connect(&host).expect("the backend is there");
                while DONE.load(Ordering::Relaxed) < jobs {
                    backend.work().expect("the backend answers");
                }
            });
        }
    });
}

fn number(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|value| value.parse().ok()).filter(|value| *value > 0).unwrap_or(otherwise)
}

struct Backend {
    host: String,
    socket: BufReader<TcpStream>,
}

impl Backend {
    fn connect(host: &str) -> io::Result<Backend> {
        let socket = TcpStream::connect(host)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Backend { host: host.to_owned(), socket: BufReader::new(socket) })
    }

    fn work(&mut self) -> io::Result<()> {
        let fetched = self.post("fetch", &json!({"queues": ["default"], "count": 1, "worker_id": "bare"}))?;
        let jobs = fetched["jobs"].as_array().cloned().unwrap_or_default();
        if jobs.is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        for job in jobs {
            self.post("ack", &json!({"job_id": job["id"], "result": null}))?;
            DONE.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn post(&mut self, what: &str, body: &Value) -> io::Result<Value> {
        let body = body.to_string();
        let request = format!(
            "POST /ojs/v1/workers/{what} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.socket.get_mut().write_all(request.as_bytes())?;
        let mut length = 0;
        let mut line = String::new();
        while {
            line.clear();
            self.socket.read_line(&mut line)? > 2
        } {
            if let Some((name, value)) = line.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
                }
            }
        }
        let mut answer = vec![0; length];
        self.socket.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}
