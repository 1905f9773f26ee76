//! Ids of classes and pages, and hashes of keys.
//!
//! Each id is its own type, so that a class cannot be passed as a page. Keys are hashed by XXH3 with a random seed for
//! each process, so that clients cannot choose keys with equal hashes. The hash of a key also decides whether the key
//! is sampled.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of a class, counted from 0.
///
/// memcached's protocol counts classes from 1, and its class 0 is the page pool. Only [`ClassId::wire`] and
/// [`ClassId::from_wire`] convert between the two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The maximum number of classes in a class table, as in memcached.
    pub const COUNT_MAX: usize = 63;

    /// The number of class ids: enough for the classes of two tables. When the class table changes, the retired classes
    /// keep their ids while they own pages.
    pub const NUMBERS: usize = 2 * Self::COUNT_MAX;

    /// Returns the number of this class in memcached's commands and statistics.
    pub fn wire(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// Returns the class that has this number in memcached's commands, or `None` for 0 and for a number above
    /// [`ClassId::NUMBERS`].
    pub fn from_wire(number: u32) -> Option<ClassId> {
        let index = number.checked_sub(1)?;
        (index < Self::NUMBERS as u32).then_some(ClassId(index as u8))
    }

    /// Returns the index of the class in arrays that have an entry for each class id.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of a page of the arena, counted from 0. A page is the unit of memory that moves between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// Returns the index of the page in arrays that have an entry for each page.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hashes keys. The hash depends only on the seed and the key. After a warm restart the seed may be another one,
/// because the index is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// Returns a hasher with this seed.
    pub fn new(seed: u64) -> KeyHasher {
        KeyHasher { seed }
    }

    /// Returns the 64-bit hash of a key. Every bit of the hash is equally random.
    pub fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

/// A key with its hash, which the hasher of one engine computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> HashedKey<'k> {
    /// Combines a key with its hash. The hash must be that of the key: with another hash, lookups do not find the key.
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

/// A key as a lookup takes it: bytes, which the lookup hashes, or a [`HashedKey`], whose hash the lookup reuses.
pub trait LookupKey<'k> {
    /// Returns the key with its hash. The hash of a [`HashedKey`] must come from a hasher with the same seed.
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
            "the hash of a key must come from the hasher of the same engine"
        );
        self
    }
}

pub mod sampling {
    //! Spatial sampling of keys. A key is sampled if the product of its hash and a constant, modulo 2^64, is at most a
    //! threshold. So either every access to a key is sampled or no access. Every key in the sample of a threshold is
    //! also in the sample of each higher threshold.
    //!
    //! Source: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST
    //! 2015, section 3.

    /// An odd number close to 2^64 divided by the golden ratio. The upper bits of the product of this number and a hash
    /// depend on every bit of the hash. The sample therefore does not correlate with the bits of the hash that select
    /// a stripe or bucket of the index.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The threshold that samples only keys with the hash 0, which is practically no key.
    pub const THRESHOLD_NONE: u64 = 0;
    /// The threshold that samples every key.
    pub const THRESHOLD_ALL: u64 = u64::MAX;

    /// True if keys with this hash are sampled.
    #[inline(always)]
    pub fn is_sampled(hash: u64, threshold: u64) -> bool {
        hash.wrapping_mul(MULTIPLIER) <= threshold
    }

    /// Returns the threshold that samples the fraction `rate` of all keys.
    ///
    /// # Panics
    /// Panics if the rate is not above 0 and at most 1.
    pub fn threshold_of(rate: f64) -> u64 {
        assert!(
            rate > 0.0 && rate <= 1.0,
            "the sampling rate {rate} must be above 0 and at most 1"
        );
        (rate * HASH_COUNT) as u64
    }

    /// Returns the fraction of all keys that a threshold samples.
    pub fn rate_of(threshold: u64) -> f64 {
        (threshold as f64 + 1.0) / HASH_COUNT
    }

    /// The number of possible hashes.
    const HASH_COUNT: f64 = (1u128 << 64) as f64;
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
    fn the_sampled_fraction_equals_the_rate_even_if_some_bits_of_all_hashes_are_equal() {
        assert_eq!((threshold_of(1.0), rate_of(THRESHOLD_ALL)), (THRESHOLD_ALL, 1.0));
        let seed = 1;
        let mut random = Random::new(seed);
        for rate in [0.5, 0.1, 0.01] {
            let threshold = threshold_of(rate);
            assert!((rate_of(threshold) - rate).abs() < 1e-12);
            // Hashes of three kinds: all bits are random, or the lowest 12 bits are equal, or the highest 12 bits. The
            // keys of one bucket of an index have such hashes.
            for (random_bits, fixed_bits) in
                [(u64::MAX, 0), (!0xfff, 0x5a5), (!(0xfff << 52), 0xa5a << 52)]
            {
                let mut hash = || random.next_u64() & random_bits | fixed_bits;
                let sampled = (0..100_000).filter(|_| is_sampled(hash(), threshold)).count() as f64;
                let deviation = (100_000.0 * rate * (1.0 - rate)).sqrt();
                let off = (sampled - 100_000.0 * rate) / deviation;
                assert!(
                    off.abs() < 4.0,
                    "seed {seed}, rate {rate}, fixed bits {fixed_bits:x}: the number of sampled keys is {off} \
                     standard deviations above the expected number; the limits are -4 and 4"
                );
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
            assert!(
                more || !less,
                "seed {seed}: the threshold {threshold} samples the hash {hash}, as half of it does"
            );
        }
    }
}
