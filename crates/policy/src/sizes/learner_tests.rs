//! A small cache with items of some sizes, and a learner that evaluates it.

use super::{LearnerOptions, SizeEvaluation, SizeLearner, SizeSnapshot, Waiting};
use crate::sizes::{ChunkLayout, Demand, loss};

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

fn snapshot<'s>(demands: &'s [Demand], present: &'s [usize], stores: u64) -> SizeSnapshot<'s> {
    SizeSnapshot { demands, present, layout: LAYOUT, filled: 1.0, retired_classes: 0, stores }
}

fn evaluate(learner: &mut SizeLearner, snapshot: &SizeSnapshot<'_>) -> SizeEvaluation {
    learner.evaluate(snapshot).expect("the snapshot is valid")
}

/// Changes the table as the learner decides, with a turnover in between; returns the number of changes.
fn run(learner: &mut SizeLearner, demands: &[Demand], present: &mut Vec<usize>) -> usize {
    let (mut stores, mut changes) = (0, 0);
    for _ in 0..100 {
        let evaluation = evaluate(learner, &snapshot(demands, present, stores));
        stores += demands.iter().map(|demand| demand.items).sum::<u64>();
        match evaluation.waiting {
            None => {
                *present = evaluation.best.expect("a table to change to").table;
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
fn learns_a_table_with_little_loss_and_stops() {
    let items = demands((1_000..1_400).step_by(100), 5_000);
    let mut present = vec![512, 1_504, 32 << 10];
    let mut learner = SizeLearner::new(LearnerOptions::default());
    let lost =
        |present: &[usize]| loss(&items, present, &LAYOUT).expect("a valid table").total_bytes();
    let before = lost(&present);
    assert_eq!(run(&mut learner, &items, &mut present), 1);
    assert!(lost(&present) < before / 10.0, "{} of {before} bytes", lost(&present));
}

#[test]
fn waits_for_items_memory_draining_and_stores() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    let present = [512, 1_504, 32 << 10];
    let (few, many) = (demands(1_000..1_001, 10), demands(1_000..1_001, 10_000));
    let mut waits = |snapshot: SizeSnapshot<'_>| evaluate(&mut learner, &snapshot).waiting;
    let with_few = snapshot(&few, &present, 0);
    assert_eq!(waits(with_few), Some(Waiting::Items { items: 10, items_min: 1_000 }));
    let empty = SizeSnapshot { filled: 0.1, ..snapshot(&many, &present, 0) };
    assert_eq!(waits(empty), Some(Waiting::Memory { filled: 0.1, filled_min: 0.125 }));
    let draining = SizeSnapshot { retired_classes: 2, ..snapshot(&many, &present, 0) };
    assert_eq!(waits(draining), Some(Waiting::Drain { retired_classes: 2 }));
    assert_eq!(waits(snapshot(&many, &present, 0)), None, "otherwise it does not wait");
    let mut changed = learner.clone();
    changed.note_change(500);
    let early = evaluate(&mut changed, &snapshot(&many, &present, 1_000)).waiting;
    assert_eq!(early, Some(Waiting::Stores { stores: 500, stores_min: 10_000 }));
}

#[test]
fn ignores_a_small_gain_and_follows_a_change_of_sizes() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    // 1,000 bytes in chunks of 1,008 lose 0.8 %.
    let mut present = vec![1_008, 32 << 10];
    let items = demands(1_000..1_001, 50_000);
    assert_eq!(run(&mut learner, &items, &mut present), 0);
    let shifted = demands(700..701, 50_000);
    assert_eq!(run(&mut learner, &shifted, &mut present), 1);
    assert!(present.contains(&704), "{present:?}");
}

#[test]
fn a_small_gain_is_validated_with_later_items() {
    let mut learner = SizeLearner::new(LearnerOptions::default());
    // Items of 1,000 bytes lose 40 bytes each.
    let present = [1_040, 2_080, 32 << 10];
    let (items, others) = (demands(1_000..1_001, 10_000), demands(2_000..2_001, 10_000));
    let validation = |stores| Waiting::Validation { stores, stores_min: 10_000, gain: 0.0 };
    let mut waits = |items: &[Demand], stores| {
        let waiting = evaluate(&mut learner, &snapshot(items, &present, stores)).waiting;
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
        "the earlier proposal saves nothing now"
    );
    assert_eq!(waits(&others, 20_000), None);
}

#[test]
fn adds_a_class_if_the_bytes_it_saves_have_value() {
    let options = LearnerOptions { class_price_pages: 20.0, ..LearnerOptions::default() };
    let mut learner = SizeLearner::new(options);
    let present = [6_552, 32 << 10];
    let mut is_split = |byte_value: f64| {
        let small = Demand { size_bytes: 2_000, items: 4_000, byte_value };
        let large = Demand { size_bytes: 6_500, items: 4_000, byte_value: 1.0 };
        evaluate(&mut learner, &snapshot(&[small, large], &present, 0)).waiting.is_none()
    };
    assert!(is_split(1.0), "half of the memory is saved");
    assert!(!is_split(0.01), "the bytes have almost no value");
}
