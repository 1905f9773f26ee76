//! Eviction kinds: what each is known for, and its known weakness. The reference is `eviction=lru`.

use slabwise_engine::EvictionKind;

use super::eviction_scenarios::{EXPENSIVE, FREQUENT, LATE_CURVE, MOVED, RARE, STALE};
use super::rows::Expected::{Falls, Stays};
use super::rows::{Row, check, check_tables, row};

const STRENGTHS: [Row; 9] = [
    row("density", "", &FREQUENT, Falls(0.5), (0.00, 0.00)),
    row("density", "", &EXPENSIVE, Falls(0.4), (0.11, 0.11)),
    row("segmented", "", &FREQUENT, Falls(0.5), (0.00, 0.00)),
    row("cost_bands", "", &EXPENSIVE, Falls(0.4), (0.11, 0.12)),
    row("cost_bands", "", &RARE, Falls(0.2), (0.03, 0.03)),
    // The expensive items are used often. If they are used as rarely as the cheap ones (`EXPENSIVE`), 10, 50, 70 or 80 %
    // of reserved chunks did not save at least 5 % of the costs with all of five seeds.
    row("reserved", "", &FREQUENT, Falls(0.5), (0.00, 0.00)),
    // The page policy `cliffhanger` divides the queue, so that the misses are on a line below the curve.
    row("split_lru", ",page_policy=cliffhanger", &LATE_CURVE, Falls(0.85), (0.52, 0.60)),
    row("greedydual_size", "", &EXPENSIVE, Falls(0.4), (0.14, 0.14)),
    row("gd_wheel", "", &EXPENSIVE, Falls(0.4), (0.14, 0.15)),
];

const WEAKNESSES: [Row; 8] = [
    // Items that were used often before take the place of new items, until the densities are learned again.
    row("density", "", &MOVED, Stays(1.5), (18.42, 19.71)),
    // Items that were used often before take the place of new items, whose next use comes late.
    row("segmented", "", &MOVED, Stays(1.5), (19.16, 22.22)),
    // Expensive items that are used no more stay in the cache.
    row("cost_bands", "", &STALE, Stays(1.5), (7.61, 8.96)),
    row("greedydual_size", "", &STALE, Stays(1.5), (3.03, 3.26)),
    row("gd_wheel", "", &STALE, Stays(1.5), (3.02, 3.26)),
    // Without the page policy `cliffhanger`, no queue is divided, and the kind is an exact LRU.
    row("split_lru", "", &FREQUENT, Stays(0.9), (1.00, 1.00)),
    // The inflation rises to the ranks of evicted expensive items. So cheap items enter the reserved queue, too.
    row("reserved", "", &RARE, Stays(0.5), (0.86, 1.00)),
    row("reserved", "", &EXPENSIVE, Stays(0.85), (0.98, 1.01)),
];

fn server_options(row: &Row) -> String {
    format!("page_policy=none,eviction={}{}", row.name, row.options)
}

#[test]
fn each_kind_saves_misses_where_it_should() {
    check(&STRENGTHS, server_options);
}

#[test]
fn each_kind_has_its_known_weakness() {
    check(&WEAKNESSES, server_options);
}

#[test]
fn every_kind_has_rows_with_margins() {
    check_tables(&[&STRENGTHS, &WEAKNESSES], &EvictionKind::NAMES, &["lru"]);
}
