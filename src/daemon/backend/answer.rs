//! The answer to a request, from its bytes. A plain head, as nearly all are, tells how long its
//! body is; of any other one `ureq-proto` knows where head and body begin and end. The bounds are
//! ours, and what counts as an answer where it breaks off.

use ureq_proto::BodyMode;
use ureq_proto::Error as ProtocolError;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call as Engine, RecvBodyResult, RecvResponseResult, SendRequestResult};
use ureq_proto::http::{Method, Request, Response, StatusCode};

use crate::daemon::backend::answer_head::AnswerHead;
use crate::daemon::backend::fault::Fault;
use ojs_lifecycle::api::{AnswerSize, Call};
use ojs_wire::http::plain_answer::{self, PlainAnswer, PlainLook};
use ojs_wire::http::tunnel::{TunnelBody, TunnelHead};

/// Longest head of an answer, in bytes.
const MOST_HEAD_BYTES: usize = 32 << 10;

/// Most bytes of all that comes before the body of an answer, interim answers (100 to 199)
/// included: what makes each of them ends nowhere, and each costs time.
const MOST_BYTES_BEFORE_BODY: usize = 128 << 10;

/// Longest line between two chunks of a body, in bytes. It has no bound where its end is spelled in
/// an unusual way.
const MOST_CHUNK_LINE_BYTES: usize = 4 << 10;

/// Most bytes of an answer that we read, where nothing asks for more.
const USUAL_BODY_BYTES: u64 = 4 << 20;

/// Most bytes of an answer to a report that we read: its status says nearly all.
const REPORT_BODY_BYTES: u64 = 64 << 10;

/// Most bytes of events that are kept until they are looked at, which is after each turn of a
/// connection.
const EVENT_BYTES: u64 = 512 << 10;

/// Most bytes of an answer that we ever read. Jobs that are beyond it lapse.
const MOST_BODY_BYTES: u64 = 256 << 20;

/// Bytes of an answer for each job besides its envelope, at most.
const BYTES_AROUND_ENVELOPE: u64 = 64 << 10;

/// Longest request head that the engine is shown, in bytes; it only has to have seen one.
const SHOWN_HEAD_BYTES: usize = 64;

/// An answer, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::daemon) struct Received {
    /// Its head.
    pub(in crate::daemon) head: AnswerHead,
    /// The body, as much of it as came, at most the limit.
    pub(in crate::daemon) body: Vec<u8>,
    /// Whether that is the whole body.
    pub(in crate::daemon) is_whole: bool,
    /// Whether another request may go out on its connection.
    pub(in crate::daemon) leaves_connection_open: bool,
}

/// How far it is.
enum AnswerStage {
    /// Nothing came, or a part of a head that may be a plain one.
    Start,
    /// Boxed: an engine is large, is seldom needed, and what waits for an answer is moved about.
    Head(Box<Engine<RecvResponse>>),
    Body(Box<Engine<RecvBody>>),
    /// So many bytes are left of the body behind a plain head.
    Plain(u64),
    /// Everything came that is read.
    Over {
        is_whole: bool,
        leaves_connection_open: bool,
    },
}

/// The head for whoever passes it on.
enum Passing {
    /// Nobody does, or somebody has it.
    Nothing,
    /// The head is wanted once it is there.
    Wanted,
    /// The head is here. None: it cannot be passed on.
    Here(Option<TunnelHead>),
}

/// Reads one answer.
pub(in crate::daemon) struct AnswerReader {
    stage: AnswerStage,
    /// The request was one for a head without its body.
    is_head_alone: bool,
    /// Bytes that wait for what follows them.
    rest: Vec<u8>,
    /// Bytes of interim answers and of the head so far.
    bytes_before_body: usize,
    /// Most bytes of the body that are read.
    limit: usize,
    /// Its head names both a length and chunks: somebody may read it differently.
    is_ambiguous: bool,
    head: Option<AnswerHead>,
    /// The part of the answer that is ready to be passed on.
    passing: Passing,
    /// The length of the body, by the head.
    body_length: TunnelBody,
    body: Vec<u8>,
}

impl AnswerReader {
    /// The reader of an answer with at most so many bytes in its body.
    pub(in crate::daemon) fn new(limit: usize) -> Self {
        Self {
            stage: AnswerStage::Start,
            is_head_alone: false,
            rest: Vec::new(),
            bytes_before_body: 0,
            limit,
            is_ambiguous: false,
            head: None,
            passing: Passing::Nothing,
            body_length: TunnelBody::None,
            body: Vec::new(),
        }
    }

    /// The reader of an answer that is passed on as it comes, to a request of this kind.
    pub(in crate::daemon) fn of_tunnel(is_head_alone: bool) -> Self {
        Self {
            is_head_alone,
            passing: Passing::Wanted,
            ..Self::new(usize::MAX)
        }
    }

    /// The head to pass on, once it is there, and only once; an error: it cannot be passed on.
    pub(in crate::daemon) fn take_tunnel_head(&mut self) -> Option<Result<TunnelHead, Fault>> {
        let Passing::Here(head) = &mut self.passing else {
            return None;
        };
        let head = head.take();
        self.passing = Passing::Nothing;
        // Nobody asked for another protocol.
        let head = head.filter(|head| head.status != StatusCode::SWITCHING_PROTOCOLS.as_u16());
        Some(head.ok_or(Fault::NotHttp))
    }

    /// The body since the last time.
    pub(in crate::daemon) fn take_new_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Takes what came; true: nothing more is to be read.
    ///
    /// # Errors
    /// It is no answer. [`AnswerReader::cut_off`] says what is left of it.
    pub(in crate::daemon) fn push(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        if self.rest.is_empty() {
            let used = self.take(bytes)?;
            self.keep(bytes.get(used..).unwrap_or_default())?;
        } else {
            // A head is looked at again only when there may be an end in it.
            let is_worth_it = !self.is_in_head() || bytes.contains(&b'\n');
            self.rest.extend_from_slice(bytes);
            if is_worth_it || self.rest.len() > MOST_HEAD_BYTES {
                let all = std::mem::take(&mut self.rest);
                let used = self.take(&all)?;
                self.keep(all.get(used..).unwrap_or_default())?;
            }
        }
        Ok(matches!(self.stage, AnswerStage::Over { .. }))
    }

    /// The other side has closed; `is_clean`: in the way in which it should.
    ///
    /// # Errors
    /// There was no answer.
    pub(in crate::daemon) fn end(&mut self, is_clean: bool) -> Result<(), Fault> {
        let is_whole = match &self.stage {
            AnswerStage::Start | AnswerStage::Head(_) => return Err(Fault::Closed),
            AnswerStage::Plain(_) => false,
            AnswerStage::Body(engine) => {
                let is_to_the_end = matches!(engine.body_mode(), BodyMode::CloseDelimited);
                (is_to_the_end && is_clean) || engine.is_ended_chunked()
            }
            AnswerStage::Over { .. } => return Ok(()),
        };
        self.stage = over(is_whole, false);
        Ok(())
    }

    /// The head, once it is there.
    pub(in crate::daemon) fn head(&self) -> Option<&AnswerHead> {
        self.head.as_ref()
    }

    /// The part of an answer that broke off. `None`: not even its head.
    pub(in crate::daemon) fn cut_off(self) -> Option<Received> {
        let (is_whole, leaves_connection_open) = match self.stage {
            AnswerStage::Over {
                is_whole,
                leaves_connection_open,
            } => (is_whole, leaves_connection_open),
            AnswerStage::Start | AnswerStage::Head(_) | AnswerStage::Body(_) | AnswerStage::Plain(_) => (false, false),
        };
        Some(Received {
            head: self.head?,
            body: self.body,
            is_whole,
            leaves_connection_open: leaves_connection_open && self.rest.is_empty(),
        })
    }

    fn keep(&mut self, rest: &[u8]) -> Result<(), Fault> {
        let before_body = self.bytes_before_body.saturating_add(rest.len());
        let most = match self.stage {
            _ if self.is_in_head() && before_body > MOST_BYTES_BEFORE_BODY => return Err(Fault::EndlessHead),
            _ if self.is_in_head() && rest.len() > MOST_HEAD_BYTES => return Err(Fault::LongHead),
            AnswerStage::Body(_) if rest.len() > MOST_CHUNK_LINE_BYTES => return Err(Fault::NotHttp),
            AnswerStage::Start | AnswerStage::Head(_) | AnswerStage::Body(_) | AnswerStage::Plain(_) => usize::MAX,
            // One byte is enough to see that more follows, which nobody asked for.
            AnswerStage::Over { .. } => 1,
        };
        self.rest
            .extend_from_slice(rest.get(..most.min(rest.len())).unwrap_or_default());
        Ok(())
    }

    fn is_in_head(&self) -> bool {
        matches!(self.stage, AnswerStage::Start | AnswerStage::Head(_))
    }

    /// Takes as much as makes sense by itself; how many bytes that were.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            let step = match self.stage {
                AnswerStage::Start => self.take_plain_head(rest)?,
                AnswerStage::Head(_) => self.take_head(rest)?,
                AnswerStage::Plain(left) => self.take_plain_body(rest, left),
                AnswerStage::Body(_) => self.take_body(rest)?,
                AnswerStage::Over { .. } => 0,
            };
            if step == 0 {
                return Ok(used);
            }
            used += step;
        }
    }

    /// A plain head is taken. Any other one is for the engine, and so is all that follows it.
    fn take_plain_head(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let is_wanted = matches!(self.passing, Passing::Wanted);
        let look = if self.is_head_alone {
            PlainLook::Other
        } else {
            plain_answer::look(bytes, |response, end, PlainAnswer { length }| {
                let body_length = TunnelBody::Length(length);
                let passed = is_wanted.then(|| TunnelHead::of(response, body_length));
                (end, length, AnswerHead::of_plain(response), passed)
            })
        };
        match look {
            PlainLook::Plain((end, length, head, passed)) => {
                self.count_head(end)?;
                self.head = Some(head);
                self.body_length = TunnelBody::Length(length);
                if let Some(passed) = passed {
                    self.passing = Passing::Here(passed);
                }
                self.stage = AnswerStage::Plain(length);
                Ok(end)
            }
            PlainLook::Unfinished => Ok(0),
            PlainLook::Other => {
                self.stage = AnswerStage::Head(Box::new(engine(self.is_head_alone)?));
                self.take_head(bytes)
            }
        }
    }

    fn take_plain_body(&mut self, bytes: &[u8], left: u64) -> usize {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let count = most.min(self.limit.saturating_sub(self.body.len()));
        self.body.extend_from_slice(bytes.get(..count).unwrap_or_default());
        let left = left - count as u64;
        self.stage = match left {
            _ if self.body.len() >= self.limit => over(false, false),
            0 => over(true, true),
            left => AnswerStage::Plain(left),
        };
        count
    }

    /// So many bytes were a head.
    fn count_head(&mut self, used: usize) -> Result<(), Fault> {
        if used > MOST_HEAD_BYTES {
            return Err(Fault::LongHead);
        }
        self.bytes_before_body = self.bytes_before_body.saturating_add(used);
        if self.bytes_before_body > MOST_BYTES_BEFORE_BODY {
            return Err(Fault::EndlessHead);
        }
        Ok(())
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let AnswerStage::Head(engine) = &mut self.stage else {
            return Ok(0);
        };
        let (used, response) = match engine.try_response(bytes, false) {
            Ok(result) => result,
            // The engine takes no headers with it; others do.
            Err(ProtocolError::HeadersWith100) => (head_length(bytes), None),
            Err(_) => return Err(Fault::NotHttp),
        };
        self.count_head(used)?;
        if let Some(response) = response {
            self.begin_body(&response)?;
            if matches!(self.passing, Passing::Wanted) {
                let head = bytes.get(..used).unwrap_or_default();
                self.passing = Passing::Here(TunnelHead::read(head, self.body_length));
            }
        }
        Ok(used)
    }

    fn begin_body(&mut self, response: &Response<()>) -> Result<(), Fault> {
        let headers = response.headers();
        self.is_ambiguous = headers.contains_key("transfer-encoding") && headers.contains_key("content-length");
        self.head = Some(AnswerHead::of(response));
        let no_body = over(true, false);
        let AnswerStage::Head(engine) = std::mem::replace(&mut self.stage, no_body) else {
            return Ok(());
        };
        let is_other_protocol = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        self.stage = match engine.proceed() {
            Some(RecvResponseResult::RecvBody(engine)) => {
                self.body_length = match engine.body_mode() {
                    BodyMode::NoBody => TunnelBody::None,
                    BodyMode::LengthDelimited(length) => TunnelBody::Length(length),
                    BodyMode::Chunked | BodyMode::CloseDelimited => TunnelBody::Chunked,
                };
                AnswerStage::Body(Box::new(engine))
            }
            Some(RecvResponseResult::Redirect(engine)) => {
                over(true, !engine.must_close_connection() && !self.is_ambiguous)
            }
            Some(RecvResponseResult::Cleanup(engine)) => over(
                true,
                !engine.must_close_connection() && !is_other_protocol && !self.is_ambiguous,
            ),
            None => return Err(Fault::NotHttp),
        };
        Ok(())
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let AnswerStage::Body(engine) = &mut self.stage else {
            return Ok(0);
        };
        let before = self.body.len();
        let room = bytes.len().min(self.limit.saturating_sub(before));
        self.body.resize(before + room, 0);
        let into = self.body.get_mut(before..).unwrap_or_default();
        let result = engine.read(bytes, into);
        let (used, written) = result.as_ref().copied().unwrap_or((0, 0));
        self.body.truncate(before + written);
        if result.is_err() {
            return Err(Fault::NotHttp);
        }
        if self.body.len() >= self.limit {
            self.stage = over(false, false);
        } else if engine.can_proceed() && !matches!(engine.body_mode(), BodyMode::CloseDelimited) {
            let whole = over(true, false);
            let AnswerStage::Body(engine) = std::mem::replace(&mut self.stage, whole) else {
                return Ok(used);
            };
            let must_close = match engine.proceed() {
                Some(RecvBodyResult::Cleanup(engine)) => engine.must_close_connection(),
                Some(RecvBodyResult::Redirect(engine)) => engine.must_close_connection(),
                None => true,
            };
            self.stage = over(true, !must_close && !self.is_ambiguous);
        }
        Ok(used)
    }
}

fn over(is_whole: bool, leaves_connection_open: bool) -> AnswerStage {
    AnswerStage::Over {
        is_whole,
        leaves_connection_open,
    }
}

/// An engine that waits for an answer. Whatever we ask, an answer is framed in the same way unless
/// only its head was asked for: so it is shown the shortest request that there is, and ours are
/// written by ourselves.
fn engine(is_head_alone: bool) -> Result<Engine<RecvResponse>, Fault> {
    let mut request = Request::new(());
    *request.method_mut() = if is_head_alone { Method::HEAD } else { Method::GET };
    let engine = Engine::new(request).map_err(|_| Fault::Internal)?;
    let mut engine = engine.proceed();
    engine.write(&mut [0; SHOWN_HEAD_BYTES]).map_err(|_| Fault::Internal)?;
    match engine.proceed() {
        Ok(Some(SendRequestResult::RecvResponse(engine))) => Ok(engine),
        Ok(Some(SendRequestResult::Await100(_) | SendRequestResult::SendBody(_)) | None) | Err(_) => {
            Err(Fault::Internal)
        }
    }
}

/// Where a head ends that is known to be whole.
fn head_length(bytes: &[u8]) -> usize {
    let mut headers = [httparse::EMPTY_HEADER; ureq_proto::client::MAX_RESPONSE_HEADERS];
    match httparse::Response::new(&mut headers).parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) | Err(_) => 0,
    }
}

/// How many jobs an answer to this call may have: a look has the one that it is about.
fn most_jobs(call: &Call) -> u64 {
    if let Call::Fetch { count, .. } = call {
        u64::from(*count)
    } else {
        1
    }
}

/// Most bytes of an answer to this call, where an envelope has at most `max_frame` bytes.
pub(in crate::daemon) fn body_limit(call: &Call, max_frame: u64) -> usize {
    let limit = match call.endpoint().answer() {
        AnswerSize::Jobs => max_frame
            .saturating_add(BYTES_AROUND_ENVELOPE)
            .saturating_mul(most_jobs(call))
            .clamp(USUAL_BODY_BYTES, MOST_BODY_BYTES),
        AnswerSize::Fields => USUAL_BODY_BYTES,
        // The body of a refusal.
        AnswerSize::Nothing => REPORT_BODY_BYTES,
        AnswerSize::Events => EVENT_BYTES,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
