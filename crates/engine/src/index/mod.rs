//! The index: from keys to chunks.
//!
//! It is cut into stripes by the upper bits of the hash. A stripe is a lock over a table of its own,
//! and that lock is also what an operation on a key holds from its look-up to its end. Stripes share
//! nothing, so each grows by itself, a bucket at a time.
mod table;

pub use table::{Slot, Table};

use slabwise_base::sync::{Mutex, MutexGuard, lock};

/// Stripes; enough that a dozen workers rarely meet in one.
#[cfg(not(loom))]
const STRIPE_COUNT: usize = 1024;
/// loom explores the meeting in one stripe.
#[cfg(loom)]
const STRIPE_COUNT: usize = 2;

const STRIPE_SHIFT: u32 = u64::BITS - STRIPE_COUNT.ilog2();
const _: () = assert!(STRIPE_COUNT.is_power_of_two());

/// A lock on a line of its own, so that neighbours do not slow each other.
#[repr(align(128))]
struct Stripe {
    table: Mutex<Table>,
}

/// A locked stripe.
pub type StripeGuard<'i> = MutexGuard<'i, Table>;

/// All stripes.
pub struct Index {
    stripes: Box<[Stripe]>,
}

impl Index {
    /// An empty index.
    pub fn new() -> Index {
        let stripe = |_| Stripe { table: Mutex::new(Table::new()) };
        Index { stripes: (0..STRIPE_COUNT).map(stripe).collect() }
    }

    /// Locks the stripe of a hash.
    #[inline]
    pub fn lock(&self, hash: u64) -> StripeGuard<'_> {
        lock(&self.stripes[(hash >> STRIPE_SHIFT) as usize].table)
    }

    /// Locks one stripe after another, never two at once.
    pub fn for_each_stripe(&self, mut visit: impl FnMut(StripeGuard<'_>)) {
        for stripe in &self.stripes {
            visit(lock(&stripe.table));
        }
    }

    /// Bytes of the stripes themselves, their tables aside.
    pub fn stripes_size_bytes(&self) -> usize {
        self.stripes.len() * size_of::<Stripe>()
    }
}
