//! A simulated memcached: its classes and pages, without values. Each class has memcached's segmented LRU.
//!
//! ```text
//! item --> the class with the smallest chunks that hold it --> Segmented, with as many chunks as its pages have
//! ```
//!
//! As long as there is memory, a class that needs a chunk receives a page. A class without pages receives its first page
//! also later. The simulated server has no automover. A page that moves takes the items with it that its class would
//! evict next: memcached moves the other items of the page to chunks of these.
//!
//! Invariant: the chunks of a class are those of its pages.
//!
//! `steered` calls it.

use crate::split::memcached_chunk_sizes;
use slabwise_base::{ClassId, memcached};
use slabwise_observer::counters::{ClassCounters, Counters, ProcessIdentity, QueueCounters};
use slabwise_policy::ClassSnapshot;
use slabwise_replay::workload::Op;
use slabwise_simulation::{Catalog, Reference, Segmented, Simulation};

/// The number of a class before its items are known.
const NO_CLASS: u8 = u8::MAX;

#[derive(Debug)]
struct Class {
    chunk_size_bytes: u64,
    pages: u64,
    /// The number of keys of the workload in this class.
    keys: usize,
    /// `None` before the first page.
    lru: Option<Segmented>,
}

/// The server.
#[derive(Debug)]
pub struct Memcached {
    classes: Vec<Class>,
    /// The class of each key, and its number in this class.
    places: Vec<(u8, u32)>,
    pages_max: u64,
    gets: u64,
    misses: u64,
    pages_moved: u64,
}

impl Class {
    fn per_page(&self) -> u64 {
        memcached::PAGE_SIZE_BYTES as u64 / self.chunk_size_bytes
    }

    /// Changes the number of pages.
    fn set_pages(&mut self, pages: u64) {
        self.pages = pages;
        let chunks = pages * self.per_page();
        match &mut self.lru {
            Some(lru) => lru.resize(chunks),
            None => self.lru = Some(Segmented::new(self.keys, chunks)),
        }
    }

    /// Returns true if all chunks are used.
    fn is_full(&self) -> bool {
        let held = self.lru.as_ref().map_or(0, Segmented::held_bytes);
        held == self.pages * self.per_page()
    }

    fn counters(&self, number: usize) -> ClassCounters {
        let id = ClassId(number as u8);
        let per_page = self.per_page() as usize;
        let Some(lru) = &self.lru else { return ClassCounters::default() };
        let (counts, items) = (lru.counts(), lru.held_bytes());
        let shown = ClassSnapshot {
            pages: self.pages,
            used_chunks: items,
            free_chunks: self.pages * self.per_page() - items,
            hits: counts.hits,
            sets: counts.stores,
            inserted: counts.stores,
            evicted: counts.evictions,
            ..ClassSnapshot::empty(id, self.chunk_size_bytes as usize, per_page)
        };
        let cold = QueueCounters { items: lru.cold_items(), hits: counts.hits_in_cold };
        ClassCounters { shown, items, cold, ..ClassCounters::default() }
    }
}

impl Memcached {
    /// Starts an empty server with room for this number of pages. Its requests are the references of the catalog. The
    /// class of a key is that of its last size.
    pub fn new(catalog: &Catalog, pages_max: u64) -> Memcached {
        let empty = |chunk_size_bytes| Class { chunk_size_bytes, pages: 0, keys: 0, lru: None };
        let mut classes: Vec<Class> = memcached_chunk_sizes().into_iter().map(empty).collect();
        let mut places = vec![(NO_CLASS, 0); catalog.key_count()];
        for reference in catalog.references().iter().rev() {
            let place = &mut places[reference.key as usize];
            if place.0 == NO_CLASS && reference.op != Op::Delete {
                let size_bytes = u64::from(reference.size_bytes);
                let class = classes.partition_point(|it| it.chunk_size_bytes < size_bytes);
                let class = class.min(classes.len() - 1);
                *place = (class as u8, classes[class].keys as u32);
                classes[class].keys += 1;
            }
        }
        Memcached { classes, places, pages_max, gets: 0, misses: 0, pages_moved: 0 }
    }

    /// Executes a request, and after a miss the store of the same item.
    pub fn request(&mut self, reference: &Reference) {
        let (class, key) = self.places[reference.key as usize];
        let Some(class) = self.classes.get_mut(usize::from(class)) else { return };
        let lru = class.lru.as_mut();
        match reference.op {
            Op::Delete => drop(lru.map(|lru| lru.remove(key))),
            Op::Get => {
                self.gets += 1;
                if !lru.is_some_and(|lru| lru.look_up(key)) {
                    self.misses += 1;
                    self.store(reference.key);
                }
            }
            Op::Set => self.store(reference.key),
        }
    }

    fn store(&mut self, key: u32) {
        let (class, key) = self.places[key as usize];
        let pages: u64 = self.classes.iter().map(|class| class.pages).sum();
        let class = &mut self.classes[usize::from(class)];
        if class.is_full() && (pages < self.pages_max || class.pages == 0) {
            class.set_pages(class.pages + 1);
        }
        if let Some(lru) = &mut class.lru {
            lru.store(key);
        }
    }

    /// Moves a page. Returns false if the victim has no page that it can give, as memcached would.
    pub fn move_page(&mut self, victim: ClassId, receiver: ClassId) -> bool {
        if self.classes[victim.index()].pages < 2 || victim == receiver {
            return false;
        }
        for (class, change) in [(victim, -1), (receiver, 1)] {
            let class = &mut self.classes[class.index()];
            class.set_pages(class.pages.saturating_add_signed(change));
        }
        self.pages_moved += 1;
        true
    }

    /// Returns the counters that memcached would show.
    pub fn counters(&self) -> Counters {
        let pages: u64 = self.classes.iter().map(|class| class.pages).sum();
        let owned = self.classes.iter().enumerate().filter(|(_, class)| class.pages > 0);
        Counters {
            process: ProcessIdentity { pid: 1, started_at_seconds: 1 },
            gets: self.gets,
            misses: self.misses,
            pages_moved: self.pages_moved,
            memory_limit_bytes: self.pages_max * memcached::PAGE_SIZE_BYTES as u64,
            allocated_bytes: pages * memcached::PAGE_SIZE_BYTES as u64,
            classes: owned.map(|(number, class)| class.counters(number)).collect(),
            ..Counters::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Memcached;
    use slabwise_base::ClassId;
    use slabwise_replay::workload::{Op, Request};
    use slabwise_simulation::Catalog;

    /// Gets each key of these ranges once. An item has the size of its range.
    fn catalog(ranges: &[(std::ops::Range<u64>, u32)]) -> Catalog {
        let mut catalog = Catalog::default();
        for (keys, size_bytes) in ranges {
            for key in keys.clone() {
                catalog.add(&Request { key, value_len: 1, op: Op::Get, cost: None }, *size_bytes);
            }
        }
        catalog
    }

    #[test]
    fn pages_are_filled_until_the_memory_is_full_and_move_with_their_items() {
        // Two chunks of 524,288 bytes fit on a page, so six items fill three pages. The other class gets its first page
        // although the memory is full.
        let catalog = catalog(&[(0..8, 500_000), (100..104, 390_000), (0..8, 500_000)]);
        let mut server = Memcached::new(&catalog, 3);
        catalog.references().iter().for_each(|it| server.request(it));
        let pages = |server: &Memcached| -> Vec<u64> {
            server.counters().classes.iter().map(|class| class.shown.pages).collect()
        };
        let found = server.counters();
        assert_eq!((pages(&server), found.gets, found.misses), (vec![1, 3], 20, 20));
        assert!(found.is_memory_full() && found.classes.iter().all(|it| it.shown.evicted > 0));
        let [small, large] = [0, 1].map(|index| found.classes[index].shown.class);
        assert!(!server.move_page(small, large), "memcached takes no last page");
        assert!(server.move_page(large, small));
        let moved = server.counters();
        assert_eq!((pages(&server), moved.pages_moved, moved.classes[1].items), (vec![2, 2], 1, 4));
        assert!(!server.move_page(large, large));
        assert_eq!(moved.class(ClassId(0)), None, "classes without pages are not shown");
    }
}
