//! The split that is best if curves were their hulls.
//!
//! If every curve were convex, page after page to whoever gains most by it would be the best split. So it is of
//! hulls, with the hull's segments in place of pages.

use slabwise_profile::lower_hull;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub pages: u64,
    pub cost: f64,
}

fn slope(from: Size, to: Size) -> f64 {
    (from.cost - to.cost) / (to.pages - from.pages) as f64
}

/// The corners of the lower convex hull of these sizes, which rise in pages, down to the least cost: each
/// page saves something, and less and less from corner to corner.
pub(crate) fn hull(sizes: &[Size]) -> Vec<Size> {
    let mut corners = lower_hull(sizes.iter().map(|size| (size.pages, size.cost)));
    let falls = corners.windows(2).take_while(|two| two[1].1 < two[0].1).count();
    corners.truncate(falls + 1);
    corners.into_iter().map(|(pages, cost)| Size { pages, cost }).collect()
}

pub(crate) struct HullSplit {
    /// Each class's pages, at a corner of its hull.
    pub split: Vec<u64>,
    /// The pages that are left; fewer than the next segment takes.
    pub pages_left: u64,
    /// The next segment's class and what it saves a page; `None` when there is nothing more to save.
    pub next: Option<(usize, f64)>,
}

/// Segment after segment from the one that saves most a page, until the next does not fit. `pages` are at
/// least those of all first corners.
pub(crate) fn hull_split(hulls: &[Vec<Size>], pages: u64) -> HullSplit {
    let mut split: Vec<u64> = hulls.iter().map(|hull| hull[0].pages).collect();
    let mut pages_left = pages - split.iter().sum::<u64>();
    let segments = hulls.iter().enumerate().flat_map(|(class, hull)| {
        hull.windows(2).map(move |ends| (class, ends[1].pages, slope(ends[0], ends[1])))
    });
    let mut segments: Vec<(usize, u64, f64)> = segments.collect();
    // A class's own segments are in this order already, and the sort is stable.
    segments.sort_by(|a, b| b.2.total_cmp(&a.2));
    for (class, end, saved) in segments {
        let more = end - split[class];
        if more > pages_left {
            return HullSplit { split, pages_left, next: Some((class, saved)) };
        }
        split[class] = end;
        pages_left -= more;
    }
    HullSplit { split, pages_left, next: None }
}
