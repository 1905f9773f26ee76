//! The index finds the item of a key.
//!
//! The index consists of stripes. Each stripe has its own lock and its own table. The upper bits of a key's hash select
//! the stripe. An operation on a key holds the lock of the stripe from the lookup to the end of the operation. Stripes
//! share no data, so each table grows independently of the others, one bucket at a time.
use crate::counted_lock::{CountedLock, LockCounts};
use crate::layout::CHUNK_SIZE_BYTES_MIN;
use crate::mem::{
    BucketSpace, Entry, HugePages, Linked, LockedTables, MappingError, Memory, NewItem,
    RestoredItem, Stripe, StripeGuard, buckets_max, home_of, prefetch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The part of the memory limit for each stripe, from which the number of stripes follows. A stripe of this size
/// usually holds hundreds of items, so that the unused part of its table is small. Nevertheless there are enough
/// stripes that a dozen workers rarely need the same lock at the same time.
const MEMORY_PER_STRIPE_BYTES: u64 = 512 << 10;

/// The smallest and the largest number of stripes. loom and shuttle use two, so that the few keys of a model often
/// share a stripe.
#[cfg(any(loom, shuttle))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 2..=2;
#[cfg(not(any(loom, shuttle)))]
const STRIPE_COUNTS: std::ops::RangeInclusive<u64> = 64..=4096;

/// The memory of the index for each item if there are many items, in bytes. A bucket of 64 bytes has eight entries on
/// average, and full buckets have further ones.
pub const INDEX_BYTES_PER_ITEM: u64 = 10;

/// The buckets of the index take at most the memory of the index divided by this number in addition, because some
/// stripes have more buckets than the mean. [`Index::size_bytes`] does not count this memory.
pub const INDEX_UNEVEN_DIVISOR: u64 = 4;

/// A stripe and its lock. Two locks are never in the same cache line, to avoid false sharing.
#[repr(align(128))]
struct LockedStripe {
    stripe: CountedLock<Stripe>,
    /// The number of buckets of the stripe's table. A thread reads it without the lock to prefetch a bucket, so it may be
    /// out of date.
    bucket_count: AtomicU32,
}

// The counts of the lock fit into the two cache lines that a stripe takes.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<LockedStripe>() == 128, "a stripe takes two cache lines");

/// The size of a stripe's table.
struct TableSize {
    bytes: usize,
    bucket_count: u32,
}

impl TableSize {
    fn of(stripe: &Stripe) -> TableSize {
        let table = stripe.table();
        TableSize { bytes: table.size_bytes(), bucket_count: table.bucket_count() }
    }
}

impl LockedStripe {
    fn new(stripe: Stripe) -> LockedStripe {
        let bucket_count = AtomicU32::new(stripe.table().bucket_count());
        LockedStripe { stripe: CountedLock::new(stripe), bucket_count }
    }

    /// Publishes the number of buckets of the stripe, which the caller has locked.
    fn note_growth(&self, stripe: &Stripe) {
        self.bucket_count.store(stripe.table().bucket_count(), Relaxed);
    }
}

/// The index: all stripes of a cache.
pub struct Index {
    stripes: Box<[LockedStripe]>,
    /// The number of the lower bits of a hash that do not select the stripe.
    shift: u32,
    /// The buckets of all stripes, without overflow buckets.
    buckets: Arc<BucketSpace>,
    /// The overflow buckets of all stripes.
    overflow: Arc<BucketSpace>,
    /// The number of bytes that the tables of all stripes use.
    tables_size_bytes: AtomicU64,
}

impl Index {
    /// Returns an empty index. The memory limit determines the number of its stripes. Returns an error if the system
    /// refuses to reserve address space for as many items as fit into the memory.
    pub fn new(
        memory: &Arc<Memory>,
        memory_limit_bytes: u64,
        huge_pages: HugePages,
    ) -> Result<Index, MappingError> {
        let target = (memory_limit_bytes / MEMORY_PER_STRIPE_BYTES).next_power_of_two();
        let count = target.clamp(*STRIPE_COUNTS.start(), *STRIPE_COUNTS.end()) as usize;
        let items_max = (memory.size_bytes() / CHUNK_SIZE_BYTES_MIN) as u64;
        let capacity = buckets_max(items_max, count);
        let (buckets, home) = BucketSpace::reserve(count, capacity, huge_pages)?;
        let (overflow_space, overflow) = BucketSpace::reserve(count, capacity, huge_pages)?;
        let new_stripe = |(home, overflow)| LockedStripe::new(Stripe::new(memory, home, overflow));
        let index = Index {
            stripes: home.into_iter().zip(overflow).map(new_stripe).collect(),
            shift: u64::BITS - count.ilog2(),
            buckets,
            overflow: overflow_space,
            tables_size_bytes: AtomicU64::new(0),
        };
        index.presize(0);
        Ok(index)
    }

    /// Makes about `bucket_count` buckets for an empty index: the same number for each stripe.
    pub fn presize(&self, bucket_count: u64) {
        let share = (bucket_count / self.stripes.len() as u64).min(u64::from(u32::MAX)) as u32;
        let mut size_bytes = 0;
        for locked in &self.stripes {
            let mut stripe = locked.stripe.lock_uncounted();
            stripe.presize(share);
            locked.note_growth(&stripe);
            size_bytes += stripe.table().size_bytes() as u64;
        }
        self.tables_size_bytes.store(size_bytes, Relaxed);
    }

    /// Returns the number of buckets in the tables of all stripes, without overflow buckets.
    pub fn bucket_count(&self) -> u64 {
        let mut count = 0;
        self.for_each_stripe(|stripe| count += u64::from(stripe.table().bucket_count()));
        count
    }

    /// Returns the largest number of buckets, and of overflow buckets, of a stripe.
    pub fn buckets_max(&self) -> [u32; 2] {
        let mut largest = [0; 2];
        self.for_each_stripe(|stripe| {
            let counts = stripe.table().counts();
            largest = [largest[0].max(counts.home), largest[1].max(counts.overflow)];
        });
        largest
    }

    /// Commits memory for these numbers of buckets, and of overflow buckets, of each stripe.
    pub fn populate(&self, [home, overflow]: [u32; 2]) {
        self.buckets.populate(home);
        self.overflow.populate(overflow);
    }

    /// Returns the number of bytes of the buckets of all stripes, if each has these numbers.
    pub fn image_len(&self, [home, overflow]: [u32; 2]) -> u64 {
        (u64::from(home) + u64::from(overflow)) * (self.stripes.len() * 64) as u64
    }

    /// Returns the index of the stripe of a hash. The stripes of ascending hashes ascend, too.
    #[inline]
    pub fn stripe_of(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// Locks the stripe of a hash.
    #[inline]
    pub fn lock(&self, hash: u64) -> StripeGuard<'_> {
        self.stripes[self.stripe_of(hash)].stripe.lock()
    }

    /// Locks the stripe of a hash. Returns `None` if another thread holds its lock.
    pub fn try_lock(&self, hash: u64) -> Option<StripeGuard<'_>> {
        self.stripes[self.stripe_of(hash)].stripe.try_lock()
    }

    /// Prefetches the stripe of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.stripes[self.stripe_of(hash)]);
    }

    /// Prefetches the bucket of a hash. The caller has prefetched its stripe.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        let stripe = self.stripe_of(hash);
        let count = self.stripes[stripe].bucket_count.load(Relaxed);
        self.buckets.prefetch(stripe, home_of(hash, count));
    }

    /// Returns the counts of the lock of each stripe.
    pub fn lock_counts(&self) -> Vec<LockCounts> {
        self.stripes.iter().map(|it| it.stripe.counts()).collect()
    }

    /// Locks one stripe after the other and calls `visit` with each. No two stripes are locked at the same time. These
    /// locks are not counted.
    pub fn for_each_stripe(&self, mut visit: impl FnMut(StripeGuard<'_>)) {
        for stripe in &self.stripes {
            visit(stripe.stripe.lock_uncounted());
        }
    }

    /// Locks all stripes, and calls `visit` with their tables. Only for a handover, during which no other thread uses the
    /// index.
    pub fn with_all_locked<R>(&self, visit: impl FnOnce(LockedTables<'_, '_>) -> R) -> R {
        let mut guards: Vec<_> = self.stripes.iter().map(|it| it.stripe.lock_uncounted()).collect();
        let result = visit(LockedTables::new(&mut guards));
        let mut size_bytes = 0;
        for (stripe, locked) in guards.iter().zip(&self.stripes) {
            locked.note_growth(stripe);
            size_bytes += stripe.table().size_bytes() as u64;
        }
        self.tables_size_bytes.store(size_bytes, Relaxed);
        result
    }

    /// Waits for the operations that hold the lock of a stripe at the time of the call.
    pub fn await_operations(&self) {
        self.for_each_stripe(|stripe| drop(stripe));
    }

    /// Inserts a new item into a locked stripe. `hash_of` must return the hash of any item of this stripe. Returns the
    /// entry, and true if the index has allocated memory.
    #[inline]
    pub fn insert<'i>(
        &self,
        stripe: StripeGuard<'i>,
        hash: u64,
        item: NewItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> (Entry<'i>, bool) {
        let before = TableSize::of(&stripe);
        let entry = Entry::insert(stripe, hash, item, hash_of);
        let has_grown = self.count_growth(hash, before, &entry);
        (entry, has_grown)
    }

    /// Inserts a restored item into a locked stripe. `hash_of` must return the hash of any item of this stripe.
    pub fn restore<'i>(
        &self,
        stripe: StripeGuard<'i>,
        hash: u64,
        item: RestoredItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> StripeGuard<'i> {
        let before = TableSize::of(&stripe);
        let entry = Entry::enter_restored(stripe, hash, item, hash_of);
        self.count_growth(hash, before, &entry);
        entry.into_guard()
    }

    /// Publishes the size of the entry's table, and adds its growth to the size of all tables. Returns true if the size
    /// in bytes has grown.
    #[inline]
    fn count_growth(&self, hash: u64, before: TableSize, entry: &Entry<'_>) -> bool {
        let now = TableSize::of(entry.stripe());
        if now.bucket_count > before.bucket_count {
            self.stripes[self.stripe_of(hash)].note_growth(entry.stripe());
        }
        let grown = now.bytes - before.bytes;
        if grown > 0 {
            self.tables_size_bytes.fetch_add(grown as u64, Relaxed);
        }
        grown > 0
    }

    /// Returns the number of bytes that the stripes and their tables use.
    pub fn size_bytes(&self) -> u64 {
        (self.stripes.len() * size_of::<LockedStripe>()) as u64
            + self.tables_size_bytes.load(Relaxed)
    }
}
