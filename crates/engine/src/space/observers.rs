//! Observers: code outside of the engine to which the engine reports evictions and accesses ([`Observers`]).
//!
//! ```text
//!   eviction:            lock the class, detach and pin the victim, unlock the class, REPORT, lock the stripe, free
//!   get, store, delete:  hash the key, lock the stripe, do the operation, in most cases unlock the stripe;
//!                        if the key is in the sample: REPORT
//!   removal of an expired or flushed item by the engine: REPORT a delete, if the key is in the sample
//! ```
//!
//! Invariants:
//!
//! - An event that nobody observes costs one relaxed load and one branch. While accesses are observed, an access to a
//!   key outside the sample also costs one multiplication.
//! - An observer is called on the thread of the event. This thread holds no class lock and no pool lock, but it may
//!   hold a stripe lock during the report of an access, and the mover's lock during the report of an eviction or of an
//!   expired or flushed item's removal. So an observer must not wait, call an operation of the engine or make a slow system call: it only stores
//!   the event in a buffer.
//! - While an eviction is reported, the item is pinned, and its stripe is not locked.
//! - Each get, store and delete of a key in the sample is reported once, for all commands and dialects. If two threads
//!   access the same key, the order of the reports may differ from the order of the accesses.

use slabwise_base::sampling::{THRESHOLD_NONE, is_sampled};
use slabwise_base::{AccessKind, ClassId, Expiry, Now, Seconds, Uses, WorkTime};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// An item that is being evicted, as an observer receives it.
#[derive(Clone, Copy, Debug)]
pub struct Eviction<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The length of the item's value, in bytes.
    pub value_len: usize,
    /// The item's expiry.
    pub expiry: Expiry,
    /// The second of the item's last access.
    pub last_access: Seconds,
    /// True if a get has hit the item since it was stored.
    pub fetched: bool,
    /// The class in which statistics show the item.
    pub class: ClassId,
    /// The time of the operation that evicts the item.
    pub now: Now,
}

/// An observer of evictions. It must not wait or call an operation of the engine.
pub trait EvictionObserver: Send + Sync {
    /// Receives an item before it is removed. The item is pinned during the call.
    fn evicted(&self, eviction: &Eviction<'_>);
}

/// An access to a key in the sample, as an observer receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The key's hash, which identifies the key.
    pub hash: u64,
    /// The kind of access.
    pub kind: AccessKind,
    /// The class in which statistics show the key's item, or the item that was deleted. `None`: the key had no item.
    pub class: Option<ClassId>,
    /// The size of the item in bytes, as the choice of its class counts it; 0 if the access is a miss or a delete.
    pub size_bytes: u32,
    /// The work clock at the access.
    pub work_time: WorkTime,
    /// The requests for the item, this access included. They are valid only if the access is a hit or a store, and the
    /// eviction kind counts requests.
    pub uses: Uses,
}

/// An observer of accesses. It must not wait or call an operation of the engine.
pub trait AccessObserver: Send + Sync {
    /// Receives an access to a key in the sample, after the access.
    fn accessed(&self, access: &KeyAccess);
}

/// The observers of evictions and accesses, and the switches that enable them.
#[derive(Default)]
pub struct Observers {
    /// True if evictions are reported.
    evictions_observed: AtomicBool,
    /// The observer of evictions; unset until the owner of the engine sets one.
    eviction_observer: OnceLock<Arc<dyn EvictionObserver>>,
    /// The threshold that selects the keys in the sample ([`slabwise_base::sampling`]). Accesses to these keys are
    /// reported. [`THRESHOLD_NONE`]: no access is reported.
    sample_threshold: AtomicU64,
    /// The observer of accesses; unset until the owner of the engine sets one.
    access_observer: OnceLock<Arc<dyn AccessObserver>>,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("evictions_observed", &self.evictions_observed)
            .field("sample_threshold", &self.sample_threshold)
            .finish_non_exhaustive()
    }
}

impl Observers {
    /// Sets the observer of evictions. [`Observers::observe_evictions`] enables the observer. Panics at the second
    /// call.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(
            self.eviction_observer.set(observer).is_ok(),
            "the observer of evictions is already set: an engine accepts only one"
        );
    }

    /// Sets the observer of accesses. [`Observers::sample_accesses`] enables the observer and selects the keys. Panics
    /// at the second call.
    pub fn set_access_observer(&self, observer: Arc<dyn AccessObserver>) {
        let is_first = self.access_observer.set(observer).is_ok();
        assert!(is_first, "the observer of accesses is already set: an engine accepts only one");
    }

    /// Reports accesses from now on to the keys that [`slabwise_base::sampling`] selects by this threshold.
    /// [`THRESHOLD_NONE`] disables the observer.
    pub fn sample_accesses(&self, threshold: u64) {
        self.sample_threshold.store(threshold, Relaxed);
    }

    /// Enables or disables the observer of evictions.
    pub fn observe_evictions(&self, observed: bool) {
        self.evictions_observed.store(observed, Relaxed);
    }

    /// True if evictions are reported.
    #[inline]
    pub(super) fn observes_evictions(&self) -> bool {
        self.evictions_observed.load(Relaxed)
    }

    /// True if accesses to the key with this hash are reported.
    #[inline(always)]
    pub(super) fn observes_access(&self, hash: u64) -> bool {
        let threshold = self.sample_threshold.load(Relaxed);
        threshold != THRESHOLD_NONE && is_sampled(hash, threshold)
    }

    #[cold]
    pub(super) fn report_access(&self, access: &KeyAccess) {
        if let Some(observer) = self.access_observer.get() {
            observer.accessed(access);
        }
    }

    #[cold]
    pub(super) fn report_eviction(&self, eviction: &Eviction<'_>) {
        if let Some(observer) = self.eviction_observer.get() {
            observer.evicted(eviction);
        }
    }
}
