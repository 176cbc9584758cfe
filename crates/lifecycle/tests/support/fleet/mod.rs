//! A fleet of workers against one backend, in simulated time. Each worker is the real machine. The
//! backend is a model: one queue, one request after the other, and event streams.
//!
//! `examples/fleet` prints its figures, and a test of `pure` holds the bounds.

#![allow(dead_code, reason = "the programs that share this use parts of it")]

mod account;
mod backend;
mod conditions;
mod shell;
mod worker;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Event, Options};

pub use account::{Account, Cause};
use backend::{Backend, Change};
pub use conditions::{Conditions, Streams};
use worker::Worker;

use crate::chance::Chance;

/// Longest time after the measurement until the jobs that are left are done.
const MOST_AFTERWARDS: Duration = Duration::from_secs(300);

/// An event at its time. Workers and jobs are named by their places.
#[derive(Debug, Clone, Copy)]
enum Item {
    /// The worker starts.
    Start(usize),
    /// A timer of the machine is due.
    Timer(usize),
    /// A producer enqueues a job, and the next one after a time by chance.
    Enqueue,
    /// A request reaches the backend.
    Arrives(usize, CallId),
    /// The backend has carried out a request.
    Served(usize, CallId),
    /// The answer to a request reaches the worker.
    Answered(usize, CallId),
    /// The next stream receives a change.
    Told(usize),
    /// The end of a stream reaches its worker.
    Cut(usize, CallId),
    /// The handler has done the job.
    Handled(usize, usize),
    /// The reservation of a job ends, if no worker has it.
    Lapses(usize),
}

/// An item and its time. The number keeps items of one moment in their order.
#[derive(Debug)]
struct Due {
    at: Duration,
    number: u64,
    item: Item,
}

/// The heap of the standard library returns the largest first, and that has to be the earliest.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

/// A change of a job on its way to all streams. Only the next stream is in the heap, because a
/// change is sent to thousands.
#[derive(Debug)]
struct FanOut {
    job: usize,
    change: Change,
    /// When each stream receives it, the earliest last.
    heard: Vec<(Duration, usize, CallId)>,
}

/// The workers, the backend, and all that is still to happen.
struct Fleet<'a> {
    conditions: &'a Conditions,
    options: &'a Options,
    now: Duration,
    to_come: BinaryHeap<Due>,
    last_number: u64,
    /// One for each change. `None`: all streams have received it.
    fan_outs: Vec<Option<FanOut>>,
    workers: Vec<Worker>,
    backend: Backend,
    account: Account,
    chance: Chance,
    /// Facts of this moment for one worker.
    inbox: VecDeque<Event>,
}

/// The life of a fleet under these conditions. Each worker has these `options`, except the
/// concurrency, the streams and the seed.
pub fn live(conditions: &Conditions, options: &Options) -> Account {
    let mut fleet = Fleet {
        conditions,
        options,
        now: Duration::ZERO,
        to_come: BinaryHeap::new(),
        last_number: 0,
        fan_outs: Vec::new(),
        workers: Vec::new(),
        backend: Backend::new(conditions),
        account: Account::new(conditions),
        chance: Chance::new(conditions.seed),
        inbox: VecDeque::new(),
    };
    fleet.begin();
    let last = conditions.end() + MOST_AFTERWARDS;
    while let Some(Due { at, item, .. }) = fleet.to_come.pop() {
        let is_over = at >= conditions.end() && fleet.backend.are_all_done();
        if is_over || at > last {
            break;
        }
        fleet.now = at;
        fleet.happens(item);
    }
    fleet.account.close(&fleet.backend.jobs);
    fleet.account
}

impl Fleet<'_> {
    fn begin(&mut self) {
        for number in 0..self.conditions.workers {
            self.workers.push(Worker::new(number, self.conditions, self.options));
            // Half of the warm-up is for the start of the last one.
            let start = self.chance.up_to(self.conditions.warm_up / 2);
            self.later(start, Item::Start(number));
        }
        self.later(self.conditions.lead_begins(), Item::Enqueue);
    }

    fn later(&mut self, delay: Duration, item: Item) {
        self.at(self.now + delay, item);
    }

    fn at(&mut self, at: Duration, item: Item) {
        self.last_number += 1;
        let number = self.last_number;
        self.to_come.push(Due { at, number, item });
    }

    fn happens(&mut self, item: Item) {
        match item {
            Item::Start(worker) => self.obey_and_wait(worker, Cause::Other),
            Item::Timer(worker) => self.timer_is_due(worker),
            Item::Enqueue => self.enqueue(),
            Item::Arrives(worker, call) => {
                let served = self.backend.arrives(self.now);
                self.at(served, Item::Served(worker, call));
            }
            Item::Served(worker, call) => self.serve(worker, call),
            Item::Answered(worker, call) => self.answered(worker, call),
            Item::Told(number) => self.tell_next(number),
            Item::Cut(worker, call) => self.stream_is_cut(worker, call),
            Item::Handled(worker, job) => self.handled(worker, job),
            Item::Lapses(job) => {
                if self.backend.lapses(job) {
                    self.changed(job, Change::Available);
                }
            }
        }
    }

    /// A producer enqueues a job. The first job of all begins the process.
    fn enqueue(&mut self) {
        if self.conditions.jobs_a_second <= 0.0 {
            return;
        }
        let job = self.backend.enqueue(self.now);
        self.changed(job, Change::Available);
        self.enqueue_later();
    }

    /// The producers stop at the end of the measurement.
    fn enqueue_later(&mut self) {
        let at = self.now + self.chance.until_next(self.conditions.jobs_a_second);
        if at < self.conditions.end() {
            self.at(at, Item::Enqueue);
        }
    }

    /// The backend carries out a request, unless its worker has given it up.
    fn serve(&mut self, worker: usize, call: CallId) {
        let Some(request) = self.workers[worker].call(call) else {
            return;
        };
        let done = self.backend.serve(&request.call, worker, call, self.now);
        request.reply = Some(done.reply);
        self.later(self.conditions.back(), Item::Answered(worker, call));
        for (job, change) in done.changes {
            self.changed(job, change);
        }
    }

    /// Announces a changed job to every stream, one after the other, in random order.
    fn changed(&mut self, job: usize, change: Change) {
        if self.backend.news(job, change).is_none() {
            return;
        }
        for (worker, call) in self.backend.cut_old_streams(self.now) {
            self.later(self.conditions.heard_after(0), Item::Cut(worker, call));
        }
        let streams = &mut self.backend.streams;
        let mut heard = Vec::with_capacity(streams.len());
        for place in 0..streams.len() {
            let left = streams.len() - place;
            streams.swap(place, place + self.chance.index(left));
            let at = self.now + self.conditions.heard_after(place);
            let stream = &mut streams[place];
            // A stream keeps its order: no two events arrive at one moment.
            stream.told_until = at.max(stream.told_until + Duration::from_nanos(1));
            heard.push((stream.told_until, stream.worker, stream.call));
        }
        heard.sort_by_key(|(at, ..)| *at);
        heard.reverse();
        let Some((first, ..)) = heard.last().copied() else {
            return;
        };
        self.fan_outs.push(Some(FanOut { job, change, heard }));
        self.at(first, Item::Told(self.fan_outs.len() - 1));
    }

    /// Announces a change to the next streams, until another event is due first.
    fn tell_next(&mut self, number: usize) {
        let Some(mut fan_out) = self.fan_outs[number].take() else {
            return;
        };
        while let Some((at, worker, call)) = fan_out.heard.pop() {
            if self.to_come.peek().is_some_and(|next| next.at < at) {
                fan_out.heard.push((at, worker, call));
                self.fan_outs[number] = Some(fan_out);
                return self.at(at, Item::Told(number));
            }
            self.now = at;
            self.tell_news(worker, call, fan_out.job, fan_out.change);
        }
    }
}
