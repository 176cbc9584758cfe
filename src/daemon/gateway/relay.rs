//! Requests that pass through: bytes from the client into a tunnel to the backend, and bytes of the
//! answer back. Bytes that the slower side does not accept stay with the faster one.

use std::time::Duration;

use crate::daemon::backend::tunnel::{TunnelFailure, TunnelFailureKind, TunnelId, TunnelNews};
use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::link::{BodyCoding, GatewayLink, Gathered, LinkStage, Relay, Request};
use crate::daemon::gateway::{Gateway, GatewayTimer, InterfaceTurn, Step};
use ojs_os::clock;
use ojs_wire::gateway::{CONTINUE, GatewayError, passed_head, with_worker};
use ojs_wire::http::body::{BadChunk, BodyStep};
use ojs_wire::http::message::{BodyLength, MessageHead};
use ojs_wire::http::request_reader::RequestReader;
use ojs_wire::http::tunnel::{LAST_CHUNK, TunnelBody, TunnelHead, TunnelRequest, push_chunk};

/// With so many bytes that wait for the client, no more of an answer is read.
const CLIENT_ROOM_BYTES: usize = 64 << 10;

/// Bytes of an answer that are read at a time.
const PIECE_BYTES: usize = 16 << 10;

/// When the kernel is first asked whether a client that sends no more is still there. A close is
/// complete only after a moment.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(20);

/// Longest time between two such questions. Without sock_diag one may last 60 ms.
const LAST_LOOK_AFTER: Duration = Duration::from_secs(4);

/// Time for such questions in one turn.
const LOOKS_TIME_PER_TURN: Duration = Duration::from_millis(10);

const NO_ROOM: GatewayError<'static> = GatewayError {
    status: 503,
    code: "gateway_overloaded",
    message: "the body is large, and so are others that wait for the backend to take them",
};

impl Gateway {
    /// Opens a tunnel to the backend for this request. `gathered` is its body, if that was received
    /// whole.
    pub(super) fn open_relay(
        &mut self,
        id: LinkId,
        head: MessageHead,
        gathered: Option<Gathered>,
        turn: &mut InterfaceTurn<'_>,
    ) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let length = |bytes: usize| TunnelBody::Length(bytes as u64);
        let body = match (&gathered, head.body) {
            (Some(gathered), _) => length(gathered.body.len()),
            (None, BodyLength::Bytes(0)) => TunnelBody::None,
            (None, BodyLength::Bytes(count)) => TunnelBody::Length(count),
            (None, BodyLength::Chunked) => TunnelBody::Chunked,
        };
        if head.awaits_continue && gathered.is_none() && body != TunnelBody::None {
            link.say(CONTINUE);
        }
        self.newest_tunnel += 1;
        let tunnel = TunnelId(self.newest_tunnel);
        let request = TunnelRequest {
            method: head.method,
            target: head.target,
            headers: head.headers,
            body,
        };
        let changes_nothing = request.changes_nothing();
        turn.backend.tunnels.open(tunnel, request, turn.now);
        self.tunnels.insert(tunnel, Some(id));
        link.has_asked = true;
        link.stage = LinkStage::Relaying(Relay {
            tunnel,
            gathered,
            is_body_done: false,
            answer: None,
            is_done: false,
            changes_nothing,
            looks_again_after: FIRST_LOOK_AFTER,
            is_event_stream: false,
        });
    }

    /// Passes a request that was received for ojs-init to the backend.
    pub(super) fn pass_on(&mut self, id: LinkId, request: Request, turn: &mut InterfaceTurn<'_>) {
        let Request { head, body, .. } = request;
        // The backend knows only one worker: ojs-init.
        let body = with_worker(body, &self.worker_id);
        let Some(permit) = self.body_permits.permit_onward(body.len()) else {
            return self.fail(id, &NO_ROOM);
        };
        let gathered = Gathered { body, taken: 0, permit };
        self.open_relay(id, head, Some(gathered), turn);
    }

    /// Moves as many bytes as possible, in both directions.
    pub(super) fn relay(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> Step {
        let Some(link) = self.links.get_mut(&id) else {
            return Step::Waits;
        };
        let upward = match upward(link, turn) {
            Ok(step) => step,
            Err(BadChunk) => return self.break_off(id, turn),
        };
        let LinkStage::Relaying(relay) = &link.stage else {
            return Step::Again;
        };
        if link.is_deaf && relay.is_body_done {
            let is_reset = link.is_reset;
            let done = std::mem::replace(&mut link.stage, LinkStage::Head);
            if let LinkStage::Relaying(relay) = done {
                self.let_relay_go(&relay, is_reset, turn);
            }
            return Step::Again;
        }
        if link.is_reset && upward == Step::Waits {
            self.hang_up(id, turn);
            return Step::Waits;
        }
        if let Some(ended) = downward(link, turn) {
            self.tunnels.remove(&ended);
        }
        let LinkStage::Relaying(relay) = &link.stage else {
            return Step::Again;
        };
        let is_event_stream = relay.is_event_stream;
        if relay.is_done {
            if relay.answer == Some(BodyCoding::Chunked) {
                link.say(LAST_CHUNK);
            }
            link.stage = LinkStage::Answering(None);
            return Step::Again;
        }
        if is_event_stream && link.says_no_more() {
            // The stream may be silent for long, and only its next event would show that no client
            // reads it.
            link.reset_at_close();
            self.hang_up(id, turn);
            return Step::Waits;
        }
        link.flush();
        // A deaf link has lost its client already, so no look is needed.
        if link.says_no_more() && !link.is_deaf && self.deadlines.deadline_of(GatewayTimer::Left(id)).is_none() {
            self.deadlines
                .arm(GatewayTimer::Left(id), turn.now.after(FIRST_LOOK_AFTER));
        }
        upward
    }

    /// Checks whether the clients of these links have left, within the time of one turn. The next
    /// turn checks the rest, before links whose deadline ends later.
    pub(super) fn look_who_left(&mut self, links: Vec<LinkId>, turn: &mut InterfaceTurn<'_>) {
        let end = clock::monotonic() + LOOKS_TIME_PER_TURN;
        let rest = within(
            links,
            || clock::monotonic() < end,
            |id| self.look_whether_left(id, turn),
        );
        for id in rest {
            self.deadlines.arm(GatewayTimer::Left(id), turn.now);
        }
    }

    /// The client of a request that passes through has closed its side. The client may wait for its
    /// answer, or have closed both sides: on the wire these look alike, and only the kernel knows.
    fn look_whether_left(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let LinkStage::Relaying(relay) = &mut link.stage else {
            return;
        };
        let client = link.stream.peer_addr();
        match client.ok().map(|client| self.callers.is_left(client, self.address)) {
            Some(Ok(false)) => {}
            // Without knowledge only a request that changes nothing is dropped.
            Some(Err(_)) if !relay.changes_nothing => {}
            // Without an address there is no client.
            None | Some(_) => {
                link.is_deaf = true;
                return self.enqueue(id);
            }
        }
        let again = turn.now.after(relay.looks_again_after);
        relay.looks_again_after = relay.looks_again_after.saturating_mul(2).min(LAST_LOOK_AFTER);
        self.deadlines.arm(GatewayTimer::Left(id), again);
    }

    /// The client's body is malformed, so no more of it can be read.
    fn break_off(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> Step {
        let Some(link) = self.links.get_mut(&id) else {
            return Step::Waits;
        };
        let LinkStage::Relaying(relay) = std::mem::replace(&mut link.stage, LinkStage::Head) else {
            return Step::Again;
        };
        self.tunnels.remove(&relay.tunnel);
        turn.backend.tunnels.close(relay.tunnel);
        if relay.answer.is_none() {
            return self.refuse_chunks(id);
        }
        link.reset_at_close();
        self.hang_up(id, turn);
        Step::Waits
    }

    /// The client is gone. A whole request that may change something continues for some time,
    /// unless the client has reset its connection. Any other request is dropped.
    pub(super) fn let_relay_go(&mut self, relay: &Relay, is_reset: bool, turn: &mut InterfaceTurn<'_>) {
        if relay.is_done {
            return;
        }
        if relay.is_body_done && relay.answer.is_none() && !relay.changes_nothing && !is_reset {
            self.tunnels.insert(relay.tunnel, None);
            turn.backend.tunnels.abandon(relay.tunnel, turn.now);
        } else {
            self.tunnels.remove(&relay.tunnel);
            turn.backend.tunnels.close(relay.tunnel);
        }
    }

    /// Handles the news of the tunnels.
    pub(super) fn hear_tunnels(&mut self, turn: &mut InterfaceTurn<'_>) {
        while let Some((tunnel, news)) = turn.backend.tunnels.next_news() {
            match self.tunnels.get(&tunnel).copied() {
                None => {}
                Some(None) => self.nobody_waits(tunnel, &news, turn),
                Some(Some(id)) => self.hear_tunnel(id, tunnel, news, turn),
            }
        }
    }

    /// Handles an answer without a client: its head shows that the backend has decided.
    fn nobody_waits(&mut self, tunnel: TunnelId, news: &TunnelNews, turn: &mut InterfaceTurn<'_>) {
        match news {
            TunnelNews::HasRoom => {}
            TunnelNews::Head(_) | TunnelNews::HasBytes | TunnelNews::Done | TunnelNews::Failed(_) => {
                self.tunnels.remove(&tunnel);
                turn.backend.tunnels.close(tunnel);
            }
        }
    }

    fn hear_tunnel(&mut self, id: LinkId, tunnel: TunnelId, news: TunnelNews, turn: &mut InterfaceTurn<'_>) {
        self.enqueue(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        let LinkStage::Relaying(relay) = &mut link.stage else {
            return;
        };
        match news {
            TunnelNews::Head(head) => begin_answer(link, &head),
            TunnelNews::HasBytes | TunnelNews::HasRoom => {}
            TunnelNews::Done => {
                relay.is_done = true;
                self.tunnels.remove(&tunnel);
            }
            TunnelNews::Failed(failure) => {
                self.tunnels.remove(&tunnel);
                relay.is_done = true;
                if relay.answer.is_some() {
                    link.reset_at_close();
                    return self.hang_up(id, turn);
                }
                link.form.is_kept &= drop_body(&mut link.reader);
                self.fail(id, &error_of(&failure));
            }
        }
    }
}

/// Works on the first item and on further ones while there is time; the rest of them.
fn within<T>(items: Vec<T>, has_time: impl Fn() -> bool, mut work: impl FnMut(T)) -> Vec<T> {
    let mut items = items.into_iter();
    if let Some(first) = items.next() {
        work(first);
    }
    while has_time()
        && let Some(item) = items.next()
    {
        work(item);
    }
    items.collect()
}

/// Drops the received part of an unwanted body. Returns true if that was its end, so the next
/// request can follow.
fn drop_body(reader: &mut RequestReader) -> bool {
    loop {
        match reader.payload() {
            Ok(BodyStep::Payload(payload)) => {
                let count = payload.len();
                reader.took(count);
            }
            Ok(BodyStep::Over) => return true,
            Ok(BodyStep::Unfinished) | Err(BadChunk) => return false,
        }
    }
}

/// From the client to the backend.
fn upward(link: &mut GatewayLink, turn: &mut InterfaceTurn<'_>) -> Result<Step, BadChunk> {
    let LinkStage::Relaying(relay) = &mut link.stage else {
        return Ok(Step::Again);
    };
    let tunnel = relay.tunnel;
    while !relay.is_body_done && !relay.is_done {
        if let Some(Gathered { body, taken, .. }) = &mut relay.gathered {
            *taken += turn
                .backend
                .tunnels
                .offer(tunnel, body.get(*taken..).unwrap_or_default());
            if *taken < body.len() {
                return Ok(Step::Waits);
            }
            relay.gathered = None;
            relay.is_body_done = true;
            turn.backend.tunnels.body_done(tunnel);
            continue;
        }
        match link.reader.payload()? {
            BodyStep::Payload(payload) => {
                let (offered, taken) = (payload.len(), turn.backend.tunnels.offer(tunnel, payload));
                link.reader.took(taken);
                if taken < offered {
                    return Ok(Step::Waits);
                }
            }
            BodyStep::Unfinished => return Ok(Step::WantsBytes),
            BodyStep::Over => {
                relay.is_body_done = true;
                turn.backend.tunnels.body_done(tunnel);
            }
        }
    }
    Ok(Step::WantsBytes)
}

/// From the backend to the client; the tunnel, when it has ended with that.
fn downward(link: &mut GatewayLink, turn: &mut InterfaceTurn<'_>) -> Option<TunnelId> {
    while let LinkStage::Relaying(Relay {
        tunnel,
        answer: Some(form),
        ..
    }) = &link.stage
    {
        let (tunnel, form) = (*tunnel, *form);
        // The head and a small body leave in one piece.
        if link.waiting() >= PIECE_BYTES {
            link.flush();
        }
        let body = turn.backend.tunnels.body(tunnel);
        let piece = body.get(..body.len().min(PIECE_BYTES)).unwrap_or_default();
        if piece.is_empty() || link.waiting() >= CLIENT_ROOM_BYTES {
            break;
        }
        match form {
            BodyCoding::Plain => link.say(piece),
            BodyCoding::Chunked => {
                let mut bytes = Vec::new();
                push_chunk(&mut bytes, piece);
                link.say(&bytes);
            }
        }
        let count = piece.len();
        if turn.backend.tunnels.took(tunnel, count) {
            if let LinkStage::Relaying(relay) = &mut link.stage {
                relay.is_done = true;
            }
            return Some(tunnel);
        }
    }
    None
}

/// Writes the head of the answer.
fn begin_answer(link: &mut GatewayLink, head: &TunnelHead) {
    let LinkStage::Relaying(relay) = &mut link.stage else {
        return;
    };
    let takes_chunks = link.form.is_kept_by_itself;
    let body = match head.body {
        TunnelBody::Chunked if takes_chunks => BodyCoding::Chunked,
        TunnelBody::None | TunnelBody::Length(_) | TunnelBody::Chunked => BodyCoding::Plain,
    };
    relay.answer = Some(body);
    relay.is_event_stream = head.is_event_stream() && head.body == TunnelBody::Chunked;
    // Without chunks a body of unknown length ends only with the connection. A request that is not
    // read to its end also blocks the next one.
    let ends = head.body == TunnelBody::Chunked && !takes_chunks;
    link.form.is_kept &= relay.is_body_done && !ends;
    let bytes = passed_head(head, takes_chunks, link.form);
    link.say(&bytes);
}

fn error_of(failure: &TunnelFailure) -> GatewayError<'_> {
    let (status, code) = match failure.kind {
        TunnelFailureKind::Overloaded => (503, "gateway_overloaded"),
        TunnelFailureKind::NotSent => (502, "gateway_unreachable"),
        TunnelFailureKind::Unanswered | TunnelFailureKind::BrokenOff => (502, "gateway_no_answer"),
        TunnelFailureKind::TooLate => (504, "gateway_timeout"),
        TunnelFailureKind::NotWhole => (400, "gateway_bad_request"),
    };
    GatewayError {
        status,
        code,
        message: &failure.text,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn one_item_is_worked_on_in_any_case_and_the_rest_while_there_is_time() {
        for (time_for, done_then, rest_then) in [
            (0, vec![1], vec![2, 3, 4]),
            (3, vec![1, 2, 3], vec![4]),
            (9, vec![1, 2, 3, 4], vec![]),
        ] {
            let done = RefCell::new(Vec::new());
            let rest = within(
                vec![1, 2, 3, 4],
                || done.borrow().len() < time_for,
                |item| done.borrow_mut().push(item),
            );
            assert_eq!((done.into_inner(), rest), (done_then, rest_then));
        }
    }
}
