//! Runs every experiment at a small scale, and checks the invariants of a run record.

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

fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_it = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_it);
    let row = row.unwrap_or_else(|| panic!("no row {measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant}: {:?}", row.note))
}

fn is_explained(outcome: &Outcome) -> bool {
    outcome.rows.iter().all(|row| row.ours.is_some() || row.note.is_some())
}

#[test]
fn two_phase_runs_at_a_small_scale() {
    let (spec, setup) = two_phase_spec();
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(is_explained(&outcome), "{text}");
    let gets = |mover| found(&outcome, "gets_a_page_mean", mover);
    assert!(gets("fast") < 0.01 * gets("base"), "{text}");
    let misses = |mover| found(&outcome, "mean_miss_ratio", mover);
    assert!(misses("warm") <= misses("fast"), "{text}");
    assert!(misses("fast") < misses("base") && misses("base") < misses("none"), "{text}");
    assert_eq!(found(&outcome, "case_3", "fast"), 0.0);
    assert!(found(&outcome, "reallocated", "base") > 0.0);
    let predicted = found(&outcome, "predicted_miss_ratio", "exact curves");
    let steady = found(&outcome, "steady_miss_ratio", "warm");
    assert!((predicted - steady).abs() < 1.0, "predicted {predicted}, found {steady}");
    for mover in ["none", "base", "fast", "stock", "warm"] {
        let of = |series: &&Series| series.variant == mover;
        let series: Vec<_> = outcome.series.iter().filter(of).collect();
        assert_eq!(series.len(), 3, "miss ratio and two classes of {mover}");
        assert!(series.iter().all(|series| series.x.len() == 200 && series.y.len() == 200));
    }
    let json = serde_json::to_value(&outcome).expect("plain data");
    for field in ["experiment", "commit", "seed", "scale", "rows", "paper"] {
        assert!(json.get(field).is_some(), "{field}");
    }
}

#[test]
fn mover_speed_runs_at_a_small_scale() {
    let (spec, setup) = registry::parsed::<MoverSpeedSetup>("mover-speed");
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(is_explained(&outcome), "{text}");
    let speed = |variant| found(&outcome, "pages_a_second", variant);
    assert!(speed("fast") > speed("base, 1 us"), "{text}");
    let busy = |variant| found(&outcome, "cpu_percent", variant);
    assert!(busy("fast") > busy("base, 1000 us"), "{text}");
    let again = |variant| found(&outcome, "reallocated_a_page", variant);
    assert!(again("base, 1000 us") > again("base, 1 us"), "{text}");
}

fn run(setup: &TwoPhaseSetup, mover: MoverName) -> RunRecord {
    let size = (SCALE / 2.0, SEED);
    let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, size);
    let cost = VisitCost::new(100.0).expect("a cost");
    let run = Run { cost, windows: 50, ..run };
    let half =
        |_: usize, pages: &[u64]| Partition { pages: vec![pages[0] / 2, pages[0] - pages[0] / 2] };
    let at = [scaled(setup.workload.first_phase_requests, run.scale)];
    let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &half });
    execute(&run, oracle, &ProgressBar::hidden()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_is_determined_by_its_seed_and_costs() {
    let (_, setup) = two_phase_spec();
    for mover in [MoverName::Base, MoverName::Warm] {
        let (first, second) = (run(&setup, mover), run(&setup, mover));
        assert_eq!(first.arrivals, second.arrivals, "{mover}");
        assert_eq!((first.misses, first.counts), (second.misses, second.counts), "{mover}");
    }
}

#[test]
fn pages_and_time_add_up() {
    let (_, setup) = two_phase_spec();
    for mover in [MoverName::None, MoverName::Base, MoverName::Fast, MoverName::Warm] {
        let record = run(&setup, mover);
        let misses: u64 = record.misses.iter().sum();
        assert_eq!(record.operations, record.requests + misses, "{mover}");
        // The second class takes its first page beyond the limit; the sum of all pages stays constant.
        let pages: Vec<u64> = record.pages.iter().map(|pages| pages.iter().sum()).collect();
        let second_phase = (record.changed_at / record.window_requests) as usize + 1;
        let (first, later) = pages[second_phase..].split_first().expect("windows");
        assert!(later.iter().all(|sum| sum == first), "{mover}: {pages:?}");
        let time = record.time;
        assert_eq!(time.visits, record.counts.visits, "{mover}");
        assert_eq!(time.sleep_nanos, time.sleeps as f64 * 1e6, "{mover}");
        if record.counts.moved > 0 {
            let spent = time.work_nanos + time.sleep_nanos;
            assert!(spent <= record.moving_nanos + 2e6, "{mover}: {spent} ns of work and sleep");
            assert!(spent >= record.moving_nanos * 0.5, "{mover}: {spent} ns of work and sleep");
        }
    }
}

#[test]
fn two_phase_runs_live_if_memcached_is_installed() {
    let (spec, mut setup) = two_phase_spec();
    setup.live.servers.retain(|server| server.name == "memcached");
    // memcached needs at least 2 MB.
    setup.cache.memory_mib = 4_000;
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE / 4.0, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(is_explained(&outcome));
    let text = outcome.text();
    if text.contains("memcached cannot be started: No such file") {
        println!("not run: memcached is not installed");
        return;
    }
    let misses = found(&outcome, "live_mean_miss_ratio", "memcached");
    assert!((1.0..60.0).contains(&misses), "{text}");
    assert!(found(&outcome, "live_rate", "memcached") > 1_000.0, "{text}");
    assert!(found(&outcome, "live_allocation_in_place", "memcached") > 0.0, "{text}");
}

#[test]
fn servers_that_do_not_start_have_rows_with_the_reason() {
    let (spec, mut setup) = two_phase_spec();
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    setup.live.servers.truncate(2);
    setup.live.servers[0].command = command(&["/nowhere/memcached"]);
    setup.live.servers[1].command = command(&["false"]);
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.rows.is_empty() && is_explained(&outcome));
    let text = outcome.text();
    assert!(text.contains("/nowhere/memcached cannot be started"), "{text}");
    assert!(text.contains("false does not listen: it exited"), "{text}");
}

#[test]
fn curves_runs_at_a_small_scale() {
    let (spec, mut setup) = registry::parsed::<CurvesSetup>("curves");
    setup.streams.retain(|stream| ["kvcache_reg", "loop"].contains(&stream.name.as_str()));
    let outcome = setup.run(&Job::of(&spec, 0.02, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(is_explained(&outcome), "{text}");
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
fn a_local_footprint_is_accurate_for_a_trace_with_bursts() {
    let (spec, mut setup) = registry::parsed::<CurvesSetup>("curves");
    setup.streams.retain(|stream| stream.name == "cache2k-orm-busy");
    // The bursts begin after the first hundred thousand requests.
    let outcome = setup.run(&Job::of(&spec, 0.1, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    let largest = |kind| found(&outcome, "largest_error", &format!("cache2k-orm-busy, {kind}"));
    assert!(largest("local footprint") < 1.5, "{text}");
    assert!(largest("footprint") > 1.5, "{text}");
    assert!(found(&outcome, "mean_error", "cache2k-orm-busy, local footprint") < 0.5, "{text}");
}

#[test]
fn eviction_curves_runs_at_a_small_scale() {
    let (spec, mut setup) = registry::parsed::<EvictionCurvesSetup>("eviction-curves");
    setup.streams.retain(|stream| stream.name == "etc");
    let outcome = setup.run(&Job::of(&spec, 0.05, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(is_explained(&outcome), "{text}");
    assert!(found(&outcome, "mean_error", "etc, miniature") < 1.5, "seed {SEED}: {text}");
}

#[test]
fn overhead_runs_at_a_small_scale() {
    let (spec, setup) = registry::parsed::<OverheadSetup>("overhead");
    let setup = OverheadSetup { rounds: 5, ..setup };
    let outcome = setup.run(&Job::of(&spec, 0.004, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(is_explained(&outcome), "{text}");
    // The loss depends on the machine, so only the presence of the measurements is checked.
    assert!(found(&outcome, "throughput", "without profiling") > 0.0, "{text}");
    assert!(found(&outcome, "throughput", "profiling") > 0.0, "{text}");
    assert!(found(&outcome, "accesses", "profiling") > 0.0, "{text}");
}
