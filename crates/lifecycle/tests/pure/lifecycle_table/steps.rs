//! Every step of an end and every trigger that can end it, as text that a person reads, and the
//! properties that the table as a whole must have.

use std::fmt::Write as _;

use ojs_lifecycle::shutdown::steps::{StepTrigger, StepVerdict, StopStep};
use ojs_lifecycle::shutdown::steps::{step_verdict, time_of, waits_for};

/// One row for each step, with its longest duration, and one column for each trigger.
pub fn as_markdown() -> String {
    let mut text = String::from("| step | waits until | for at most |");
    for trigger in StepTrigger::ALL {
        write!(text, " {trigger:?} |").unwrap();
    }
    text.push('\n');
    text.push_str(&"|---".repeat(StepTrigger::ALL.len() + 3));
    text.push_str("|\n");
    for step in StopStep::ALL {
        write!(text, "| **{step:?}** | {} | {} |", waits_for(step), time_of(step)).unwrap();
        for trigger in StepTrigger::ALL {
            write!(text, " {} |", cell(step_verdict(step, trigger))).unwrap();
        }
        text.push('\n');
    }
    text
}

fn cell(verdict: StepVerdict) -> String {
    match verdict {
        StepVerdict::Move(step) => format!("**→ {step:?}**"),
        StepVerdict::Stay(why) => why.to_owned(),
    }
}

/// The steps that follow if this trigger ends each of them.
fn way(from: StopStep, trigger: StepTrigger) -> Vec<StopStep> {
    let mut way = vec![from];
    while let StepVerdict::Move(next) = step_verdict(way[way.len() - 1], trigger) {
        way.push(next);
    }
    way
}

fn begun() -> impl Iterator<Item = StopStep> {
    StopStep::ALL.into_iter().filter(|step| *step != StopStep::NotYet)
}

#[test]
fn no_cell_of_the_steps_is_empty_and_each_move_goes_forward() {
    for step in StopStep::ALL {
        for trigger in StepTrigger::ALL {
            match step_verdict(step, trigger) {
                StepVerdict::Stay(why) => assert!(why.len() > 5, "{step:?} x {trigger:?} gives no reason"),
                StepVerdict::Move(to) => assert!(to > step, "{step:?} x {trigger:?} leads back to {to:?}"),
            }
        }
    }
}

#[test]
fn time_alone_leads_every_step_to_the_end() {
    for step in begun() {
        assert_eq!(
            way(step, StepTrigger::TimeOver).last(),
            Some(&StopStep::Over),
            "{step:?}"
        );
    }
}

#[test]
fn whatever_ends_the_steps_before_it_outcomes_get_their_time_and_the_last_words_are_said() {
    for trigger in [StepTrigger::Done, StepTrigger::TimeOver] {
        for step in begun() {
            let way = way(step, trigger);
            for due in [StopStep::Report, StopStep::FinalHeartbeat, StopStep::Deregister] {
                assert!(step > due || way.contains(&due), "{step:?} by {trigger:?}: {way:?}");
            }
        }
    }
}

#[test]
fn who_did_not_end_in_time_gets_the_sigkill_and_who_did_does_not() {
    for step in [StopStep::Cancel, StopStep::Ask] {
        assert!(way(step, StepTrigger::TimeOver).contains(&StopStep::Kill), "{step:?}");
        assert!(!way(step, StepTrigger::Done).contains(&StopStep::Kill), "{step:?}");
    }
}

#[test]
fn who_asks_again_takes_the_grace_away_and_nothing_else() {
    for step in StopStep::ALL {
        let has_grace = matches!(step, StopStep::Cancel | StopStep::Ask);
        let is_moved = matches!(step_verdict(step, StepTrigger::NoGrace), StepVerdict::Move(_));
        assert_eq!(is_moved, has_grace, "{step:?}");
    }
}
