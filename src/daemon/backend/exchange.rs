//! One request and its answer on one connection.

use crate::daemon::backend::answer::{AnswerReader, Received};
use crate::daemon::backend::connection::{BackendConnection, Buffers, Got, Sent};
use crate::daemon::backend::fault::Fault;
use ojs_wire::backend::spare::Spare;

/// Most buffers that are read of one connection in a turn, because other connections need theirs.
const READS_PER_TURN: usize = 4;

/// A request on its way.
pub(in crate::daemon) struct Exchange {
    /// Its connection.
    pub(in crate::daemon) slot: usize,
    request: Vec<u8>,
    sent: usize,
    is_sent: bool,
    answer: AnswerReader,
    /// Writing failed. Earlier bytes of the peer may still be readable.
    broken: Option<Fault>,
}

/// The result of a step.
#[derive(Debug)]
pub(in crate::daemon) enum ExchangeStep {
    /// The exchange waits for an event of the kernel.
    Waits,
    /// There is more to do, and other exchanges have their turn first.
    Paused,
    /// The exchange has ended. Without a fault the answer is complete.
    Over(Option<Fault>),
}

impl Exchange {
    /// Of these bytes; `answer` reads the answer.
    pub(in crate::daemon) fn new(slot: usize, request: Vec<u8>, answer: AnswerReader) -> Self {
        Self {
            slot,
            request,
            sent: 0,
            is_sent: false,
            answer,
            broken: None,
        }
    }

    /// Whether the kernel has all of the request. Until then the backend cannot have got it.
    pub(in crate::daemon) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Advances the exchange as far as one turn allows.
    pub(in crate::daemon) fn step(
        &mut self,
        connection: &mut BackendConnection,
        buffers: &mut Buffers,
        spare: &mut Spare,
    ) -> ExchangeStep {
        let mut is_paused = false;
        if !self.is_sent && self.broken.is_none() {
            match connection.send(&self.request, &mut self.sent) {
                Ok(Sent::All) => {
                    self.is_sent = true;
                    self.request = Vec::new();
                }
                Ok(Sent::Some) => {}
                Ok(Sent::Paused) => is_paused = true,
                Err(fault) => {
                    self.broken = Some(fault);
                    connection.look_again();
                }
            }
        }
        for _ in 0..READS_PER_TURN {
            let over = match connection.receive(buffers) {
                Ok(Got::Nothing) => {
                    return match self.broken.take() {
                        Some(fault) => ExchangeStep::Over(Some(fault)),
                        None if is_paused => ExchangeStep::Paused,
                        None => ExchangeStep::Waits,
                    };
                }
                Ok(Got::Bytes(bytes)) => match self.answer.push_with(bytes, spare) {
                    Ok(true) => Some(None),
                    Ok(false) => None,
                    Err(fault) => Some(Some(fault)),
                },
                Ok(Got::End { is_clean }) => Some(self.answer.end(is_clean).err()),
                Err(fault) => Some(Some(fault)),
            };
            if let Some(fault) = over {
                return ExchangeStep::Over(fault);
            }
        }
        ExchangeStep::Paused
    }

    /// Whether all of the answer that counts is there, and the rest is dropped.
    pub(in crate::daemon) fn is_dropping(&self) -> bool {
        self.answer.is_dropping()
    }

    /// The events that were received since the last call, if the answer is a stream of events.
    pub(in crate::daemon) fn new_events(&mut self) -> Option<Vec<u8>> {
        let is_stream = self.answer.head().is_some_and(|head| head.is_event_stream);
        is_stream.then(|| self.answer.take_new_body())
    }

    /// The received part of the answer. `None`: not even its head.
    pub(in crate::daemon) fn received(self) -> Option<Received> {
        let is_sent = self.is_sent;
        self.answer.cut_off().map(|received| Received {
            // A backend that answers early may not have read the request to its end.
            leaves_connection_open: received.leaves_connection_open && is_sent,
            ..received
        })
    }
}
