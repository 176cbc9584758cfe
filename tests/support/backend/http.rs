//! As much HTTP/1.1 as a worker needs: keep-alive, Content-Length, nothing else.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Most headers of a request.
const MOST_HEADERS: usize = 32;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: String,
    pub headers: Vec<(&'static str, String)>,
}

impl Response {
    pub fn ok(body: String) -> Self {
        Self {
            status: 200,
            body,
            headers: Vec::new(),
        }
    }

    /// The error body of the binding; `details` is JSON.
    pub fn error(status: u16, code: &str, details: &str) -> Self {
        let body =
            format!(r#"{{"error":{{"code":"{code}","message":"{code}","retryable":false,"details":{details}}}}}"#);
        Self {
            status,
            body,
            headers: Vec::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut text = format!(
            "HTTP/1.1 {} Status\r\nContent-Type: application/openjobspec+json\r\nContent-Length: {}\r\n",
            self.status,
            self.body.len()
        );
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

/// One connection.
pub struct Channel {
    stream: TcpStream,
    /// Read and not yet used.
    buffer: Vec<u8>,
}

impl Channel {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// The next request; `None`: the other side is done.
    pub fn read(&mut self) -> io::Result<Option<Request>> {
        loop {
            if let Some(request) = self.take()? {
                return Ok(Some(request));
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk)? {
                0 => return Ok(None),
                count => self.buffer.extend(chunk.iter().take(count)),
            }
        }
    }

    /// A request that is already here as a whole.
    fn take(&mut self) -> io::Result<Option<Request>> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(head) = parsed.parse(&self.buffer).map_err(io::Error::other)? else {
            return Ok(None);
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut request = Request {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: parsed.path.unwrap_or_default().to_owned(),
            headers: parsed
                .headers
                .iter()
                .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
                .collect(),
            body: Vec::new(),
        };
        let length = request.header("content-length").map_or(Ok(0), str::parse);
        let end = head + length.map_err(io::Error::other)?;
        if self.buffer.len() < end {
            return Ok(None);
        }
        request.body = self.buffer[head..end].to_vec();
        self.buffer.drain(..end);
        Ok(Some(request))
    }

    pub fn write(&mut self, response: &Response) -> io::Result<()> {
        self.stream.write_all(&response.bytes())
    }

    /// Everything but the second half of the body; then the connection is closed.
    pub fn write_half(&mut self, response: &Response) -> io::Result<()> {
        let bytes = response.bytes();
        let kept = bytes.len() - response.body.len().div_ceil(2);
        self.stream.write_all(&bytes[..kept])?;
        self.close()
    }

    pub fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Both)
    }
}
