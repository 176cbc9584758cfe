//! The plain init, decided on paper: time is an argument, so hours pass in no time.

use proptest::prelude::*;

use super::*;

const DRAIN: Duration = Duration::from_secs(10);
const BUDGET: Budget = Budget {
    drain: DRAIN,
    limit: Duration::from_secs(20),
    is_cut: false,
};

fn at(seconds: f64) -> Moment {
    Moment::new(Duration::from_secs_f64(1000.0 + seconds))
}

fn without_limit() -> PlainInit {
    PlainInit::new(PlainOptions::default())
}

fn with_limit() -> PlainInit {
    PlainInit::new(PlainOptions {
        budget: Some(BUDGET),
        ..PlainOptions::default()
    })
}

/// All present orders, without the notices.
fn orders(init: &mut PlainInit) -> Vec<PlainEffect> {
    std::iter::from_fn(|| init.poll_effect())
        .filter(|effect| !matches!(effect, PlainEffect::Notify(_)))
        .collect()
}

fn after(init: &mut PlainInit, event: PlainEvent, seconds: f64) -> Vec<PlainEffect> {
    init.handle(event, at(seconds));
    orders(init)
}

fn due(init: &mut PlainInit, seconds: f64) -> Vec<PlainEffect> {
    init.handle_timeout(at(seconds));
    orders(init)
}

fn to_child(signal: Signal) -> PlainEffect {
    PlainEffect::Send(signal, SignalTarget::Child)
}

const TERM: PlainEvent = PlainEvent::SignalArrived(Signal::TERM);
const HUP: PlainEvent = PlainEvent::SignalArrived(Signal::HUP);
const ENDED: PlainEvent = PlainEvent::ChildEnded(Ended::Exited(7));
const NONE_LEFT: PlainEvent = PlainEvent::Reaped { children_left: false };
const SOME_LEFT: PlainEvent = PlainEvent::Reaped { children_left: true };

#[test]
fn without_a_limit_a_stop_signal_is_just_forwarded() {
    let mut init = without_limit();
    assert_eq!(after(&mut init, TERM, 0.0), [to_child(Signal::TERM)]);
    assert_eq!(init.poll_timeout(), None);
}

#[test]
fn without_a_limit_the_childs_end_is_ours_whoever_is_left() {
    let mut init = without_limit();
    assert_eq!(after(&mut init, ENDED, 0.0), [PlainEffect::Exit(7)]);
    assert_eq!(after(&mut init, SOME_LEFT, 0.0), []);
}

#[test]
fn a_status_that_is_remapped_becomes_zero() {
    let mut remap_exit = RemapExit::default();
    remap_exit.insert(143);
    let mut init = PlainInit::new(PlainOptions {
        remap_exit,
        ..PlainOptions::default()
    });
    assert_eq!(
        after(&mut init, PlainEvent::ChildEnded(Ended::Signalled(Signal::TERM)), 0.0),
        [PlainEffect::Exit(0)]
    );
}

#[test]
fn a_rewritten_signal_is_forwarded_as_the_other_one_and_a_dropped_one_not_at_all() {
    let rewrite = BTreeMap::from([(Signal::TERM, Some(Signal::QUIT)), (Signal::HUP, None)]);
    let mut init = PlainInit::new(PlainOptions {
        rewrite,
        ..PlainOptions::default()
    });
    assert_eq!(after(&mut init, TERM, 0.0), [to_child(Signal::QUIT)]);
    assert_eq!(after(&mut init, HUP, 0.0), []);
}

#[test]
fn with_process_group_forwarded_signals_go_to_the_group() {
    let mut init = PlainInit::new(PlainOptions {
        process_group: true,
        ..PlainOptions::default()
    });
    assert_eq!(
        after(&mut init, TERM, 0.0),
        [PlainEffect::Send(Signal::TERM, SignalTarget::Group)]
    );
}

#[test]
fn a_stop_signal_wakes_a_stopped_child_and_starts_the_clock() {
    let mut init = with_limit();
    assert_eq!(
        after(&mut init, TERM, 0.0),
        [to_child(Signal::TERM), to_child(Signal::CONT)]
    );
    assert_eq!(init.poll_timeout(), Some((at(10.0), PlainTimer::Deadline)));
}

#[test]
fn a_signal_that_asks_for_no_stop_starts_no_clock() {
    let mut init = with_limit();
    assert_eq!(after(&mut init, HUP, 0.0), [to_child(Signal::HUP)]);
    assert_eq!(init.poll_timeout(), None);
}

#[test]
fn a_stop_that_is_rewritten_still_starts_the_clock() {
    let usr1 = "USR1".parse().unwrap();
    for rewrite in [(Signal::TERM, Some(usr1)), (usr1, Some(Signal::TERM))] {
        let options = PlainOptions {
            rewrite: BTreeMap::from([rewrite]),
            budget: Some(BUDGET),
            ..PlainOptions::default()
        };
        let mut init = PlainInit::new(options);
        init.handle(PlainEvent::SignalArrived(rewrite.0), at(0.0));
        assert_eq!(
            init.poll_timeout(),
            Some((at(10.0), PlainTimer::Deadline)),
            "{rewrite:?}"
        );
    }
}

#[test]
fn a_second_stop_signal_is_forwarded_and_moves_no_deadline() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    assert_eq!(after(&mut init, TERM, 3.0), [to_child(Signal::TERM)]);
    assert_eq!(init.poll_timeout(), Some((at(10.0), PlainTimer::Deadline)));
}

#[test]
fn at_the_deadline_everything_is_killed_and_the_childs_real_status_is_ours() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    assert_eq!(due(&mut init, 9.999), []);
    assert_eq!(due(&mut init, 10.0), [PlainEffect::KillEverything]);
    assert_eq!(
        after(&mut init, PlainEvent::ChildEnded(Ended::Signalled(Signal::KILL)), 10.01),
        []
    );
    assert_eq!(after(&mut init, NONE_LEFT, 10.01), [PlainEffect::Exit(137)]);
}

#[test]
fn a_child_that_ends_in_time_and_leaves_nobody_is_not_waited_for_any_longer() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    assert_eq!(after(&mut init, ENDED, 1.0), []);
    assert_eq!(after(&mut init, NONE_LEFT, 1.0), [PlainEffect::Exit(7)]);
}

#[test]
fn leftovers_of_a_stop_get_sigterm_and_what_is_left_of_the_time() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    after(&mut init, ENDED, 4.0);
    assert_eq!(after(&mut init, SOME_LEFT, 4.0), [PlainEffect::TerminateLeftovers]);
    assert_eq!(init.poll_timeout(), Some((at(10.0), PlainTimer::Deadline)));
    assert_eq!(after(&mut init, NONE_LEFT, 6.0), [PlainEffect::Exit(7)]);
}

#[test]
fn leftovers_of_a_child_that_ended_by_itself_get_the_whole_time() {
    let mut init = with_limit();
    after(&mut init, ENDED, 4.0);
    after(&mut init, SOME_LEFT, 4.0);
    assert_eq!(init.poll_timeout(), Some((at(14.0), PlainTimer::Deadline)));
    assert_eq!(due(&mut init, 14.0), [PlainEffect::KillEverything]);
    assert_eq!(after(&mut init, NONE_LEFT, 14.0), [PlainEffect::Exit(7)]);
}

#[test]
fn a_stop_signal_among_leftovers_may_only_shorten_their_time() {
    let mut init = with_limit();
    after(&mut init, ENDED, 0.0);
    after(&mut init, SOME_LEFT, 0.0);
    assert_eq!(after(&mut init, TERM, 5.0), [], "there is no child to forward it to");
    assert_eq!(init.poll_timeout(), Some((at(10.0), PlainTimer::Deadline)));
}

#[test]
fn descendants_that_are_adopted_later_get_their_sigterm_too() {
    let mut init = with_limit();
    after(&mut init, ENDED, 0.0);
    after(&mut init, SOME_LEFT, 0.0);
    assert_eq!(after(&mut init, SOME_LEFT, 1.0), [], "one look serves a burst of ends");
    assert_eq!(init.poll_timeout(), Some((at(1.02), PlainTimer::Rescan)));
    assert_eq!(due(&mut init, 1.02), [PlainEffect::TerminateLeftovers]);
}

#[test]
fn whoever_appears_after_the_kill_is_killed_too() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    due(&mut init, 10.0);
    after(&mut init, SOME_LEFT, 10.1);
    assert_eq!(due(&mut init, 10.101), [PlainEffect::KillEverything]);
}

#[test]
fn what_even_sigkill_does_not_end_is_left_behind_in_time() {
    let mut init = with_limit();
    after(&mut init, TERM, 0.0);
    due(&mut init, 10.0);
    assert_eq!(init.poll_timeout(), Some((at(11.0), PlainTimer::GiveUp)));
    assert_eq!(due(&mut init, 11.0), [PlainEffect::Exit(137)]);
}

#[test]
fn giving_up_leaves_half_of_the_margin_before_the_orchestrators_limit() {
    let budget = Budget {
        drain: Duration::from_millis(500),
        limit: Duration::from_secs(1),
        is_cut: true,
    };
    let mut init = PlainInit::new(PlainOptions {
        budget: Some(budget),
        ..PlainOptions::default()
    });
    after(&mut init, TERM, 0.0);
    due(&mut init, 0.5);
    assert_eq!(init.poll_timeout(), Some((at(0.75), PlainTimer::GiveUp)));
}

#[test]
fn no_signal_is_sent_to_a_child_that_was_reaped() {
    let mut init = with_limit();
    after(&mut init, ENDED, 0.0);
    assert_eq!(
        after(&mut init, TERM, 0.0),
        [],
        "its pid may belong to somebody else by now"
    );
}

#[derive(Debug, Clone)]
enum Step {
    Signal(i32),
    Ended(u8),
    Reaped(bool),
    Wait(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..=64i32).prop_map(Step::Signal),
        any::<u8>().prop_map(Step::Ended),
        any::<bool>().prop_map(Step::Reaped),
        (0..12_000u16).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..40)
}

/// Runs the machine in simulated time and records its orders with their times.
struct Simulation {
    init: PlainInit,
    now_ms: u64,
    child_is_gone: bool,
    ordered: Vec<(u64, PlainEffect)>,
}

impl Simulation {
    fn now(&self) -> Moment {
        Moment::new(Duration::from_millis(self.now_ms))
    }

    fn handle(&mut self, event: PlainEvent) {
        self.init.handle(event, self.now());
        self.write_down();
    }

    fn write_down(&mut self) {
        let ordered = orders(&mut self.init);
        self.ordered
            .extend(ordered.into_iter().map(|effect| (self.now_ms, effect)));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Signal(number) => self.handle(PlainEvent::SignalArrived(Signal::from_number(number).unwrap())),
            Step::Ended(status) if !self.child_is_gone => {
                self.child_is_gone = true;
                self.handle(PlainEvent::ChildEnded(Ended::Exited(status)));
            }
            Step::Ended(_) => {}
            // There is no moment without children while the child itself exists.
            Step::Reaped(left) => self.handle(PlainEvent::Reaped {
                children_left: left || !self.child_is_gone,
            }),
            Step::Wait(ms) => self.wait(u64::from(ms)),
        }
    }

    fn wait(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        let end = Moment::new(Duration::from_millis(end_ms));
        while let Some((due, _)) = self.init.poll_timeout().filter(|(due, _)| *due <= end) {
            self.now_ms += u64::try_from(due.remaining(self.now()).as_millis()).unwrap();
            self.init.handle_timeout(due);
            self.write_down();
        }
        self.now_ms = end_ms;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After a stop signal the exit is ordered exactly once and last, no later than the drain plus
    /// the time to give up. No signal is sent to a child that was reaped.
    #[test]
    fn a_stop_always_ends_in_time_and_exactly_once(steps in steps()) {
        let mut simulation = Simulation { init: with_limit(), now_ms: 0, child_is_gone: false, ordered: Vec::new() };
        let mut stopped_ms = None;
        for step in steps.iter().chain(&[Step::Signal(15), Step::Wait(11_000)]) {
            let was_gone = simulation.child_is_gone;
            let before = simulation.ordered.len();
            simulation.step(step);
            let sent = simulation.ordered[before..].iter().any(|(_, effect)| matches!(effect, PlainEffect::Send(_, _)));
            prop_assert!(!(was_gone && sent), "sent to a child that was reaped");
            if matches!(step, Step::Signal(2 | 3 | 15)) {
                stopped_ms = stopped_ms.or(Some(simulation.now_ms));
            }
        }
        let exits: Vec<_> = simulation.ordered.iter().filter(|(_, effect)| matches!(effect, PlainEffect::Exit(_))).collect();
        prop_assert_eq!(exits.len(), 1);
        prop_assert!(matches!(simulation.ordered.last(), Some((_, PlainEffect::Exit(_)))));
        prop_assert!(exits[0].0 <= stopped_ms.unwrap() + 11_000);
    }
}
