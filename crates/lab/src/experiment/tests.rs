//! Runs experiments at a small scale, and checks the invariants of a run record.

use super::curves::CurvesSetup;
use super::eviction_curves::EvictionCurvesSetup;
use super::mover_speed::MoverSpeedSetup;
use super::overhead::OverheadSetup;
use super::two_phase::TwoPhaseSetup;
use super::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Row, Series, Spec};
use crate::trial::curves::Partition;
use crate::trial::execute::{Controller, OracleAllocation, execute};
use crate::trial::run::Run;
use crate::trial::run_record::RunRecord;
use crate::trial::setup::scaled;
use crate::vtime::{MoverName, VisitCost};
use indicatif::ProgressBar;

const SCALE: f64 = 0.004;
const SEED: u64 = 7;

fn two_phase_spec() -> (Spec, TwoPhaseSetup) {
    registry::parsed("two-phase")
}

/// Returns our value of a measure and a variant. Panics if there is none.
fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_match = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_match);
    let row = row.unwrap_or_else(|| panic!("the outcome has a row for {measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant} has a value, not: {:?}", row.note))
}

/// Checks that every row has our value or a note with the reason why there is none.
fn assert_explained(outcome: &Outcome) {
    let unexplained = |row: &&Row| row.ours.is_none() && row.note.is_none();
    let row = outcome.rows.iter().find(unexplained);
    assert!(row.is_none(), "a row has neither a value nor a reason: {row:?}");
}

#[test]
fn the_experiment_two_phase_runs_at_a_small_scale() {
    let (spec, setup) = two_phase_spec();
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert_explained(&outcome);
    let gets = |mover| found(&outcome, "gets_per_page_mean", mover);
    assert!(gets("fast") < 0.01 * gets("base"), "{text}");
    let misses = |mover| found(&outcome, "mean_miss_ratio", mover);
    assert!(misses("warm") <= misses("fast"), "{text}");
    assert!(misses("fast") < misses("base") && misses("base") < misses("none"), "{text}");
    assert_eq!(found(&outcome, "case_3", "fast"), 0.0);
    assert!(found(&outcome, "reallocated", "base") > 0.0);
    let predicted = found(&outcome, "predicted_miss_ratio", "exact curves");
    let steady = found(&outcome, "steady_miss_ratio", "warm");
    assert!(
        (predicted - steady).abs() < 1.0,
        "miss ratios: predicted {predicted} %, found {steady} %"
    );
    for mover in ["none", "base", "fast", "stock", "warm"] {
        let of = |series: &&Series| series.variant == mover;
        let series: Vec<_> = outcome.series.iter().filter(of).collect();
        assert_eq!(
            series.len(),
            3,
            "{mover} has series of the miss ratio and of the pages of two classes"
        );
        assert!(series.iter().all(|series| series.x.len() == 200 && series.y.len() == 200));
    }
    let json = serde_json::to_value(&outcome).expect("an outcome can be serialized");
    for field in ["experiment", "commit", "seed", "scale", "rows", "paper"] {
        assert!(json.get(field).is_some(), "the result has the field {field}");
    }
}

#[test]
fn the_experiment_mover_speed_runs_at_a_small_scale() {
    let (spec, setup) = registry::parsed::<MoverSpeedSetup>("mover-speed");
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert_explained(&outcome);
    let speed = |variant| found(&outcome, "pages_per_second", variant);
    assert!(speed("fast") > speed("base, 1 us"), "{text}");
    let cpu_percent = |variant| found(&outcome, "cpu_percent", variant);
    assert!(cpu_percent("fast") > cpu_percent("base, 1000 us"), "{text}");
    let reallocated = |variant| found(&outcome, "reallocated_per_page", variant);
    assert!(reallocated("base, 1000 us") > reallocated("base, 1 us"), "{text}");
}

/// Runs `two-phase` with a fixed cost of a visit. The target partition has half of the pages in each class.
fn run(setup: &TwoPhaseSetup, mover: MoverName) -> RunRecord {
    let size = (SCALE / 2.0, SEED);
    let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, size);
    let cost = VisitCost::new(100.0).expect("the cost is valid");
    let run = Run { cost, windows: 50, ..run };
    let half =
        |_: usize, pages: &[u64]| Partition { pages: vec![pages[0] / 2, pages[0] - pages[0] / 2] };
    let at = [scaled(setup.workload.first_phase_requests, run.scale)];
    let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &half });
    execute(&run, oracle, &ProgressBar::hidden()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn two_runs_with_the_same_seed_and_costs_are_equal() {
    let (_, setup) = two_phase_spec();
    for mover in [MoverName::Base, MoverName::Warm] {
        let (first, second) = (run(&setup, mover), run(&setup, mover));
        assert_eq!(first.page_moves, second.page_moves, "{mover}");
        assert_eq!((first.misses, first.counts), (second.misses, second.counts), "{mover}");
    }
}

#[test]
fn the_number_of_pages_is_constant_and_the_time_of_the_mover_is_consistent() {
    let (_, setup) = two_phase_spec();
    for mover in [MoverName::None, MoverName::Base, MoverName::Fast, MoverName::Warm] {
        let record = run(&setup, mover);
        let misses: u64 = record.misses.iter().sum();
        assert_eq!(record.operations, record.requests + misses, "{mover}");
        // At the change of phase, the second class takes its first page beyond the limit. From then on the number of
        // pages is constant.
        let pages: Vec<u64> = record.pages.iter().map(|pages| pages.iter().sum()).collect();
        let second_phase = (record.changed_at / record.window_requests) as usize + 1;
        let phase_pages = pages[second_phase..].split_first();
        let (first, later) = phase_pages.expect("the second phase has at least one window");
        assert!(later.iter().all(|sum| sum == first), "{mover}, pages at each window: {pages:?}");
        let time = record.time;
        assert_eq!(time.visits, record.counts.visits, "{mover}");
        assert_eq!(time.sleep_nanos, time.sleeps as f64 * 1e6, "{mover}");
        if record.counts.moved > 0 {
            let (spent, moving) = (time.work_nanos + time.sleep_nanos, record.moving_nanos);
            let context = format!("{mover}: {spent} ns of work and sleep in {moving} ns");
            assert!(spent <= moving + 2e6, "{context}");
            assert!(spent >= moving * 0.5, "{context}");
        }
    }
}

#[test]
fn two_phase_runs_live_if_memcached_is_installed() {
    let (spec, mut setup) = two_phase_spec();
    setup.live.servers.retain(|server| server.name == "memcached");
    // At this scale the limit is 4 MiB. memcached needs at least 2 MiB.
    setup.cache.memory_mib = 4_000;
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE / 4.0, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_explained(&outcome);
    let text = outcome.text();
    if text.contains("memcached cannot be started: No such file") {
        println!("skipped: memcached is not installed");
        return;
    }
    let misses = found(&outcome, "live_mean_miss_ratio", "memcached");
    assert!((1.0..60.0).contains(&misses), "{text}");
    assert!(found(&outcome, "live_rate", "memcached") > 1_000.0, "{text}");
    assert!(found(&outcome, "live_allocation_in_place", "memcached") > 0.0, "{text}");
}

#[test]
fn a_server_that_does_not_start_has_rows_with_the_reason() {
    let (spec, mut setup) = two_phase_spec();
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    setup.live.servers.truncate(2);
    setup.live.servers[0].command = command(&["/nowhere/memcached"]);
    setup.live.servers[1].command = command(&["false"]);
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.rows.is_empty(), "the servers have rows");
    assert_explained(&outcome);
    let text = outcome.text();
    assert!(text.contains("/nowhere/memcached cannot be started"), "{text}");
    assert!(text.contains("false does not listen: it exited"), "{text}");
}

#[test]
fn the_experiment_curves_runs_at_a_small_scale() {
    let (spec, mut setup) = registry::parsed::<CurvesSetup>("curves");
    setup.streams.retain(|stream| ["kvcache_reg", "loop"].contains(&stream.name.as_str()));
    let outcome = setup.run(&Job::of(&spec, 0.02, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert_explained(&outcome);
    assert!(found(&outcome, "distance_deviations", "loop, sampled") < 3.0, "seed {SEED}: {text}");
    assert!(found(&outcome, "mean_error", "kvcache_reg, sampled") < 1.5, "seed {SEED}: {text}");
    for kind in ["footprint", "local footprint"] {
        let of = |stream| format!("{stream}, {kind}");
        assert_eq!(found(&outcome, "largest_error", &of("loop")), 0.0, "{text}");
        let mean = found(&outcome, "mean_error", &of("kvcache_reg"));
        assert!(mean < 0.5, "seed {SEED}: {text}");
    }
}

#[test]
fn for_a_trace_with_bursts_only_the_local_footprint_is_accurate() {
    let (spec, mut setup) = registry::parsed::<CurvesSetup>("curves");
    setup.streams.retain(|stream| stream.name == "cache2k-orm-busy");
    // The scale must be this large, because the bursts begin after the first hundred thousand requests.
    let outcome = setup.run(&Job::of(&spec, 0.1, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    let largest = |kind| found(&outcome, "largest_error", &format!("cache2k-orm-busy, {kind}"));
    assert!(largest("local footprint") < 1.5, "{text}");
    assert!(largest("footprint") > 1.5, "{text}");
    assert!(found(&outcome, "mean_error", "cache2k-orm-busy, local footprint") < 0.5, "{text}");
}

#[test]
fn the_experiment_eviction_curves_runs_at_a_small_scale() {
    let (spec, mut setup) = registry::parsed::<EvictionCurvesSetup>("eviction-curves");
    setup.streams.retain(|stream| stream.name == "etc");
    let outcome = setup.run(&Job::of(&spec, 0.05, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert_explained(&outcome);
    assert!(found(&outcome, "mean_error", "etc, miniature") < 1.5, "seed {SEED}: {text}");
}

#[test]
fn the_experiment_overhead_runs_at_a_small_scale() {
    let (spec, setup) = registry::parsed::<OverheadSetup>("overhead");
    let setup = OverheadSetup { rounds: 5, ..setup };
    let outcome = setup.run(&Job::of(&spec, 0.004, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert_explained(&outcome);
    // The loss depends on the machine. So the test checks only that the values are above 0.
    assert!(found(&outcome, "throughput", "without profiling") > 0.0, "{text}");
    assert!(found(&outcome, "throughput", "profiling") > 0.0, "{text}");
    assert!(found(&outcome, "accesses", "profiling") > 0.0, "{text}");
    // A full profile records at least every request.
    assert!(found(&outcome, "accesses", "full profile") >= 1_000.0, "{text}");
    assert_eq!(found(&outcome, "sample_rate", "full profile"), 100.0, "{text}");
    let live = outcome.rows.iter().find(|row| row.measure == "live_throughput_loss");
    let live = live.expect("the published value of servers has a row");
    assert!(live.ours.is_none() && live.published.is_some(), "{text}");
}

#[test]
fn a_live_run_of_overhead_names_a_server_that_does_not_start() {
    let (spec, mut setup) = registry::parsed::<OverheadSetup>("overhead");
    setup.live.with[0] = "/nowhere/slabwise".to_owned();
    setup.live.without[0] = "/nowhere/slabwise".to_owned();
    let found = setup.run(&Job { live: true, ..Job::of(&spec, 0.001, SEED) });
    let error = found.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("/nowhere/slabwise cannot be started"), "{error}");
}
