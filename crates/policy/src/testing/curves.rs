//! Curves of known shapes, and snapshots with them.

use crate::{ClassProfile, ClassSnapshot, Snapshot};
use slabwise_base::{ClassId, Random};
use slabwise_profile::{Distances, Mrc, Point, StackDistances};

/// Returns the exact miss-ratio curve of these references.
pub fn of_keys(keys: impl IntoIterator<Item = u64>) -> Mrc {
    let (mut exact, mut distances) = (StackDistances::default(), Distances::default());
    keys.into_iter().for_each(|key| distances.record(exact.reference(key)));
    distances.mrc(1)
}

/// Returns the curve of a loop over `keys` keys: all references miss with fewer than `keys` chunks, none with more.
pub fn cliff(keys: u64, references: f64) -> Mrc {
    let point = |chunks, misses| Point { chunks, misses };
    Mrc::new(vec![point(0, references), point(keys - 1, references), point(keys, 0.0)])
}

/// Returns a convex curve whose misses fall with the logarithm of the size, like those of a Zipf distribution of skew
/// 1.
pub fn zipf(keys: u64, references: f64, points: u64) -> Mrc {
    let misses =
        |chunks: u64| references * (1.0 - ((1 + chunks) as f64).ln() / ((1 + keys) as f64).ln());
    let points = (0..=points).map(|step| step * keys / points);
    Mrc::new(points.map(|chunks| Point { chunks, misses: misses(chunks) }).collect())
}

/// Returns the curve of keys that are never reused: all references miss.
pub fn scan(references: f64) -> Mrc {
    Mrc::new(vec![Point { chunks: 0, misses: references }])
}

/// Returns a random curve with flat parts and steep falls.
pub fn ragged(random: &mut Random, chunks: u64, references: f64) -> Mrc {
    let mut points = vec![Point { chunks: 0, misses: references }];
    let step = 1 + random.below(chunks / 4 + 1);
    let mut last = points[0];
    while last.chunks < chunks {
        let fall = match random.below(3) {
            0 => 0.0,
            1 => 0.1 * random.unit(),
            _ => random.unit(),
        };
        let chunks = last.chunks + 1 + random.below(step);
        last = Point { chunks, misses: last.misses * (1.0 - fall) };
        points.push(last);
    }
    Mrc::new(points)
}

/// Returns a random curve of one of the shapes in this file.
pub fn any(random: &mut Random, chunks: u64) -> Mrc {
    let references = 1_000.0 * (1.0 + random.below(1_000) as f64);
    let keys = 2 + random.below(2 * chunks);
    match random.below(4) {
        0 => cliff(keys, references),
        1 => zipf(keys, references, 64.min(keys)),
        2 => scan(references),
        _ => ragged(random, keys, references),
    }
}

/// Returns the snapshot of a full cache. `classes` has the pages and the curve of each class.
pub fn snapshot(chunks_per_page: usize, classes: Vec<(u64, Mrc)>) -> Snapshot {
    let class = |(index, &(pages, _)): (usize, &(u64, Mrc))| ClassSnapshot {
        pages,
        used_chunks: pages * chunks_per_page as u64,
        ..ClassSnapshot::empty(ClassId(index as u8), 96 << index.min(20), chunks_per_page)
    };
    Snapshot {
        memory_full: true,
        classes: classes.iter().enumerate().map(class).collect(),
        profiles: classes
            .into_iter()
            .map(|(_, curve)| ClassProfile {
                footprint_curve: curve.clone(),
                curve,
                ..ClassProfile::default()
            })
            .collect(),
        ..Snapshot::default()
    }
}
