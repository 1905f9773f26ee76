//! Tests of the decisions.

use super::{Decision, Event, Limits, Round, SECOND_NANOS, Steerer};
use crate::curves::ColdHits;
use crate::goal::{GoalEnd, Purpose};
use crate::split::{Order, Split};
use crate::testing::{counters, move_page, request};
use crate::trial::Verdict;
use slabwise_base::ClassId;
use slabwise_observer::counters::Counters;
use slabwise_policy::PagePolicy;

/// A policy that plans one move at each step, as long as a move saves any misses.
const POLICY: &str = "lama:curve=distance:period_gets=1:moves_max=1:gain_min=0";

/// A server of three classes. Only the items of class 0 are hit in COLD.
struct World {
    server: Counters,
    steerer: Steerer,
    second: u64,
    /// The requests and the misses of each class in a second.
    requests: [u64; 3],
    misses: [u64; 3],
}

impl World {
    fn new(limits: Limits) -> World {
        let policy = PagePolicy::parse(POLICY).expect("the policy is valid");
        World {
            server: counters(&[(1_000, 10), (2_000, 10), (4_000, 10)]),
            steerer: Steerer::new(policy, ColdHits::default(), limits),
            second: 0,
            requests: [10_000; 3],
            misses: [1_000; 3],
        }
    }

    /// Lets a second pass, and returns the decision.
    fn decide(&mut self) -> Decision {
        self.second += 1;
        for class in 0..3 {
            let cold_hits = if class == 0 { 300 } else { 0 };
            let misses = self.misses[class];
            request(&mut self.server, class, self.requests[class] - misses, misses, cold_hits);
        }
        self.steerer.observe(&self.server, self.second * SECOND_NANOS)
    }

    /// Carries out a round.
    fn carry_out(&mut self, round: &Round) {
        let before = self.server.clone();
        let orders: Vec<Order> = round.moves.iter().map(|(order, _)| *order).collect();
        for order in &orders {
            self.steerer.ordered(self.second * SECOND_NANOS);
            move_page(&mut self.server, order.victim.index(), order.receiver.index());
        }
        self.steerer.report(round, &before, &orders, 0, self.second * SECOND_NANOS);
    }

    /// Lets seconds pass until there is a round, and carries it out.
    fn next_round(&mut self) -> Round {
        for _ in 0..300 {
            match self.decide() {
                Decision::Move(round) => {
                    self.carry_out(&round);
                    return round;
                }
                Decision::Wait => {}
                rival => panic!("{rival:?}"),
            }
        }
        panic!("no round in 300 seconds");
    }

    /// Lets this number of seconds pass, and returns the number of moves.
    fn moves_in(&mut self, seconds: u64) -> usize {
        let mut moves = 0;
        for _ in 0..seconds {
            if let Decision::Move(round) = self.decide() {
                moves += round.moves.len();
                self.carry_out(&round);
            }
        }
        moves
    }
}

fn limits() -> Limits {
    Limits { moves_per_minute: 6_000.0, pages_min: 1 }
}

#[test]
fn pages_move_to_the_class_with_hits_in_cold() {
    let mut world = World::new(limits());
    let round = world.next_round();
    assert_eq!(round.purpose, Purpose::Policy);
    assert_eq!(round.moves[0].0.receiver, ClassId(0));
    assert!(round.predicted_saving.is_some_and(|saving| saving > 0.0));
    assert_eq!(*world.steerer.split(), Split::of(&world.server));
}

#[test]
fn no_page_moves_while_the_server_moves_one_or_has_room() {
    let mut world = World::new(limits());
    world.server.is_moving = true;
    assert_eq!(world.moves_in(20), 0);
    world.server.is_moving = false;
    world.server.memory_limit_bytes *= 2;
    assert_eq!(world.moves_in(20), 0);
    world.server.memory_limit_bytes /= 2;
    world.server.pages_free = 1;
    assert_eq!(world.moves_in(20), 0);
    world.server.pages_free = 0;
    assert!(world.moves_in(20) > 0);
}

#[test]
fn classes_keep_the_minimum_of_pages() {
    let mut world = World::new(Limits { pages_min: 8, ..limits() });
    assert_eq!(world.moves_in(600), 4);
    let pages = world.server.classes.iter().map(|class| class.shown.pages);
    assert_eq!(pages.collect::<Vec<_>>(), [14, 8, 8]);
}

#[test]
fn the_rate_of_moves_is_limited() {
    let mut world = World::new(Limits { moves_per_minute: 0.5, pages_min: 1 });
    // Eight moves at once, and one in two minutes.
    let moves = world.moves_in(600);
    assert!((8..=13).contains(&moves), "{moves} moves in ten minutes");
}

#[test]
fn moves_of_others_are_noticed() {
    let mut world = World::new(limits());
    world.next_round();
    // An order of the last seconds excuses at most one move.
    (0..3).for_each(|_| move_page(&mut world.server, 1, 2));
    let decision = (0..10).map(|_| world.decide()).find(|it| matches!(it, Decision::Rival(_)));
    assert!(decision.is_some());
}

#[test]
fn a_trial_that_hurt_is_undone_and_its_classes_are_held() {
    let mut world = World::new(Limits { moves_per_minute: 0.1, ..limits() });
    // For some time, no page can move, so there is a period with which the trial is compared.
    let policy = std::mem::replace(&mut world.steerer.policy, PagePolicy::none());
    assert_eq!(world.moves_in(30), 0);
    world.steerer.policy = policy;
    let before = Split::of(&world.server);
    let round = world.next_round();
    let victim = round.moves[0].0.victim.index();
    world.misses[victim] = 5_000;
    let undo = loop {
        let round = world.next_round();
        if round.purpose == Purpose::Undo {
            break round;
        }
    };
    assert!(!undo.moves.is_empty());
    assert_eq!(Split::of(&world.server), before);
    let events = world.steerer.take_events();
    assert!(
        events.iter().any(|it| matches!(it, Event::Measured(it) if it.verdict == Verdict::Hurt))
    );
    world.misses[victim] = 1_000;
    let after = world.moves_in(250);
    assert_eq!(after, 0, "the receiver is held for five minutes");
}

#[test]
fn a_shift_of_the_traffic_allows_the_moves_that_a_pause_forbids() {
    let mut world = World::new(Limits { moves_per_minute: 0.01, ..limits() });
    assert!(world.moves_in(600) > 0);
    assert_eq!(world.moves_in(300), 0, "all moves that are allowed at once are made");
    world.steerer.take_events();
    world.requests = [40_000, 5_000, 5_000];
    let moves = world.moves_in(60);
    let events = world.steerer.take_events();
    assert!(events.iter().any(|it| matches!(it, Event::Shifted(_))), "{events:?}");
    assert!(moves > 0);
}

#[test]
fn after_a_restart_the_last_split_is_reached_again() {
    let mut world = World::new(limits());
    for _ in 0..4 {
        world.next_round();
    }
    let split = world.steerer.split().clone();
    world.server = counters(&[(1_000, 10), (2_000, 10), (4_000, 10)]);
    world.server.process.pid += 1;
    let round = world.next_round();
    assert_eq!(round.purpose, Purpose::Reapply);
    assert_eq!(Split::of(&world.server), split);
    assert!(world.steerer.take_events().contains(&Event::Restarted));
    // A restart during which others set the split is no rival.
    assert!(!matches!(world.decide(), Decision::Rival(_)));
    let reached = Event::GoalEnded(Purpose::Reapply, GoalEnd::Reached);
    assert!(world.steerer.take_events().contains(&reached));
}

#[test]
fn a_reset_of_the_counts_is_no_restart() {
    let mut world = World::new(limits());
    world.next_round();
    for class in &mut world.server.classes {
        (class.shown.hits, class.shown.sets, class.cold.hits) = (0, 0, 0);
    }
    (world.server.gets, world.server.misses, world.server.pages_moved) = (0, 0, 0);
    assert!(!matches!(world.decide(), Decision::Rival(_)));
    assert!(!world.steerer.take_events().contains(&Event::Restarted));
    world.next_round();
}

/// Steers until a trial has hurt, and returns the undo and the split that it should reach. The undo is not carried out.
fn undo(world: &mut World) -> (Round, Split) {
    let policy = std::mem::replace(&mut world.steerer.policy, PagePolicy::none());
    assert_eq!(world.moves_in(30), 0);
    let four_moves = "lama:curve=distance:period_gets=1:moves_max=4:gain_min=0";
    world.steerer.policy = PagePolicy::parse(four_moves).expect("the policy is valid");
    let before = Split::of(&world.server);
    let round = world.next_round();
    assert!(round.moves.len() > 1, "{round:?}");
    world.steerer.policy = policy;
    round.moves.iter().for_each(|(order, _)| world.misses[order.victim.index()] = 5_000);
    for _ in 0..100 {
        match world.decide() {
            Decision::Move(round) if round.purpose == Purpose::Undo => return (round, before),
            Decision::Move(round) => world.carry_out(&round),
            Decision::Wait => {}
            rival => panic!("{rival:?}"),
        }
    }
    panic!("no undo in 100 seconds");
}

#[test]
fn an_undo_that_is_interrupted_is_completed() {
    let mut world = World::new(Limits { moves_per_minute: 0.1, ..limits() });
    let (undo, split) = undo(&mut world);
    let first = Round { moves: undo.moves[..1].to_vec(), ..undo };
    world.carry_out(&first);
    assert_ne!(Split::of(&world.server), split);
    assert_eq!(*world.steerer.split(), split, "a restart would continue the undo");
    assert_eq!(world.next_round().purpose, Purpose::Undo);
    assert_eq!(Split::of(&world.server), split);
    world.decide();
    let reached = Event::GoalEnded(Purpose::Undo, GoalEnd::Reached);
    assert!(world.steerer.take_events().contains(&reached));
}

#[test]
fn an_undo_ends_with_a_shift_of_the_traffic() {
    let mut world = World::new(Limits { moves_per_minute: 0.1, ..limits() });
    let (round, _) = undo(&mut world);
    world.steerer.report(&round, &world.server, &[], 1, world.second * SECOND_NANOS);
    world.requests = [5_000, 5_000, 60_000];
    let mut has_shifted = false;
    for _ in 0..60 {
        let decision = world.decide();
        has_shifted |= world.steerer.take_events().iter().any(|it| matches!(it, Event::Shifted(_)));
        let Decision::Move(round) = decision else { continue };
        assert!(!has_shifted || round.purpose != Purpose::Undo, "{round:?}");
        let refused = round.moves.len();
        world.steerer.report(&round, &world.server, &[], refused, world.second * SECOND_NANOS);
    }
    assert!(has_shifted);
    assert_eq!(*world.steerer.split(), Split::of(&world.server), "the undo is no plan any more");
}

#[test]
fn the_split_of_before_a_restart_is_reached_however_slowly() {
    let mut world = World::new(limits());
    world.moves_in(600);
    let split = world.steerer.split().clone();
    world.server = counters(&[(1_000, 10), (2_000, 10), (4_000, 10)]);
    world.server.process.pid += 1;
    world.steerer.limits.moves_per_minute = 0.4;
    let needed = split.orders_from(&world.server, 1).len();
    assert!(needed > 8, "more moves are needed than are allowed at once: {needed}");
    while Split::of(&world.server) != split {
        assert_eq!(world.next_round().purpose, Purpose::Reapply);
    }
    world.decide();
    let reached = Event::GoalEnded(Purpose::Reapply, GoalEnd::Reached);
    assert!(world.steerer.take_events().contains(&reached));
}

#[test]
fn orders_that_the_server_refuses_count_for_the_rate_limit() {
    let mut world = World::new(Limits { moves_per_minute: 6.0, ..limits() });
    let mut orders = 0;
    for _ in 0..600 {
        if let Decision::Move(round) = world.decide() {
            orders += round.moves.len();
            let refused = round.moves.len();
            world.steerer.report(&round, &world.server, &[], refused, world.second * SECOND_NANOS);
        }
    }
    assert!((60..=68).contains(&orders), "{orders} orders in ten minutes");
}

#[test]
fn a_move_that_begins_before_the_automover_is_off_is_no_rival() {
    let mut world = World::new(limits());
    world.steerer.took_over(0);
    world.decide();
    move_page(&mut world.server, 1, 2);
    assert!(!matches!(world.decide(), Decision::Rival(_)));
    (0..3).for_each(|_| move_page(&mut world.server, 1, 2));
    assert!(matches!(world.decide(), Decision::Rival(_)));
}
