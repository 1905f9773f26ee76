//! Lower convex hulls: what is left of a curve once its cliffs are bridged.
//!
//! ```text
//!     *
//!     |\  *  *  *            * points      \ hull
//!     |  \         *
//!     |     \       *        where a point lies above the hull there is a cliff: part of the way down brings
//!     |        \     *       nothing
//!     |           \   *
//!     |              \*---*
//!     '--------------------------
//! ```

/// The corners of the largest convex curve that is above none of these points, whose first numbers rise. From
/// corner to corner it falls less and less, and may rise at last.
pub fn lower_hull(points: impl IntoIterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    let mut corners: Vec<(u64, f64)> = Vec::new();
    for point in points {
        while let [.., before, last] = corners[..]
            && !is_below(before, last, point)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// Whether the point in the middle lies below the line between the others.
fn is_below(left: (u64, f64), middle: (u64, f64), right: (u64, f64)) -> bool {
    // Slopes are compared without dividing: hulls are made of many points.
    let (first, second) = ((middle.0 - left.0) as f64, (right.0 - middle.0) as f64);
    (middle.1 - left.1) * second < (right.1 - middle.1) * first
}

#[cfg(test)]
mod tests {
    use super::lower_hull;
    use slabwise_base::Random;

    #[test]
    fn corners_are_points_below_which_there_is_none_and_no_line_between_two_is_above_a_third() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut at = 0;
            let points: Vec<(u64, f64)> = (0..1 + random.below(40))
                .map(|_| {
                    at += 1 + random.below(9);
                    (at, random.below(50) as f64)
                })
                .collect();
            let hull = lower_hull(points.iter().copied());
            assert_eq!((hull.first(), hull.last()), (points.first(), points.last()));
            assert!(hull.iter().all(|corner| points.contains(corner)), "seed {seed}: {hull:?}");
            let slope = |a: (u64, f64), b: (u64, f64)| (b.1 - a.1) / (b.0 - a.0) as f64;
            let slopes: Vec<f64> = hull.windows(2).map(|two| slope(two[0], two[1])).collect();
            assert!(slopes.is_sorted_by(|a, b| a < b), "seed {seed}: {hull:?} turns");
            for two in hull.windows(2) {
                let between = points.iter().filter(|it| (two[0].0..two[1].0).contains(&it.0));
                for point in between {
                    let line = two[0].1 + slope(two[0], two[1]) * (point.0 - two[0].0) as f64;
                    assert!(point.1 >= line - 1e-9, "seed {seed}: {point:?} is below {hull:?}");
                }
            }
        }
    }
}
