//! The surroundings of the machine, as the shell knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::{
    Call, CallId, ClientId, Effect, Event, FromWorker, GivenJob, HolderId, JobId, Manners, Moment, NotStarted,
    OperatorRequest, Options, Phase, Probe, ProcessId, Progress, PullId, Ready, ToWorker, Wants, WorkerId,
};
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::view::metrics::Metrics;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_wire::backend::request::{Identity, request};
use ojs_wire::worker::{HelloContext, encode};

use super::bytes::Bytes;
use super::options::ms;
use super::replies::{error, job, jobs, news, reply};

/// Most orders that one event may cause.
const MOST_EFFECTS: usize = 2_000;

/// Most deadlines at once: a few for each of the jobs and holders of these worlds.
const MOST_DEADLINES: usize = 500;

/// A holder, as the shell knows it.
#[derive(Debug, Default, Clone, Copy)]
struct Link {
    is_filled: bool,
    is_stopped: bool,
}

/// The machine and its surroundings.
#[derive(Debug)]
pub struct World {
    pub machine: Lifecycle,
    pub now: Moment,
    metrics: Metrics,
    exited: bool,
    starts: usize,
    /// Orders of a further worker process that are not answered.
    nexts: usize,
    worker: Option<ProcessId>,
    processes: BTreeSet<ProcessId>,
    /// The last number of a process, a holder, a request for jobs, or a client.
    last: u64,
    links: BTreeMap<HolderId, Link>,
    given: Vec<(HolderId, JobId)>,
    pulls: Vec<(HolderId, PullId)>,
    calls: Vec<(CallId, Call)>,
    clients: BTreeSet<ClientId>,
}

impl World {
    pub fn new(options: Options) -> Self {
        let now = Moment::new(Duration::from_secs(1));
        let mut world = Self {
            machine: Lifecycle::new(options, now),
            now,
            metrics: Metrics::new(now, Duration::from_secs(1_800_000_000)),
            exited: false,
            starts: 0,
            nexts: 0,
            worker: None,
            processes: BTreeSet::new(),
            last: 0,
            links: BTreeMap::new(),
            given: Vec::new(),
            pulls: Vec::new(),
            calls: Vec::new(),
            clients: BTreeSet::new(),
        };
        world.obey();
        world
    }

    pub fn has_exited(&self) -> bool {
        self.exited
    }

    /// Lets one thing happen.
    pub fn step(&mut self, bytes: &mut Bytes<'_>) {
        let event = match bytes.below(32) {
            0..=4 => {
                self.wait(bytes);
                return;
            }
            5..=11 => self.backend_replies(bytes),
            12 | 13 => self.stream_says(bytes),
            14..=19 => self.holder_says(bytes),
            20 => self.link_changes(bytes),
            21 => self.holder_comes(bytes),
            22 | 23 => self.worker_starts(bytes),
            24 => self.something_ends(bytes),
            25 => self.operator(bytes),
            26 => Some(Event::SignalArrived(bytes.pick([
                Signal::TSTP,
                Signal::CONT,
                Signal::TERM,
                Signal::INT,
                Signal::QUIT,
                Signal::HUP,
                Signal::URG,
            ]))),
            27 => Some(Event::MemoryTaken(bytes.pick([0, 79, 80, 100, 255]))),
            28 => Some(bytes.pick([
                Event::CredentialsChanged,
                Event::MemoryRanOut(1),
                Event::WorkerMemory(2_000),
            ])),
            29 => self.holder_asks(bytes),
            30 => self.any_holder(bytes).map(Event::HeardPart),
            _ => self.holder_hangs_up(bytes),
        };
        let Some(event) = event else { return };
        if bytes.one_in(8) {
            self.machine.handle_one_of_several(event, self.now, false);
            self.machine.handle(Event::Reaped { children_left: true }, self.now);
            self.obey();
        } else {
            self.happen(event);
        }
    }

    pub fn happen(&mut self, event: Event) {
        if let Event::BackendReplied(id, reply) = &event {
            self.metrics.answered(*id, reply, Some(200), self.now);
        }
        self.machine.handle(event, self.now);
        self.obey();
    }

    /// Lets time pass to the next deadline. False: there is none.
    pub fn pass_time(&mut self) -> bool {
        let Some((due, _)) = self.machine.poll_timeout() else {
            return false;
        };
        self.now = self.now.max(due);
        self.machine.handle_timeout(self.now);
        self.obey();
        true
    }

    fn wait(&mut self, bytes: &mut Bytes<'_>) {
        let until = self
            .now
            .after(bytes.pick([ms(1), ms(100), ms(2_000), ms(20_000), ms(0)]));
        // A shell that was held up sees several deadlines at once.
        if bytes.one_in(4) {
            self.now = until;
        }
        while self.machine.poll_timeout().is_some_and(|(due, _)| due <= until) && !self.exited {
            self.pass_time();
        }
        self.now = self.now.max(until);
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn any_holder(&self, bytes: &mut Bytes<'_>) -> Option<HolderId> {
        bytes.any(&self.links.keys().copied().collect::<Vec<_>>())
    }

    fn worker_starts(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        if self.starts == 0 {
            self.nexts = self.nexts.checked_sub(1)?;
            match bytes.below(6) {
                4 => return Some(Event::NextNotStarted(NotStarted::Shortage)),
                5 => return Some(Event::NextNotStarted(NotStarted::Refused(127))),
                _ => {}
            }
            let process = ProcessId(self.next());
            self.processes.insert(process);
            return Some(Event::NextStarted(process));
        }
        self.starts -= 1;
        Some(match bytes.below(6) {
            4 => Event::WorkerNotStarted(NotStarted::Shortage),
            5 => Event::WorkerNotStarted(NotStarted::Refused(127)),
            _ => {
                let process = ProcessId(self.next());
                self.worker = Some(process);
                self.processes.insert(process);
                Event::WorkerStarted {
                    process,
                    worker: WorkerId(format!("w{}", self.last).into()),
                }
            }
        })
    }

    fn holder_comes(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        self.worker?;
        let holder = HolderId(self.next());
        self.links.insert(holder, Link::default());
        let known: Vec<ProcessId> = self.processes.iter().copied().collect();
        let process = match bytes.below(4) {
            0 => None,
            1 => {
                let process = ProcessId(self.next());
                self.processes.insert(process);
                Some(process)
            }
            _ => bytes.any(&known),
        };
        let hears = bytes.one_in(2);
        Some(Event::HolderCame {
            holder,
            process,
            manners: Manners {
                hears,
                answers_pings: hears,
                frame_limit: bytes.pick([None, Some(4_000_000), Some(40)]),
                answer_within: bytes.pick([None, Some(ms(25_000))]),
            },
        })
    }

    fn holder_hangs_up(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let holder = self.any_holder(bytes)?;
        self.links.remove(&holder);
        self.given.retain(|(known, _)| *known != holder);
        self.pulls.retain(|(known, _)| *known != holder);
        Some(Event::HungUp(holder))
    }

    fn link_changes(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let holder = self.any_holder(bytes)?;
        let link = self.links.get_mut(&holder)?;
        if bytes.one_in(2) {
            link.is_filled = !link.is_filled;
            Some(if link.is_filled {
                Event::OutboundFilled(holder)
            } else {
                Event::OutboundEmptied(holder)
            })
        } else {
            link.is_stopped = !link.is_stopped;
            Some(if link.is_stopped {
                Event::ReadingStopped(holder)
            } else {
                Event::ReadingResumed(holder)
            })
        }
    }

    fn something_ends(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let process = bytes.any(&self.processes.iter().copied().collect::<Vec<_>>())?;
        if bytes.one_in(8) {
            return Some(Event::ProcessIsOld(process));
        }
        self.processes.remove(&process);
        if self.worker != Some(process) {
            return Some(Event::ProcessGone(process));
        }
        self.worker = None;
        Some(Event::WorkerEnded(bytes.pick([
            Ended::Exited(0),
            Ended::Exited(3),
            Ended::Signalled(Signal::KILL),
            Ended::UNREAPED,
        ])))
    }

    fn operator(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let known: Vec<ClientId> = self.clients.iter().copied().collect();
        match bytes.below(4) {
            0 => {
                let client = ClientId(self.next());
                self.clients.insert(client);
                Some(Event::OperatorConnected(client))
            }
            1 => {
                let client = bytes.any(&known)?;
                self.clients.remove(&client);
                Some(Event::OperatorLeft(client))
            }
            _ => Some(Event::OperatorAsked(
                bytes.any(&known)?,
                bytes.pick([
                    OperatorRequest::Status { until_end: true },
                    OperatorRequest::Status { until_end: false },
                    OperatorRequest::Quiet,
                    OperatorRequest::Resume,
                    OperatorRequest::Wait {
                        until_idle: true,
                        most: ms(1_000),
                    },
                    OperatorRequest::Wait {
                        until_idle: false,
                        most: ms(u64::MAX),
                    },
                    OperatorRequest::Health(Probe::Live),
                    OperatorRequest::Health(Probe::Ready),
                    OperatorRequest::Health(Probe::Healthy),
                    OperatorRequest::Terminate,
                    OperatorRequest::Stop,
                    OperatorRequest::Prestop,
                    OperatorRequest::Recycle,
                    OperatorRequest::Jobs,
                    OperatorRequest::Cancel("j1".into()),
                ]),
            )),
        }
    }

    fn backend_replies(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let index = bytes.below(self.calls.len());
        self.calls.get(index)?;
        let (id, call) = self.calls.remove(index);
        Some(Event::BackendReplied(id, reply(&call, bytes)))
    }

    fn stream_says(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        let streams = self
            .calls
            .iter()
            .filter(|(_, call)| matches!(call, Call::Listen { .. }));
        let stream = bytes.any(&streams.map(|(id, _)| *id).collect::<Vec<_>>())?;
        Some(Event::StreamSaid(stream, news(bytes)))
    }

    fn holder_asks(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        if bytes.one_in(4) {
            let (holder, pull) = bytes.any(&self.pulls)?;
            return Some(Event::Said(holder, FromWorker::WantsNoMore { pull }));
        }
        let holder = self.any_holder(bytes)?;
        let pull = PullId(self.next());
        self.pulls.push((holder, pull));
        let wants = Wants {
            pull,
            count: bytes.pick([1, 2, 10, u32::MAX]),
            queues: bytes.pick([None, Some(vec!["q0".into()]), Some(vec!["q1".into(), "q2".into()])]),
            within: bytes.pick([ms(0), ms(1_000), ms(25_000)]),
        };
        Some(Event::Said(holder, FromWorker::Wants(wants)))
    }

    fn holder_says(&mut self, bytes: &mut Bytes<'_>) -> Option<Event> {
        // About a job that it was given, most of the time.
        let (holder, job) = match bytes.any(&self.given).filter(|_| !bytes.one_in(8)) {
            Some(given) => given,
            None => (self.any_holder(bytes)?, job(bytes)),
        };
        self.links.get(&holder)?;
        Some(Event::Said(holder, said(job, bytes)))
    }

    /// Carries out the orders.
    fn obey(&mut self) {
        assert_eq!(self.machine.invariants(), Ok(()));
        let mut count = 0;
        while let Some(effect) = self.machine.poll_effect() {
            count += 1;
            assert!(count < MOST_EFFECTS, "no end of orders: {effect:?}");
            assert!(!self.exited, "an order after the exit: {effect:?}");
            self.metrics.observe(&effect);
            self.carry_out(effect);
        }
        let snapshot = self.machine.snapshot();
        assert!(snapshot.deadlines < MOST_DEADLINES, "{snapshot:?}");
        if snapshot.phase != Phase::Exited {
            let _ = (
                self.machine.status(self.now),
                self.machine.health(Probe::Healthy, self.now),
            );
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::StartWorker { .. } => self.starts += 1,
            Effect::StartNext => self.nexts += 1,
            Effect::TakeOver(process) => {
                assert!(self.processes.contains(&process), "nobody takes over");
                self.worker = Some(process);
            }
            Effect::SignalWorker(_) => assert!(self.worker.is_some(), "a signal to nobody"),
            Effect::SignalProcess(process, _) => assert!(self.processes.contains(&process), "a signal to nobody"),
            Effect::Tell(holder, word) => {
                assert!(self.links.contains_key(&holder), "a word to nobody: {word:?}");
                let context = HelloContext {
                    concurrency: 1,
                    queues: Vec::new(),
                    max_frame: 1,
                };
                assert!(encode(&word, &context).ends_with(b"\n"));
                if let ToWorker::Job(GivenJob { envelope, .. }) = word {
                    self.given.push((holder, JobId((&*envelope).into())));
                }
            }
            Effect::AnswerPull { holder, pull, jobs } => {
                let place = self.pulls.iter().position(|known| *known == (holder, pull));
                self.pulls.remove(place.expect("an answer to nobody"));
                let jobs = jobs.into_iter().map(|job| (holder, JobId((&*job.envelope).into())));
                self.given.extend(jobs);
            }
            Effect::CallBackend { id, call, .. } => {
                assert!(self.calls.iter().all(|(known, _)| *known != id), "an id twice");
                let _ = request(&call, &us());
                self.calls.push((id, call));
            }
            Effect::AbandonCall(id) => self.calls.retain(|(known, _)| *known != id),
            Effect::WriteTerminationLog(report) => {
                assert!(!ojs_wire::termination_log::text(&report, None, None).is_empty());
            }
            Effect::DropClient(client) => {
                self.clients.remove(&client);
            }
            Effect::Answer(client, _) | Effect::Show(client, _) => {
                assert!(self.clients.contains(&client), "an answer to nobody");
            }
            Effect::Exit(_) => self.exited = true,
            Effect::TerminateDescendants
            | Effect::KillDescendants
            | Effect::KillEverything
            | Effect::AnswerBeat { .. }
            | Effect::ReadToEnd(_)
            | Effect::Close(..)
            | Effect::Notify(_) => {}
        }
    }
}

fn us() -> Identity {
    Identity {
        hostname: "h".to_owned(),
        pid: 1,
        queues: vec!["q0".to_owned()],
        concurrency: 1,
        labels: Vec::new(),
        started_at: String::new(),
    }
}

fn said(job: JobId, bytes: &mut Bytes<'_>) -> FromWorker {
    match bytes.below(12) {
        0 | 1 => FromWorker::Ack {
            job,
            result: bytes.pick([None, Some("1".into())]),
        },
        2 => FromWorker::Fail {
            job,
            error: error(bytes),
        },
        3 => FromWorker::Release {
            job,
            reason: None,
            after: bytes.pick([ms(0), ms(500), ms(u64::MAX)]),
        },
        4 => FromWorker::Progress {
            job,
            progress: Progress {
                fraction: "0.5".into(),
                message: None,
                data: None,
            },
        },
        5 => FromWorker::Checkpoint { job, state: "1".into() },
        6 => FromWorker::Heartbeat { job },
        7 => FromWorker::Beats {
            jobs: bytes.one_in(2).then(|| jobs(bytes)),
        },
        8 => FromWorker::Pong {
            id: bytes.pick([0, 1, 2, u64::MAX]),
        },
        9 => FromWorker::Garbage {
            code: ojs_lifecycle::api::ErrorCode::NotJson,
            message: "no".into(),
            job: Some(job.clone()),
            answer: bytes.one_in(2).then(|| Box::new(FromWorker::Ack { job, result: None })),
        },
        _ => FromWorker::Ready(Ready {
            concurrency: bytes.pick([1, 0, 2, 10_000]),
            types: bytes.pick([None, Some(vec!["t0".into()]), Some(Vec::new())]),
            ping: bytes.one_in(2),
            ok: bytes.one_in(2),
            cancel_signal: bytes.one_in(2),
            client: None,
        }),
    }
}
