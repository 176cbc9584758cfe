//! The connections of the worker's programs to ojs-init: one variant for each way to connect. The
//! loop knows only this interface.

use std::collections::VecDeque;
use std::rc::Rc;

use log::debug;

use crate::daemon::gateway::{Gateway, InterfaceTurn};
use crate::daemon::workers::socket::WorkerSocket;
use ojs_lifecycle::api::ids::{HolderId, WorkerId};
use ojs_lifecycle::api::{Effect, Event, Moment, ToWorker};
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::Pid;

/// The way in which the worker's programs connect.
pub enum Interface {
    /// The worker socket, in modes socket and exec.
    Socket(Box<WorkerSocket>),
    /// HTTP, in mode gateway.
    Gateway(Box<Gateway>),
}

impl Interface {
    /// A program wants to connect.
    pub fn is_acceptable(&mut self) {
        match self {
            Self::Socket(socket) => socket.is_acceptable(),
            Self::Gateway(gateway) => gateway.is_acceptable(),
        }
    }

    /// The kernel reported an event on this connection.
    pub fn is_ready(&mut self, connection: u64, event: &mio::event::Event, events: &mut VecDeque<Event>) {
        match self {
            Self::Socket(socket) => socket.is_ready(HolderId(connection), event, events),
            Self::Gateway(gateway) => gateway.is_ready(connection, event),
        }
    }

    /// Accepts and reads, no more than belongs into one turn.
    pub fn turn(&mut self, turn: &mut InterfaceTurn<'_>) {
        match self {
            Self::Socket(socket) => {
                socket.turn(turn.processes, turn.registry, turn.events);
                keep_spare(socket, turn);
            }
            Self::Gateway(gateway) => gateway.turn(turn),
        }
    }

    /// Sends the answers of the machine since the last turn. The worker socket sends each frame
    /// when the machine orders it.
    pub fn send_answers(&mut self, turn: &mut InterfaceTurn<'_>) {
        match self {
            Self::Socket(_) => {}
            Self::Gateway(gateway) => gateway.turn(turn),
        }
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.has_more(),
            Self::Gateway(gateway) => gateway.has_more(),
        }
    }

    /// When there is work for which the kernel sends no event.
    pub fn next_deadline(&self) -> Option<Moment> {
        match self {
            Self::Socket(_) => None,
            Self::Gateway(gateway) => gateway.next_deadline(),
        }
    }

    /// Number of armed timers, for the status.
    pub fn timers(&self) -> usize {
        match self {
            Self::Socket(_) => 0,
            Self::Gateway(gateway) => gateway.timers(),
        }
    }

    /// The worker's process was started. Returns how its callers are recognized, for the status.
    pub fn worker_started(
        &mut self,
        pid: Pid,
        watch: Option<&Rc<ProcessWatch>>,
        worker: &WorkerId,
    ) -> Option<&'static str> {
        match self {
            Self::Socket(_) => None,
            Self::Gateway(gateway) => {
                gateway.worker_started(pid, watch, worker);
                Some(gateway.caller_proof())
            }
        }
    }

    /// Sends a message to a holder.
    pub fn tell(&mut self, holder: HolderId, word: ToWorker, turn: &mut InterfaceTurn<'_>) {
        match self {
            Self::Socket(socket) => {
                socket.tell(
                    holder,
                    word,
                    turn.context.as_ref(),
                    turn.processes,
                    turn.registry,
                    turn.events,
                );
                keep_spare(socket, turn);
            }
            Self::Gateway(gateway) => gateway.tell(holder, &word, turn),
        }
    }

    /// Reads the rest of the connections of a holder whose process is gone, and then closes them.
    pub fn read_to_end(&mut self, holder: HolderId, turn: &InterfaceTurn<'_>) {
        match self {
            Self::Socket(socket) => socket.read_to_end(holder),
            Self::Gateway(gateway) => gateway.read_to_end(holder, turn.now),
        }
    }

    /// Closes the connections of a holder.
    pub fn close(&mut self, holder: HolderId, why: &'static str, turn: &mut InterfaceTurn<'_>) {
        match self {
            Self::Socket(socket) => {
                socket.say_why(holder, why);
                socket.hang_up(holder, turn.processes, turn.registry, turn.events);
            }
            Self::Gateway(gateway) => {
                debug!("holder {holder}: let go: {why}");
                gateway.close(holder, turn);
            }
        }
    }

    /// Answers a heartbeat or a request for jobs. The worker socket has neither.
    pub fn answer(&mut self, answer: &Effect, turn: &mut InterfaceTurn<'_>) {
        let Self::Gateway(gateway) = self else { return };
        if let Effect::AnswerBeat { holder, state, jobs } = answer {
            gateway.hear_beat(*holder, *state, jobs);
        } else if let Effect::AnswerPull { holder, pull, jobs } = answer {
            gateway.answer_pull(*holder, *pull, jobs, turn.context.as_ref(), turn.events);
        }
    }
}

/// The memory of large jobs that were written is for the next ones. The rest of it is free at once.
fn keep_spare(socket: &mut WorkerSocket, turn: &mut InterfaceTurn<'_>) {
    for memory in socket.take_free() {
        turn.backend.keep_spare(memory, turn.now);
    }
}
