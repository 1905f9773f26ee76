//! Since when a miss ratio has been steady.

use super::course::Course;

/// Of the windows, the last tenth counts as the end.
const FINAL_SHARE: usize = 10;
/// Chance alone moves a window's ratio by this many standard deviations now and then.
const DEVIATIONS: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    pub final_ratio: f64,
    pub tolerance: f64,
    /// The request since which all windows lie so near; `None` where not even the last tenth does.
    pub since: Option<u64>,
}

/// Looks for the last window whose ratio lies further from the final one than `tolerance`, or than chance
/// may take it where windows are short.
pub fn steady(course: &Course, tolerance: f64) -> Steady {
    let windows = &course.misses;
    let width = course.window_requests as f64;
    let last = &windows[windows.len() - windows.len().div_ceil(FINAL_SHARE)..];
    // The run's last window may be a short one.
    let requests = last.len() as f64 * width
        - (windows.len() as f64 * width - course.requests as f64).max(0.0);
    let final_ratio = last.iter().sum::<u64>() as f64 / requests.max(1.0);
    let chance = DEVIATIONS * (final_ratio * (1.0 - final_ratio) / width).max(0.0).sqrt();
    let tolerance = tolerance.max(chance);
    let whole = course.requests as usize / course.window_requests.max(1) as usize;
    let is_off = |&misses: &u64| (misses as f64 / width - final_ratio).abs() > tolerance;
    let first_steady = windows[..whole].iter().rposition(is_off).map_or(0, |off| off + 1);
    let is_steady = first_steady + last.len() <= windows.len();
    let since = is_steady.then_some(first_steady as u64 * course.window_requests);
    Steady { final_ratio, tolerance, since }
}

#[cfg(test)]
mod tests {
    use super::steady;
    use crate::trial::course::Course;

    fn course(ratios: &[f64]) -> Course {
        let misses = ratios.iter().map(|ratio| (ratio * 1e6) as u64).collect();
        let requests = ratios.len() as u64 * 1_000_000;
        Course { requests, window_requests: 1_000_000, misses, ..Course::default() }
    }

    #[test]
    fn steady_is_what_stays() {
        let mut ratios = vec![0.4, 0.21, 0.35, 0.3];
        ratios.extend([0.2; 16]);
        let found = steady(&course(&ratios), 0.002);
        assert_eq!((found.final_ratio, found.since), (0.2, Some(4_000_000)));
    }

    #[test]
    fn what_still_falls_at_the_end_is_not_steady() {
        let ratios: Vec<f64> = (0..20).map(|at| 0.5 - 0.02 * f64::from(at)).collect();
        assert_eq!(steady(&course(&ratios), 0.002).since, None);
    }
}
