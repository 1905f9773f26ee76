//! The frontier, small.

use super::run;
use crate::experiment::Spec;
use crate::experiment::progress::Progress;
use crate::experiment::spec::Setup;

const SEED: u64 = 5;

#[test]
fn nobody_is_below_the_bound_and_every_share_has_a_row() {
    let mut spec = Spec::named("frontier").expect("it is there");
    let Setup::Frontier(setup) = &mut spec.setup else { panic!("another kind") };
    setup.streams.retain(|stream| stream.name.starts_with("cache2k-orm-busy"));
    setup.memory_percent = vec![20.0, 50.0];
    let setup = setup.clone();
    let outcome = run(&spec, &setup, 0.05, SEED, &Progress::default()).expect("it runs");
    let text = outcome.text();
    // By rows: a curve has no point where pages take more than the limit.
    let ratios = |name: &str| -> Vec<f64> {
        let variants = setup.memory_percent.iter();
        let variants =
            variants.map(|percent| format!("{}, {percent} %: {name}", setup.streams[0].name));
        let ours = |variant: String| {
            let mut rows = outcome.rows.iter();
            rows.find(|row| row.measure == "miss_ratio" && row.variant == variant)?.ours
        };
        variants.map(|variant| ours(variant).expect("it has a row")).collect()
    };
    let best = ratios("belady_size");
    for server in &setup.servers {
        let of_server = ratios(&server.name);
        assert!(of_server.iter().zip(&best).all(|(of, best)| of >= best), "seed {SEED}: {text}");
    }
    let curve = |name: &str| {
        let variant = format!("{}: {name}", setup.streams[0].name);
        outcome.series.iter().find(|series| series.variant == variant).map(|series| series.x.len())
    };
    assert_eq!(curve("slabwise"), Some(2), "{text}");
    assert!(curve("memcached").is_some_and(|points| points < 2), "first pages beyond it: {text}");
    let shares = outcome.rows.iter().filter(|row| row.measure == "gap_closed");
    // Of the stream and of all, each server but the first, and each simulation but the bound.
    let judged = setup.servers.len() - 1 + setup.simulations.len() - 1;
    assert_eq!(shares.count(), 2 * judged, "{text}");
}
