//! What is measured, and on what.

use crate::result::measures;

measures! {
    SD: "sd_bytes", "standard deviation", "bytes", Fixed;
    SD_LEAST: "sd_bytes_least", "least deviation that the old waste allows", "bytes", Fixed;
    SD_MOST: "sd_bytes_most", "largest deviation that the old waste allows", "bytes", Fixed;
    WASTE: "wasted_bytes", "bytes wasted in chunks", "bytes", WithRun;
    RECOVERED: "recovered_percent", "of the old waste, recovered", "%", Fixed;
    BEST_ENDS: "best_ends_percent", "climbs that end in the exact best waste", "%", Fixed;
    ENDS: "ends", "different wastes that climbs end in", "wastes", Fixed;
    EXCESS: "excess_percent", "more waste than the exact best, at most", "%", Fixed;
    MOVES: "moves", "moves of a climb, mean", "moves", Fixed;
    PAGES: "pages", "pages taken", "pages", Fixed;
    FEWER: "fewer_pages_percent", "fewer pages than by the old sizes", "%", Fixed;
}

/// What variants are called.
pub const OLD: &str = "old sizes";
pub const PRINTED: &str = "printed sizes";
pub const CLIMB: &str = "hill climbing";
pub const CLIMB_BEST: &str = "hill climbing, best";
pub const EXACT: &str = "exact";
