//! The policy's strengths and its weakness.

use super::{CurveSource, Lama, LamaOptions};
use crate::policy::Policy;
use crate::split::Objective;
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
fn solves_the_example_of_the_paper() {
    // `a1b2c3a4b5c6...` on four pages of one chunk: first come, first served gives 2 and 2 pages, and no hit.
    let class_1 = of_keys((0..9).map(|at| at % 3));
    let class_2 = of_keys(0..9);
    let plan = step(&snapshot(1, vec![(2, class_1), (2, class_2)]));
    assert_eq!(pairs(&plan.moves), [(1, Some(0))]);
    let predicted = plan.predicted.expect("LAMA predicts");
    assert_eq!(predicted.misses_before, 1_000.0);
    assert!((predicted.misses_after - 1_000.0 * 12.0 / 18.0).abs() < 1e-9, "6 hits of 18");
}

#[test]
fn partitioning_a_large_cache_in_units_is_nearly_as_good() {
    // Units have 16 pages.
    let classes = vec![(30_001, scan(1_000.0)), (35_534, cliff(40_000, 1_000.0)), (1, scan(9.0))];
    let options = LamaOptions { moves_max: usize::MAX, ..LamaOptions::default() };
    let plan = testing::step(&mut Lama { options, ..Lama::default() }, &snapshot(1, classes));
    let moves = 40_000 - 35_534;
    assert!((moves..moves + 16).contains(&plan.moves.len()), "{} moves", plan.moves.len());
    assert!(plan.moves.iter().all(|it| (it.victim.0, it.receiver) == (0, Some(ClassId(1)))));
    assert_eq!(plan.predicted.map(|it| it.misses_after), Some(1_000.0 * 1_009.0 / 2_009.0));
}

#[test]
fn steps_every_m_gets_and_moves_n_pages() {
    let options = LamaOptions { period_gets: 5, moves_max: 3, ..LamaOptions::default() };
    let mut lama = Lama { options, ..Lama::default() };
    assert_eq!(lama.trigger(), Trigger::EveryGets(5));
    let cache = snapshot(10, vec![(20, scan(1_000.0)), (10, cliff(200, 1_000.0))]);
    let plan = testing::step(&mut lama, &cache);
    assert_eq!(pairs(&plan.moves), [(0, Some(1)); 3]);
    assert_eq!(plan.predicted.map(|it| it.misses_after), Some(500.0), "after all moves");
}

#[test]
fn least_referenced_pages_move_first() {
    // Both scans give all pages that they can, those with the fewest references per page first.
    let classes = vec![(10, scan(1_000.0)), (4, scan(320.0)), (2, cliff(14, 5_000.0))];
    let plan = step(&snapshot(1, classes));
    let victims: Vec<u8> = plan.moves.iter().map(|page_move| page_move.victim.0).collect();
    assert_eq!(victims, [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn nothing_moves_below_the_threshold() {
    let cache = |gain| snapshot(1, vec![(5, scan(10_000.0 - gain)), (5, cliff(6, gain))]);
    assert_eq!(step(&cache(10.0)), Plan::default());
    assert_eq!(pairs(&step(&cache(11.0)).moves), [(0, Some(1))]);
}

#[test]
fn request_time_weighs_misses_by_their_duration() {
    let mut cache = snapshot(1, vec![(5, cliff(9, 1_000.0)), (5, cliff(9, 900.0))]);
    for (profile, miss_time_us) in cache.profiles.iter_mut().zip([300.0, 700.0]) {
        (profile.hit_time_us, profile.miss_time_us) = (200.0, miss_time_us);
    }
    let of = |objective| {
        let options = LamaOptions { objective, ..LamaOptions::default() };
        pairs(&testing::step(&mut Lama { options, ..Lama::default() }, &cache).moves)
    };
    assert_eq!(of(Objective::MissRatio), [(1, Some(0)); 4], "the last page stays");
    assert_eq!(of(Objective::RequestTime), [(0, Some(1)); 4]);
}

#[test]
fn uses_footprints_by_default() {
    let mut cache = snapshot(1, vec![(5, cliff(9, 1_000.0)), (5, cliff(9, 900.0))]);
    // By its footprints, the second class gains more.
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
fn nothing_moves_without_curves_or_while_the_pool_has_pages() {
    let cache = snapshot(1, vec![(2, scan(10.0)), (2, cliff(3, 10.0))]);
    assert_ne!(step(&cache), Plan::default());
    assert_eq!(step(&Snapshot { pages_free: 1, ..cache.clone() }), Plan::default());
    assert_eq!(step(&Snapshot { memory_full: false, ..cache.clone() }), Plan::default());
    assert_eq!(step(&Snapshot { profiles: Vec::new(), ..cache }), Plan::default());
}

#[test]
fn weakness_a_class_without_reuse_so_far_loses_its_pages() {
    // The keys of the second class have been seen once and are about to be reused.
    let plan = step(&snapshot(10, vec![(10, zipf(1_000, 5_000.0, 100)), (10, scan(500.0))]));
    assert_eq!(pairs(&plan.moves), [(1, Some(0)); 9]);
}
