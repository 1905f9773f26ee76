//! The scenarios of page policies. Small and large items have classes of their own.

use super::cache::{LARGE_ITEMS, SMALL_ITEMS};
use super::scenario::{Scenario, Scene, scene};
use super::traffic::Order::{Distances, Loop, Once, Uniform};
use super::traffic::{LARGE, SMALL, part, part_with_cost};

/// Names of groups of keys.
const A: u64 = 1;
const B: u64 = 2;
const C: u64 = 3;

/// Small items fill all memory.
const FILL: Scene = scene(&[part(A, Loop(SMALL_ITEMS + 1_000), SMALL, 100)], 10);
/// Small items are stored and hit.
const FILL_AND_HIT: Scene = scene(&[part(A, Uniform(SMALL_ITEMS), SMALL, 100)], 60);

/// All items become large. No class needs the pages of the small items any more.
pub const SHIFT: Scenario = Scenario {
    name: "shift",
    scenes: &[
        FILL,
        Scene { seconds_per_round: 1, ..scene(&[part(B, Uniform(1_500), LARGE, 100)], 40) },
    ],
};

/// As `SHIFT`, but the small items were hit before.
pub const DROP: Scenario = Scenario {
    name: "drop",
    scenes: &[
        Scene { seconds_per_round: 1, ..FILL_AND_HIT },
        Scene { seconds_per_round: 1, ..scene(&[part(B, Uniform(1_500), LARGE, 100)], 200) },
    ],
};

/// As `SHIFT`, but a twentieth of the gets stores new small items.
pub const TRICKLE: Scenario = Scenario {
    name: "trickle",
    scenes: &[
        FILL,
        Scene {
            seconds_per_round: 1,
            ..scene(&[part(B, Uniform(1_500), LARGE, 95), part(C, Once, SMALL, 5)], 100)
        },
    ],
};

/// Half of the gets use large items that need most of the memory, the others a few small items.
pub const CONCAVE: Scenario = Scenario {
    name: "concave",
    scenes: &[
        FILL,
        scene(&[part(B, Uniform(1_500), LARGE, 50), part(A, Uniform(1_000), SMALL, 50)], 60),
    ],
};

/// As `CONCAVE`, but fewer than 700 large items have no hits.
pub const CLIFF: Scenario = Scenario {
    name: "cliff",
    scenes: &[
        FILL,
        scene(&[part(B, Distances(700, 1_500), LARGE, 50), part(A, Uniform(1_000), SMALL, 50)], 60),
    ],
};

/// Large items are hit while small items are stored that no get uses again.
pub const SCAN: Scenario = Scenario {
    name: "scan",
    scenes: &[
        scene(&[part(B, Loop(1_000), LARGE, 100)], 2),
        Scene {
            seconds_per_round: 1,
            ..scene(&[part(B, Uniform(1_000), LARGE, 30), part(C, Once, SMALL, 70)], 100)
        },
    ],
};

/// Large items gain by more pages while small items are stored that no get uses again.
pub const SCAN_AND_NEED: Scenario = Scenario {
    name: "scan and need",
    scenes: &[FILL, scene(&[part(B, Uniform(1_500), LARGE, 50), part(C, Once, SMALL, 50)], 60)],
};

/// A loop over large items that do not fit into the memory, and small items that are hit.
pub const LOOP: Scenario = Scenario {
    name: "loop",
    scenes: &[
        scene(&[part(A, Loop(6_000), SMALL, 100)], 8),
        scene(
            &[part(B, Loop(LARGE_ITEMS + 200), LARGE, 70), part(A, Uniform(6_000), SMALL, 30)],
            80,
        ),
    ],
};

/// The small items are worth their memory, but each is used only once in 12,000 gets.
pub const LATE: Scenario = Scenario {
    name: "late",
    scenes: &[
        scene(&[part(A, Loop(6_000), SMALL, 100)], 8),
        scene(&[part(B, Uniform(8_000), LARGE, 50), part(A, Loop(6_000), SMALL, 50)], 80),
    ],
};

/// A large item costs a thousand times as much as a small one.
pub const COSTS: Scenario = Scenario {
    name: "costs",
    scenes: &[
        scene(&[part_with_cost(part(A, Loop(SMALL_ITEMS + 1_000), SMALL, 100), 1)], 10),
        scene(
            &[
                part_with_cost(part(B, Uniform(1_500), LARGE, 50), 1_000),
                part_with_cost(part(A, Uniform(SMALL_ITEMS), SMALL, 50), 1),
            ],
            60,
        ),
    ],
};

/// The numbers of references stay equal, but the large items need fewer pages than before, and the small items more.
pub const CHANGE: Scenario = Scenario {
    name: "change",
    scenes: &[
        FILL,
        Scene {
            seconds_per_round: 1,
            ..scene(&[part(B, Uniform(1_500), LARGE, 50), part(A, Uniform(1_000), SMALL, 50)], 150)
        },
        Scene {
            seconds_per_round: 1,
            ..scene(&[part(B, Uniform(60), LARGE, 50), part(A, Uniform(8_000), SMALL, 50)], 20)
        },
    ],
};
