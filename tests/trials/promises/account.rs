//! The account that the init gives at its end: the exit status, the closing line of the log, the
//! termination log.

use std::collections::BTreeSet;

use ojs_devserver::End;

use super::{Hand, Judge, Verdict, broken};
use crate::crash::Crash;
use crate::ends::{NOISE, SLACK};
use crate::journal::Word;
use crate::kinds::{Behaviour, Program};
use crate::plan::INTERRUPTED;
use crate::support::sys::Ended;

/// The exit status of an init that has ended its worker and starts it no more.
const ENDED_BY_US: i32 = 1;

/// Most bytes of a termination log.
const MOST_BYTES: usize = 4096;

/// The jobs that are counted at the end.
#[derive(Debug, Default)]
struct Counted {
    cut_off: usize,
    status: Option<i32>,
}

impl Judge<'_> {
    /// Jobs that it has to count as cut off.
    fn cut_off(&self) -> Vec<Hand<'_>> {
        self.hands().filter(|hand| self.is_cut_off(hand)).collect()
    }

    /// Those that it may count besides: the worker had them, perhaps, without having begun. Where
    /// the backend is not reliable nobody outside can know.
    fn possibly_cut_off(&self) -> Vec<Hand<'_>> {
        let granted = self.granted();
        let is_late = |hand: &Hand<'_>| hand.end_ms().is_some_and(|end| end > granted - SLACK);
        // A line that is written into a closed socket, or during a SIGKILL, does not get through.
        let is_released = |hand: &Hand<'_>| {
            let released = hand
                .word(Word::Releasing)
                .filter(|_| !self.plan.behaviour.may_end_first());
            // The runner has to see that the program has ended, and then reports it.
            let way = if self.plan.behaviour.is_exec() { NOISE } else { SLACK };
            released.is_some_and(|ms| ms < granted - way)
        };
        let is_given_back = |hand: &Hand<'_>| hand.end() == Some(End::Requeued) && !is_released(hand) && is_late(hand);
        // The FAIL of such a job may have met a backend that was too slow for what was left.
        let answers = [Word::Acked, Word::Failed, Word::Releasing];
        let is_unheard = |hand: &Hand<'_>| {
            let is_unanswered = answers.iter().all(|word| hand.word(*word).is_none());
            hand.end().is_none() && is_unanswered && hand.took.is_some_and(|took| took < granted + SLACK)
        };
        let is_possible = |hand: &Hand<'_>| {
            let is_kept = self.is_kept_from_discarding(hand) && !is_released(hand);
            let went_back = self.plan.requeues && (is_given_back(hand) || is_kept);
            self.is_cut_off(hand) || is_unheard(hand) || went_back
        };
        self.hands().filter(is_possible).collect()
    }

    /// The last line of the log.
    fn closing(&self) -> Option<Counted> {
        let is_closing = |line: &&str| line.contains("; exit status ");
        let line = self.story.log.lines().rev().find(is_closing)?;
        Some(counted(line))
    }

    pub(super) fn the_log_counts(&self) -> Verdict {
        const PROMISE: &str = "the log counts what was cut off";
        if self.story.ended.is_none() || self.ends.is_abandoned() {
            return Vec::new();
        }
        let Some(closing) = self.closing() else {
            return broken(PROMISE, "it has no closing line");
        };
        let least = self.cut_off().len();
        let most = if self.plan.weather.is_reliable() {
            self.possibly_cut_off().len()
        } else {
            usize::MAX
        };
        if (least..=most).contains(&closing.cut_off) {
            return Vec::new();
        }
        broken(PROMISE, format!("{} instead of {least} to {most}", closing.cut_off))
    }

    pub(super) fn the_termination_log_agrees(&self) -> Verdict {
        const PROMISE: &str = "the termination log agrees";
        let (Some((_, Ended::Code(status))), Some(closing)) = (self.story.ended, self.closing()) else {
            return Vec::new();
        };
        // A disk that is busy, and this says so.
        if self.story.log.contains("the termination log cannot be written in time") {
            return Vec::new();
        }
        let text = &self.story.termination;
        let first = text.lines().next().unwrap_or_default();
        let said = counted(first);
        if text.len() > MOST_BYTES || said.status != Some(status) || said.cut_off != closing.cut_off {
            return broken(PROMISE, format!("{} bytes, {first:?} against {closing:?}", text.len()));
        }
        let listed = text.lines().skip_while(|line| *line != "cut off:").skip(1);
        // Another list may follow, and behind an id what kind of job it is.
        let listed = listed.take_while(|line| !line.ends_with(':'));
        let names: BTreeSet<&str> = listed.filter_map(|line| line.split([' ', ',']).next()).collect();
        let ids = |hands: &[Hand<'_>]| {
            hands
                .iter()
                .map(|hand| hand.job.id.clone())
                .collect::<BTreeSet<String>>()
        };
        let (least, most) = (ids(&self.cut_off()), ids(&self.possibly_cut_off()));
        let is_complete = least.iter().all(|id| names.contains(id.as_str()));
        let is_true = !self.plan.weather.is_reliable() || names.iter().all(|name| most.contains(*name));
        // A job that was delivered twice has one name.
        let is_counted = names.len() <= said.cut_off && names.is_empty() == (said.cut_off == 0);
        if (is_complete && is_true || self.ends.is_abandoned()) && is_counted {
            return self.jobs_from_then_on();
        }
        broken(
            PROMISE,
            format!("it names {names:?} of {} and not {least:?}", said.cut_off),
        )
    }

    /// How many were done and failed since the end began, give or take those at that very moment.
    fn jobs_from_then_on(&self) -> Verdict {
        const PROMISE: &str = "the termination log agrees";
        let (Some(asked), Some(t0)) = (self.ends.asked, self.ends.t0) else {
            return Vec::new();
        };
        if self.plan.behaviour.may_end_first() || self.ends.is_abandoned() || !self.plan.weather.is_reliable() {
            return Vec::new();
        }
        let line = self
            .story
            .termination
            .lines()
            .find_map(|line| line.trim_start_matches("other ").strip_prefix("jobs from then on: "));
        let said = |what: &str| {
            let part = line
                .unwrap_or_default()
                .split(", ")
                .find_map(|part| part.strip_suffix(what));
            part.map_or(Some(0), |count| count.trim().parse::<usize>().ok())
        };
        let ends_since = |ms: f64, is_failed: bool| {
            let is_so = |hand: &Hand<'_>| match hand.end() {
                Some(End::Acked) => !is_failed,
                Some(End::Failed) => is_failed && !self.is_cut_off(hand),
                Some(End::Requeued | End::VisibilityTimeout | End::WorkerDeath | End::Cancelled) | None => false,
            };
            let hands = self.hands().filter(|hand| hand.end_ms().is_some_and(|end| end > ms));
            hands.filter(is_so).count()
        };
        let mut verdict = Vec::new();
        for (what, is_failed) in [(" done", false), (" failed", true)] {
            let range = ends_since(t0 + NOISE, is_failed)..=ends_since(asked - NOISE, is_failed);
            if !said(what).is_some_and(|said| range.contains(&said)) {
                verdict.extend(broken(PROMISE, format!("{:?}{what} instead of {range:?}", said(what))));
            }
        }
        verdict
    }

    /// The status with which a worker of this behaviour takes the init with it, and whether it
    /// must.
    fn own_status(&self) -> Option<(i32, bool)> {
        let mut notes = self.story.notes.iter();
        let acted = notes.find(|note| note.word == Word::Acting)?.ms;
        let asked = self.ends.asked.unwrap_or(f64::MAX);
        if acted > self.ends.t0.unwrap_or(f64::MAX) + NOISE {
            return None;
        }
        match self.plan.behaviour {
            Behaviour::Crashes => Some((Crash::after(self.plan.act_after).status(), acted + NOISE < asked)),
            Behaviour::Exec(Program::Kills) => Some((128 + libc::SIGKILL, acted + NOISE < asked)),
            // The init ends it because of that: SIGTERM does not impress it.
            Behaviour::Closes => Some((128 + libc::SIGKILL, false)),
            // The init ends it because of that, and does not start it again.
            Behaviour::Hangs if !self.plan.restarts() => Some((ENDED_BY_US, false)),
            Behaviour::Good
            | Behaviour::Python
            | Behaviour::Ignores
            | Behaviour::Stops
            | Behaviour::Forks
            | Behaviour::Floods
            | Behaviour::Deaf
            | Behaviour::LastWords
            | Behaviour::Prefork
            | Behaviour::Hangs
            | Behaviour::Sdk(_)
            | Behaviour::Exec(_) => None,
        }
    }

    pub(super) fn exit_status(&self) -> Verdict {
        const PROMISE: &str = "the exit status tells the end";
        let Some((end, ended)) = self.story.ended else {
            return Vec::new();
        };
        let Ended::Code(status) = ended else {
            return broken(PROMISE, format!("{ended:?}"));
        };
        if self.ends.is_abandoned() && status == 128 + self.plan.signal {
            return Vec::new();
        }
        // A signal that comes while it ends anyway may come too late to count.
        let is_too_late = self.ends.stops.last().is_some_and(|last| end - last < NOISE);
        if self.ends.is_abandoned() && !is_too_late {
            return broken(PROMISE, format!("{status} after the third signal"));
        }
        match self.own_status() {
            Some((own, _)) if status == own => return Vec::new(),
            // A worker that was asked to end by then ends as it likes.
            Some((_, true)) if !self.recyclings.is_empty() => {}
            Some((own, true)) => return broken(PROMISE, format!("{status}, and the worker had ended with {own}")),
            Some((_, false)) | None => {}
        }
        if self.ends.t0.is_none() {
            return broken(PROMISE, format!("{status}, and nobody asked for the end"));
        }
        let counted = self.closing().map_or(0, |closing| closing.cut_off);
        let known = self.cut_off().len();
        match status {
            0 if known > 0 || counted > 0 => broken(
                PROMISE,
                format!("0 though {known} jobs were cut off, {counted} by the log"),
            ),
            0 => Vec::new(),
            INTERRUPTED if counted > 0 => Vec::new(),
            INTERRUPTED => broken(PROMISE, "jobs were cut off, and the log does not say so"),
            other => broken(PROMISE, format!("{other}")),
        }
    }
}

/// `..., 3 jobs cut off, ...; exit status 10 ...`, of the log or of the termination log.
fn counted(line: &str) -> Counted {
    let number_before = |end: &str| {
        let (before, _) = line.split_once(end)?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let status = line.split_once("exit status ").and_then(|(_, rest)| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    Counted {
        cut_off: number_before(" jobs cut off")
            .or_else(|| number_before(" job cut off"))
            .unwrap_or(0),
        status,
    }
}
