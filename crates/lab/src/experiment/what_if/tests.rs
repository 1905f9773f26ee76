//! Runs `what-if` at a small scale, and checks the comparison.

use super::{Cases, Predicted, Run, WhatIfSetup};
use crate::experiment::{Experiment, Job};
use crate::registry;
use slabwise_policy::partition::WhatIf;

const SEED: u64 = 11;

#[test]
fn predictions_are_near_the_measured_miss_ratios() {
    let (spec, mut setup) = registry::parsed::<WhatIfSetup>("what-if");
    setup.streams.retain(|stream| stream.name.starts_with("cache2k"));
    assert_eq!(setup.streams.len(), 2);
    let outcome = setup.run(&Job::of(&spec, 0.3, SEED)).expect("the experiment succeeds");
    let found = |measure: &str| {
        let mut rows = outcome.rows.iter();
        let row = rows.find(|row| row.measure == measure && row.variant == "all");
        row.and_then(|row| row.ours).expect("the row has a value")
    };
    let text = outcome.text();
    assert!(found("error") > 0.0 && found("error") < 2.5, "seed {SEED}: {text}");
    assert!(found("inside") > 50.0, "seed {SEED}: {text}");
}

#[test]
fn a_measured_miss_ratio_decays_like_the_prediction() {
    let parts = vec![(100, 100), (100, 0), (100, 0)];
    let run = Run { parts, predicted: Vec::new() };
    // After a half-life of 100 gets, the misses of the first part have a quarter of the weight.
    assert_eq!(run.miss_ratio(3, 100.0), 0.25 / 1.75);
    assert_eq!(run.miss_ratio(1, 100.0), 1.0);
    assert!((run.miss_ratio(3, 1e12) - 1.0 / 3.0).abs() < 1e-6);
}

#[test]
fn a_measured_miss_ratio_outside_the_band_is_counted() {
    let point = |miss_ratio: f64| WhatIf {
        memory_percent: 200,
        miss_ratio,
        miss_ratio_low: miss_ratio - 0.01,
        miss_ratio_high: miss_ratio + 0.01,
    };
    let predicted = [0.5, 0.52].map(|miss_ratio| Predicted {
        moment: 1,
        points: vec![point(miss_ratio)],
        half_life_gets: 100.0,
    });
    let base = Run { parts: vec![(10, 9)], predicted: predicted.into() };
    let run = Run { parts: vec![(10, 5)], predicted: Vec::new() };
    let cases = Cases::of(200, &base, &run);
    let inside: Vec<bool> = cases.0.iter().map(|case| case.is_inside()).collect();
    assert_eq!(inside, [true, false]);
    assert!((cases.error_max() - 2.0).abs() < 1e-9);
    assert_eq!(Cases::of(400, &base, &run).0.len(), 0, "no prediction for this size");
}
