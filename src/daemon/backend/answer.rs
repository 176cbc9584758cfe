//! The answer to a request, from its bytes, piece by piece. `wire/http` knows where head and body
//! end. This file holds the bounds, and the rules for an answer that breaks off.

use crate::daemon::backend::answer_head::AnswerHead;
use crate::daemon::backend::fault::Fault;
use ojs_lifecycle::api::{AnswerSize, Call};
use ojs_wire::backend::spare::Spare;
use ojs_wire::backend::split::{JobsBody, JobsReader, LARGE_JOB};
use ojs_wire::http::answer_head::{self, AnswerBody, AnswerFraming};
use ojs_wire::http::body::{BodyReader, BodyStep};
use ojs_wire::http::tunnel::{TunnelBody, TunnelHead};

/// Longest head of an answer, in bytes.
const MOST_HEAD_BYTES: usize = 32 << 10;

/// Most bytes before the body of an answer, interim answers (100 to 199) included. An endless
/// sequence of interim answers would cost time, because each one is read.
const MOST_BYTES_BEFORE_BODY: usize = 128 << 10;

/// Most bytes of an answer that ojs-init reads, unless the request asks for more.
const USUAL_BODY_BYTES: u64 = 4 << 20;

/// Most bytes of the answer to a report that ojs-init keeps, because its status holds nearly all.
const REPORT_BODY_BYTES: u64 = 64 << 10;

/// Most bytes of events that are kept until they are looked at, which is after each turn of a
/// connection.
const EVENT_BYTES: u64 = 512 << 10;

/// Most bytes of an answer that ojs-init ever reads. Jobs beyond them lapse.
const MOST_BODY_BYTES: u64 = 256 << 20;

/// Bytes of an answer for each job besides its envelope, at most.
const BYTES_AROUND_ENVELOPE: u64 = 64 << 10;

/// A received answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::daemon) struct Received {
    /// Its head.
    pub(in crate::daemon) head: AnswerHead,
    /// The received part of the body, at most the limit.
    pub(in crate::daemon) body: Vec<u8>,
    /// The body in place of `body`, if it has large jobs.
    pub(in crate::daemon) jobs: Option<JobsBody>,
    /// Whether that is the whole body.
    pub(in crate::daemon) is_whole: bool,
    /// True if the connection can carry another request.
    pub(in crate::daemon) leaves_connection_open: bool,
}

impl Received {
    /// Received bytes of the body.
    pub(in crate::daemon) fn body_bytes(&self) -> usize {
        self.jobs.as_ref().map_or(self.body.len(), JobsBody::bytes)
    }
}

/// How far it is.
enum AnswerStage {
    /// No head was received yet, except those of interim answers.
    Head,
    Body {
        body: BodyReader,
        leaves_connection_open: bool,
    },
    /// All that ojs-init reads of the answer was received.
    Over {
        is_whole: bool,
        leaves_connection_open: bool,
    },
}

/// The head, for the tunnel that passes the answer on.
enum Passing {
    /// The answer is not passed on, or the tunnel already has the head.
    Nothing,
    /// The head is wanted once it is there.
    Wanted,
    Here(TunnelHead),
}

/// Reads one answer.
pub(in crate::daemon) struct AnswerReader {
    stage: AnswerStage,
    /// The request was one for a head without its body.
    is_head_alone: bool,
    /// Bytes that cannot be parsed before more bytes arrive.
    rest: Vec<u8>,
    /// Bytes of interim answers and of the head so far.
    bytes_before_body: usize,
    /// Most bytes of the body that are kept.
    limit: usize,
    /// Bytes behind the limit that may still be read and dropped, so that the connection lasts.
    droppable: usize,
    is_dropping: bool,
    head: Option<AnswerHead>,
    /// The part of the answer that is ready to be passed on.
    passing: Passing,
    body: Vec<u8>,
    /// Bytes of the body by the head; 0 if the head announces no length.
    announced: usize,
    jobs: Jobs,
}

/// How large jobs are separated from the body while it arrives.
enum Jobs {
    /// The request is no FETCH.
    None,
    /// The answer is small so far.
    Small,
    /// Large jobs are read instead of the plain body.
    Large(Box<JobsReader>),
}

impl Jobs {
    /// Bytes of the body so far, of which `body` has those that are not here.
    fn len(&self, body: &[u8]) -> usize {
        match self {
            Self::Large(reader) => reader.len(),
            Self::None | Self::Small => body.len(),
        }
    }
}

impl AnswerReader {
    /// The reader of an answer with at most so many bytes in its body.
    pub(in crate::daemon) fn new(limit: usize) -> Self {
        Self {
            stage: AnswerStage::Head,
            is_head_alone: false,
            rest: Vec::new(),
            bytes_before_body: 0,
            limit,
            droppable: 0,
            is_dropping: false,
            head: None,
            passing: Passing::Nothing,
            body: Vec::new(),
            announced: 0,
            jobs: Jobs::None,
        }
    }

    /// The reader of an answer to a FETCH.
    pub(in crate::daemon) fn of_jobs(limit: usize) -> Self {
        Self {
            jobs: Jobs::Small,
            ..Self::new(limit)
        }
    }

    /// Reads on behind the limit for so many bytes, and drops them.
    pub(in crate::daemon) fn dropping(self, droppable: usize) -> Self {
        Self { droppable, ..self }
    }

    /// The reader of an answer that is passed on piece by piece, to a request of this kind.
    pub(in crate::daemon) fn of_tunnel(is_head_alone: bool) -> Self {
        Self {
            is_head_alone,
            passing: Passing::Wanted,
            ..Self::new(usize::MAX)
        }
    }

    /// The head to pass on, once it is there, and only once; an error: it cannot be passed on.
    pub(in crate::daemon) fn take_tunnel_head(&mut self) -> Option<Result<TunnelHead, Fault>> {
        const SWITCHING_PROTOCOLS: u16 = 101;
        if !matches!(self.passing, Passing::Here(_)) {
            return None;
        }
        let Passing::Here(head) = std::mem::replace(&mut self.passing, Passing::Nothing) else {
            return None;
        };
        // No request asked for another protocol.
        let is_usual = head.status != SWITCHING_PROTOCOLS;
        Some(is_usual.then_some(head).ok_or(Fault::NotHttp))
    }

    /// The body since the last time.
    pub(in crate::daemon) fn take_new_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Parses received bytes. Returns true if nothing more is to be read.
    ///
    /// # Errors
    /// The bytes are no answer. [`AnswerReader::cut_off`] returns the part that is usable.
    pub(in crate::daemon) fn push(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        self.push_with(bytes, &mut Spare::default())
    }

    /// Reads like [`AnswerReader::push`]. Large jobs get memory of earlier ones.
    ///
    /// # Errors
    /// As of [`AnswerReader::push`].
    pub(in crate::daemon) fn push_with(&mut self, bytes: &[u8], spare: &mut Spare) -> Result<bool, Fault> {
        if self.rest.is_empty() {
            let used = self.take(bytes, spare)?;
            self.keep(bytes.get(used..).unwrap_or_default())?;
        } else {
            // A head is looked at again only when there may be an end in it.
            let is_worth_it = !self.is_in_head() || bytes.contains(&b'\n');
            self.rest.extend_from_slice(bytes);
            if is_worth_it || self.rest.len() > MOST_HEAD_BYTES {
                let all = std::mem::take(&mut self.rest);
                let used = self.take(&all, spare)?;
                self.keep(all.get(used..).unwrap_or_default())?;
            }
        }
        Ok(matches!(self.stage, AnswerStage::Over { .. }))
    }

    /// The peer has closed the connection. `is_clean`: with the goodbye that TLS wants.
    ///
    /// # Errors
    /// There was no answer.
    pub(in crate::daemon) fn end(&mut self, is_clean: bool) -> Result<(), Fault> {
        let is_whole = match &self.stage {
            AnswerStage::Head => return Err(Fault::Closed),
            AnswerStage::Body { body, .. } => body.is_whole_if_closed(is_clean) && !self.is_dropping,
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
            AnswerStage::Head | AnswerStage::Body { .. } => (false, false),
        };
        let jobs = match self.jobs {
            Jobs::Large(reader) => Some(reader.into_body()),
            Jobs::None | Jobs::Small => None,
        };
        Some(Received {
            head: self.head?,
            body: self.body,
            jobs,
            is_whole,
            leaves_connection_open: leaves_connection_open && self.rest.is_empty(),
        })
    }

    fn keep(&mut self, rest: &[u8]) -> Result<(), Fault> {
        let before_body = self.bytes_before_body.saturating_add(rest.len());
        let most = match self.stage {
            AnswerStage::Head if before_body > MOST_BYTES_BEFORE_BODY => return Err(Fault::EndlessHead),
            AnswerStage::Head if rest.len() > MOST_HEAD_BYTES => return Err(Fault::LongHead),
            // A line between two chunks has its own bound in the body reader.
            AnswerStage::Head | AnswerStage::Body { .. } => usize::MAX,
            // One byte is enough to see that unwanted bytes follow the answer.
            AnswerStage::Over { .. } => 1,
        };
        self.rest
            .extend_from_slice(rest.get(..most.min(rest.len())).unwrap_or_default());
        Ok(())
    }

    fn is_in_head(&self) -> bool {
        matches!(self.stage, AnswerStage::Head)
    }

    /// Parses as many of the bytes as possible, and returns their number.
    fn take(&mut self, bytes: &[u8], spare: &mut Spare) -> Result<usize, Fault> {
        let mut used = 0;
        while self.is_in_head() {
            match self.take_head(bytes.get(used..).unwrap_or_default())? {
                0 => return Ok(used),
                length => used += length,
            }
        }
        Ok(used + self.take_body(bytes.get(used..).unwrap_or_default(), spare)?)
    }

    /// Parses one head and returns its length; 0 if its end was not received yet.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let is_wanted = matches!(self.passing, Passing::Wanted);
        let head = answer_head::read(bytes, self.is_head_alone, |response, length, framing| match framing {
            AnswerFraming::Interim => (length, None),
            AnswerFraming::Final { body, leaves_open } => {
                let passed = is_wanted.then(|| TunnelHead::of(response, tunnel_body(body)));
                (length, Some((body, leaves_open, AnswerHead::of(response), passed)))
            }
        });
        let Some((length, answer)) = head.map_err(|_| Fault::NotHttp)? else {
            return Ok(0);
        };
        self.count_head(length)?;
        if let Some((body, leaves_connection_open, head, passed)) = answer {
            self.head = Some(head);
            if !is_wanted {
                self.reserve(body);
            }
            if let Some(passed) = passed {
                self.passing = Passing::Here(passed);
            }
            self.stage = AnswerStage::Body {
                body: BodyReader::of_answer(body),
                leaves_connection_open,
            };
        }
        Ok(length)
    }

    /// Reserves room once for a body of known length, because growing step by step would move it.
    /// Only received bytes use memory. If the reservation fails, the buffer grows instead.
    fn reserve(&mut self, body: AnswerBody) {
        let AnswerBody::Bytes(length) = body else { return };
        self.announced = usize::try_from(length).unwrap_or(usize::MAX).min(self.limit);
        if self.announced < LARGE_JOB || matches!(self.jobs, Jobs::None) {
            let _ = self.body.try_reserve_exact(self.announced);
        }
    }

    /// Keeps bytes of the body.
    fn gather(&mut self, payload: &[u8], spare: &mut Spare) {
        if matches!(self.jobs, Jobs::Small) && self.body.len() + payload.len() >= LARGE_JOB {
            let mut reader = JobsReader::default();
            let to_come = self.announced.saturating_sub(self.body.len());
            reader.push(&std::mem::take(&mut self.body), to_come, spare);
            self.jobs = Jobs::Large(Box::new(reader));
        }
        match &mut self.jobs {
            Jobs::Large(reader) => {
                let to_come = self.announced.saturating_sub(reader.len() + payload.len());
                reader.push(payload, to_come, spare);
            }
            Jobs::None | Jobs::Small => self.body.extend_from_slice(payload),
        }
    }

    /// Whether a part of the body was dropped, and the rest will be.
    pub(in crate::daemon) fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// Counts the bytes of a head.
    fn count_head(&mut self, length: usize) -> Result<(), Fault> {
        if length > MOST_HEAD_BYTES {
            return Err(Fault::LongHead);
        }
        self.bytes_before_body = self.bytes_before_body.saturating_add(length);
        if self.bytes_before_body > MOST_BYTES_BEFORE_BODY {
            return Err(Fault::EndlessHead);
        }
        Ok(())
    }

    /// Reads the available part of the body, and returns the number of bytes.
    fn take_body(&mut self, bytes: &[u8], spare: &mut Spare) -> Result<usize, Fault> {
        let mut rest = bytes;
        while let AnswerStage::Body {
            body,
            leaves_connection_open,
        } = &mut self.stage
        {
            let room = self.limit.saturating_sub(self.jobs.len(&self.body));
            match body.step(&mut rest).map_err(|_| Fault::NotHttp)? {
                BodyStep::Payload(payload) => {
                    let kept = payload.get(..room).unwrap_or(payload);
                    let beyond = payload.len() - kept.len();
                    let dropped = beyond.min(self.droppable);
                    self.droppable -= dropped;
                    self.is_dropping |= dropped > 0;
                    rest = rest.get(kept.len() + dropped..).unwrap_or_default();
                    body.took(kept.len() + dropped);
                    self.gather(kept, spare);
                    if kept.len() == room && self.droppable == 0 {
                        self.stage = over(false, false);
                    }
                }
                BodyStep::Unfinished => break,
                BodyStep::Over => self.stage = over(!self.is_dropping, *leaves_connection_open),
            }
        }
        Ok(bytes.len() - rest.len())
    }
}

/// The body as it is passed on: one that ends with the connection is sent in chunks.
fn tunnel_body(body: AnswerBody) -> TunnelBody {
    match body {
        AnswerBody::None => TunnelBody::None,
        AnswerBody::Bytes(length) => TunnelBody::Length(length),
        AnswerBody::Chunked | AnswerBody::ToTheEnd => TunnelBody::Chunked,
    }
}

fn over(is_whole: bool, leaves_connection_open: bool) -> AnswerStage {
    AnswerStage::Over {
        is_whole,
        leaves_connection_open,
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

/// Most bytes of an answer to this call, if an envelope has at most `max_frame` bytes.
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

/// Bytes behind this limit that are read and dropped. Public backends answer a report with the
/// whole job.
pub(in crate::daemon) fn droppable_bytes(call: &Call, max_frame: u64) -> usize {
    let droppable = match call.endpoint().answer() {
        AnswerSize::Nothing => max_frame.saturating_add(BYTES_AROUND_ENVELOPE),
        AnswerSize::Jobs | AnswerSize::Fields | AnswerSize::Events => 0,
    };
    usize::try_from(droppable).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
