//! Runs `frontier` at a small scale.

use super::{FrontierSetup, add_traces};
use crate::experiment::{Experiment, Job};
use crate::registry;

const SEED: u64 = 5;

#[test]
fn every_trace_of_a_folder_is_a_stream_with_a_figure() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("inner")).expect("a folder can be made");
    let (mut spec, mut setup) = registry::parsed::<FrontierSetup>("frontier");
    setup.streams.clear();
    let error = add_traces(&mut setup, &mut spec.figures_added, folder).expect_err("it is empty");
    assert!(error.to_string().contains("has no files"), "{error}");
    let lines: String =
        (0..40_000).map(|at: u64| format!("key:{} 5000\n", at * at % 4_001)).collect();
    std::fs::write(folder.join("b.txt"), lines).expect("a file can be written");
    std::fs::write(folder.join(".hidden"), "no trace").expect("a file can be written");
    std::fs::write(folder.join("c.txt"), "key 1\nkey\n").expect("a file can be written");
    add_traces(&mut setup, &mut spec.figures_added, folder).expect("two are there");
    let names: Vec<&str> = setup.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["b.txt", "c.txt"]);
    setup.memory_percent = vec![30.0];
    setup.servers.truncate(2);
    let outcome = setup.run(&Job::of(&spec, 1.0, SEED)).expect("it runs");
    let broken = outcome.rows.iter().find(|row| row.variant == "c.txt").expect("it has a row");
    let why = broken.note.as_deref().expect("it has the reason");
    assert!(why.contains("c.txt: line 2: not a key and a size"), "{why}");
    let mut twice = setup.clone();
    let error = add_traces(&mut twice, &mut Vec::new(), folder).expect_err("they are there");
    assert!(error.to_string().contains("rename the file"), "{error}");
    assert_eq!((outcome.figures.len(), &*outcome.figures[0].title), (2, "b.txt"));
    let measured = |row: &&crate::result::Row| row.measure == "miss_ratio" && row.ours.is_some();
    let simulated = outcome.rows.iter().filter(measured).count();
    assert!(simulated >= setup.simulations.len(), "{}", outcome.text());
}

#[test]
fn no_server_beats_the_bound_and_every_gap_has_a_row() {
    let (spec, mut setup) = registry::parsed::<FrontierSetup>("frontier");
    setup.streams.retain(|stream| stream.name.starts_with("cache2k-orm-busy"));
    setup.memory_percent = vec![20.0, 50.0];
    setup.servers.retain(|server| server.scale_min <= 0.05);
    let outcome = setup.run(&Job::of(&spec, 0.05, SEED)).expect("it runs");
    let text = outcome.text();
    // Rows have all ratios; a curve has no point if pages take more than the limit.
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
    assert!(curve("memcached").is_some_and(|points| points < 2), "{text}");
    let gaps = outcome.rows.iter().filter(|row| row.measure == "gap_closed");
    // All servers except the first and all simulations except the bound, for the stream and for the sum.
    let compared = setup.servers.len() - 1 + setup.simulations.len() - 1;
    assert_eq!(gaps.count(), 2 * compared, "{text}");
}
