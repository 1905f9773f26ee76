//! Tests of the learner on small caches.

use super::{LearnerOptions, SizeEvaluation, SizeLearner, SizeSnapshot, Waiting};
use crate::sizes::{ChunkLayout, Demand, Method, loss};

const LAYOUT: ChunkLayout = ChunkLayout {
    page_size_bytes: Some(64 << 10),
    chunk_size_bytes_min: 32,
    chunk_size_bytes_max: 32 << 10,
    chunk_align_bytes: 8,
    chaining: None,
};

fn demands(sizes: impl Iterator<Item = usize>, items: u64) -> Vec<Demand> {
    sizes.map(|size_bytes| Demand { size_bytes, items, byte_value: 1.0 }).collect()
}

fn snapshot<'s>(demands: &'s [Demand], current: &'s [usize], stores: u64) -> SizeSnapshot<'s> {
    SizeSnapshot {
        demands,
        current_table: current,
        layout: LAYOUT,
        filled: 1.0,
        retired_classes: 0,
        stores,
    }
}

fn evaluate(learner: &mut SizeLearner, snapshot: &SizeSnapshot<'_>) -> SizeEvaluation {
    learner.evaluate(snapshot).expect("the snapshot is valid")
}

/// Evaluates the cache again and again, with a turnover between two evaluations, and changes the table when the learner
/// decides to. Returns the number of changes.
fn run(learner: &mut SizeLearner, demands: &[Demand], current: &mut Vec<usize>) -> usize {
    let (mut stores, mut changes) = (0, 0);
    for _ in 0..100 {
        let evaluation = evaluate(learner, &snapshot(demands, current, stores));
        stores += demands.iter().map(|demand| demand.items).sum::<u64>();
        match evaluation.waiting {
            None => {
                *current = evaluation.best.expect("the evaluation has a table to change to").table;
                learner.note_change(stores);
                changes += 1;
            }
            Some(Waiting::Validation { .. } | Waiting::Stores { .. }) => {}
            Some(_) => return changes,
        }
    }
    panic!("the learner does not stop changing the table");
}

#[test]
fn the_table_changes_once_and_then_has_little_loss() {
    let items = demands((1_000..1_400).step_by(100), 5_000);
    let mut current = vec![512, 1_504, 32 << 10];
    let mut learner = SizeLearner::new(LearnerOptions::default());
    let lost = |current: &[usize]| {
        loss(&items, current, &LAYOUT).expect("the table is valid").total_bytes()
    };
    let before = lost(&current);
    assert_eq!(run(&mut learner, &items, &mut current), 1);
    assert!(
        lost(&current) < before / 10.0,
        "the loss falls below a tenth of {before} bytes, not to {}",
        lost(&current)
    );
}

#[test]
fn the_learner_waits_for_items_memory_draining_and_stores() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    let current = [512, 1_504, 32 << 10];
    let (few, many) = (demands(1_000..1_001, 10), demands(1_000..1_001, 10_000));
    let mut waits = |snapshot: SizeSnapshot<'_>| evaluate(&mut learner, &snapshot).waiting;
    let with_few = snapshot(&few, &current, 0);
    assert_eq!(waits(with_few), Some(Waiting::Items { items: 10, items_min: 1_000 }));
    let almost_empty = SizeSnapshot { filled: 0.1, ..snapshot(&many, &current, 0) };
    assert_eq!(waits(almost_empty), Some(Waiting::Memory { filled: 0.1, filled_min: 0.125 }));
    let draining = SizeSnapshot { retired_classes: 2, ..snapshot(&many, &current, 0) };
    assert_eq!(waits(draining), Some(Waiting::Drain { retired_classes: 2 }));
    assert_eq!(waits(snapshot(&many, &current, 0)), None, "with enough evidence the table changes");
    let mut changed = learner.clone();
    changed.note_change(500);
    let early = evaluate(&mut changed, &snapshot(&many, &current, 1_000)).waiting;
    assert_eq!(early, Some(Waiting::Stores { stores: 500, stores_min: 10_000 }));
}

#[test]
fn the_table_changes_for_new_item_sizes_but_not_for_a_small_gain() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    // Items of 1,000 bytes in chunks of 1,008 bytes lose 0.8 %.
    let mut current = vec![1_008, 32 << 10];
    let items = demands(1_000..1_001, 50_000);
    assert_eq!(run(&mut learner, &items, &mut current), 0);
    let shifted = demands(700..701, 50_000);
    assert_eq!(run(&mut learner, &shifted, &mut current), 1);
    assert!(current.contains(&704), "items of 700 bytes have a class of 704: {current:?}");
}

#[test]
fn a_small_gain_is_validated_with_later_items() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    // Items of 1,000 bytes lose 40 bytes each.
    let current = [1_040, 2_080, 32 << 10];
    let (items, others) = (demands(1_000..1_001, 10_000), demands(2_000..2_001, 10_000));
    let validation = |stores| Waiting::Validation { stores, stores_min: 10_000, gain: 0.0 };
    let mut waits = |items: &[Demand], stores| {
        let waiting = evaluate(&mut learner, &snapshot(items, &current, stores)).waiting;
        waiting.map(|waiting| match waiting {
            Waiting::Validation { stores, stores_min, .. } => {
                Waiting::Validation { stores, stores_min, gain: 0.0 }
            }
            other => other,
        })
    };
    assert_eq!(waits(&items, 0), Some(validation(0)));
    assert_eq!(waits(&items, 9_999), Some(validation(9_999)));
    assert_eq!(
        waits(&others, 10_000),
        Some(validation(0)),
        "the earlier proposal saves nothing on the new items, so a new validation starts"
    );
    assert_eq!(waits(&others, 20_000), None);
}

#[test]
fn a_class_is_added_only_if_the_bytes_that_it_saves_have_value() {
    let options = LearnerOptions { class_price_pages: 20.0, ..LearnerOptions::default() };
    let mut learner = SizeLearner::new(options);
    let current = [6_552, 32 << 10];
    let mut is_split = |byte_value: f64| {
        let small = Demand { size_bytes: 2_000, items: 4_000, byte_value };
        let large = Demand { size_bytes: 6_500, items: 4_000, byte_value: 1.0 };
        evaluate(&mut learner, &snapshot(&[small, large], &current, 0)).waiting.is_none()
    };
    assert!(is_split(1.0), "a class for the small items saves half of the memory");
    assert!(!is_split(0.01), "the saved bytes have almost no value");
}

#[test]
fn hill_climbing_keeps_the_number_of_classes_and_ends_near_the_exact_loss() {
    let items = demands((900..1_000).step_by(8), 5_000);
    let start = vec![512, 960, 1_504, 2_048, 32 << 10];
    let lost =
        |table: &[usize]| loss(&items, table, &LAYOUT).expect("the table is valid").total_bytes();
    let learn = |method| {
        let options = LearnerOptions { method, ..LearnerOptions::default() };
        let (mut learner, mut current) = (SizeLearner::new(options), start.clone());
        assert!(run(&mut learner, &items, &mut current) >= 1, "{method:?}: the table changes");
        current
    };
    let (exact, climbed) = (learn(Method::Exact), learn(Method::HillClimb));
    assert_eq!(climbed.len(), start.len());
    assert!(lost(&climbed) < 0.6 * lost(&start), "{climbed:?}");
    assert!(lost(&climbed) >= lost(&exact), "no table has a lower loss than the exact one");
    assert_eq!(learn(Method::HillClimb), climbed, "a climb depends only on its seed");
}
