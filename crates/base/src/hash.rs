//! The key hash: XXH3, seeded per process, so that no client can choose colliding keys.

use xxhash_rust::xxh3::xxh3_64_with_seed;

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

    /// The seed it was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The 64-bit hash of a key; all 64 bits are equally good.
    pub fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyHasher;

    #[test]
    fn the_seed_changes_the_hash_and_nothing_else_does() {
        let (a, b) = (KeyHasher::new(1), KeyHasher::new(2));
        assert_eq!(a.hash(b"key"), KeyHasher::new(1).hash(b"key"));
        assert_ne!(a.hash(b"key"), b.hash(b"key"));
        assert_ne!(a.hash(b"key"), a.hash(b"kez"));
    }
}
