//! Requests as they arrive: the kind of each, its body if it is for ojs-init, and the question to
//! the lifecycle.

use crate::daemon::gateway::arrivals::FORBIDDEN;
use crate::daemon::gateway::body_permits::SMALL_BODY_BYTES;
use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::link::{Asked, LinkStage, Pulling, Request};
use crate::daemon::gateway::{Gateway, InterfaceTurn, Step, release};
use ojs_lifecycle::api::{Event, FromWorker, HolderId, ProcessId, Wants, WorkerState};
use ojs_os::clock;
use ojs_wire::gateway::{
    self as wire, AnswerForm, BadBody, CONTINUE, GatewayError, RequestKind, read_beat, read_fetch, read_outcome,
    read_worker, route, status_line,
};
use ojs_wire::http::body::{BadChunk, BodyStep};
use ojs_wire::http::message::{BadMessage, BodyLength};

const COMPRESSED: GatewayError<'static> = GatewayError {
    status: 415,
    code: "gateway_unsupported_coding",
    message: "the body must be plain JSON: ojs-init takes no Content-Encoding for FETCH, ACK, FAIL and heartbeats",
};

const DOUBTFUL_PATH: GatewayError<'static> = GatewayError {
    status: 400,
    code: "gateway_doubtful_path",
    message: "the path is spelled so that it may be read as one of a worker's requests: write /ojs/v1/workers/... without escapes, \
              semicolons, backslashes and capitals",
};

impl Gateway {
    /// Looks for the next request.
    pub(super) fn next_request(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> Step {
        let is_crowded = self.is_crowded();
        let Some(link) = self.links.get_mut(&id) else {
            return Step::Waits;
        };
        let Some(head) = link.reader.next_head() else {
            return Step::WantsBytes;
        };
        link.last_given = None;
        let head = match head {
            Err(bad) => return self.refuse(id, &GatewayError::of_message(bad)),
            Ok(head) => head,
        };
        link.form = AnswerForm {
            wants_body: head.method != "HEAD",
            is_kept: head.is_kept && !is_crowded,
            is_kept_by_itself: head.takes_chunks,
        };
        if link.needs_bearer && !self.callers.shows_bearer(head.headers.value("authorization")) {
            return self.refuse(id, &FORBIDDEN);
        }
        let route = route(&head.method, &head.target);
        if route == RequestKind::Other {
            self.open_relay(id, head, None, turn);
            return Step::Again;
        }
        if route == RequestKind::Doubtful {
            return self.refuse(id, &DOUBTFUL_PATH);
        }
        let is_too_large = matches!(head.body, BodyLength::Bytes(length) if length > self.body_permits.most as u64);
        if head.awaits_continue && head.body != BodyLength::Bytes(0) && !is_too_large {
            link.say(CONTINUE);
        }
        link.stage = LinkStage::Gathering(Request {
            route,
            head,
            body: Vec::new(),
            permit: None,
            waits_for_permit: false,
            has_permit_since: None,
        });
        if is_too_large {
            self.refuse_too_large(id)
        } else {
            Step::Again
        }
    }

    /// Whether there are more connections than shall stay. Those that end anyway are not counted.
    fn is_crowded(&self) -> bool {
        let stays = || self.links.values().filter(|link| !link.is_leaving());
        self.links.len() > self.limits.many && stays().count() > self.limits.many
    }

    /// Reads the received part of a body.
    pub(super) fn gather(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> Step {
        let Some(link) = self.links.get_mut(&id) else {
            return Step::Waits;
        };
        let LinkStage::Gathering(request) = &mut link.stage else {
            return Step::Again;
        };
        if request.waits_for_permit {
            return Step::Waits;
        }
        loop {
            let payload = match link.reader.payload() {
                Ok(BodyStep::Payload(payload)) => payload,
                Ok(BodyStep::Unfinished) => return Step::WantsBytes,
                Ok(BodyStep::Over) => break,
                Err(BadChunk) => return self.refuse_chunks(id),
            };
            let length = request.body.len() + payload.len();
            if length > self.body_permits.most {
                return self.refuse_too_large(id);
            }
            if length > SMALL_BODY_BYTES && request.permit.is_none() {
                request.permit = self.body_permits.permit(request.head.body);
                if request.permit.is_none() {
                    request.waits_for_permit = true;
                    self.body_permits.wait(id);
                    return Step::Waits;
                }
            }
            request.body.extend_from_slice(payload);
            let count = payload.len();
            link.reader.took(count);
        }
        link.has_asked = true;
        if let LinkStage::Gathering(request) = std::mem::replace(&mut link.stage, LinkStage::Head) {
            let (is_compressed, route) = (is_compressed(&request), request.route);
            if let Err(BadBody(message)) = self.ask(id, request, turn) {
                let invalid = GatewayError {
                    status: 400,
                    code: "gateway_invalid_request",
                    message,
                };
                let error = if is_compressed { &COMPRESSED } else { &invalid };
                self.warn_of_refused_outcome(route, error);
                self.fail(id, error);
            }
        }
        Step::Again
    }

    fn ask(&mut self, id: LinkId, request: Request, turn: &mut InterfaceTurn<'_>) -> Result<(), BadBody> {
        match request.route {
            RequestKind::Fetch => self.ask_for_jobs(id, &request, turn),
            RequestKind::Ack => self.ask_to_take(id, request, false, turn),
            RequestKind::Fail => self.ask_to_take(id, request, true, turn),
            RequestKind::Heartbeat => self.ask_to_hear(id, &request, turn),
            RequestKind::Register | RequestKind::Deregister => {
                let (time, name) = (clock::wall().to_string(), read_worker(&request.body));
                let Some(link) = self.links.get(&id) else { return Ok(()) };
                let state = if request.route == RequestKind::Register {
                    WorkerState::Running
                } else {
                    WorkerState::Terminated
                };
                let answer = wire::registration(name.as_deref(), state, &time, link.form);
                self.answer(id, &answer);
                Ok(())
            }
            // Such a request was handled when its head came, and never gets here.
            RequestKind::Other | RequestKind::Doubtful => {
                self.refuse(id, &DOUBTFUL_PATH);
                Ok(())
            }
        }
    }

    fn ask_for_jobs(&mut self, id: LinkId, request: &Request, turn: &mut InterfaceTurn<'_>) -> Result<(), BadBody> {
        let fetch = read_fetch(&request.body, self.fetches.has_to_name_queues)?;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_deaf) else {
            return Ok(());
        };
        let holder = self
            .book
            .holder(link.process, fetch.worker.as_deref(), turn.processes, turn.events);
        let pull = self.book.pull(holder, id);
        link.stage = LinkStage::Asked(Asked::Jobs(Pulling { holder, pull }));
        let wants = Wants {
            pull,
            count: fetch.count,
            queues: fetch.queues,
            within: self.fetches.within,
        };
        turn.events.push_back(Event::Said(holder, FromWorker::Wants(wants)));
        Ok(())
    }

    fn ask_to_take(
        &mut self,
        id: LinkId,
        request: Request,
        has_failed: bool,
        turn: &mut InterfaceTurn<'_>,
    ) -> Result<(), BadBody> {
        let outcome = read_outcome(&request.body, has_failed)?;
        if !turn.machine.knows(&outcome.job) {
            // No worker here was given that job, and the backend may know it.
            self.pass_on(id, request, turn);
            return Ok(());
        }
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let process = link.process;
        // The next request of a gone process is handled at once, because no client waits for this
        // answer.
        if !link.is_deaf {
            link.stage = LinkStage::Asked(Asked::Outcome(outcome.job.clone()));
        }
        let holder = self.some_holder(process, None, turn);
        if self.book.wait_for_outcome(&outcome.job, holder, id) {
            turn.events.push_back(Event::Said(holder, outcome.said));
        }
        Ok(())
    }

    fn ask_to_hear(&mut self, id: LinkId, request: &Request, turn: &mut InterfaceTurn<'_>) -> Result<(), BadBody> {
        let beat = read_beat(&request.body)?;
        let Some(process) = self
            .links
            .get(&id)
            .filter(|link| !link.is_deaf)
            .map(|link| link.process)
        else {
            return Ok(());
        };
        let holder = self.some_holder(process, beat.worker.as_deref(), turn);
        self.book.wait_for_beat(holder, id);
        if let Some(link) = self.links.get_mut(&id) {
            link.stage = LinkStage::Asked(Asked::Beat);
        }
        // If programs cannot be told apart, a program that does not name itself as the holder
        // proves nothing about the holder's jobs.
        let is_told_apart = process.is_some()
            || beat
                .worker
                .is_some_and(|name| self.book.known(process, &name).is_some());
        let said = FromWorker::Beats {
            jobs: beat.jobs.filter(|_| is_told_apart),
        };
        turn.events.push_back(Event::Said(holder, said));
        Ok(())
    }

    /// The holder of this name, or any of its process, because not every SDK sends its name with
    /// each request.
    fn some_holder(
        &mut self,
        process: Option<ProcessId>,
        name: Option<&str>,
        turn: &mut InterfaceTurn<'_>,
    ) -> HolderId {
        let known = name.and_then(|name| self.book.known(process, name));
        known
            .or_else(|| self.book.any_of(process))
            .unwrap_or_else(|| self.book.holder(process, name, turn.processes, turn.events))
    }

    /// Answers a request that is for ojs-init itself; then the next one is read.
    pub(super) fn answer(&mut self, id: LinkId, bytes: &[u8]) {
        if let Some(link) = self.links.get_mut(&id) {
            link.say(bytes);
            link.stage = LinkStage::Answering(None);
            self.enqueue(id);
        }
    }

    /// Answers a request with an error.
    pub(super) fn fail(&mut self, id: LinkId, error: &GatewayError<'_>) {
        if let Some(link) = self.links.get(&id) {
            let bytes = wire::failed(error, link.form);
            self.answer(id, &bytes);
        }
    }

    /// Refuses a request and closes the connection, because the beginning of the next request is
    /// unknown.
    pub(super) fn refuse(&mut self, id: LinkId, error: &GatewayError<'_>) -> Step {
        if let Some(link) = self.links.get_mut(&id) {
            link.form.is_kept = false;
            if let LinkStage::Gathering(request) = &link.stage {
                let route = request.route;
                self.warn_of_refused_outcome(route, error);
            }
            self.fail(id, error);
        }
        Step::Again
    }

    /// Refuses a request whose body is too long. Without the rest of the body ojs-init does not
    /// know its job.
    fn refuse_too_large(&mut self, id: LinkId) -> Step {
        let most = self.body_permits.most;
        let message = format!("the body is longer than worker.max_frame, {most} bytes: send less, or raise that");
        let too_large = GatewayError {
            status: 413,
            code: "gateway_too_large",
            message: &message,
        };
        self.refuse(id, &too_large)
    }

    /// Warns of an outcome that does not count. An SDK may give up after that without a word, and
    /// its job stays reserved.
    fn warn_of_refused_outcome(&mut self, route: RequestKind, error: &GatewayError<'_>) {
        let outcome = if route == RequestKind::Ack {
            "an ACK"
        } else if route == RequestKind::Fail {
            "a FAIL"
        } else {
            return;
        };
        let (status, why) = (status_line(error.status), error.message);
        self.refused_outcomes.warn(format_args!(
            "gateway: {outcome} of the worker is refused and does not count ({status}): {why}; until another outcome comes, \
             its job stays with the worker"
        ));
    }

    /// Refuses a request because the chunks of its body are malformed.
    pub(super) fn refuse_chunks(&mut self, id: LinkId) -> Step {
        let bad = BadMessage::Malformed("the chunks of its body make no sense");
        self.refuse(id, &GatewayError::of_message(bad))
    }

    /// Whether all of an answer is out; then the next request has its turn, or the connection ends.
    pub(super) fn answer_is_out(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> Step {
        let Some(link) = self.links.get_mut(&id) else {
            return Step::Waits;
        };
        if link.waiting() > 0 {
            return Step::Waits;
        }
        let (is_kept, is_deaf) = (link.form.is_kept, link.is_deaf);
        let next = if is_kept { LinkStage::Head } else { LinkStage::Closing };
        if let LinkStage::Answering(Some(asked)) = std::mem::replace(&mut link.stage, next) {
            if is_deaf {
                release(asked, turn);
            } else {
                link.last_given = Some(asked);
            }
        }
        if is_kept {
            return Step::Again;
        }
        self.begin_closing(id, turn.now);
        Step::WantsBytes
    }
}

/// True if the head announces a coded body.
fn is_compressed(request: &Request) -> bool {
    let coding = request.head.headers.value("content-encoding");
    coding.is_some_and(|coding| !coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
}
