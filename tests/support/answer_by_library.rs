//! An answer as the engine of an HTTP client reads it: what other readers are compared with.

use ureq_proto::BodyMode;
use ureq_proto::client::{Call, RecvResponseResult, SendRequestResult};
use ureq_proto::http::{Method, Request};

/// The status and the body of an answer, and whether that is all of the body; `None`: no answer.
/// The connection ends behind these bytes.
pub fn read_by_a_library(answer: &[u8], is_head_alone: bool) -> Option<(u16, Vec<u8>, bool)> {
    let method = if is_head_alone { Method::HEAD } else { Method::GET };
    let mut call = Call::new(Request::builder().method(method).body(()).unwrap())
        .unwrap()
        .proceed();
    call.write(&mut [0; 100]).unwrap();
    let SendRequestResult::RecvResponse(mut call) = call.proceed().unwrap().unwrap() else {
        unreachable!("there is no body to be sent");
    };
    let mut rest = answer;
    let response = loop {
        let (used, response) = call.try_response(rest, false).ok()?;
        rest = &rest[used..];
        match response {
            Some(response) => break response,
            None if used == 0 => return None,
            None => {}
        }
    };
    let status = response.status().as_u16();
    let RecvResponseResult::RecvBody(mut call) = call.proceed()? else {
        return Some((status, Vec::new(), true));
    };
    let (mut body, mut read) = (Vec::new(), [0; 100]);
    loop {
        let Ok((used, written)) = call.read(rest, &mut read) else {
            return Some((status, body, false));
        };
        rest = &rest[used..];
        body.extend_from_slice(&read[..written]);
        if used == 0 {
            let is_to_the_end = call.body_mode() == BodyMode::CloseDelimited;
            return Some((
                status,
                body,
                call.can_proceed() || is_to_the_end || call.is_ended_chunked(),
            ));
        }
    }
}
