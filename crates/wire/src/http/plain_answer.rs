//! Heads of answers that leave no question about their body: HTTP/1.1, one length, and nothing that
//! says otherwise. So are nearly all, and reading them takes a tenth of what a reader for
//! everything takes. Any other head is for that one.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response};

/// Most header lines of an answer.
pub const MOST_HEADER_LINES: usize = 128;

/// Most digits of a length: with more it may not fit into 64 bits.
const MOST_DIGITS: usize = 18;

/// The content of such a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainAnswer {
    /// Bytes of the body, at least one.
    pub length: u64,
}

/// The result of a look at the beginning of an answer.
#[derive(Debug)]
pub enum PlainLook<T> {
    /// The head is such a one.
    Plain(T),
    /// Its end is not here yet.
    Unfinished,
    /// The answer is another one, or none.
    Other,
}

/// Looks at the head at the beginning of these bytes. `take` gets it, with the length of the head
/// itself and what it says.
pub fn look<T>(bytes: &[u8], take: impl FnOnce(&Response<'_, '_>, usize, PlainAnswer) -> T) -> PlainLook<T> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADER_LINES];
    let mut response = Response::new(&mut []);
    let parser = ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut response, bytes, &mut headers) {
        Ok(httparse::Status::Complete(end)) => match plain(&response) {
            Some(answer) => PlainLook::Plain(take(&response, end, answer)),
            None => PlainLook::Other,
        },
        Ok(httparse::Status::Partial) => PlainLook::Unfinished,
        Err(_) => PlainLook::Other,
    }
}

/// The content of a plain head. Statuses without a body and redirects are not plain.
fn plain(response: &Response<'_, '_>) -> Option<PlainAnswer> {
    let status = response.code?;
    let has_body = matches!(status, 200..=299 | 400..=599) && !matches!(status, 204 | 205);
    if response.version != Some(1) || !has_body {
        return None;
    }
    let (mut length, mut is_kept) = (None, false);
    for header in response.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let is_double = (is("content-length") && length.is_some()) || (is("connection") && is_kept);
        if is_double || is("transfer-encoding") {
            return None;
        }
        if is("content-length") {
            length = Some(decimal(header.value)?);
        } else if is("connection") {
            is_kept = header.value.eq_ignore_ascii_case(b"keep-alive");
            if !is_kept {
                return None;
            }
        }
    }
    length.filter(|length| *length > 0).map(|length| PlainAnswer { length })
}

/// Digits, and nothing else.
fn decimal(digits: &[u8]) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.len() <= MOST_DIGITS && digits.iter().all(u8::is_ascii_digit);
    let value = |sum: u64, digit: &u8| sum * 10 + u64::from(digit - b'0');
    is_plain.then(|| digits.iter().fold(0, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(head: &str) -> Option<u64> {
        match look(head.as_bytes(), |_, end, answer| (end, answer.length)) {
            PlainLook::Plain((end, length)) => {
                assert_eq!(end, head.len());
                Some(length)
            }
            PlainLook::Unfinished | PlainLook::Other => None,
        }
    }

    #[test]
    fn one_length_and_nothing_else_is_plain() {
        assert_eq!(
            length_of("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX: y\r\n\r\n"),
            Some(5)
        );
        let kept = "HTTP/1.1 404 Not Found\r\nConnection: Keep-Alive\r\nContent-Length: 070\r\n\r\n";
        assert_eq!(length_of(kept), Some(70));
    }

    #[test]
    fn whatever_leaves_a_question_is_not() {
        for (status, lines) in [
            ("HTTP/1.0 200 OK", "Content-Length: 5"),
            ("HTTP/1.1 100 Continue", "Content-Length: 5"),
            ("HTTP/1.1 101 Switching Protocols", "Content-Length: 5"),
            ("HTTP/1.1 204 No Content", "Content-Length: 5"),
            ("HTTP/1.1 205 Reset Content", "Content-Length: 5"),
            ("HTTP/1.1 304 Not Modified", "Content-Length: 5"),
            ("HTTP/1.1 307 Temporary Redirect", "Content-Length: 5"),
            ("HTTP/1.1 600 What", "Content-Length: 5"),
            ("HTTP/1.1 200 OK", "X: y"),
            ("HTTP/1.1 200 OK", "Content-Length: 0"),
            ("HTTP/1.1 200 OK", "Content-Length: 5, 5"),
            ("HTTP/1.1 200 OK", "Content-Length: +5"),
            ("HTTP/1.1 200 OK", "Content-Length: -5"),
            ("HTTP/1.1 200 OK", "Content-Length: 0x5"),
            ("HTTP/1.1 200 OK", "Content-Length:"),
            ("HTTP/1.1 200 OK", "Content-Length: 1000000000000000000"),
            ("HTTP/1.1 200 OK", "Content-Length: 5\r\nContent-Length: 5"),
            ("HTTP/1.1 200 OK", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
            ("HTTP/1.1 200 OK", "Content-Length: 5\r\nTransfer-Encoding: identity"),
            ("HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: close"),
            ("HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: keep-alive, close"),
            (
                "HTTP/1.1 200 OK",
                "Content-Length: 5\r\nConnection: keep-alive\r\nConnection: x",
            ),
        ] {
            assert_eq!(
                length_of(&format!("{status}\r\n{lines}\r\n\r\n")),
                None,
                "{status} {lines}"
            );
        }
        assert!(matches!(look(b"nonsense\r\n\r\n", |_, _, _| ()), PlainLook::Other));
        assert!(matches!(
            look(b"HTTP/1.1 200 OK\r\n", |_, _, _| ()),
            PlainLook::Unfinished
        ));
    }
}
