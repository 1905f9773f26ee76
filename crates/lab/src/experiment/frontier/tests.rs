//! Runs `frontier` at a small scale.

use super::{FrontierSetup, add_traces};
use crate::experiment::{Experiment, Job};
use crate::registry;

const SEED: u64 = 5;

#[test]
fn every_file_in_the_folder_of_traces_is_a_stream_with_a_figure() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("inner")).expect("the subfolder can be created");
    let (mut spec, mut setup) = registry::parsed::<FrontierSetup>("frontier");
    setup.streams.clear();
    let error = add_traces(&mut setup, &mut spec.figures_added, folder);
    let error = error.expect_err("a folder without files is an error");
    assert!(error.to_string().contains("has no files"), "{error}");
    let lines: String =
        (0..40_000).map(|at: u64| format!("key:{} 5000\n", at * at % 4_001)).collect();
    std::fs::write(folder.join("b.txt"), lines).expect("the file can be written");
    std::fs::write(folder.join(".hidden"), "no trace").expect("the file can be written");
    std::fs::write(folder.join("c.txt"), "key 1\nkey\n").expect("the file can be written");
    let added = add_traces(&mut setup, &mut spec.figures_added, folder);
    added.expect("the folder has two files that are not hidden");
    let names: Vec<&str> = setup.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["b.txt", "c.txt"]);
    setup.memory_percent = vec![30.0];
    setup.servers.truncate(2);
    let outcome = setup.run(&Job::of(&spec, 1.0, SEED)).expect("the experiment succeeds");
    let broken = outcome.rows.iter().find(|row| row.variant == "c.txt");
    let broken = broken.expect("the invalid trace has a row");
    let reason = broken.note.as_deref().expect("the row of the invalid trace has the reason");
    assert!(reason.contains("c.txt: line 2: the line is not a key and a size"), "{reason}");
    let mut twice = setup.clone();
    let error = add_traces(&mut twice, &mut Vec::new(), folder);
    let error = error.expect_err("a name that a stream already has is an error");
    assert!(error.to_string().contains("rename the file"), "{error}");
    assert_eq!((outcome.figures.len(), &*outcome.figures[0].title), (2, "b.txt"));
    let measured = |row: &&crate::result::Row| row.measure == "miss_ratio" && row.ours.is_some();
    let simulated = outcome.rows.iter().filter(measured).count();
    assert!(simulated >= setup.simulations.len(), "{}", outcome.text());
}

#[test]
fn no_server_has_fewer_misses_than_the_bound_and_every_gap_has_a_row() {
    let (spec, mut setup) = registry::parsed::<FrontierSetup>("frontier");
    setup.streams.retain(|stream| stream.name.starts_with("cache2k-orm-busy"));
    setup.memory_percent = vec![20.0, 50.0];
    setup.servers.retain(|server| server.scale_min <= 0.05);
    let outcome = setup.run(&Job::of(&spec, 0.05, SEED)).expect("the experiment succeeds");
    let text = outcome.text();
    // The rows have the miss ratios at all limits. The curves have no points at limits that the server exceeds.
    let ratios = |name: &str| -> Vec<f64> {
        let variants = setup.memory_percent.iter();
        let variants =
            variants.map(|percent| format!("{}, {percent} %: {name}", setup.streams[0].name));
        let ours = |variant: String| {
            let mut rows = outcome.rows.iter();
            rows.find(|row| row.measure == "miss_ratio" && row.variant == variant)?.ours
        };
        variants.map(|variant| ours(variant).expect("every miss ratio has a row")).collect()
    };
    let best = ratios("belady_size");
    for server in &setup.servers {
        let of_server = ratios(&server.name);
        let has_no_fewer = of_server.iter().zip(&best).all(|(ratio, best)| ratio >= best);
        assert!(has_no_fewer, "{}, seed {SEED}: {text}", server.name);
    }
    let curve_points = |name: &str| {
        let variant = format!("{}: {name}", setup.streams[0].name);
        outcome.series.iter().find(|series| series.variant == variant).map(|series| series.x.len())
    };
    assert_eq!(curve_points("slabwise"), Some(2), "{text}");
    assert!(curve_points("memcached").is_some_and(|points| points < 2), "{text}");
    let gaps = outcome.rows.iter().filter(|row| row.measure == "gap_closed");
    // The stream and the sum of all streams each have a row for every server except the first, and for every simulation
    // except the bound.
    let compared = setup.servers.len() - 1 + setup.simulations.len() - 1;
    assert_eq!(gaps.count(), 2 * compared, "{text}");
}
