//! The partition that is the best if every curve is equal to its hull.
//!
//! If curves are convex, the best partition results from giving one page after another to the class that gains most by
//! it. For hulls the best partition results from giving the pages of whole *segments*, the lines between two corners of
//! a hull, in descending order of slopes.

use slabwise_profile::lower_hull;

/// A number of pages of a class, and the cost of the class with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub pages: u64,
    pub cost: f64,
}

/// Returns the mean cost that each page between these two sizes saves.
fn slope(from: Size, to: Size) -> f64 {
    (from.cost - to.cost) / (to.pages - from.pages) as f64
}

/// Returns the corners of the lower convex hull of these sizes, which must ascend in pages. The last corner has the
/// least cost. So each segment has a positive slope, and the slopes decrease.
pub(crate) fn hull(sizes: &[Size]) -> Vec<Size> {
    let mut corners = lower_hull(sizes.iter().map(|size| (size.pages, size.cost)));
    let falls = corners.windows(2).take_while(|two| two[1].1 < two[0].1).count();
    corners.truncate(falls + 1);
    corners.into_iter().map(|(pages, cost)| Size { pages, cost }).collect()
}

/// The result of [`hull_partition`].
pub(crate) struct HullPartition {
    /// The pages of each class. Each number is a corner of the class's hull.
    pub partition: Vec<u64>,
    /// The number of pages that no class has. If `next` is not `None`, the next segment needs more pages than these.
    pub pages_left: u64,
    /// The index of the class of the next segment, and the segment's slope; `None` if there is no further segment.
    pub next: Option<(usize, f64)>,
}

/// Gives segments of hulls to classes in descending order of slopes, until the next segment has more pages than are
/// left. `pages` must be at least the sum of the first corners of all hulls.
pub(crate) fn hull_partition(hulls: &[Vec<Size>], pages: u64) -> HullPartition {
    let mut partition: Vec<u64> = hulls.iter().map(|hull| hull[0].pages).collect();
    let mut pages_left = pages - partition.iter().sum::<u64>();
    let segments = hulls.iter().enumerate().flat_map(|(class, hull)| {
        hull.windows(2).map(move |ends| (class, ends[1].pages, slope(ends[0], ends[1])))
    });
    let mut segments: Vec<(usize, u64, f64)> = segments.collect();
    // The segments of each class are in descending order of slopes already, and the sort is stable.
    segments.sort_by(|a, b| b.2.total_cmp(&a.2));
    for (class, end, saved) in segments {
        let more = end - partition[class];
        if more > pages_left {
            return HullPartition { partition, pages_left, next: Some((class, saved)) };
        }
        partition[class] = end;
        pages_left -= more;
    }
    HullPartition { partition, pages_left, next: None }
}
