//! A hash map whose keys are numbers. Its hash function only mixes the bits of the number.

use slabwise_base::random::mix;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map from numbers, such as hashes of keys, to values.
pub type KeyMap<T> = HashMap<u64, T, BuildHasherDefault<KeyNumberHasher>>;

#[derive(Debug, Default)]
pub struct KeyNumberHasher(u64);

impl Hasher for KeyNumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}
