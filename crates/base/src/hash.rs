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

#[cfg(test)]
mod tests {
    use super::{KeyHasher, LookupKey};

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
}
