//! The scenarios of eviction kinds. All items have the same size.

use super::cache::{LARGE_ITEMS, SMALL_ITEMS};
use super::scenario::{Scenario, scene};
use super::traffic::Order::{Distances, Loop, Once, Uniform};
use super::traffic::{LARGE, SMALL, part, part_with_cost};

const A: u64 = 1;
const B: u64 = 2;
const C: u64 = 3;

/// A tenth of the gets use a few items often. The others loop over more items than the memory holds, and cost nothing.
pub const FREQUENT: Scenario = Scenario {
    name: "frequent",
    scenes: &[scene(
        &[
            part_with_cost(part(A, Uniform(600), SMALL, 10), 1),
            part_with_cost(part(C, Loop(SMALL_ITEMS + 300), SMALL, 90), 0),
        ],
        80,
    )],
};

/// The items that are used often are others than before.
pub const MOVED: Scenario = Scenario {
    name: "moved",
    scenes: &[
        scene(&[part(A, Uniform(SMALL_ITEMS), SMALL, 100)], 60),
        scene(&[part(B, Loop(7_000), SMALL, 95), part(C, Once, SMALL, 5)], 15),
    ],
};

/// Half of the items cost a hundred times as much as the others. All have the same size.
pub const EXPENSIVE: Scenario = Scenario {
    name: "expensive",
    scenes: &[scene(
        &[
            part_with_cost(part(A, Uniform(SMALL_ITEMS), SMALL, 50), 100),
            part_with_cost(part(B, Uniform(SMALL_ITEMS), SMALL, 50), 1),
        ],
        80,
    )],
};

/// Expensive items fill all memory. Then only cheap items are used.
pub const STALE: Scenario = Scenario {
    name: "stale",
    scenes: &[
        scene(&[part_with_cost(part(A, Loop(SMALL_ITEMS), SMALL, 100), 100)], 18),
        scene(&[part_with_cost(part(B, Uniform(8_000), SMALL, 100), 1)], 20),
    ],
};

/// A few expensive items are used so rarely that an LRU evicts them before their next use.
pub const RARE: Scenario = Scenario {
    name: "rare",
    scenes: &[scene(
        &[
            part_with_cost(part(A, Loop(600), SMALL, 3), 1_000),
            part_with_cost(part(C, Once, SMALL, 97), 1),
        ],
        80,
    )],
};

/// The hit curve rises slowly at first and steeply later, and the memory ends before the steep part.
pub const LATE_CURVE: Scenario = Scenario {
    name: "late curve",
    scenes: &[scene(&[part(A, Distances(LARGE_ITEMS / 2, 3_500), LARGE, 100)], 80)],
};
