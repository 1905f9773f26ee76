//! The index maps keys to chunks.
//!
//! The upper bits of the hash select a stripe, a lock with its own table. An operation on a key holds this lock from
//! its lookup to its end. Stripes share no data, so each table grows independently, one bucket at a time.
use crate::mem::{Entry, Linked, Memory, NewItem, RestoredItem, Stripe, StripeGuard, prefetch};
use slabwise_base::sync::{Mutex, lock, try_lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The item memory per stripe. A stripe then holds hundreds of items, so that the unused part of its table is small,
/// and a dozen workers still rarely contend for one.
const MEMORY_PER_STRIPE_BYTES: u64 = 512 << 10;

/// Models have few keys, so they need few stripes to explore contention.
#[cfg(any(loom, shuttle))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 2..=2;
#[cfg(not(any(loom, shuttle)))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 64..=4096;

/// A lock on its own cache line, to avoid false sharing.
#[repr(align(128))]
struct Line {
    stripe: Mutex<Stripe>,
}

pub struct Index {
    stripes: Box<[Line]>,
    /// The number of hash bits below those that select the stripe.
    shift: u32,
    tables_size_bytes: AtomicU64,
}

impl Index {
    pub fn new(memory: &Arc<Memory>, memory_limit_bytes: u64) -> Index {
        let target = (memory_limit_bytes / MEMORY_PER_STRIPE_BYTES).next_power_of_two();
        let count = target.clamp(*STRIPE_COUNTS.start(), *STRIPE_COUNTS.end());
        let line = |_| Line { stripe: Mutex::new(Stripe::new(memory)) };
        Index {
            stripes: (0..count).map(line).collect(),
            shift: u64::BITS - count.ilog2(),
            tables_size_bytes: AtomicU64::new(0),
        }
    }

    /// Allocates `buckets` buckets in total for an empty index.
    pub fn presize(&self, buckets: u64) {
        let share = (buckets / self.stripes.len() as u64).min(u64::from(u32::MAX)) as u32;
        let mut size_bytes = 0;
        self.for_each_stripe(|mut stripe| {
            stripe.presize(share);
            size_bytes += stripe.table().size_bytes() as u64;
        });
        self.tables_size_bytes.store(size_bytes, Relaxed);
    }

    pub fn bucket_count(&self) -> u64 {
        let mut count = 0;
        self.for_each_stripe(|stripe| count += stripe.table().bucket_count() as u64);
        count
    }

    /// The number of a hash's stripe. Sorted hashes have sorted stripes.
    #[inline]
    pub fn stripe_of(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline]
    pub fn lock(&self, hash: u64) -> StripeGuard<'_> {
        lock(&self.stripes[self.stripe_of(hash)].stripe)
    }

    /// Locks the stripe of a hash if it is free.
    pub fn try_lock(&self, hash: u64) -> Option<StripeGuard<'_>> {
        try_lock(&self.stripes[self.stripe_of(hash)].stripe)
    }

    /// Prefetches a hash's stripe.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.stripes[self.stripe_of(hash)]);
    }

    /// Prefetches the buckets of these hashes, whose stripes were prefetched. Each step runs for all hashes before
    /// the next one, so that their memory accesses overlap. Taking a lock waits for earlier loads, so no step reads
    /// data that it has just prefetched.
    pub fn prefetch_buckets(&self, hashes: &[u64]) {
        hashes.iter().for_each(|&hash| self.lock(hash).table().prefetch_segment(hash));
        hashes.iter().for_each(|&hash| self.lock(hash).table().prefetch(hash));
    }

    /// Locks one stripe after another, never two at once.
    pub fn for_each_stripe(&self, mut visit: impl FnMut(StripeGuard<'_>)) {
        for stripe in &self.stripes {
            visit(lock(&stripe.stripe));
        }
    }

    /// Inserts a new item into a locked stripe. `hash_of` returns the hash of any item in it. Also returns true if the
    /// index has allocated memory.
    #[inline]
    pub fn insert<'i>(
        &self,
        stripe: StripeGuard<'i>,
        hash: u64,
        item: NewItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> (Entry<'i>, bool) {
        let before = stripe.table().size_bytes();
        let entry = Entry::insert(stripe, hash, item, hash_of);
        let has_grown = self.count_growth(before, &entry);
        (entry, has_grown)
    }

    /// Inserts a restored item into a locked stripe.
    pub fn restore<'i>(
        &self,
        stripe: StripeGuard<'i>,
        hash: u64,
        item: RestoredItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> StripeGuard<'i> {
        let before = stripe.table().size_bytes();
        let entry = Entry::enter_restored(stripe, hash, item, hash_of);
        self.count_growth(before, &entry);
        entry.into_guard()
    }

    fn count_growth(&self, size_bytes_before: usize, entry: &Entry<'_>) -> bool {
        let grown = entry.stripe().table().size_bytes() - size_bytes_before;
        if grown > 0 {
            self.tables_size_bytes.fetch_add(grown as u64, Relaxed);
        }
        grown > 0
    }

    /// The heap bytes of stripes and tables.
    pub fn size_bytes(&self) -> u64 {
        (self.stripes.len() * size_of::<Line>()) as u64 + self.tables_size_bytes.load(Relaxed)
    }
}
