//! Every phase and every trigger, as text that a person reads: a golden file and the table in
//! `docs/lifecycle.md`, both rendered from the code. Also the properties that the table as a whole
//! must have. The page also has the times of a shutdown, its steps, and the way of an outcome to
//! the backend.

mod clock;
mod reports;
mod steps;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ojs_lifecycle::api::Phase;
use ojs_lifecycle::shutdown::phase::{Trigger, Verdict, verdict};

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test --test pure lifecycle_table";
const TABLE_BEGINS: &str = "<!-- table: rendered from crates/lifecycle/src/shutdown/phase.rs, do not edit -->\n";
const CLOCK_BEGINS: &str = "<!-- clock: taken from the machine as it runs, do not edit -->\n";
const CLOCK_ENDS: &str = "<!-- end of clock -->\n";
const STEPS_BEGIN: &str = "<!-- steps: rendered from crates/lifecycle/src/shutdown/steps.rs, do not edit -->\n";
const STEPS_END: &str = "<!-- end of steps -->\n";
const REPORTS_BEGIN: &str = "<!-- reports: rendered from crates/lifecycle/src/jobs/stages.rs, do not edit -->\n";
const REPORTS_END: &str = "<!-- end of reports -->\n";
const TABLE_ENDS: &str = "<!-- end of table -->\n";

fn path(relative: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(relative)
}

fn is_renewing() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// One block for each phase, one line for each trigger.
fn as_list() -> String {
    let mut text = String::from("# Every phase x every trigger: where it leads, or why nothing happens.\n");
    writeln!(
        text,
        "# Rendered from crates/lifecycle/src/shutdown/phase.rs; renew: {RENEW}"
    )
    .unwrap();
    for phase in Phase::ALL {
        let stays = if phase.is_terminating() { ", no way back" } else { "" };
        writeln!(text, "\n{phase:?}{stays}").unwrap();
        for trigger in Trigger::ALL {
            writeln!(
                text,
                "  {:<16} {}",
                format!("{trigger:?}"),
                cell(verdict(phase, trigger))
            )
            .unwrap();
        }
    }
    text
}

/// One row for each trigger, one column for each phase.
fn as_markdown() -> String {
    let mut text = String::from("| trigger |");
    for phase in Phase::ALL {
        write!(text, " {phase:?} |").unwrap();
    }
    text.push('\n');
    text.push_str(&"|---".repeat(Phase::ALL.len() + 1));
    text.push_str("|\n");
    for trigger in Trigger::ALL {
        write!(text, "| **{trigger:?}** |").unwrap();
        for phase in Phase::ALL {
            write!(text, " {} |", markdown_cell(verdict(phase, trigger))).unwrap();
        }
        text.push('\n');
    }
    text
}

fn cell(verdict: Verdict) -> String {
    match verdict {
        Verdict::Move(phase) => format!("-> {phase:?}"),
        Verdict::Stay(why) => format!("stays: {why}"),
    }
}

fn markdown_cell(verdict: Verdict) -> String {
    match verdict {
        Verdict::Move(phase) => format!("**→ {phase:?}**"),
        Verdict::Stay(why) => why.to_owned(),
    }
}

#[test]
fn the_table_is_the_one_that_was_reviewed() {
    let file = path("crates/lifecycle/tests/pure/lifecycle_table/table.txt");
    if is_renewing() {
        fs::write(&file, as_list()).unwrap();
    }
    let reviewed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        reviewed == as_list(),
        "crates/lifecycle/tests/pure/lifecycle_table/table.txt is stale. If the change is meant: {RENEW}, and read the difference.\n\n{}",
        as_list()
    );
}

#[test]
fn the_tables_in_the_docs_are_the_codes() {
    in_the_docs(&[
        (CLOCK_BEGINS, clock::as_markdown(), CLOCK_ENDS),
        (TABLE_BEGINS, as_markdown(), TABLE_ENDS),
        (STEPS_BEGIN, steps::as_markdown(), STEPS_END),
        (REPORTS_BEGIN, reports::as_markdown(), REPORTS_END),
    ]);
}

/// Each text is between its marks on the page; renewed together, since all are in one file.
#[track_caller]
fn in_the_docs(rendered: &[(&str, String, &str)]) {
    let file = path("docs/lifecycle.md");
    let mut page = fs::read_to_string(&file).unwrap();
    for (begins, text, ends) in rendered {
        let (before, rest) = page.split_once(begins).unwrap();
        let (shown, after) = rest.split_once(ends).unwrap();
        assert!(
            is_renewing() || shown == text,
            "docs/lifecycle.md is stale: {RENEW}\n\n{text}"
        );
        page = format!("{before}{begins}{text}{ends}{after}");
    }
    if is_renewing() {
        fs::write(&file, page).unwrap();
    }
}

#[test]
fn the_longest_shutdown_is_over_by_the_slack_before_the_limit_whatever_the_limit_and_the_margin() {
    for (limit, slack) in [
        (1_000, 250),
        (2_000, 250),
        (3_000, 300),
        (5_000, 500),
        (8_000, 500),
        (10_000, 500),
        (30_000, 500),
        (90_000, 500),
    ] {
        for margin in [None, Some(0), Some(50), Some(200), Some(limit / 2)] {
            let took = clock::longest(Duration::from_millis(limit), margin.map(Duration::from_millis));
            assert_eq!(
                took,
                Duration::from_millis(limit - slack),
                "limit {limit} ms, margin {margin:?} ms"
            );
        }
    }
}

#[test]
fn the_diagram_in_the_docs_is_the_codes() {
    let source = fs::read_to_string(path("crates/lifecycle/src/shutdown/phase.rs")).unwrap();
    let in_source: Vec<&str> = source
        .lines()
        .skip_while(|line| *line != "//! ```text")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").trim_start_matches(' ').trim_end())
        .collect();
    let page = fs::read_to_string(path("docs/lifecycle.md")).unwrap();
    let in_docs: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "```text")
        .skip(1)
        .take_while(|line| *line != "```")
        .map(str::trim)
        .collect();
    assert!(!in_docs.is_empty());
    assert_eq!(
        in_source, in_docs,
        "copy the diagram of crates/lifecycle/src/shutdown/phase.rs"
    );
}

#[test]
fn no_cell_is_empty_and_no_move_leads_to_where_it_began() {
    for phase in Phase::ALL {
        for trigger in Trigger::ALL {
            match verdict(phase, trigger) {
                Verdict::Stay(why) => assert!(why.len() > 5, "{phase:?} x {trigger:?} gives no reason"),
                Verdict::Move(to) => assert_ne!(phase, to, "{phase:?} x {trigger:?}"),
            }
        }
    }
}

/// Every phase that any sequence of triggers, of any length, can lead to.
fn reachable(from: Phase, triggers: &[Trigger]) -> BTreeSet<Phase> {
    let mut found = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(phase) = open.pop() {
        for trigger in triggers {
            if let Verdict::Move(to) = verdict(phase, *trigger)
                && found.insert(to)
            {
                open.push(to);
            }
        }
    }
    found
}

#[test]
fn no_sequence_of_triggers_leads_back_from_terminate() {
    for phase in Phase::ALL.into_iter().filter(|phase| phase.is_terminating()) {
        let back: Vec<_> = reachable(phase, &Trigger::ALL)
            .into_iter()
            .filter(|to| !to.is_terminating())
            .collect();
        assert!(back.is_empty(), "{phase:?} leads back to {back:?}");
    }
}

#[test]
fn phases_only_go_forward_but_for_the_way_from_quiet_to_running() {
    for phase in Phase::ALL {
        for trigger in Trigger::ALL {
            if let Verdict::Move(to) = verdict(phase, trigger)
                && to < phase
            {
                assert_eq!((phase, trigger, to), (Phase::Quiet, Trigger::Resume, Phase::Running));
            }
        }
    }
}

#[test]
fn exited_is_final() {
    assert_eq!(reachable(Phase::Exited, &Trigger::ALL), BTreeSet::from([Phase::Exited]));
}

#[test]
fn every_phase_leads_to_the_exit_once_terminate_was_asked_for() {
    let by_themselves = [
        Trigger::DelayOver,
        Trigger::Drained,
        Trigger::DeadlineReached,
        Trigger::Done,
    ];
    for phase in Phase::ALL.into_iter().filter(|phase| phase.is_terminating()) {
        assert!(
            reachable(phase, &by_themselves).contains(&Phase::Exited),
            "{phase:?} never ends by itself"
        );
    }
}

#[test]
fn a_deadline_ends_every_phase_that_waits_for_somebody() {
    for phase in [Phase::Delay, Phase::Drain, Phase::EndGame] {
        assert_eq!(
            verdict(phase, Trigger::DeadlineReached),
            Verdict::Move(Phase::Stop),
            "{phase:?}"
        );
        assert_eq!(verdict(phase, Trigger::Force), Verdict::Move(Phase::Stop), "{phase:?}");
    }
}

#[test]
fn abandon_ends_every_phase_at_once() {
    for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Exited) {
        assert_eq!(
            verdict(phase, Trigger::Abandon),
            Verdict::Move(Phase::Exited),
            "{phase:?}"
        );
    }
}

#[test]
fn nothing_ends_without_being_asked_to() {
    let harmless: Vec<Trigger> = Trigger::ALL
        .into_iter()
        .filter(|trigger| {
            ![
                Trigger::Terminate,
                Trigger::Force,
                Trigger::Abandon,
                Trigger::WorkerLost,
            ]
            .contains(trigger)
        })
        .collect();
    assert_eq!(
        reachable(Phase::Running, &harmless),
        BTreeSet::from([Phase::Running, Phase::Quiet])
    );
}

#[test]
fn only_phases_in_which_something_is_being_ended_can_be_done_with_it() {
    let done: Vec<Phase> = Phase::ALL
        .into_iter()
        .filter(|phase| verdict(*phase, Trigger::Done) == Verdict::Move(Phase::Exited))
        .collect();
    assert_eq!(done, [Phase::EndGame, Phase::Stop]);
}
