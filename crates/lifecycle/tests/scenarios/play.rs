//! Plays a script: its settings, then events at their times. Writes down the machine's orders.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, HolderId};
use ojs_lifecycle::api::{Effect, Event, Failure, JobNotice, Moment, Notice, Options, Probe, Reply, Timer, ToWorker};
use ojs_lifecycle::machine::Lifecycle;

use crate::script::holders;
use crate::script::render;
use crate::script::replies;
use crate::script::settings;
use crate::script::words::{self, Wrong};

/// Most timers between two events; more means that one of them never ends.
const MOST_TIMERS: usize = 2000;

/// Longest that `until exit` waits.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Names behind `backend answers ...`: the requests that begin like this, and the answer.
const HABITS: [(&str, &[&str], &str); 9] = [
    ("manifests", &["manifest"], "usual"),
    ("heartbeats", &["heartbeat"], "beaten"),
    ("heartbeats without a list", &["heartbeat"], "beaten without a list"),
    ("registrations", &["register"], "registered"),
    ("fetches", &["fetch"], "no jobs"),
    ("reports", &["ack", "fail", "requeue"], "ok"),
    ("deregistrations", &["deregister"], "ok"),
    ("news", &["progress", "checkpoint"], "ok"),
    ("looks with 429", &["look"], "declined"),
];

/// A request that is on its way.
struct Asked {
    id: CallId,
    text: String,
    give_up: Moment,
}

/// A script and its state while it is played.
struct Player {
    options: Options,
    machine: Option<Lifecycle>,
    now: Moment,
    incarnation: u32,
    asked: Vec<Asked>,
    /// Longest frame of a connection.
    max_frame: usize,
    habits: BTreeSet<&'static str>,
    hidden: BTreeSet<&'static str>,
    shows_log: bool,
    /// Each request that fails is in the log; in a long outage these lines would hide the others.
    hides_failures: bool,
    shows_termination_log: bool,
    reads_at_once: bool,
    is_given: bool,
    is_down: bool,
    /// Requests that are always answered in this way from some time on, by how they begin.
    always: Vec<(String, String)>,
    has_exited: bool,
    written: String,
}

/// The script with the effects as they are now.
pub fn play(script: &str) -> Result<String, Wrong> {
    let mut player = Player {
        options: settings::defaults(),
        max_frame: holders::MAX_FRAME,
        machine: None,
        now: Moment::new(Duration::ZERO),
        incarnation: 0,
        asked: Vec::new(),
        habits: BTreeSet::from(["manifests"]),
        hidden: BTreeSet::from(["manifest"]),
        shows_log: false,
        hides_failures: false,
        shows_termination_log: false,
        reads_at_once: true,
        is_given: true,
        is_down: false,
        always: Vec::new(),
        has_exited: false,
        written: String::new(),
    };
    for (index, line) in script.lines().enumerate() {
        let is_generated = line.trim_start().starts_with('>') || line.trim_start().contains(" ~ ");
        if !is_generated {
            player
                .line(line)
                .map_err(|wrong| format!("line {}: {wrong}", index + 1))?;
        }
    }
    Ok(player.written)
}

/// Timers that became due. At the moment of a regular timer it may have been another one, too.
fn name(timer: Timer) -> String {
    let name = timer.to_string();
    let regular = ["Ping", "Stalled", "Heartbeat", "DrainLog"];
    if regular.iter().any(|regular| name.starts_with(regular)) {
        "due".to_owned()
    } else {
        name
    }
}

impl Player {
    fn line(&mut self, line: &str) -> Result<(), Wrong> {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        match first {
            "" | "#" if first == "#" || rest.is_empty() => {}
            "with" => settings::apply(&mut self.options, &mut self.max_frame, rest)?,
            "show" if rest == "log" => self.shows_log = true,
            "show" if rest == "termination log" => self.shows_termination_log = true,
            // Otherwise every backend is a usual one, and nothing is seen of that.
            "show" if rest == "manifests" => {
                self.hidden.remove("manifest");
                self.habits.remove("manifests");
            }
            "hide" if rest == "failures" => self.hides_failures = true,
            "hide" => self.hide(rest)?,
            "backend" => self.learn(rest.strip_prefix("answers ").ok_or("what does the backend do?")?)?,
            "workers" if rest == "do not read at once" => self.reads_at_once = false,
            "given" => return self.given(line, rest),
            "until" if rest == "exit" => {
                self.begin();
                self.wait_until(Moment::new(LONGEST), true)?;
                if !self.has_exited {
                    return Err("there was no exit".to_owned());
                }
                self.write(line);
                return Ok(());
            }
            time => return self.at(line, time, rest),
        }
        self.write(line);
        Ok(())
    }

    fn write(&mut self, line: &str) {
        self.written.push_str(line);
        self.written.push('\n');
    }

    fn hide(&mut self, what: &str) -> Result<(), Wrong> {
        for name in what.split(", ") {
            let habit = HABITS.iter().find(|(known, ..)| *known == name);
            self.hidden.extend(habit.ok_or_else(|| format!("what is `{name}`"))?.1);
        }
        Ok(())
    }

    fn learn(&mut self, what: &str) -> Result<(), Wrong> {
        for name in what.split(", ") {
            let habit = HABITS.iter().find(|(known, ..)| *known == name);
            self.habits.insert(habit.ok_or_else(|| format!("what is `{name}`"))?.0);
        }
        Ok(())
    }

    fn machine(&mut self) -> &mut Lifecycle {
        let (options, now) = (&self.options, self.now);
        self.machine.get_or_insert_with(|| Lifecycle::new(options.clone(), now))
    }

    /// Events before the script begins, in silence.
    fn given(&mut self, line: &str, what: &str) -> Result<(), Wrong> {
        if !self.is_given {
            return Err("the script has begun".to_owned());
        }
        self.machine();
        if let Some(process) = what.strip_prefix("process ") {
            self.given_process(process)?;
        } else if what.starts_with("jobs ") {
            self.answer("fetch", what)?;
        } else {
            let event = words::event(what, &mut self.incarnation)?;
            self.handle(event)?;
        }
        self.write(line);
        Ok(())
    }

    /// `100 ready for 2 on connection 1, types mail`
    fn given_process(&mut self, text: &str) -> Result<(), Wrong> {
        let (process, rest) = text.split_once(" ready ").ok_or("which process is ready?")?;
        let (conditions, rest) = rest.split_once(" on connection ").ok_or("on which connection?")?;
        let (connection, more) = rest.split_once(", ").unwrap_or((rest, ""));
        let conditions = if more.is_empty() {
            conditions.to_owned()
        } else {
            format!("{conditions}, {more}")
        };
        let mut events = vec![
            format!("connection {connection} opened by {process}"),
            format!("connection {connection}: ready {conditions}"),
        ];
        if self.incarnation == 0 {
            events.insert(0, format!("worker started as {process}"));
        }
        for event in events {
            let event = words::event(&event, &mut self.incarnation)?;
            self.handle(event)?;
        }
        Ok(())
    }

    /// The script begins: from here on every order is written down.
    fn begin(&mut self) {
        self.machine();
        self.is_given = false;
    }

    fn at(&mut self, line: &str, time: &str, what: &str) -> Result<(), Wrong> {
        let seconds: f64 = time.parse().map_err(|_| format!("not understood: `{line}`"))?;
        if self.is_given {
            self.begin();
            // Requests on their way from before are answered out of habit, too.
            self.handle_habits(&mut Vec::new())?;
        }
        let then = Moment::new(Duration::from_micros((seconds * 1e6).round() as u64));
        if what == "the loop was held up until now" {
            // Timers that became due meanwhile are found all at once.
            self.now = then;
            self.write(line);
            return Ok(());
        }
        self.wait_until(then, false)?;
        if self.has_exited {
            return Err("this comes after the exit".to_owned());
        }
        self.now = then;
        self.write(line);
        if what == "nothing" {
            return Ok(());
        }
        let lines = if what == "status" {
            vec![self.status()]
        } else if what == "probes" {
            self.probes()
        } else if let "the backend is down" | "the backend is up" = what {
            self.is_down = what.ends_with("down");
            vec![]
        } else if what == "the backend always answers nothing any more" {
            self.always.clear();
            vec![]
        } else if let Some(rule) = what.strip_prefix("the backend always answers ") {
            let (call, reply) = rule.split_once(" -> ").ok_or("what does it always answer?")?;
            replies::reply_to(call, reply)?;
            self.always.insert(0, (call.to_owned(), reply.to_owned()));
            let mut lines = Vec::new();
            self.handle_habits(&mut lines)?;
            lines
        } else if let Some(told) = what.strip_prefix("stream ") {
            self.told(told)?
        } else if let Some(answer) = what.strip_prefix("backend: ") {
            let (call, reply) = answer.split_once(" -> ").ok_or("what does it answer?")?;
            self.answer(call, reply)?
        } else {
            let event = words::event(what, &mut self.incarnation)?;
            self.handle(event)?
        };
        let lines = if lines.is_empty() {
            vec!["nothing".to_owned()]
        } else {
            lines
        };
        self.write_effects(&lines);
        Ok(())
    }

    fn status(&mut self) -> String {
        let seen = self.machine().snapshot();
        format!(
            "{:?}: {} active ({} waiting, {} held, {} reporting), {} ready connections",
            seen.phase, seen.active, seen.waiting, seen.held, seen.reporting, seen.ready_holders
        )
    }

    /// The answer to each probe.
    fn probes(&mut self) -> Vec<String> {
        let now = self.now;
        let machine = self.machine();
        [Probe::Live, Probe::Ready, Probe::Healthy]
            .map(|probe| (probe, machine.health(probe, now)))
            .map(|(probe, health)| match health.troubles.as_slice() {
                [] => format!("{probe:?}: yes"),
                troubles => format!("{probe:?}: no: {troubles:?}"),
            })
            .to_vec()
    }

    fn write_effects(&mut self, lines: &[String]) {
        for line in lines {
            writeln!(self.written, "         > {line}").ok();
        }
    }

    /// The oldest request that begins like `call` is answered.
    fn answer(&mut self, call: &str, reply: &str) -> Result<Vec<String>, Wrong> {
        let position = self.asked.iter().position(|asked| asked.text.starts_with(call));
        let position = position.ok_or_else(|| format!("nobody has asked for `{call}`"))?;
        let asked = self.asked.remove(position);
        self.handle(Event::BackendReplied(asked.id, replies::reply_to(&asked.text, reply)?))
    }

    /// `default: opens`: a requested stream announces this.
    fn told(&mut self, text: &str) -> Result<Vec<String>, Wrong> {
        let (topic, news) = text.split_once(": ").ok_or("what does the stream tell?")?;
        let request = format!("listen to {topic}");
        let asked = self.asked.iter_mut().find(|asked| asked.text == request);
        let asked = asked.ok_or_else(|| format!("nobody has asked for the stream of `{topic}`"))?;
        // The stream continues.
        asked.give_up = Moment::new(LONGEST);
        let id = asked.id;
        self.handle(Event::StreamSaid(id, words::news(news)?))
    }

    fn handle(&mut self, mut event: Event) -> Result<Vec<String>, Wrong> {
        let now = self.now;
        if let Event::HolderCame { manners, .. } = &mut event {
            manners.frame_limit = manners.frame_limit.and(Some(self.max_frame));
        }
        self.machine().handle(event, now);
        let mut lines = Vec::new();
        self.drain(&mut lines);
        self.handle_habits(&mut lines)?;
        Ok(lines)
    }

    /// Answers the requests with habitual answers.
    fn handle_habits(&mut self, lines: &mut Vec<String>) -> Result<(), Wrong> {
        for _ in 0..MOST_TIMERS {
            let answered = self
                .asked
                .iter()
                .enumerate()
                .find_map(|(index, asked)| Some((index, self.habitual(asked)?)));
            let Some((index, answer)) = answered else { return Ok(()) };
            let asked = self.asked.remove(index);
            let (reply, now) = (replies::reply_to(&asked.text, &answer)?, self.now);
            self.machine().handle(Event::BackendReplied(asked.id, reply), now);
            self.drain(lines);
        }
        Err("answers without end".to_owned())
    }

    fn habitual(&self, asked: &Asked) -> Option<String> {
        if self.is_down {
            return Some("not sent".to_owned());
        }
        let rule = self.always.iter().find(|(begin, _)| asked.text.starts_with(begin));
        if let Some((_, answer)) = rule {
            return Some(answer.clone());
        }
        let (.., answer) = HABITS.iter().find(|(name, begins, _)| {
            let is_habit = if self.is_given && *name != "manifests" {
                ["heartbeats", "registrations"].contains(name)
            } else {
                self.habits.contains(name)
            };
            is_habit && begins.iter().any(|begin| asked.text.starts_with(begin))
        })?;
        Some((*answer).to_owned())
    }

    /// Notes every effect, and lets a worker read its frames.
    fn drain(&mut self, lines: &mut Vec<String>) {
        while let Some(effect) = self.machine().poll_effect() {
            if self.has_exited {
                lines.push(format!("AFTER THE EXIT: {}", render::effect(&effect)));
            }
            if self.is_shown(&effect) {
                lines.push(render::effect(&effect));
            }
            match effect {
                Effect::CallBackend { id, call, give_up, .. } => {
                    let text = render::call(&call);
                    self.asked.push(Asked { id, text, give_up });
                }
                Effect::Tell(connection, ToWorker::Job(_)) if self.reads_at_once => self.has_read(connection),
                Effect::Answer(words::OPERATOR, _) | Effect::Show(words::OPERATOR, _) => {
                    let now = self.now;
                    self.machine().handle(Event::OperatorLeft(words::OPERATOR), now);
                }
                Effect::AbandonCall(id) => self.is_abandoned(id),
                Effect::Exit(_) => self.has_exited = true,
                Effect::StartWorker { .. }
                | Effect::StartNext
                | Effect::TakeOver(_)
                | Effect::SignalWorker(_)
                | Effect::SignalProcess(..)
                | Effect::TerminateDescendants
                | Effect::KillDescendants
                | Effect::KillEverything
                | Effect::Tell(..)
                | Effect::ReadToEnd(_)
                | Effect::Close(..)
                | Effect::Answer(..)
                | Effect::Show(..)
                | Effect::AnswerPull { .. }
                | Effect::AnswerBeat { .. }
                | Effect::DropClient(_)
                | Effect::Notify(_)
                | Effect::WriteTerminationLog(_) => {}
            }
        }
    }

    /// Its connection is closed: no further answer can arrive.
    fn is_abandoned(&mut self, id: CallId) {
        self.asked.retain(|asked| asked.id != id);
        let (nothing, now) = (Reply::Failed(Failure::Unanswered), self.now);
        self.machine().handle(Event::BackendReplied(id, nothing), now);
    }

    fn has_read(&mut self, connection: HolderId) {
        let now = self.now;
        self.machine().handle(Event::OutboundEmptied(connection), now);
    }

    fn is_shown(&self, effect: &Effect) -> bool {
        if let Effect::CallBackend { call, .. } = effect {
            let text = render::call(call);
            return !self.hidden.iter().any(|begin| text.starts_with(begin));
        }
        if let Effect::WriteTerminationLog(_) = effect {
            return self.shows_termination_log;
        }
        let Effect::Notify(notice) = effect else { return true };
        // The notice of an outcome that is sent is for the metrics alone.
        let is_hidden = matches!(notice, Notice::CallFailed { .. }) && self.hides_failures
            || matches!(notice, Notice::Job(JobNotice::OutcomeSent { .. }));
        self.shows_log && !is_hidden
    }

    /// Advances time: timers, and answers that never arrived.
    fn wait_until(&mut self, then: Moment, until_exit: bool) -> Result<(), Wrong> {
        for _ in 0..MOST_TIMERS {
            if self.has_exited && until_exit {
                return Ok(());
            }
            let timer = self.machine().poll_timeout().filter(|(due, _)| *due <= then);
            let late = self.asked.iter().enumerate().min_by_key(|(_, asked)| asked.give_up);
            let late = late.map(|(index, asked)| (index, asked.give_up));
            let late = late.filter(|(_, due)| *due <= then && timer.is_none_or(|(first, _)| *due <= first));
            if let Some((index, due)) = late {
                let asked = self.asked.remove(index);
                self.now = self.now.max(due);
                let event = Event::BackendReplied(asked.id, Reply::Failed(Failure::Unanswered));
                let lines = self.handle(event)?;
                self.write_moment(&format!("no answer: {}", asked.text), &lines);
            } else if let Some((due, timer)) = timer {
                self.now = self.now.max(due);
                let mut lines = Vec::new();
                self.let_timers_fire(&mut lines);
                self.handle_habits(&mut lines)?;
                self.write_moment(&name(timer), &lines);
            } else {
                return Ok(());
            }
        }
        Err("timers without end".to_owned())
    }

    /// Fires every timer of this moment, one after the other. The orders of one are carried out
    /// before the next.
    fn let_timers_fire(&mut self, lines: &mut Vec<String>) {
        let now = self.now;
        while self.machine().poll_timeout().is_some_and(|(due, _)| due <= now) {
            self.machine().handle_timeout(now);
            self.drain(lines);
        }
    }

    fn write_moment(&mut self, what: &str, lines: &[String]) {
        if !lines.is_empty() {
            let since_start = Moment::new(Duration::ZERO).elapsed(self.now).as_secs_f64();
            writeln!(self.written, "{since_start:<8.3} ~ {what}").ok();
            self.write_effects(lines);
        }
    }
}
