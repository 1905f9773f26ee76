//! Counters by key prefix, the part of a key before the delimiter.
//!
//! They are off by default because every request then takes a lock. Clients choose the prefixes, so their number is
//! bounded: new prefixes beyond the bound are not counted.

use slabwise_base::sync::{Mutex, lock};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most prefixes that are counted, as in memcached.
const PREFIX_COUNT_MAX: usize = 1 << 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixCounts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
    /// Cost units of the items that gets hit.
    pub(crate) cost_saved: u64,
    /// Cost units of the items stored where there was no live item.
    pub(crate) cost_paid: u64,
}

pub struct PrefixStats {
    delimiter: u8,
    pub(super) enabled: AtomicBool,
    counts: Mutex<BTreeMap<Box<[u8]>, PrefixCounts>>,
}

impl PrefixStats {
    /// Starts with no counts. As in memcached, only the first byte of a delimiter beyond ASCII is used.
    pub fn new(delimiter: char, enabled: bool) -> PrefixStats {
        let delimiter = delimiter.encode_utf8(&mut [0; 4]).as_bytes()[0];
        PrefixStats { delimiter, enabled: AtomicBool::new(enabled), counts: Mutex::default() }
    }

    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    pub fn record_get(&self, key: &[u8], is_hit: bool) {
        self.record(key, |counts| {
            counts.gets += 1;
            counts.hits += u64::from(is_hit);
        });
    }

    /// Counts a set, even one that fails.
    pub fn record_set(&self, key: &[u8]) {
        self.record(key, |counts| counts.sets += 1);
    }

    /// Counts a delete, even one that fails.
    pub fn record_delete(&self, key: &[u8]) {
        self.record(key, |counts| counts.deletes += 1);
    }

    pub(crate) fn record_cost_saved(&self, key: &[u8], units: u64) {
        self.record(key, |counts| counts.cost_saved += units);
    }

    pub(crate) fn record_cost_paid(&self, key: &[u8], units: u64) {
        self.record(key, |counts| counts.cost_paid += units);
    }

    /// Returns at most `count_max` prefixes with their counts, in descending order of cost saved plus cost paid.
    pub(crate) fn costliest(&self, count_max: usize) -> Vec<(Box<[u8]>, PrefixCounts)> {
        let sum = |counts: &PrefixCounts| counts.cost_saved + counts.cost_paid;
        let counts = lock(&self.counts);
        let mut costs: Vec<_> = counts.iter().filter(|(_, counts)| sum(counts) > 0).collect();
        costs.sort_by_key(|&(prefix, counts)| (Reverse(sum(counts)), prefix));
        costs.truncate(count_max);
        costs.into_iter().map(|(prefix, counts)| (prefix.clone(), counts.clone())).collect()
    }

    pub fn clear(&self) {
        lock(&self.counts).clear();
    }

    /// Appends the lines of at most `count_max` prefixes after `after`, in order. Returns the last prefix if more may
    /// follow.
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
            // memcached has no prefix for which only costs were counted.
            if gets + sets + deletes == 0 {
                continue;
            }
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n")
                .expect("a Vec takes every write");
        }
        last.cloned()
    }

    fn record(&self, key: &[u8], count: impl FnOnce(&mut PrefixCounts)) {
        let Some(prefix_len) = key.iter().position(|&byte| byte == self.delimiter) else {
            return;
        };
        let prefix = &key[..prefix_len];
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
        String::from_utf8(out).expect("the test's keys are text")
    }

    #[test]
    fn counts_by_the_part_before_the_delimiter() {
        let stats = PrefixStats::new(':', true);
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
    fn lists_the_costliest_first_and_hides_prefixes_with_only_costs() {
        let stats = PrefixStats::new(':', true);
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
    fn the_number_of_prefixes_is_bounded() {
        let stats = PrefixStats::new(':', true);
        for number in 0..PREFIX_COUNT_MAX + 10 {
            stats.record_set(format!("{number}:").as_bytes());
        }
        assert_eq!(dump(&stats).lines().count(), PREFIX_COUNT_MAX + 1);
    }
}
