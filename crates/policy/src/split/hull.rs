//! The best partition if curves were equal to their hulls.
//!
//! For convex curves, giving each page to the class that gains most by it leads to the best partition. The same holds
//! for hulls, whose segments take the place of pages.

use slabwise_profile::lower_hull;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub pages: u64,
    pub cost: f64,
}

fn slope(from: Size, to: Size) -> f64 {
    (from.cost - to.cost) / (to.pages - from.pages) as f64
}

/// The corners of the lower convex hull of these sizes, which ascend in pages, down to the least cost. Each page saves
/// something, and the savings decrease from corner to corner.
pub(crate) fn hull(sizes: &[Size]) -> Vec<Size> {
    let mut corners = lower_hull(sizes.iter().map(|size| (size.pages, size.cost)));
    let falls = corners.windows(2).take_while(|two| two[1].1 < two[0].1).count();
    corners.truncate(falls + 1);
    corners.into_iter().map(|(pages, cost)| Size { pages, cost }).collect()
}

pub(crate) struct HullSplit {
    /// The pages of each class, at a corner of its hull.
    pub split: Vec<u64>,
    /// The unassigned pages; fewer than the next segment takes.
    pub pages_left: u64,
    /// The class of the next segment and its savings per page; `None` if nothing more can be saved.
    pub next: Option<(usize, f64)>,
}

/// Takes segments in order of their savings per page until the next does not fit. `pages` must be at least the sum of
/// all first corners.
pub(crate) fn hull_split(hulls: &[Vec<Size>], pages: u64) -> HullSplit {
    let mut split: Vec<u64> = hulls.iter().map(|hull| hull[0].pages).collect();
    let mut pages_left = pages - split.iter().sum::<u64>();
    let segments = hulls.iter().enumerate().flat_map(|(class, hull)| {
        hull.windows(2).map(move |ends| (class, ends[1].pages, slope(ends[0], ends[1])))
    });
    let mut segments: Vec<(usize, u64, f64)> = segments.collect();
    // The sort is stable and the segments of each class are in this order already.
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
