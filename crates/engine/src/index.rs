//! The index: from keys to chunks.
//!
//! It is cut into stripes by the upper bits of the hash. A stripe is a lock over a table of its own,
//! and that lock is also what an operation on a key holds from its look-up to its end. Stripes share
//! nothing, so each grows by itself, a bucket at a time.
use crate::mem::{Entry, Linked, Memory, NewItem, RestoredItem, Stripe, StripeGuard, prefetch};
use slabwise_base::sync::{Mutex, lock, try_lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One stripe for each so many bytes of item memory: then a stripe holds some hundreds of items, so that
/// what its table rounds up is small, and a dozen workers still rarely meet in one.
const MEMORY_A_STRIPE_BYTES: u64 = 512 << 10;

/// Models have few keys, and explore their meeting in one stripe of two.
#[cfg(any(loom, shuttle))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 2..=2;
#[cfg(not(any(loom, shuttle)))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 64..=4096;

/// A lock on a line of its own, so that neighbours do not slow each other.
#[repr(align(128))]
struct Line {
    stripe: Mutex<Stripe>,
}

pub struct Index {
    stripes: Box<[Line]>,
    /// Bits of a hash below those that choose its stripe.
    shift: u32,
    tables_size_bytes: AtomicU64,
}

impl Index {
    /// An empty index of a memory, for a cache of this size.
    pub fn new(memory: &Arc<Memory>, memory_limit_bytes: u64) -> Index {
        let wanted = (memory_limit_bytes / MEMORY_A_STRIPE_BYTES).next_power_of_two();
        let count = wanted.clamp(*STRIPE_COUNTS.start(), *STRIPE_COUNTS.end());
        let line = |_| Line { stripe: Mutex::new(Stripe::new(memory)) };
        Index {
            stripes: (0..count).map(line).collect(),
            shift: u64::BITS - count.ilog2(),
            tables_size_bytes: AtomicU64::new(0),
        }
    }

    /// Gives an empty index room as if it had grown to `buckets` in all.
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

    /// The number of a hash's stripe; it rises with the hash.
    #[inline]
    pub fn stripe_of(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline]
    pub fn lock(&self, hash: u64) -> StripeGuard<'_> {
        lock(&self.stripes[self.stripe_of(hash)].stripe)
    }

    /// Locks the stripe of a hash if nobody else has.
    pub fn try_lock(&self, hash: u64) -> Option<StripeGuard<'_>> {
        try_lock(&self.stripes[self.stripe_of(hash)].stripe)
    }

    /// Asks for the line of a hash's stripe.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.stripes[self.stripe_of(hash)]);
    }

    /// Asks for the buckets of these hashes, whose stripes were asked for: one step of all hashes after the
    /// other, so that they wait for memory together. A lock lets nothing after it begin before what came
    /// earlier has been read, so no step reads what it has just asked for.
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

    /// Lets a locked stripe lead to a new item; `hash_of` gives the hash of another item in it. Also whether the
    /// index now takes more memory.
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

    /// Lets a locked stripe lead to an item that a restart takes over.
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

    /// Heap bytes of stripes and tables.
    pub fn size_bytes(&self) -> u64 {
        (self.stripes.len() * size_of::<Line>()) as u64 + self.tables_size_bytes.load(Relaxed)
    }
}
