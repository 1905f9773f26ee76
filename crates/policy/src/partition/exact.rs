//! The partition with the least cost, by dynamic programming.
//!
//! Source: X. Hu, X. Wang, Y. Li, L. Zhou, Y. Luo, C. Ding, S. Jiang, Z. Wang, "LAMA: Optimized
//! Locality-aware Memory Allocation for Key-value Cache", ATC 2015, on slab repartition.

use super::{ClassCurve, least_move_cost};

/// Returns the partition of at most `pages` pages with the least cost: the pages of each class, in the order of the
/// classes. With exact curves no fixed partition has more hits than this one (LAMA's theoretical upper bound, TUB).
///
/// `f(i, j)` is the least cost of the first `i` classes on `j` pages:
/// `f(i, j) = min over k of f(i - 1, j - k) + cost(i, k)`.
///
/// Takes O(n * p^2) time and O(n * p) memory for n classes and p pages. For each class, the search ends at the end of
/// its curve, or at its current number of pages if that is larger.
///
/// # Panics
/// Panics if `pages` is less than the sum of all `pages_min`, or 2^32 or more.
pub fn best_partition(classes: &[ClassCurve], pages: u64) -> Vec<u64> {
    best_partition_at(classes, pages, least_move_cost(classes))
}

/// Returns the best partition of the classes' current pages if the pages of each class change only by multiples of
/// `unit`, which must be above 0. Takes O(n * (p / unit)^2) time.
pub(crate) fn best_partition_in_units(classes: &[ClassCurve], unit: u64) -> Vec<u64> {
    let pages = classes.iter().map(|class| class.pages).sum();
    partition_in_units(classes, pages, unit, least_move_cost(classes))
}

/// Returns the best partition of at most `pages` pages if each page that a class gains or loses costs `move_cost`.
pub(crate) fn best_partition_at(classes: &[ClassCurve], pages: u64, move_cost: f64) -> Vec<u64> {
    partition_in_units(classes, pages, 1, move_cost)
}

fn partition_in_units(classes: &[ClassCurve], pages: u64, unit: u64, move_cost: f64) -> Vec<u64> {
    let pages_min: u64 = classes.iter().map(|class| class.pages_min).sum();
    assert!(pages_min <= pages, "classes keep {pages_min} pages, but there are only {pages}");
    assert!(u32::try_from(pages).is_ok(), "a partition has at most 2^32 - 1 pages, not {pages}");
    // A class keeps the remainder of its pages, which do not fill a unit.
    let rests: u64 = classes.iter().map(|class| class.pages % unit).sum();
    let units = ((pages - rests) / unit) as usize;
    let mut costs = vec![0.0; units + 1];
    let mut choices: Vec<Vec<u32>> = Vec::with_capacity(classes.len());
    for class in classes {
        let rest = class.pages % unit;
        let units_min = class.pages_min.saturating_sub(rest).div_ceil(unit);
        let units_max = (class.pages_max(pages) - rest).div_ceil(unit);
        let sizes = (units_min..=units_max).map(|units| rest + units * unit);
        let own: Vec<f64> = class.costs(sizes, move_cost).collect();
        let (with_it, choice) = add_class(&costs, &own, units_min as usize);
        costs = with_it;
        choices.push(choice);
    }
    let mut left = units;
    let mut partition: Vec<u64> = Vec::with_capacity(classes.len());
    for (class, choice) in classes.iter().zip(&choices).rev() {
        partition.push(class.pages % unit + u64::from(choice[left]) * unit);
        left -= choice[left] as usize;
    }
    partition.reverse();
    partition
}

/// Adds a class to the classes whose least cost for each number of units is `costs`. Returns the least costs with the
/// new class, and the units of the new class, for each number of units. `own` has the costs of the new class with
/// `units_min`, `units_min + 1`, ... units. A cost is infinite if the units are fewer than the minimum of all classes.
fn add_class(costs: &[f64], own: &[f64], units_min: usize) -> (Vec<f64>, Vec<u32>) {
    let mut least = vec![f64::INFINITY; costs.len()];
    let mut choice = vec![0; costs.len()];
    for (more, &own) in own.iter().enumerate() {
        let size = units_min + more;
        let Some(others) = costs.len().checked_sub(size) else { break };
        let rows = least[size..].iter_mut().zip(&mut choice[size..]).zip(&costs[..others]);
        for ((least, choice), &other) in rows {
            if other + own < *least {
                (*least, *choice) = (other + own, size as u32);
            }
        }
    }
    (least, choice)
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
