//! Connections that hang while others are served: one in `every` requests of a kind, for a time.

use std::time::Duration;

use ojs_lifecycle::api::{Call, CallId, Endpoint, JobId, Outcome};

use super::chance::Chance;
use super::plan::{Twist, ms};
use super::promise::{Kept, promise};
use super::talk::Pending;
use super::world::{Exchange, Item, World};

/// How long an ACK may be the only one of its kind, without an answer, when the end is near and
/// there is time. This is the rest of the stop phase before outcomes are sent, and a little more
/// than the time until one counts as hanging there.
const ONE_IS_ENOUGH_FOR: Duration = Duration::from_millis(2_500);

/// The requests that any of it may happen to.
const ENDPOINTS: [Endpoint; 10] = [
    Endpoint::Register,
    Endpoint::Heartbeat,
    Endpoint::Fetch,
    Endpoint::Ack,
    Endpoint::Ack,
    Endpoint::Nack,
    Endpoint::Info,
    Endpoint::Checkpoint,
    Endpoint::Manifest,
    Endpoint::Deregister,
];

/// The fate of a request that hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hanging {
    /// The request never gets there.
    Lost,
    /// The request is carried out, and its answer is lost.
    Unheard,
    /// The request is carried out, and answered, this many ms later, if the machine waits that
    /// long.
    Late(u64),
    /// The request is carried out this long, in ms, after the machine has given it up.
    AfterTheEnd(u64),
}

/// From `from` to `to` one in `every` requests to this endpoint hangs. Times are in ms.
#[derive(Debug, Clone)]
pub struct Hang {
    pub from: u64,
    pub to: u64,
    pub endpoint: Endpoint,
    pub every: u64,
    pub how: Hanging,
}

/// Draws them: in half of all lives some.
pub fn hangs(chance: &mut Chance, horizon: u64, twists: &mut Vec<Twist>) {
    if chance.one_in(2) {
        return;
    }
    for _ in 0..=chance.below(4) {
        let from = chance.below(horizon + 2_000);
        let endpoint = *chance.pick(&ENDPOINTS);
        let may_come_late = endpoint.may_come_twice() && endpoint != Endpoint::Heartbeat || endpoint == Endpoint::Fetch;
        let how = match chance.below(4) {
            0 => Hanging::Lost,
            1 => Hanging::Late(*chance.pick(&[300, 1_100, 2_600, 6_000])),
            2 if may_come_late => Hanging::AfterTheEnd(*chance.pick(&[1, 400, 3_000])),
            _ => Hanging::Unheard,
        };
        twists.push(Twist::Hang(Hang {
            from,
            to: from + *chance.pick(&[400, 3_000, 60_000]),
            endpoint,
            every: *chance.pick(&[1, 2, 2, 3]),
            how,
        }));
    }
}

impl World {
    /// Whether this request hangs, and how.
    pub fn hanging(&mut self, endpoint: Endpoint) -> Option<Hanging> {
        let now = u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX);
        let mut found = None;
        for (place, twist) in self.plan.twists.iter().enumerate() {
            let Twist::Hang(hang) = twist else { continue };
            if hang.endpoint == endpoint && (hang.from..hang.to).contains(&now) {
                let seen = self.hung.entry(place).or_default();
                *seen += 1;
                found = found.or(seen.is_multiple_of(hang.every).then_some(hang.how));
            }
        }
        found
    }

    /// The request is sent, and hangs in this way.
    pub fn hang(&mut self, id: CallId, how: Hanging, give_up: Duration) {
        let unheard = Item::Reply(id, Some(Self::unanswered()));
        match how {
            Hanging::Lost => self.later(give_up, unheard),
            Hanging::Unheard => {
                self.soon(1, Item::CarryOut(id));
                self.later(give_up, unheard);
            }
            Hanging::Late(after) => {
                let answered = self.now + ms(after);
                if answered < give_up {
                    self.soon(after, Item::CarryOut(id));
                    self.later(answered, Item::Reply(id, None));
                } else {
                    self.later(give_up, unheard);
                }
            }
            Hanging::AfterTheEnd(after) => {
                if let Some(exchange) = self.requests.get(&id).cloned() {
                    self.later(give_up + ms(after), Item::CarryOutUnheard(Box::new(exchange)));
                }
                self.later(give_up, unheard);
            }
        }
    }

    /// The backend carries the request out after the machine has given it up.
    pub fn carry_out_unheard(&mut self, exchange: &Exchange) -> Kept {
        let (call, meant) = (&exchange.call, exchange.meant);
        let reply = self.backend.carry_out(call, meant, None, self.now);
        self.note(&format!(
            "   the backend does what nobody waits for: {call:?}: {reply:?}"
        ));
        Ok(())
    }

    /// A job whose outcome was given up is not left with an ACK that was never retried.
    pub fn hold_up_left_behind(&self, id: &JobId) -> Kept {
        let Some(began) = self.stop_began else { return Ok(()) };
        let of_it = |call: &Call| matches!(call, Call::Report { job, outcome: Outcome::Acked { .. }, .. } if job == id);
        let mut open = self.talk.calls.values().filter(|pending| of_it(&pending.call));
        let is_alone = |pending: &&Pending| pending.first.is_none() && pending.refusals.is_empty();
        let (Some(only), None) = (open.next().filter(is_alone), open.next()) else {
            return Ok(());
        };
        let alone = self.now.saturating_sub(only.sent.max(began));
        promise!(
            "an ACK that hangs at the end goes out again",
            alone < ONE_IS_ENOUGH_FOR,
            "{id}: one request for {alone:?}"
        );
        Ok(())
    }
}
