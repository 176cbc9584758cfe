use super::*;
use crate::api::{Manners, ProcessId, PullId, Ready};
use crate::worker::pulls::Pull;

const MANNERS: Manners = Manners {
    hears: true,
    answers_pings: true,
    frame_limit: None,
    answer_within: None,
};

fn ready_for(concurrency: u32) -> Ready {
    Ready {
        concurrency,
        types: None,
        ping: false,
        ok: true,
        cancel_signal: false,
        client: None,
    }
}

/// Holders with this many jobs each, numbered from 1. Each has its own process.
fn holders(jobs: &[usize]) -> Holders {
    let mut holders = Holders::default();
    for (number, held) in (1..).zip(jobs) {
        let id = HolderId(number);
        holders.add(id, ProcessId(100 + number), MANNERS);
        holders.has_jobs(id, *held, 0);
    }
    holders
}

fn state(change: impl FnOnce(&mut Holders, &mut Pulls)) -> HolderState {
    let (mut holders, mut pulls) = (holders(&[1]), Pulls::default());
    change(&mut holders, &mut pulls);
    most_loaded(&holders, &pulls)[0].state
}

fn asks(holders: &mut Holders, pulls: &mut Pulls) {
    holders.change(HolderId(1), |holder| holder.asked_queues.add(None));
    let pull = Pull {
        holder: HolderId(1),
        left: 3,
        queues: None,
    };
    pulls.add(PullId(1), pull);
}

#[test]
fn the_holder_with_the_most_jobs_comes_first_and_among_equals_the_oldest() {
    let shown = most_loaded(&holders(&[1, 3, 0, 3]), &Pulls::default());
    let order: Vec<_> = shown.iter().map(|holder| (holder.holder.0, holder.jobs)).collect();
    assert_eq!(order, [(2, 3), (4, 3), (1, 1), (3, 0)]);
}

#[test]
fn of_many_holders_those_with_the_most_jobs_are_shown() {
    let jobs: Vec<usize> = (0..MOST_HOLDERS_SHOWN + 7).collect();
    let shown = most_loaded(&holders(&jobs), &Pulls::default());
    assert_eq!(shown.len(), MOST_HOLDERS_SHOWN);
    assert_eq!(shown.last().map(|holder| holder.jobs), Some(7));
}

#[test]
fn a_holder_shows_its_process_only_if_that_is_known_and_its_concurrency_only_if_it_said_one() {
    let mut holders = holders(&[2, 1]);
    holders.is_ready(HolderId(1), ready_for(4));
    holders.change(HolderId(2), |holder| holder.is_of_unknown_process = true);
    let shown = most_loaded(&holders, &Pulls::default());
    let said: Vec<_> = shown
        .iter()
        .map(|holder| (holder.process, holder.concurrency))
        .collect();
    assert_eq!(said, [(Some(ProcessId(101)), Some(4)), (None, None)]);
}

#[test]
fn each_state_of_a_holder_has_its_own_word() {
    let change = |holders: &mut Holders, is: fn(&mut Holder)| {
        holders.is_ready(HolderId(1), ready_for(4));
        holders.change(HolderId(1), is);
    };
    assert_eq!(state(|_, _| {}), HolderState::NotReady);
    assert_eq!(state(|holders, _| change(holders, |_| {})), HolderState::Ready);
    assert_eq!(
        state(|holders, pulls| {
            asks(holders, pulls);
            pulls.take(PullId(1));
        }),
        HolderState::Ready
    );
    assert_eq!(state(asks), HolderState::Asking);
    let paused = state(|holders, _| {
        holders.is_ready(HolderId(1), ready_for(0));
    });
    assert_eq!(paused, HolderState::Paused);
    let alone = state(|holders, _| change(holders, |holder| holder.is_kept = true));
    assert_eq!(alone, HolderState::Alone);
    let given_up = state(|holders, _| change(holders, |holder| holder.is_given_up = true));
    assert_eq!(given_up, HolderState::GivenUp);
    let closed = state(|holders, _| {
        change(holders, |holder| {
            holder.is_given_up = true;
            holder.is_closed = true;
        });
    });
    assert_eq!(closed, HolderState::Closed);
}
