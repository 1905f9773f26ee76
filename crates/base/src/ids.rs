//! Ids of classes and pages, and hashes of keys.
//!
//! Each id is its own type, so that a class cannot be passed as a page. Keys are hashed by XXH3 with a seed for
//! each process, so that clients cannot choose colliding keys. The hash also decides which keys are sampled.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of a class; all chunks of a class have the same size.
///
/// slabwise counts classes from 0. memcached's protocol counts them from 1 (0 is its global page pool): only
/// [`ClassId::wire`] and [`ClassId::from_wire`] translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The most classes that a table may have, as in memcached.
    pub const COUNT_MAX: usize = 63;

    /// The number of class ids. The classes of an earlier table keep their ids as long as they hold items, so
    /// there are ids for two tables.
    pub const NUMBERS: usize = 2 * Self::COUNT_MAX;

    /// Returns the number of this class in memcached's commands and statistics.
    pub fn wire(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// Returns the class with a number from a command, or `None` for 0 and for numbers out of range.
    pub fn from_wire(number: u32) -> Option<ClassId> {
        let index = number.checked_sub(1)?;
        (index < Self::NUMBERS as u32).then_some(ClassId(index as u8))
    }

    /// Returns the index of the class in per-class arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A page of the arena, the unit of memory that moves between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// Returns the index of the page in the page table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hashes keys. The hash depends only on the seed and the key, also across restarts: a restart file stores the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// Returns a hasher with this seed.
    pub fn new(seed: u64) -> KeyHasher {
        KeyHasher { seed }
    }

    /// Returns the 64-bit hash of a key. All bits are equally well distributed.
    pub fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

/// A key and its hash by one engine's hasher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> HashedKey<'k> {
    /// Joins a key and its hash. With a wrong hash, lookups do not find the key.
    #[inline]
    pub fn from_parts(bytes: &'k [u8], hash: u64) -> HashedKey<'k> {
        HashedKey { bytes, hash }
    }

    /// Returns the key.
    #[inline]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// Returns the hash of the key.
    #[inline]
    pub fn hash(self) -> u64 {
        self.hash
    }
}

/// A key for a lookup: plain bytes, which the lookup hashes, or a [`HashedKey`].
pub trait LookupKey<'k> {
    /// Returns the key with its hash. A [`HashedKey`] must have been hashed by the same hasher.
    fn hashed_by(self, hasher: &KeyHasher) -> HashedKey<'k>;
}

impl<'k, B: AsRef<[u8]> + ?Sized> LookupKey<'k> for &'k B {
    #[inline]
    fn hashed_by(self, hasher: &KeyHasher) -> HashedKey<'k> {
        let bytes = self.as_ref();
        HashedKey { bytes, hash: hasher.hash(bytes) }
    }
}

impl<'k> LookupKey<'k> for HashedKey<'k> {
    #[inline]
    fn hashed_by(self, hasher: &KeyHasher) -> HashedKey<'k> {
        debug_assert_eq!(
            self.hash,
            hasher.hash(self.bytes),
            "the key was hashed by another engine's hasher"
        );
        self
    }
}

pub mod sampling {
    //! Spatial sampling of keys: a key is sampled if its hash, mixed again, is at most a threshold. So either all
    //! accesses to a key are sampled or none, and the sample of a lower threshold is part of that of a higher one.
    //!
    //! Source: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST
    //! 2015, section 3.

    /// 2^64 divided by the golden ratio, odd. The upper bits of a product depend on every bit of the hash, so
    /// the sample does not correlate with the bits that the index uses.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The threshold that samples no key, except one hash in 2^64.
    pub const THRESHOLD_NONE: u64 = 0;
    /// The threshold that samples every key.
    pub const THRESHOLD_ALL: u64 = u64::MAX;

    /// True if a key with this hash is sampled.
    #[inline(always)]
    pub fn is_sampled(hash: u64, threshold: u64) -> bool {
        hash.wrapping_mul(MULTIPLIER) <= threshold
    }

    /// Returns the threshold for a sampling rate, the fraction of keys that are sampled.
    ///
    /// # Panics
    /// If the rate is not in (0, 1].
    pub fn threshold_of(rate: f64) -> u64 {
        assert!(
            rate > 0.0 && rate <= 1.0,
            "sampling rate {rate}: it must be above 0 and at most 1"
        );
        (rate * NUMBERS) as u64
    }

    /// Returns the sampling rate of a threshold.
    pub fn rate_of(threshold: u64) -> f64 {
        (threshold as f64 + 1.0) / NUMBERS
    }

    /// The number of hashes.
    const NUMBERS: f64 = (1u128 << 64) as f64;
}

#[cfg(test)]
mod tests {
    use super::sampling::{THRESHOLD_ALL, is_sampled, rate_of, threshold_of};
    use super::{KeyHasher, LookupKey};
    use crate::Random;

    #[test]
    fn the_hash_depends_only_on_seed_and_key() {
        let (a, b) = (KeyHasher::new(1), KeyHasher::new(2));
        assert_eq!(a.hash(b"key"), KeyHasher::new(1).hash(b"key"));
        assert_ne!(a.hash(b"key"), b.hash(b"key"));
        assert_ne!(a.hash(b"key"), a.hash(b"kez"));
    }

    #[test]
    fn a_hashed_key_keeps_its_hash() {
        let hasher = KeyHasher::new(1);
        let key = b"key".hashed_by(&hasher);
        assert_eq!((key.bytes(), key.hash()), (&b"key"[..], hasher.hash(b"key")));
        assert_eq!(key.hashed_by(&hasher), key);
    }

    #[test]
    fn the_sampled_fraction_equals_the_rate_for_any_fixed_bits() {
        assert_eq!((threshold_of(1.0), rate_of(THRESHOLD_ALL)), (THRESHOLD_ALL, 1.0));
        let seed = 1;
        let mut random = Random::new(seed);
        for rate in [0.5, 0.1, 0.01] {
            let threshold = threshold_of(rate);
            assert!((rate_of(threshold) - rate).abs() < 1e-12);
            // Random hashes, and those with fixed lowest or highest 12 bits, as in one bucket of an index.
            for (keep, set) in [(u64::MAX, 0), (!0xfff, 0x5a5), (!(0xfff << 52), 0xa5a << 52)] {
                let mut hash = || random.next_u64() & keep | set;
                let sampled = (0..100_000).filter(|_| is_sampled(hash(), threshold)).count() as f64;
                let deviation = (100_000.0 * rate * (1.0 - rate)).sqrt();
                let off = (sampled - 100_000.0 * rate) / deviation;
                assert!(off.abs() < 4.0, "seed {seed}, rate {rate}, bits {set:x}: off by {off}");
            }
        }
    }

    #[test]
    fn a_lower_threshold_samples_a_subset_of_the_keys() {
        let seed = 2;
        let mut random = Random::new(seed);
        for _ in 0..10_000 {
            let (hash, threshold) = (random.next_u64(), random.next_u64());
            let (less, more) = (is_sampled(hash, threshold / 2), is_sampled(hash, threshold));
            assert!(more || !less, "seed {seed}, hash {hash}, threshold {threshold}");
        }
    }
}
