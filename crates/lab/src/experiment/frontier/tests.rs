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
    let curve = |name: &str| {
        let variant = format!("{}: {name}", setup.streams[0].name);
        let found = outcome.series.iter().find(|series| series.variant == variant);
        found.map(|series| series.y.clone()).expect("it has a curve")
    };
    let best = curve("belady_size");
    assert_eq!(best.len(), 2, "{text}");
    for server in &setup.servers {
        let of_server = curve(&server.name);
        assert_eq!(of_server.len(), 2, "{text}");
        assert!(of_server.iter().zip(&best).all(|(of, best)| of >= best), "seed {SEED}: {text}");
    }
    let shares = outcome.rows.iter().filter(|row| row.measure == "gap_closed");
    // Of the stream and of all, each server but the first.
    assert_eq!(shares.count(), 2 * (setup.servers.len() - 1), "{text}");
}
