//! Servers that differ from the other servers of a pool.
//!
//! All servers of a pool have keys by chance, so their hit ratios and the sizes of their items are alike. A server that
//! differs has another configuration, a hot key, or was started later. A value is far from the others if its distance from
//! the median is more than `DEVIATIONS_MAX` times the median of all distances, scaled so that this is the standard
//! deviation of a normal distribution. The median ignores the outliers themselves, unlike the mean (C. Leys and others,
//! "Detecting outliers: Do not use standard deviation around the mean, use absolute deviation around the median", Journal
//! of Experimental Social Psychology 49, 2013). A small distance is never an outlier, however alike the others are.

use std::fmt;

/// The smallest number of servers of which one can be an outlier.
pub const SERVERS_MIN: usize = 4;
/// The largest distance from the median in standard deviations.
const DEVIATIONS_MAX: f64 = 4.0;
/// The standard deviation of a normal distribution, in medians of the distances from the median.
const DEVIATION_OF_MEDIAN: f64 = 1.482_6;
/// A hit ratio that is at most this far from the median is no outlier.
const HIT_RATIO_DISTANCE_MIN: f64 = 0.05;
/// A division of the memory that is at most this far from the usual one is no outlier.
const MEMORY_DISTANCE_MIN: f64 = 0.15;

/// What is compared of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The hits divided by the gets; `None` if there was no get.
    pub hit_ratio: Option<f64>,
    /// The chunk size of each class in bytes, and its memory in any unit.
    pub classes: Vec<(u64, f64)>,
}

/// How a server differs from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// The hit ratio differs.
    HitRatio {
        /// That of the server.
        own: f64,
        /// The median of all servers.
        median: f64,
    },
    /// The memory is divided in another way between small and large items.
    Memory {
        /// The chunk size in bytes for which the shares differ most.
        chunk_size_bytes: u64,
        /// The share of the server's memory in chunks of up to this size, estimated from the classes.
        own: f64,
        /// The median of this share over all servers.
        median: f64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Difference::HitRatio { own, median } => write!(
                f,
                "its hit ratio is {:.1} %, that of its peers {:.1} %",
                own * 100.0,
                median * 100.0
            ),
            Difference::Memory { chunk_size_bytes, own, median } => write!(
                f,
                "about {:.0} % of its memory is in chunks of up to {chunk_size_bytes} bytes, of its peers' {:.0} %",
                own * 100.0,
                median * 100.0
            ),
        }
    }
}

/// Returns how each server differs from the others, in the order of the servers. A pool of fewer than [`SERVERS_MIN`]
/// servers has no outlier.
pub fn differences(servers: &[Measurement]) -> Vec<Vec<Difference>> {
    let mut found = vec![Vec::new(); servers.len()];
    let known: Vec<(usize, f64)> = (servers.iter().enumerate())
        .filter_map(|(server, it)| Some((server, it.hit_ratio?)))
        .collect();
    if known.len() >= SERVERS_MIN {
        let ratios: Vec<f64> = known.iter().map(|&(_, ratio)| ratio).collect();
        let middle = median(&ratios);
        let distances: Vec<f64> = ratios.iter().map(|ratio| (ratio - middle).abs()).collect();
        for (&(server, own), is_far) in known.iter().zip(far(&distances, HIT_RATIO_DISTANCE_MIN)) {
            if is_far {
                found[server].push(Difference::HitRatio { own, median: middle });
            }
        }
    }
    for (server, difference) in divisions(servers) {
        found[server].push(difference);
    }
    found
}

/// Returns the servers whose memory is divided in another way. The distance of two divisions is that of Kolmogorov and
/// Smirnov: the largest difference of the shares of the memory in chunks up to a size. It needs no common classes. The memory
/// of a class counts as if its chunks had all sizes down to the half of its chunk size, in equal shares of the logarithm, so
/// that slightly different classes have a small distance.
fn divisions(servers: &[Measurement]) -> Vec<(usize, Difference)> {
    let divided = servers.iter().map(|it| Division::new(&it.classes)).enumerate();
    let used: Vec<(usize, Division)> = divided.filter(|(_, it)| it.total() > 0.0).collect();
    if used.len() < SERVERS_MIN {
        return Vec::new();
    }
    let mut sizes: Vec<u64> =
        servers.iter().flat_map(|it| it.classes.iter().map(|&(size, _)| size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut widest: Vec<Difference> =
        vec![Difference::Memory { chunk_size_bytes: 0, own: 0.0, median: 0.0 }; used.len()];
    let mut distances = vec![0.0; used.len()];
    for &chunk_size_bytes in &sizes {
        let limit_log = log2(chunk_size_bytes);
        let shares: Vec<f64> = used.iter().map(|(_, it)| it.share_up_to(limit_log)).collect();
        let middle = median(&shares);
        for (server, &own) in shares.iter().enumerate() {
            let distance = (own - middle).abs();
            if distance > distances[server] {
                distances[server] = distance;
                widest[server] = Difference::Memory { chunk_size_bytes, own, median: middle };
            }
        }
    }
    let is_far = far(&distances, MEMORY_DISTANCE_MIN);
    let all = used.iter().zip(widest).zip(is_far);
    all.filter(|(_, is_far)| *is_far).map(|(((server, _), it), _)| (*server, it)).collect()
}

fn log2(size_bytes: u64) -> f64 {
    (size_bytes.max(1) as f64).log2()
}

/// The division of a server's memory between its classes. Pools of hundreds of servers have thousands of chunk sizes, so the
/// memory below a size must not need a visit to each class.
struct Division {
    /// The logarithm of the chunk size of each class, in ascending order, and the memory of the class.
    classes: Vec<(f64, f64)>,
    /// The memory of the first N classes, from none to all.
    sums: Vec<f64>,
}

impl Division {
    fn new(classes: &[(u64, f64)]) -> Division {
        let mut classes: Vec<(f64, f64)> =
            classes.iter().map(|&(size, memory)| (log2(size), memory)).collect();
        classes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sums = vec![0.0];
        for &(_, memory) in &classes {
            sums.push(sums[sums.len() - 1] + memory);
        }
        Division { classes, sums }
    }

    fn total(&self) -> f64 {
        self.sums[self.classes.len()]
    }

    /// Returns the share of the memory in chunks up to the size with this logarithm.
    fn share_up_to(&self, limit_log: f64) -> f64 {
        let whole = self.classes.partition_point(|&(log, _)| log <= limit_log);
        let parts = self.classes[whole..].iter().take_while(|&&(log, _)| log < limit_log + 1.0);
        let parts = parts.map(|&(log, memory)| memory * (1.0 + limit_log - log));
        (self.sums[whole] + parts.sum::<f64>()) / self.total()
    }
}

/// Returns for each distance from the median whether it is that of an outlier.
fn far(distances: &[f64], distance_min: f64) -> Vec<bool> {
    let limit = (DEVIATIONS_MAX * DEVIATION_OF_MEDIAN * median(distances)).max(distance_min);
    distances.iter().map(|&distance| distance > limit).collect()
}

/// Returns the median of at least one number.
fn median(numbers: &[f64]) -> f64 {
    let mut numbers = numbers.to_vec();
    let is_even = numbers.len().is_multiple_of(2);
    let middle = numbers.len() / 2;
    let (lower, &mut upper, _) = numbers.select_nth_unstable_by(middle, f64::total_cmp);
    let largest_lower = lower.iter().copied().max_by(f64::total_cmp);
    largest_lower.filter(|_| is_even).map_or(upper, |lower| f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::{Difference, Measurement, differences};

    /// Returns servers with these hit ratios, whose memory is half in small and half in large chunks.
    fn pool(hit_ratios: &[f64]) -> Vec<Measurement> {
        let server = |&ratio: &f64| Measurement {
            hit_ratio: Some(ratio),
            classes: vec![(96, 10.0), (1_184, 10.0)],
        };
        hit_ratios.iter().map(server).collect()
    }

    /// Returns the numbers of the servers that differ.
    fn outliers(servers: &[Measurement]) -> Vec<usize> {
        let found = differences(servers);
        (0..servers.len()).filter(|&server| !found[server].is_empty()).collect()
    }

    #[test]
    fn a_hit_ratio_far_from_the_median_is_an_outlier() {
        assert_eq!(outliers(&pool(&[0.80, 0.81, 0.79, 0.80, 0.60])), [4]);
        assert_eq!(outliers(&pool(&[0.80, 0.81, 0.79, 0.84])), [0; 0], "less than 5 points");
        assert_eq!(outliers(&pool(&[0.5, 0.6, 0.7, 0.8, 0.9])), [0; 0], "all servers differ");
        assert_eq!(outliers(&pool(&[0.8, 0.8, 0.2])), [0; 0], "too few servers");
        let mut idle = pool(&[0.80, 0.81, 0.79, 0.80, 0.60]);
        idle[0].hit_ratio = None;
        assert_eq!(outliers(&idle), [4], "a server without gets does not count");
        assert_eq!(outliers(&[]), [0; 0]);
    }

    #[test]
    fn another_division_of_the_memory_is_an_outlier_even_with_other_classes() {
        let mut servers = pool(&[0.8; 5]);
        // Learned classes: the same division with other chunk sizes.
        servers[1].classes = vec![(88, 5.0), (96, 5.0), (1_100, 10.0)];
        assert_eq!(outliers(&servers), [0; 0]);
        servers[3].classes = vec![(96, 18.0), (1_184, 2.0)];
        assert_eq!(outliers(&servers), [3]);
        let expected = Difference::Memory { chunk_size_bytes: 96, own: 0.9, median: 0.5 };
        assert_eq!(differences(&servers)[3], [expected]);
        assert_eq!(
            expected.to_string(),
            "about 90 % of its memory is in chunks of up to 96 bytes, of its peers' 50 %"
        );
        servers[0].classes.clear();
        assert_eq!(outliers(&servers), [3], "an empty server does not count");
    }
}
