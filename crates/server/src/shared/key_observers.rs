//! What the server does with the keys of requests, in addition to serving them: counts by prefix, and samples.
//!
//! Both are off by default. Their flags are in one byte, so that a get without them makes one test for both.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The flag of counts by prefix (`stats detail`).
const COUNT_PREFIXES: u8 = 1;
/// The flag of samples of the keys of gets (`-o http_hot_keys`).
const SAMPLE_KEYS: u8 = 2;

/// The observers of keys that are on. Commands turn the counts by prefix on and off.
pub(crate) struct KeyObservers(AtomicU8);

/// The observers of keys that were on at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveKeyObservers(u8);

impl KeyObservers {
    pub fn new(counts_prefixes: bool, samples_keys: bool) -> KeyObservers {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(counts_prefixes, COUNT_PREFIXES) | flag(samples_keys, SAMPLE_KEYS);
        KeyObservers(AtomicU8::new(flags))
    }

    #[inline]
    pub fn get(&self) -> ActiveKeyObservers {
        ActiveKeyObservers(self.0.load(Relaxed))
    }

    pub fn set_counts_prefixes(&self, counts_prefixes: bool) {
        if counts_prefixes {
            self.0.fetch_or(COUNT_PREFIXES, Relaxed);
        } else {
            self.0.fetch_and(!COUNT_PREFIXES, Relaxed);
        }
    }
}

impl ActiveKeyObservers {
    /// True if requests are counted by key prefix, or keys are sampled.
    #[inline]
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// True if requests are counted by key prefix.
    #[inline]
    pub fn count_prefixes(self) -> bool {
        self.0 & COUNT_PREFIXES != 0
    }
}

#[cfg(test)]
mod tests {
    use super::KeyObservers;

    #[test]
    fn commands_change_only_the_counts_by_prefix() {
        for samples_keys in [false, true] {
            let observers = KeyObservers::new(false, samples_keys);
            assert_eq!(
                (observers.get().any(), observers.get().count_prefixes()),
                (samples_keys, false)
            );
            observers.set_counts_prefixes(true);
            assert_eq!((observers.get().any(), observers.get().count_prefixes()), (true, true));
            observers.set_counts_prefixes(false);
            assert_eq!(
                (observers.get().any(), observers.get().count_prefixes()),
                (samples_keys, false)
            );
        }
    }
}
