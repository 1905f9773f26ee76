//! Tests of the sequence of trials.

use super::{Progress, SECOND_NANOS, Trials};
use crate::split::Order;
use crate::testing::{counters, move_page, request};
use crate::trial::Verdict;
use slabwise_base::ClassId;
use slabwise_observer::counters::Counters;

/// A server with two classes and its trials.
struct World {
    server: Counters,
    trials: Trials,
    nanos: u64,
}

impl World {
    fn new() -> World {
        World { server: counters(&[(100, 5), (200, 5)]), trials: Trials::default(), nanos: 0 }
    }

    /// Lets seconds pass, in each of which both classes have this number of misses.
    fn pass(&mut self, seconds: u64, misses: u64) -> Progress {
        for _ in 0..seconds {
            self.nanos += SECOND_NANOS;
            (0..2).for_each(|class| request(&mut self.server, class, 1_000 - misses, misses, 0));
            match self.trials.observe(&self.server, self.nanos) {
                Progress::Open => {}
                measured => return measured,
            }
        }
        Progress::Open
    }

    /// Returns true if a round may begin that moves a page back.
    fn may_begin(&self, nanos: u64) -> bool {
        self.may_begin_with(Order { victim: ClassId(1), receiver: ClassId(0) }, nanos)
    }

    fn may_begin_with(&self, order: Order, nanos: u64) -> bool {
        self.trials.may_begin(&self.server, &[order], nanos)
    }

    fn move_page(&mut self) {
        let before = self.server.clone();
        move_page(&mut self.server, 0, 1);
        self.trials.moved(&before, self.nanos);
    }
}

#[test]
fn a_trial_ends_with_a_verdict_after_a_period() {
    for (misses, expected) in [(300, Verdict::Hurt), (30, Verdict::Helped), (100, Verdict::Unclear)]
    {
        let mut world = World::new();
        world.pass(25, 100);
        world.move_page();
        assert_eq!(world.pass(20, misses), Progress::Open, "the period has not ended");
        let Progress::Measured(effect, undo) = world.pass(10, misses) else { panic!("it ends") };
        assert_eq!(effect.verdict, expected);
        assert_eq!(undo.is_some(), expected == Verdict::Hurt);
        assert_eq!(world.trials.is_held(100, world.nanos), expected == Verdict::Hurt);
        assert_eq!(world.may_begin(world.nanos), expected == Verdict::Helped);
        assert!(world.may_begin(world.nanos + 60 * SECOND_NANOS));
        assert!(!world.trials.is_held(100, world.nanos + 301 * SECOND_NANOS));
    }
}

#[test]
fn each_trial_that_does_not_help_doubles_the_pause() {
    let mut world = World::new();
    world.pass(25, 100);
    for pause_seconds in [40, 80, 160] {
        world.move_page();
        let Progress::Measured(..) = world.pass(30, 100) else { panic!("the trial ends") };
        let end = world.nanos + pause_seconds * SECOND_NANOS;
        assert!(!world.may_begin(end - 1) && world.may_begin(end), "{pause_seconds} s");
        world.nanos = end;
        world.pass(25, 100);
    }
    world.move_page();
    world.pass(30, 20);
    assert!(world.may_begin(world.nanos), "a trial has helped");
    world.pass(25, 100);
    world.move_page();
    world.pass(30, 100);
    assert!(world.may_begin(world.nanos + 40 * SECOND_NANOS), "the first pause again");
}

#[test]
fn a_shift_of_the_traffic_ends_the_pause_the_holds_and_the_open_trial() {
    let mut world = World::new();
    world.pass(25, 100);
    world.move_page();
    let Progress::Measured(effect, _) = world.pass(30, 300) else { panic!("the trial ends") };
    assert_eq!(effect.verdict, Verdict::Hurt);
    assert!(!world.may_begin(world.nanos) && world.trials.is_held(100, world.nanos));
    world.trials.shifted();
    assert!(world.may_begin(world.nanos) && !world.trials.is_held(100, world.nanos));
    world.pass(25, 100);
    world.move_page();
    world.trials.shifted();
    assert_eq!(world.pass(60, 900), Progress::Open, "the traffic before was another one");
}

#[test]
fn rounds_join_a_trial_in_its_first_seconds() {
    let mut world = World::new();
    world.pass(25, 100);
    world.move_page();
    world.pass(2, 100);
    assert!(world.may_begin(world.nanos));
    world.pass(3, 100);
    assert!(!world.may_begin(world.nanos));
    let same = Order { victim: ClassId(0), receiver: ClassId(1) };
    assert!(world.may_begin_with(same, world.nanos), "it continues the direction");
    assert!(!world.may_begin_with(same, world.nanos + 91 * SECOND_NANOS));
}

#[test]
fn without_a_period_before_there_is_no_verdict() {
    let mut world = World::new();
    world.pass(2, 500);
    assert!(!world.trials.has_history());
    world.move_page();
    assert_eq!(world.pass(60, 900), Progress::Open);
    assert!(world.may_begin(world.nanos) && world.trials.has_history());
}

#[test]
fn a_measurement_begins_when_the_new_pages_are_full() {
    let mut world = World::new();
    world.pass(25, 100);
    world.move_page();
    let shown = &mut world.server.classes[1].shown;
    shown.free_chunks = shown.chunks_per_page as u64;
    assert_eq!(world.pass(26, 300), Progress::Open, "the page is free");
    world.server.classes[1].shown.free_chunks = 0;
    assert_eq!(world.pass(20, 300), Progress::Open);
    assert_ne!(world.pass(2, 300), Progress::Open);
}

#[test]
fn the_number_of_readings_is_limited() {
    let mut world = World::new();
    world.pass(10_000, 1);
    assert!(world.trials.readings.len() <= super::READINGS_MAX);
}

#[test]
fn a_round_that_takes_long_is_compared_with_the_whole_period_before_it() {
    for seconds in [1, 15, 60] {
        let mut world = World::new();
        world.pass(25, 100);
        let before = world.server.clone();
        move_page(&mut world.server, 0, 1);
        world.nanos += seconds * SECOND_NANOS;
        world.trials.moved(&before, world.nanos);
        let open = world.trials.open.as_ref().expect("a trial is open");
        let period = open.before.as_ref().expect("there is a period before");
        let gets = period.to.gets - period.from.gets;
        assert!((38_000..=40_000).contains(&gets), "{gets} gets before a round of {seconds} s");
        let Progress::Measured(effect, _) = world.pass(40, 300) else { panic!("it ends") };
        assert_eq!(effect.verdict, Verdict::Hurt);
    }
}
