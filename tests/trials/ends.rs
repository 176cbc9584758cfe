//! When the end was asked for, by whom, and by when it has to come: from what was sent, said and
//! commanded.

use ojs_devserver::Event;

use super::asked::{Asked, Commanded, Sent};
use super::course::{STOPS_APART_MS, Story};
use super::plan::Plan;

/// The time that a busy machine may add to anything, in milliseconds.
pub const NOISE: f64 = 250.0;

/// The moments of a shutdown, in milliseconds on the clock of the backend's record. Each is the
/// latest at which the init can have known.
#[derive(Debug, Default)]
pub struct Ends {
    /// The end was asked for: by the first stop signal, a command, or the backend.
    pub t0: Option<f64>,
    /// No job is asked for from here on, until the end.
    pub quiet: Option<f64>,
    /// From here on it may have been quiet: somebody asked for that, whenever it was heard.
    pub quiet_from: Option<f64>,
    /// The stop signals that came before the end.
    pub stops: Vec<f64>,
    /// Somebody did not want to wait for the drain.
    pub forced: Option<f64>,
    /// When the drain is over.
    pub deadline: Option<f64>,
    /// The orchestrator's SIGKILL.
    pub limit: Option<f64>,
    /// The end was first asked for, whenever that was heard: nothing of it can be seen before.
    pub asked: Option<f64>,
    /// Until then jobs may finish, whatever is heard when: by the deadline, or by who forces the
    /// end.
    pub granted: Option<f64>,
    /// Two stop signals are one request or two, depending on how busy the machine was.
    pub are_doubtful_twins: bool,
    /// From a SIGTSTP to the SIGCONT that takes it back.
    pub pause: Option<(f64, f64)>,
}

/// How far two clocks, or two who look at the same, may be apart, in milliseconds.
pub const SLACK: f64 = 5.0;

/// A stop signal that comes that soon after the last one that counted is the same request, in
/// milliseconds.
const TWIN: f64 = 100.0;

/// From here on a busy machine may have made two of it.
const DOUBTFUL: f64 = 75.0;

/// The signals that ask for the end.
pub fn is_stop(signal: i32) -> bool {
    [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT].contains(&signal)
}

/// Whether the answer was one, and arrived whole.
pub fn is_whole(event: &Event) -> bool {
    event.status == Some(200) && event.fault.is_none_or(|fault| ["delay", "late_reply"].contains(&fault))
}

/// Whether what it asks for was done, whatever was heard of it.
pub fn is_carried_out(event: &Event) -> bool {
    let is_instead = |fault: &str| ["status", "page", "redirect", "store_away"].contains(&fault);
    event.status == Some(200) && !event.fault.is_some_and(is_instead)
}

/// Of the stop signals those that are not one request with the one that counted last.
fn that_count<'a>(sent: impl Iterator<Item = &'a Sent>) -> Vec<&'a Sent> {
    let mut counted: Vec<&Sent> = Vec::new();
    for sent in sent {
        if counted.last().is_none_or(|last| sent.ms - last.ms >= TWIN) {
            counted.push(sent);
        }
    }
    counted
}

/// The first of them.
fn first(moments: impl Iterator<Item = f64>) -> Option<f64> {
    moments.reduce(f64::min)
}

/// When commands of these verbs had been taken.
fn taken(asked: &Asked, verbs: &[&str]) -> impl Iterator<Item = f64> {
    let is_taken = |command: &&Commanded| verbs.contains(&command.verb()) && command.is_taken();
    let ended: Vec<f64> = asked
        .commands
        .iter()
        .filter(is_taken)
        .map(|command| command.ended)
        .collect();
    ended.into_iter()
}

impl Ends {
    /// The moments of this trial.
    pub fn of(plan: &Plan, story: &Story) -> Self {
        let asked = &story.asked;
        let end = story.ended.map_or(f64::MAX, |(ms, _)| ms);
        let is_stop = |sent: &&Sent| is_stop(sent.signal) && sent.began < end;
        let all_stops: Vec<&Sent> = asked.sent.iter().filter(is_stop).collect();
        let is_doubtful = |pair: &[&Sent]| pair.iter().rev().map(|sent| sent.ms).reduce(|later, one| later - one);
        let mut apart = all_stops.windows(2).filter_map(is_doubtful);
        let are_doubtful_twins = apart.any(|apart| (DOUBTFUL..STOPS_APART_MS).contains(&apart));
        let counted = that_count(all_stops.into_iter());
        let stops: Vec<f64> = counted.iter().map(|sent| sent.ms).collect();
        let mut begun_stops = counted.iter().map(|sent| sent.began);
        let signalled = stops.first().copied();
        let t0 = first(
            signalled
                .into_iter()
                .chain(heard(story))
                .chain(taken(asked, &["terminate", "stop"])),
        );
        let hooks = asked
            .commands
            .iter()
            .filter(|command| command.verb() == "prestop" && command.is_taken());
        let hooks: Vec<f64> = hooks.map(|hook| hook.began).collect();
        let resumed = asked.sent.iter().find(|sent| sent.signal == libc::SIGCONT);
        let resumed = resumed.map(|sent| sent.ms);
        let tstp = asked.sent.iter().find(|sent| sent.signal == libc::SIGTSTP);
        let tstp = tstp.map(|sent| sent.ms);
        // The orchestrator begins to count with its hook; without a SIGTERM after it, it was not
        // the orchestrator.
        let counts = hooks.iter().copied().chain(tstp.filter(|_| plan.kubernetes));
        let clock = signalled.map(|signalled| counts.fold(signalled, f64::min));
        let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
        let limit = clock.map(|clock| clock + millis(plan.limit));
        let drain = millis(plan.grace.min(plan.limit - plan.margin));
        let deadline = |t0: f64| {
            let end = limit.map_or(f64::MAX, |limit| limit - millis(plan.margin));
            // The time that a hook has used is gone.
            end.min(t0 + drain)
        };
        let begun = |verbs: &[&str]| {
            let of_verbs = asked.commands.iter().filter(|command| verbs.contains(&command.verb()));
            first(of_verbs.map(|command| command.began))
        };
        let first_asked = [begun_stops.next(), asked.directed, begun(&["terminate", "stop"])];
        let first_asked = first(first_asked.into_iter().flatten());
        let hurries = [first_asked.map(deadline), begun_stops.next(), begun(&["stop"])];
        // A program has to be started before it can ask.
        let quiets = taken(asked, &["quiet"]).chain(hooks.iter().map(|began| began + NOISE));
        Self {
            t0,
            quiet: first(t0.into_iter().chain(quiets).chain(tstp.filter(|_| resumed.is_none()))),
            quiet_from: first(begun(&["quiet", "prestop"]).into_iter().chain(tstp)),
            forced: first(stops.get(1).copied().into_iter().chain(taken(asked, &["stop"]))),
            deadline: t0.map(deadline),
            asked: first_asked,
            granted: first(hurries.into_iter().flatten()),
            pause: tstp.zip(resumed),
            are_doubtful_twins,
            limit,
            stops,
        }
    }

    /// The third stop signal; a terminate of the backend or an operator is none.
    pub fn is_abandoned(&self) -> bool {
        self.stops.len() >= 3
    }
}

/// When the backend's word was heard.
fn heard(story: &Story) -> Option<f64> {
    let directed = story.asked.directed?;
    // A heartbeat that arrived before may be answered without the directive.
    let is_asked_after = |event: &Event| event.arrived_ms.unwrap_or(event.ms) > directed;
    let is_answer = |event: &&Event| event.operation == "heartbeat" && is_asked_after(event) && is_whole(event);
    first(story.events.iter().filter(is_answer).map(|event| event.ms))
}
