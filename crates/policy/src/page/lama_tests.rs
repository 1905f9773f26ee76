//! Tests of `lama`: its strengths and its weakness.

use super::{CurveSource, Lama, LamaOptions};
use crate::partition::Objective;
use crate::policy::Policy;
use crate::testing;
use crate::testing::curves::{cliff, of_keys, scan, snapshot, zipf};
use crate::{PageMove, Plan, Snapshot, Trigger};
use slabwise_base::ClassId;

fn pairs(moves: &[PageMove]) -> Vec<(u8, Option<u8>)> {
    moves.iter().map(|m| (m.victim.0, m.receiver.map(|class| class.0))).collect()
}

fn step(snapshot: &Snapshot) -> Plan {
    testing::step(&mut Lama::default(), snapshot)
}

#[test]
fn lama_finds_the_best_partition_of_the_example_in_the_paper() {
    // The requests `a1b2c3a4b5c6...` on four pages of one chunk. If both classes have two pages, no request hits.
    let class_1 = of_keys((0..9).map(|at| at % 3));
    let class_2 = of_keys(0..9);
    let plan = step(&snapshot(1, vec![(2, class_1), (2, class_2)]));
    assert_eq!(pairs(&plan.moves), [(1, Some(0))]);
    let predicted = plan.predicted.expect("a plan of LAMA has a prediction");
    assert_eq!(predicted.misses_before, 1_000.0);
    let misses_after = 1_000.0 * 12.0 / 18.0;
    assert!((predicted.misses_after - misses_after).abs() < 1e-9, "6 of 18 requests hit");
}

#[test]
fn a_large_cache_moves_the_pages_that_a_cliff_needs_and_at_most_a_unit_more() {
    // LAMA partitions the 65,536 pages of this cache in 4,096 units of 16 pages.
    let classes = vec![(30_001, scan(1_000.0)), (35_534, cliff(40_000, 1_000.0)), (1, scan(9.0))];
    let options = LamaOptions { moves_max: usize::MAX, ..LamaOptions::default() };
    let plan = testing::step(&mut Lama { options, ..Lama::default() }, &snapshot(1, classes));
    let moves = 40_000 - 35_534;
    assert!((moves..moves + 16).contains(&plan.moves.len()), "{} moves", plan.moves.len());
    assert!(plan.moves.iter().all(|it| (it.victim.0, it.receiver) == (0, Some(ClassId(1)))));
    assert_eq!(plan.predicted.map(|it| it.misses_after), Some(1_000.0 * 1_009.0 / 2_009.0));
}

#[test]
fn a_step_follows_period_gets_and_moves_at_most_moves_max_pages() {
    let options = LamaOptions { period_gets: 5, moves_max: 3, ..LamaOptions::default() };
    let mut lama = Lama { options, ..Lama::default() };
    assert_eq!(lama.trigger(), Trigger::EveryGets(5));
    let cache = snapshot(10, vec![(20, scan(1_000.0)), (10, cliff(200, 1_000.0))]);
    let plan = testing::step(&mut lama, &cache);
    assert_eq!(pairs(&plan.moves), [(0, Some(1)); 3]);
    assert_eq!(
        plan.predicted.map(|it| it.misses_after),
        Some(500.0),
        "the prediction is for the state after all moves"
    );
}

#[test]
fn the_class_with_the_fewest_references_per_page_gives_first() {
    // Each scan gives all its pages except one, in ascending order of references per page.
    let classes = vec![(10, scan(1_000.0)), (4, scan(320.0)), (2, cliff(14, 5_000.0))];
    let plan = step(&snapshot(1, classes));
    let victims: Vec<u8> = plan.moves.iter().map(|page_move| page_move.victim.0).collect();
    assert_eq!(victims, [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn no_page_moves_if_the_gain_does_not_exceed_gain_min() {
    let cache = |gain| snapshot(1, vec![(5, scan(10_000.0 - gain)), (5, cliff(6, gain))]);
    assert_eq!(step(&cache(10.0)), Plan::default());
    assert_eq!(pairs(&step(&cache(11.0)).moves), [(0, Some(1))]);
}

#[test]
fn with_request_time_a_class_with_slower_misses_receives_the_pages() {
    let mut cache = snapshot(1, vec![(5, cliff(9, 1_000.0)), (5, cliff(9, 900.0))]);
    for (profile, miss_time_us) in cache.profiles.iter_mut().zip([300.0, 700.0]) {
        (profile.hit_time_us, profile.miss_time_us) = (200.0, miss_time_us);
    }
    let of = |objective| {
        let options = LamaOptions { objective, ..LamaOptions::default() };
        pairs(&testing::step(&mut Lama { options, ..Lama::default() }, &cache).moves)
    };
    assert_eq!(of(Objective::MissRatio), [(1, Some(0)); 4], "class 1 keeps its last page");
    assert_eq!(of(Objective::RequestTime), [(0, Some(1)); 4]);
}

#[test]
fn curves_come_from_footprints_by_default() {
    let mut cache = snapshot(1, vec![(5, cliff(9, 1_000.0)), (5, cliff(9, 900.0))]);
    // According to footprints, class 1 gains more than class 0.
    cache.profiles[1].footprint_curve = cliff(9, 2_000.0);
    let of = |curve| {
        let mut lama =
            Lama { options: LamaOptions { curve, ..LamaOptions::default() }, ..Lama::default() };
        (pairs(&testing::step(&mut lama, &cache).moves), lama.footprint_gets())
    };
    let footprint = (vec![(0, Some(1)); 4], Some(1_000_000));
    assert_eq!(of(CurveSource::Footprint), footprint);
    assert_eq!(of(LamaOptions::default().curve), footprint);
    assert_eq!(of(CurveSource::Distance), (vec![(1, Some(0)); 4], None));
    let longer = LamaOptions { footprint_gets: 7_000_000, ..LamaOptions::default() };
    assert_eq!(Lama { options: longer, ..Lama::default() }.footprint_gets(), Some(7_000_000));
}

#[test]
fn no_page_moves_without_curves_or_while_the_pool_has_pages() {
    let cache = snapshot(1, vec![(2, scan(10.0)), (2, cliff(3, 10.0))]);
    assert_ne!(step(&cache), Plan::default());
    assert_eq!(step(&Snapshot { pages_free: 1, ..cache.clone() }), Plan::default());
    assert_eq!(step(&Snapshot { memory_full: false, ..cache.clone() }), Plan::default());
    assert_eq!(step(&Snapshot { profiles: Vec::new(), ..cache }), Plan::default());
}

#[test]
fn weakness_a_class_whose_keys_were_not_reused_yet_loses_its_pages() {
    // Each key of class 1 was referenced once, so its curve shows no hits, even if all keys are reused soon.
    let plan = step(&snapshot(10, vec![(10, zipf(1_000, 5_000.0, 100)), (10, scan(500.0))]));
    assert_eq!(pairs(&plan.moves), [(1, Some(0)); 9]);
}
