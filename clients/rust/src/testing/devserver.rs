//! Starts `ojs-devserver`, an Open Job Spec backend in memory, for tests that want a real one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, fs, process, thread};

use serde::Serialize;
use serde_json::{json, Value};

const PROGRAM: &str = "ojs-devserver";
const VARIABLE: &str = "OJS_DEVSERVER";
const START_PATIENCE: Duration = Duration::from_secs(10);
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
const MOST_ANSWER_BYTES: u64 = 16 << 20;

/// A running `ojs-devserver`; dropped, it is ended, and all its jobs are gone.
#[derive(Debug)]
pub struct DevServer {
    child: Child,
    folder: PathBuf,
    url: String,
}

/// Why there is no development server, or no answer from it.
#[derive(Debug)]
#[non_exhaustive]
pub enum DevServerError {
    /// There is none: neither on `PATH`, nor does `OJS_DEVSERVER` name it. A test may skip then.
    NotThere(String),
    /// It ended, or did not answer as expected.
    Failed(String),
}

impl fmt::Display for DevServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DevServerError::NotThere(what) => {
                write!(f, "no {PROGRAM}: {what}; put it on PATH, or let {VARIABLE} name it")
            }
            DevServerError::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DevServerError {}

fn failed(what: impl fmt::Display) -> DevServerError {
    DevServerError::Failed(what.to_string())
}

impl DevServer {
    /// Starts one on a free port of this machine.
    ///
    /// # Errors
    /// It is not there, or does not start.
    pub fn start() -> Result<DevServer, DevServerError> {
        DevServer::start_with(&[])
    }

    /// Starts one with more arguments of its command line.
    ///
    /// # Errors
    /// It is not there, or does not start.
    pub fn start_with(args: &[&str]) -> Result<DevServer, DevServerError> {
        let program = env::var_os(VARIABLE).filter(|name| !name.is_empty()).unwrap_or_else(|| PROGRAM.into());
        let name = format!("ojs-devserver-{}-{:?}", process::id(), Instant::now())
            .replace(|c: char| !c.is_alphanumeric(), "-");
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).map_err(failed)?;
        let port_file = folder.join("url");
        let mut command = Command::new(&program);
        command.args(["--listen", "127.0.0.1:0", "--port-file"]).arg(&port_file).args(args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
        let child = child.map_err(|error| {
            let _left = fs::remove_dir_all(&folder);
            DevServerError::NotThere(format!("{}: {error}", program.to_string_lossy()))
        })?;
        let mut server = DevServer { child, folder, url: String::new() };
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            if let Some(url) = fs::read_to_string(&port_file).ok().filter(|text| text.ends_with('\n')) {
                url.trim().clone_into(&mut server.url);
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().map_err(failed)? {
                return Err(failed(format!("{PROGRAM} has ended at once: {status}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(failed(format!("{PROGRAM} has not said its address within {START_PATIENCE:?}")))
    }

    /// What `OJS_URL` of ojs-init has to be.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds a job, with options as the specification has them (queue, retry, timeout_ms and so on)
    /// or `Value::Null`, and gives its id.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub fn enqueue(&self, kind: &str, args: impl Serialize, options: &Value) -> Result<String, DevServerError> {
        let mut job = json!({"type": kind, "args": serde_json::to_value(args).map_err(failed)?});
        if !options.is_null() {
            job["options"] = options.clone();
        }
        let answer = self.request("POST", "/ojs/v1/jobs", &job.to_string())?;
        Ok(answer["job"]["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Everything about a job as the server has it: state, result, attempt and so on.
    ///
    /// # Errors
    /// There is no such job, or no answer.
    pub fn job(&self, id: &str) -> Result<Value, DevServerError> {
        let mut answer = self.request("GET", &format!("/ojs/v1/jobs/{id}"), "")?;
        Ok(answer["job"].take())
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Value, DevServerError> {
        let host = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut socket = TcpStream::connect(host).map_err(failed)?;
        socket.set_read_timeout(Some(REQUEST_PATIENCE)).map_err(failed)?;
        socket.set_write_timeout(Some(REQUEST_PATIENCE)).map_err(failed)?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all((head + body).as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        socket.take(MOST_ANSWER_BYTES).read_to_string(&mut answer).map_err(failed)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| failed("the answer has no head"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(failed(format!("{method} {path}: {status}: {body}")));
        }
        serde_json::from_str(body).map_err(failed)
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _left = fs::remove_dir_all(&self.folder);
    }
}
