//! The two pointers of cliff scaling, which climb to the ends of a cliff of a class's hit curve.
//!
//! Source: A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016, section 4.2 and the algorithms there that update the pointers and the physical queues.
//!
//! ```text
//!   hits |                ______.       size: the chunks of the class
//!        |              /       r       l, r: the pointers. Each has a window on either side, and counts the hits
//!        |            /                       in both windows
//!        |   .______/    size
//!        |   l                          a hit in the window       right of r: r moves right   right of l: l moves left
//!        |                                                        left of r:  r moves left    left of l:  l moves right
//!        +----------------------- distance
//! ```
//!
//! If there are more hits in the right window than in the left one, the hit curve is convex at the pointer (its second
//! derivative is positive), so the pointer moves away from the size. Otherwise it moves back towards the size, but not
//! beyond it. So both pointers stay at the size if the curve is concave there, and at the two ends of a cliff otherwise.
//!
//! In the paper, a class has two queues (*partitions*). A share of the keys, selected by hash, is in the left queue and
//! the others are in the right queue. The left queue behaves like a queue of `l` chunks for all keys, and the right
//! queue like a queue of `r` chunks. Here all keys are in one stack: a key of the left partition with distance d in the
//! stack of all keys has the distance d times the share in the left queue. So the windows are scaled by the shares
//! instead of the queues, with the same result.
//!
//! Invariant: 0 <= left <= size <= right, in chunks of the class's current size.

use crate::class_size::ClassSize;

/// The number of keys in each window of a pointer, in its own partition: the published value.
const WINDOW_KEYS: f64 = 128.0;
/// The bytes by which a hit moves a pointer: the published value.
const CREDIT_BYTES: f64 = 4096.0;
/// The minimum share of a partition for the width of its windows. It limits the windows to 2,560 keys.
const SHARE_MIN: f64 = 0.05;

/// The positions of the two pointers, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pointers {
    /// The size that the left partition simulates.
    pub left_chunks: f64,
    /// The size that the right partition simulates.
    pub right_chunks: f64,
}

impl Pointers {
    /// Cliffs are searched only in classes with more chunks than this: the published value.
    pub const CHUNKS_MIN: u64 = 1_000;

    /// Returns the share of the keys that belong to the left partition of a class of this size. If a pointer is at the
    /// size, the class is not on a cliff, and both partitions have half of the keys.
    pub fn left_share(&self, size_chunks: u64) -> f64 {
        let to_left = size_chunks as f64 - self.left_chunks;
        let to_right = self.right_chunks - size_chunks as f64;
        if to_left > 0.0 && to_right > 0.0 { to_right / (to_left + to_right) } else { 0.5 }
    }

    /// Returns true if the class is on a cliff: one pointer is on each side of this size.
    pub fn are_apart(&self, size_chunks: u64) -> bool {
        self.left_chunks < size_chunks as f64 && self.right_chunks > size_chunks as f64
    }
}

/// The pointers of one class, and the hits in the shadow queues of its two partitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct CliffSearch {
    pointers: Pointers,
    /// The estimated number of hits in the shadow queues of the two partitions since the start.
    pub shadow_hits: f64,
}

/// A get of a key of the class.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The stack distance of the key among all keys of the class.
    pub distance: u64,
    /// A number in [0, 1) that depends only on the key. Keys below the left share are in the left partition.
    pub position: f64,
    /// The number of gets that the get represents: 1 / sampling rate.
    pub weight: f64,
}

impl CliffSearch {
    /// Returns the pointers for a class of this size.
    pub fn pointers(&self, size: ClassSize) -> Pointers {
        let chunks = size.chunks as f64;
        if size.chunks <= Pointers::CHUNKS_MIN {
            return Pointers { left_chunks: chunks, right_chunks: chunks };
        }
        // A pointer that has not moved yet is 0, and a pointer that the size has passed follows the size.
        let Pointers { left_chunks, right_chunks } = self.pointers;
        let is_new = right_chunks == 0.0;
        Pointers {
            left_chunks: if is_new { chunks } else { left_chunks.min(chunks) },
            right_chunks: right_chunks.max(chunks),
        }
    }

    /// Counts a get: moves the pointers, and counts a hit in the shadow queue of the key's partition. Returns true if
    /// the get hit the shadow queue. The shadow queue has a page, which both partitions share in proportion to their
    /// keys. It begins where the partition ends: at the size that the pointer simulates, or, if the class is on no cliff,
    /// at the size of the class.
    pub fn note(&mut self, get: Reference, size: ClassSize) -> bool {
        let pointers = self.pointers(size);
        let Pointers { left_chunks, right_chunks } = pointers;
        let left_share = pointers.left_share(size.chunks);
        let distance = get.distance as f64;
        let is_left = get.position < left_share;
        let pointer = if is_left { left_chunks } else { right_chunks };
        let simulated = if pointers.are_apart(size.chunks) { pointer } else { size.chunks as f64 };
        let shadow_end = simulated + size.chunks_per_page as f64;
        let is_shadow = distance >= simulated && distance < shadow_end;
        if is_shadow {
            self.shadow_hits += get.weight;
        }
        self.pointers = pointers;
        if size.chunks <= Pointers::CHUNKS_MIN {
            return is_shadow;
        }
        let chunks = size.chunks as f64;
        let credit = CREDIT_BYTES / size.chunk_size_bytes as f64 * get.weight;
        let share = if is_left { left_share } else { 1.0 - left_share };
        let window = WINDOW_KEYS / share.max(SHARE_MIN);
        let is_right_of = distance >= pointer && distance < pointer + window;
        let is_left_of = distance < pointer && distance >= pointer - window;
        match (is_left, is_left_of, is_right_of) {
            (true, false, true) => self.pointers.left_chunks = (left_chunks - credit).max(0.0),
            (true, true, false) => self.pointers.left_chunks = (left_chunks + credit).min(chunks),
            (false, false, true) => self.pointers.right_chunks = right_chunks + credit,
            (false, true, false) => {
                self.pointers.right_chunks = (right_chunks - credit).max(chunks);
            }
            _ => {}
        }
        is_shadow
    }
}

#[cfg(test)]
mod tests {
    use super::{CliffSearch, Pointers, Reference};
    use crate::class_size::ClassSize;
    use slabwise_base::{ClassId, Random};

    /// A hit moves a pointer by one chunk.
    const SIZE: ClassSize = ClassSize {
        class: ClassId(0),
        chunks: 8_192,
        chunks_per_page: 256,
        chunk_size_bytes: 4_096,
    };

    fn at(left_chunks: f64, right_chunks: f64) -> CliffSearch {
        CliffSearch { pointers: Pointers { left_chunks, right_chunks }, shadow_hits: 0.0 }
    }

    /// Returns the pointers after a get. `position` 0 is in the left partition and 0.99 in the right one.
    fn after(mut search: CliffSearch, distance: u64, position: f64) -> [f64; 2] {
        search.note(Reference { distance, position, weight: 1.0 }, SIZE);
        let Pointers { left_chunks, right_chunks } = search.pointers(SIZE);
        [left_chunks, right_chunks]
    }

    /// Counts gets whose distances are drawn by `distance`, in both partitions.
    fn climb(seed: u64, mut distance: impl FnMut(&mut Random) -> f64) -> Pointers {
        let (mut random, mut search) = (Random::new(seed), CliffSearch::default());
        for _ in 0..400_000 {
            let distance = distance(&mut random) as u64;
            let position = random.unit();
            search.note(Reference { distance, position, weight: 1.0 }, SIZE);
        }
        search.pointers(SIZE)
    }

    #[test]
    fn a_hit_beside_a_pointer_moves_it_by_one_credit() {
        // The size is 8,192 chunks, and both shares are a half, so a window has 256 chunks.
        let apart = at(7_192.0, 9_192.0);
        let cases = [
            (9_192, 0.99, [7_192.0, 9_193.0]),
            (9_447, 0.99, [7_192.0, 9_193.0]),
            (9_448, 0.99, [7_192.0, 9_192.0]),
            (9_191, 0.99, [7_192.0, 9_191.0]),
            (8_936, 0.99, [7_192.0, 9_191.0]),
            (8_935, 0.99, [7_192.0, 9_192.0]),
            (7_192, 0.0, [7_191.0, 9_192.0]),
            (7_191, 0.0, [7_193.0, 9_192.0]),
            // The key is in the other partition.
            (9_192, 0.0, [7_192.0, 9_192.0]),
            (7_192, 0.99, [7_192.0, 9_192.0]),
        ];
        for (distance, position, expected) in cases {
            let found = after(apart, distance, position);
            assert_eq!(found, expected, "distance {distance}, position {position}");
        }
        let together = at(8_192.0, 8_192.0);
        assert_eq!(after(together, 8_191, 0.99), [8_192.0, 8_192.0], "right stays at the size");
        assert_eq!(after(together, 8_191, 0.0), [8_192.0, 8_192.0], "left stays at the size");
    }

    #[test]
    fn the_request_ratio_interpolates_between_the_pointers() {
        let pointers = Pointers { left_chunks: 2_000.0, right_chunks: 14_000.0 };
        let left_share = pointers.left_share(8_000);
        assert_eq!(left_share, 0.5);
        let left_share = pointers.left_share(5_000);
        assert_eq!(left_share, 0.75);
        assert_eq!(left_share * 2_000.0 + (1.0 - left_share) * 14_000.0, 5_000.0);
        let one_sided = Pointers { left_chunks: 5_000.0, right_chunks: 14_000.0 };
        assert_eq!(one_sided.left_share(5_000), 0.5);
        assert!(pointers.are_apart(5_000) && !one_sided.are_apart(5_000));
    }

    #[test]
    fn pointers_climb_to_the_two_ends_of_a_cliff() {
        for seed in 0..5 {
            // The density of hits rises from 7,000 to 9,500 chunks, and is low elsewhere.
            let found = climb(seed, |random| match random.below(4) {
                0 => random.unit() * 20_000.0,
                _ => 7_000.0 + 2_500.0 * random.unit().sqrt(),
            });
            let Pointers { left_chunks, right_chunks } = found;
            assert!((6_500.0..7_300.0).contains(&left_chunks), "seed {seed}: {found:?}");
            assert!((9_200.0..9_700.0).contains(&right_chunks), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn pointers_stay_at_the_size_if_the_hit_curve_is_concave() {
        for seed in 0..5 {
            let found = climb(seed, |random| 20_000f64.powf(random.unit()));
            let Pointers { left_chunks, right_chunks } = found;
            assert!(left_chunks > 7_900.0 && right_chunks < 8_500.0, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn each_partition_has_its_part_of_the_shadow_queue() {
        let mut search = at(7_192.0, 9_192.0);
        let mut note = |distance, position| {
            let size = ClassSize { chunks_per_page: 256, ..SIZE };
            search.note(Reference { distance, position, weight: 2.0 }, size)
        };
        assert!(note(7_400, 0.0), "the key is in the left shadow queue");
        assert!(note(9_300, 0.99), "the key is in the right shadow queue");
        assert!(!note(8_192, 0.0) && !note(8_300, 0.99) && !note(9_500, 0.99));
        assert_eq!(search.shadow_hits, 4.0);
        // One pointer is at the size, so the class is on no cliff.
        for (distance, position, expected) in
            [(8_193, 0.0, true), (8_193, 0.99, true), (7_192, 0.0, false)]
        {
            let mut search = at(7_192.0, 8_192.0);
            let found = search.note(Reference { distance, position, weight: 1.0 }, SIZE);
            assert_eq!(found, expected, "distance {distance}, position {position}");
        }
    }

    #[test]
    fn small_classes_have_no_cliffs_and_pointers_follow_the_size() {
        let small = ClassSize { chunks: 1_000, ..SIZE };
        let mut search = CliffSearch::default();
        for distance in 0..2_000 {
            search.note(Reference { distance, position: 0.99, weight: 1.0 }, small);
        }
        let together = |chunks| Pointers { left_chunks: chunks, right_chunks: chunks };
        assert_eq!(search.pointers(small), together(1_000.0));
        let apart = at(7_192.0, 9_192.0);
        let grown = ClassSize { chunks: 10_000, ..SIZE };
        assert_eq!(
            apart.pointers(grown),
            Pointers { left_chunks: 7_192.0, right_chunks: 10_000.0 }
        );
        let shrunk = ClassSize { chunks: 7_000, ..SIZE };
        assert_eq!(
            apart.pointers(shrunk),
            Pointers { left_chunks: 7_000.0, right_chunks: 9_192.0 }
        );
    }
}
