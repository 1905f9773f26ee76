//! Counts for each key prefix (`stats detail`). The prefix of a key is the part before the first delimiter (`-D`).
//!
//! The counts are off by default, because every request takes a lock while they are on. The number of prefixes is
//! limited, because clients can choose any number of prefixes. When the limit is reached, requests with new prefixes
//! are not counted.

use slabwise_base::sync::{Mutex, lock};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;

/// The maximum number of prefixes with counts, as in memcached.
pub(crate) const PREFIX_COUNT_MAX: usize = 1 << 16;

/// The counts of one prefix since the last `stats reset`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixCounts {
    /// The number of keys that gets looked up.
    gets: u64,
    /// The number of keys that gets found.
    hits: u64,
    sets: u64,
    deletes: u64,
    /// The sum of the costs of the items that gets found, in the clients' unit.
    pub(crate) cost_saved: u64,
    /// The sum of the costs of the items that were stored when the key had no live item, in the clients' unit.
    pub(crate) cost_paid: u64,
}

/// The counts of all prefixes.
pub struct PrefixStats {
    /// The byte that ends the prefix of a key.
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<[u8]>, PrefixCounts>>,
}

impl PrefixStats {
    /// Makes the state without counts. As in memcached, only the first byte of a delimiter that is not ASCII is used.
    pub fn new(delimiter: char) -> PrefixStats {
        let delimiter = delimiter.encode_utf8(&mut [0; 4]).as_bytes()[0];
        PrefixStats { delimiter, counts: Mutex::default() }
    }

    /// Returns the prefix of a key; `None` if the key has no delimiter.
    pub fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(&key[..key.iter().position(|&byte| byte == self.delimiter)?])
    }

    pub fn record_get(&self, key: &[u8], is_hit: bool) {
        self.record(key, |counts| {
            counts.gets += 1;
            counts.hits += u64::from(is_hit);
        });
    }

    /// Counts a store command, whether or not the command stores an item.
    pub fn record_set(&self, key: &[u8]) {
        self.record(key, |counts| counts.sets += 1);
    }

    /// Counts a delete command, whether or not the key has an item.
    pub fn record_delete(&self, key: &[u8]) {
        self.record(key, |counts| counts.deletes += 1);
    }

    pub(crate) fn record_cost_saved(&self, key: &[u8], units: u64) {
        self.record(key, |counts| counts.cost_saved += units);
    }

    pub(crate) fn record_cost_paid(&self, key: &[u8], units: u64) {
        self.record(key, |counts| counts.cost_paid += units);
    }

    /// Returns the `count_max` prefixes with the highest sums of saved and paid costs, in descending order of these
    /// sums. Omits prefixes without costs.
    pub(crate) fn costliest(&self, count_max: usize) -> Vec<(Box<[u8]>, PrefixCounts)> {
        let cost_sum = |counts: &PrefixCounts| counts.cost_saved + counts.cost_paid;
        let counts = lock(&self.counts);
        let mut with_costs: Vec<_> =
            counts.iter().filter(|(_, counts)| cost_sum(counts) > 0).collect();
        with_costs.sort_by_key(|&(prefix, counts)| (Reverse(cost_sum(counts)), prefix));
        with_costs.truncate(count_max);
        with_costs.into_iter().map(|(prefix, counts)| (prefix.clone(), counts.clone())).collect()
    }

    /// Removes all counts.
    pub fn clear(&self) {
        lock(&self.counts).clear();
    }

    /// Appends a line for each prefix after `after` in alphabetical order, but visits at most `count_max` prefixes.
    /// Returns the last visited prefix if there may be more prefixes.
    pub fn list(
        &self,
        after: Option<&[u8]>,
        count_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Box<[u8]>> {
        let counts = lock(&self.counts);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = counts.range::<[u8], _>((from, Bound::Unbounded));
        let mut last = None;
        for _ in 0..count_max {
            let (prefix, counts) = rest.next()?;
            last = Some(prefix);
            let PrefixCounts { gets, hits, sets, deletes, .. } = counts;
            // memcached has no costs, so its output has no line for a prefix with costs alone.
            if gets + sets + deletes == 0 {
                continue;
            }
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n")
                .expect("a write into a vector succeeds");
        }
        last.cloned()
    }

    /// Calls `count` with the counts of the key's prefix, unless the key has no prefix or the limit is reached.
    fn record(&self, key: &[u8], count: impl FnOnce(&mut PrefixCounts)) {
        let Some(prefix) = self.prefix(key) else { return };
        let mut counts = lock(&self.counts);
        if let Some(counted) = counts.get_mut(prefix) {
            count(counted);
        } else if counts.len() < PREFIX_COUNT_MAX {
            count(counts.entry(prefix.into()).or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PREFIX_COUNT_MAX, PrefixCounts, PrefixStats};

    fn dump(stats: &PrefixStats) -> String {
        let mut out = Vec::new();
        let mut last = stats.list(None, 1, &mut out);
        while let Some(after) = last {
            last = stats.list(Some(&after), 1, &mut out);
        }
        out.extend_from_slice(b"END\r\n");
        String::from_utf8(out).expect("the keys of the tests are ASCII")
    }

    #[test]
    fn requests_are_counted_by_the_part_of_the_key_before_the_first_delimiter() {
        let stats = PrefixStats::new(':');
        stats.record_get(b"a:b:c", true);
        stats.record_get(b"a:d", false);
        stats.record_set(b"a:b");
        stats.record_delete(b":x");
        stats.record_get(b"none", true);
        let expected =
            "PREFIX  get 0 hit 0 set 0 del 1\r\nPREFIX a get 2 hit 1 set 1 del 0\r\nEND\r\n";
        assert_eq!(dump(&stats), expected);
        stats.clear();
        assert_eq!(dump(&stats), "END\r\n");
    }

    #[test]
    fn costliest_sorts_by_cost_and_list_omits_prefixes_with_costs_alone() {
        let stats = PrefixStats::new(':');
        stats.record_get(b"plain:1", true);
        stats.record_cost_saved(b"a:1", 5);
        stats.record_cost_paid(b"b:1", 4);
        stats.record_cost_paid(b"b:2", 3);
        stats.record_cost_saved(b"c:1", 5);
        stats.record_cost_saved(b"none", 100);
        assert_eq!(dump(&stats), "PREFIX plain get 1 hit 1 set 0 del 0\r\nEND\r\n");
        let costs = |prefix: &[u8], cost_saved, cost_paid| {
            (prefix.into(), PrefixCounts { cost_saved, cost_paid, ..PrefixCounts::default() })
        };
        let expected: [(Box<[u8]>, _); 3] =
            [costs(b"b", 0, 7), costs(b"a", 5, 0), costs(b"c", 5, 0)];
        assert_eq!(stats.costliest(10), expected);
        assert_eq!(stats.costliest(2), expected[..2]);
    }

    #[test]
    fn at_most_65536_prefixes_have_counts() {
        let stats = PrefixStats::new(':');
        for number in 0..PREFIX_COUNT_MAX + 10 {
            stats.record_set(format!("{number}:").as_bytes());
        }
        assert_eq!(dump(&stats).lines().count(), PREFIX_COUNT_MAX + 1);
    }
}
