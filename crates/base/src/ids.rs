//! What things are called by: classes and pages by their ids, which are types of their own so that a class can never
//! be passed where a page is meant; items by their keys' hashes (XXH3, seeded per process, so that no client can
//! choose colliding keys), by which sampled keys are chosen, too.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A class by its number: all chunks of one class have one size.
///
/// Numbered from 0 inside slabwise. memcached's wire numbers classes from 1 (0 is its global page
/// pool): [`ClassId::wire`] and [`ClassId::from_wire`] are the only two places that translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The most classes that a table may hold (memcached's limit, too).
    pub const COUNT_MAX: usize = 63;

    /// How many numbers there are: the classes of a table stand beside those of an earlier one, as long as
    /// these still hold items.
    pub const NUMBERS: usize = 2 * Self::COUNT_MAX;

    /// The number that memcached's commands and stats give this class.
    pub fn wire(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// The class that a command's number names, or `None` for 0 and for numbers that no class can have.
    pub fn from_wire(number: u32) -> Option<ClassId> {
        let index = number.checked_sub(1)?;
        (index < Self::NUMBERS as u32).then_some(ClassId(index as u8))
    }

    /// The class as an index into per-class arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A page of the arena, the unit of memory that moves between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// The page as an index into the page table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hashes keys. Two hashers of one seed agree for ever (a restart file carries the seed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// A hasher with this seed.
    pub fn new(seed: u64) -> KeyHasher {
        KeyHasher { seed }
    }

    /// The 64-bit hash of a key; all 64 bits are equally good.
    pub fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

/// A key and its hash by the hasher of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> HashedKey<'k> {
    /// Puts a key and its hash together again. With another hash than its own a key is not found.
    #[inline]
    pub fn from_parts(bytes: &'k [u8], hash: u64) -> HashedKey<'k> {
        HashedKey { bytes, hash }
    }

    /// The key.
    #[inline]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// Its hash.
    #[inline]
    pub fn hash(self) -> u64 {
        self.hash
    }
}

/// What a look-up takes: a key, which is hashed on entry, or one that was hashed before.
pub trait LookupKey<'k> {
    /// The key with its hash. A key that was hashed before must have been hashed by the same hasher.
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
            "a key is hashed by its engine's hasher"
        );
        self
    }
}

pub mod sampling {
    //! Which keys are looked at: those whose hash, mixed once more, falls at or below a threshold. So all accesses
    //! to a key are looked at or none, and a lower threshold's sample is part of a higher one's.
    //!
    //! Source: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST
    //! 2015, section 3.

    /// 2^64 divided by the golden ratio, odd. The upper bits of a product depend on every bit of the hash, so
    /// the sample is not tied to those bits that an index uses.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The threshold that samples no key: one hash in 2^64 at most.
    pub const THRESHOLD_NONE: u64 = 0;
    /// The threshold that samples every key.
    pub const THRESHOLD_ALL: u64 = u64::MAX;

    /// Whether a key with this hash is looked at.
    #[inline(always)]
    pub fn is_sampled(hash: u64, threshold: u64) -> bool {
        hash.wrapping_mul(MULTIPLIER) <= threshold
    }

    /// The threshold for a rate in (0, 1]: the share of keys that are looked at.
    ///
    /// # Panics
    /// If the rate is not in (0, 1].
    pub fn threshold_of(rate: f64) -> u64 {
        assert!(
            rate > 0.0 && rate <= 1.0,
            "a sampling rate is above 0 and at most 1, and not {rate}"
        );
        (rate * NUMBERS) as u64
    }

    /// The rate for a threshold.
    pub fn rate_of(threshold: u64) -> f64 {
        (threshold as f64 + 1.0) / NUMBERS
    }

    /// How many hashes there are.
    const NUMBERS: f64 = (1u128 << 64) as f64;
}

#[cfg(test)]
mod tests {
    use super::sampling::{THRESHOLD_ALL, is_sampled, rate_of, threshold_of};
    use super::{KeyHasher, LookupKey};
    use crate::Random;

    #[test]
    fn the_seed_changes_the_hash_and_nothing_else_does() {
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
    fn the_share_of_keys_is_the_rate_whatever_bits_an_index_uses() {
        assert_eq!((threshold_of(1.0), rate_of(THRESHOLD_ALL)), (THRESHOLD_ALL, 1.0));
        let seed = 1;
        let mut random = Random::new(seed);
        for rate in [0.5, 0.1, 0.01] {
            let threshold = threshold_of(rate);
            assert!((rate_of(threshold) - rate).abs() < 1e-12);
            // All hashes, and those that agree in their lowest or highest 12 bits.
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
    fn a_lower_threshold_samples_fewer_of_the_same_keys() {
        let seed = 2;
        let mut random = Random::new(seed);
        for _ in 0..10_000 {
            let (hash, threshold) = (random.next_u64(), random.next_u64());
            let (less, more) = (is_sampled(hash, threshold / 2), is_sampled(hash, threshold));
            assert!(more || !less, "seed {seed}, hash {hash}, threshold {threshold}");
        }
    }
}
