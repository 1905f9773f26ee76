//! Page policies: what each is known for, and its known weakness. The reference is `page_policy=none`.

use slabwise_policy::PagePolicy;

use super::page_scenarios::{
    CHANGE, CLIFF, CONCAVE, COSTS, DROP, LATE, LOOP, SCAN, SCAN_AND_NEED, SHIFT, TRICKLE,
};
use super::rows::Expected::{Falls, Rises, Stays};
use super::rows::{Row, check, check_tables, row};

const STRENGTHS: [Row; 15] = [
    row("automove_classic", ":window_ticks=64", &SHIFT, Falls(0.8), (0.23, 0.30)),
    row("automove", "", &SHIFT, Falls(0.3), (0.00, 0.00)),
    row("eager", "", &SHIFT, Falls(0.5), (0.06, 0.23)),
    row("twemcache_random", "", &SHIFT, Falls(0.1), (0.00, 0.00)),
    row("twemcache_lra", "", &SHIFT, Falls(0.2), (0.00, 0.05)),
    row("psa", ":misses=20", &SHIFT, Falls(0.1), (0.00, 0.00)),
    // Its predecessor `psa` gives the pages to the items that are used once.
    row("cost_partition", ":misses=20", &SCAN_AND_NEED, Falls(0.6), (0.49, 0.49)),
    row("tail_age", "", &SHIFT, Falls(0.1), (0.00, 0.00)),
    row("space_time", "", &SHIFT, Falls(0.1), (0.00, 0.00)),
    row("cost_per_byte", "", &COSTS, Falls(0.1), (0.00, 0.00)),
    row("reserved_cost", ":samples=1", &DROP, Falls(0.7), (0.10, 0.12)),
    row("cliffhanger", "", &SCAN_AND_NEED, Falls(0.6), (0.48, 0.52)),
    row("dynacache", ":period_gets=5000", &CONCAVE, Falls(0.2), (0.00, 0.01)),
    row("lama", ":period_gets=5000", &CLIFF, Falls(0.5), (0.00, 0.25)),
    row("marginal", ":evaluate_gets=5000:window_gets=20000", &CLIFF, Falls(0.5), (0.00, 0.32)),
];

const WEAKNESSES: [Row; 17] = [
    // A class that evicts one item in each window gives no page. `automove` saves most misses here.
    row("automove_classic", ":window_ticks=64", &TRICKLE, Stays(0.95), (1.00, 1.00)),
    row("automove", "", &TRICKLE, Falls(0.3), (0.04, 0.05)),
    // At most a page a second moves.
    row("automove", "", &SHIFT, Stays(0.5), (0.83, 1.00)),
    // Pages move to every class that evicts, whatever its items are worth.
    row("eager", "", &LATE, Rises(1.4), (2.05, 2.11)),
    row("twemcache_random", "", &LATE, Rises(1.4), (2.00, 2.05)),
    row("twemcache_lra", "", &LATE, Rises(1.4), (1.98, 2.04)),
    // Items that are used once have the most misses.
    row("psa", ":misses=20", &SCAN, Rises(1.2), (1.41, 1.45)),
    // A loop that is larger than all memory has the most misses of evicted keys.
    row("cost_partition", ":misses=20", &LOOP, Rises(1.25), (1.39, 1.44)),
    // Like one LRU, the classes evict what is used again late.
    row("tail_age", "", &LATE, Rises(1.4), (2.04, 2.09)),
    row("space_time", "", &LATE, Rises(1.4), (2.04, 2.09)),
    // Costs are unknown, so the smallest chunks take all pages.
    row("cost_per_byte", "", &SCAN, Rises(1.2), (1.41, 1.45)),
    // The hit ratio was low from the start.
    row("reserved_cost", ":samples=1", &CONCAVE, Stays(0.95), (1.00, 1.00)),
    // No class has shadow hits, so no page moves.
    row("cliffhanger", ":cliffs=off", &CLIFF, Stays(0.95), (1.00, 1.00)),
    // The last pages of the loop save no miss.
    row("dynacache", ":period_gets=5000", &LOOP, Rises(1.25), (1.39, 1.44)),
    // After the moves of a step, the next move must wait for the next step.
    row("lama", ":period_gets=10000:moves_max=1", &CONCAVE, Stays(0.85), (0.93, 0.94)),
    // The curves of the old pattern have not decayed. `tail_age` moves pages at once.
    row("marginal", ":evaluate_gets=5000:window_gets=20000", &CHANGE, Stays(0.8), (0.93, 1.03)),
    row("tail_age", "", &CHANGE, Falls(0.75), (0.07, 0.07)),
];

/// Returns the options of a server with the page policy of a row. Exact LRU keeps the decisions of the eviction out of
/// the comparison.
fn server_options(row: &Row) -> String {
    format!("page_policy={}{},eviction=lru", row.name, row.options)
}

#[test]
fn each_policy_saves_misses_where_it_should() {
    check(&STRENGTHS, server_options);
}

#[test]
fn each_policy_has_its_known_weakness() {
    check(&WEAKNESSES, server_options);
}

#[test]
fn every_policy_has_rows_with_margins() {
    check_tables(&[&STRENGTHS, &WEAKNESSES], &PagePolicy::NAMES, &["none"]);
}
