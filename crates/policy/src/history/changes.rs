//! The events of each class between two steps.
//!
//! The counts of a snapshot begin at the start of the cache, but a policy that is stepped by events needs the events
//! since its last step. For a class that was not in the previous snapshot, all these counts are 0.

use crate::history::per_class::PerClass;
use crate::{ClassProfile, ClassSnapshot, Snapshot};

/// Counts of one class: either since the start of the cache, or since the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// The number of gets that hit an item of the class.
    pub hits: u64,
    /// The number of items stored.
    pub sets: u64,
    /// The number of allocations that found no free chunk: evictions and refused stores.
    pub shortages: u64,
    /// Counts of the class's profile; `None` if there was no profile at the start or at the end of the period.
    pub profiled: Option<Profiled>,
}

/// Counts of a class's profile, in estimated events. See [`ClassProfile`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Profiled {
    pub misses: f64,
    pub misses_by_eviction: f64,
    pub stored_before: f64,
    pub shadow_hits: f64,
    pub partition_shadow_hits: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// The counts of each class since the start of the cache, at the last step.
    last: PerClass<Counts>,
}

impl Changes {
    /// Returns the events of each class since the last call, in the order of the snapshot's classes.
    pub fn since_last(&mut self, snapshot: &Snapshot) -> Vec<Counts> {
        let profiles = snapshot.profiles.iter().map(Some).chain(std::iter::repeat(None));
        let each = snapshot.classes.iter().zip(profiles);
        let current: Vec<Counts> =
            each.map(|(class, profile)| Counts::of(class, profile)).collect();
        let mut next = current.iter();
        self.last.follow(snapshot, |class| {
            let known = snapshot.classes.iter().position(|other| other.class == class.class);
            current[known.expect("the new class is one of the snapshot's classes")]
        });
        let change = |before: &mut Counts| {
            let after = *next.next().expect("`current` has an entry for each class");
            std::mem::replace(before, after).events_until(after)
        };
        self.last.iter_mut().map(change).collect()
    }
}

impl Counts {
    fn of(class: &ClassSnapshot, profile: Option<&ClassProfile>) -> Counts {
        Counts {
            hits: class.hits,
            sets: class.sets,
            shortages: class.shortages(),
            profiled: profile.map(|profile| Profiled {
                misses: profile.misses,
                misses_by_eviction: profile.misses_by_eviction,
                stored_before: profile.stored_before,
                shadow_hits: profile.shadow_hits,
                partition_shadow_hits: profile.partition_shadow_hits,
            }),
        }
    }

    /// Returns the events between these counts and the later counts `after`.
    fn events_until(self, after: Counts) -> Counts {
        let rise = |before: f64, after: f64| (after - before).max(0.0);
        Counts {
            hits: after.hits.saturating_sub(self.hits),
            sets: after.sets.saturating_sub(self.sets),
            shortages: after.shortages.saturating_sub(self.shortages),
            profiled: self.profiled.zip(after.profiled).map(|(before, after)| Profiled {
                misses: rise(before.misses, after.misses),
                misses_by_eviction: rise(before.misses_by_eviction, after.misses_by_eviction),
                stored_before: rise(before.stored_before, after.stored_before),
                shadow_hits: rise(before.shadow_hits, after.shadow_hits),
                partition_shadow_hits: rise(
                    before.partition_shadow_hits,
                    after.partition_shadow_hits,
                ),
            }),
        }
    }

    /// Returns the number of get misses. Without a profile this is the number of items stored, because in a look-aside
    /// cache a store follows each miss.
    pub fn misses(&self) -> f64 {
        self.profiled.map_or(self.sets as f64, |profiled| profiled.misses)
    }

    pub fn gets(&self) -> f64 {
        self.hits as f64 + self.misses()
    }

    /// Returns the number of pages that would have held the allocations that found no free chunk. Returns 0 if the
    /// class has at least a page of free chunks, because then it has received a page since.
    fn pages_needed(&self, class: &ClassSnapshot) -> u64 {
        let chunks_per_page = class.chunks_per_page as u64;
        if class.free_chunks >= chunks_per_page {
            return 0;
        }
        self.shortages.div_ceil(chunks_per_page)
    }
}

/// Returns the number of pages that each class needs for the allocations that found no free chunk since the last step.
pub(crate) fn pages_needed(snapshot: &Snapshot, changes: &[Counts]) -> Vec<u64> {
    let each = snapshot.classes.iter().zip(changes);
    each.map(|(class, change)| change.pages_needed(class)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Changes, Counts, Profiled};
    use crate::{ClassProfile, ClassSnapshot, Snapshot};
    use slabwise_base::ClassId;

    fn snapshot(sets: &[(u8, u64)], misses: &[f64]) -> Snapshot {
        let class = |&(id, sets)| ClassSnapshot {
            sets,
            evicted: sets,
            out_of_memory: 2 * sets,
            ..ClassSnapshot::empty(ClassId(id), 96, 10)
        };
        let profile = |&misses| ClassProfile { misses, ..ClassProfile::default() };
        Snapshot {
            classes: sets.iter().map(class).collect(),
            profiles: misses.iter().map(profile).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn counts_are_returned_once_from_the_second_snapshot_on() {
        let mut changes = Changes::default();
        let first = changes.since_last(&snapshot(&[(0, 5), (1, 7)], &[]));
        assert_eq!(first, [Counts::default(); 2]);
        // The second snapshot has the classes in another order, and class 2 is new.
        let second = changes.since_last(&snapshot(&[(2, 100), (1, 17), (0, 6)], &[]));
        let sets: Vec<u64> = second.iter().map(|counts| counts.sets).collect();
        assert_eq!(sets, [0, 10, 1]);
        assert_eq!(second[1].shortages, 30, "10 evictions and 20 refused stores count");
        let third = changes.since_last(&snapshot(&[(2, 100), (1, 17), (0, 6)], &[]));
        assert_eq!(third, [Counts::default(); 3]);
    }

    #[test]
    fn misses_come_from_the_profile_or_without_a_profile_from_stores() {
        let mut changes = Changes::default();
        changes.since_last(&snapshot(&[(0, 5)], &[]));
        assert_eq!(changes.since_last(&snapshot(&[(0, 8)], &[1_000.0]))[0].misses(), 3.0);
        let known = changes.since_last(&snapshot(&[(0, 9)], &[1_004.0]))[0];
        let expected = Profiled { misses: 4.0, ..Profiled::default() };
        assert_eq!(known.profiled, Some(expected));
        assert_eq!(known.misses(), 4.0);
    }

    #[test]
    fn a_class_with_a_page_of_free_chunks_needs_no_page() {
        let needs = |shortages, free_chunks| {
            let class = ClassSnapshot { free_chunks, ..ClassSnapshot::empty(ClassId(0), 96, 10) };
            Counts { shortages, ..Counts::default() }.pages_needed(&class)
        };
        assert_eq!([needs(0, 0), needs(1, 0), needs(10, 9), needs(11, 0)], [0, 1, 1, 2]);
        assert_eq!(needs(11, 10), 0);
    }
}
