//! The tap: where the engine shows what happens to keys, to whoever wants to know.
//!
//! ```text
//!   evict: class locked, victim detached and pinned -> class released -> TAP -> stripe, free
//!   get, store, delete: hash, stripe locked, done, (stripe released) -> is the key in the sample? -> TAP
//! ```
//!
//! Laws:
//! - while nobody wants a kind of event it costs a relaxed load and a branch; an access to a key that is not
//!   in the sample costs a multiplication more;
//! - an observer is called on the thread where it happens, with no class or pool locked. A stripe may be
//!   locked where it is shown an access, and the mover where it is shown an eviction or an end. So it must not
//!   wait, must call no operation of the engine and make no system call that may take long: it puts what it is
//!   shown aside;
//! - evictions: none is locked, and the item is pinned;
//! - accesses: whatever the command and the protocol, each get, store and delete of a key in the sample is
//!   shown once. Two threads' accesses to one key may be shown in another order than they happened.

use slabwise_base::sampling::{THRESHOLD_NONE, is_sampled};
use slabwise_base::{ClassId, Expiry, Now, Ticks};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// An item that leaves because its memory is needed.
#[derive(Clone, Copy, Debug)]
pub struct Eviction<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub value_len: usize,
    /// When it would have ended.
    pub expiry: Expiry,
    /// When it was last accessed.
    pub last_access: Ticks,
    /// Whether it was ever hit.
    pub fetched: bool,
    /// The class it is in.
    pub class: ClassId,
    /// The time of the operation that needs the memory.
    pub now: Now,
}

/// Who is shown evictions; see the module's laws for what it may do.
pub trait EvictionObserver: Send + Sync {
    /// An item is about to leave.
    fn evicted(&self, eviction: &Eviction<'_>);
}

/// An access to a key in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The key's hash, which stands for the key.
    pub hash: u64,
    /// What happened.
    pub kind: AccessKind,
    /// The class of the key's item, of one that leaves the class it was in; `None` where there is none.
    /// A chained item counts as one of the class with the largest chunks.
    pub class: Option<ClassId>,
}

/// What an access came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A get that found the item. Gets that leave the item as old as it was are not shown.
    Hit,
    /// A get that did not, or that vivified: the item it made is not shown as stored.
    Miss,
    /// The item was stored: anew, or in the place of another.
    Store,
    /// The item was renewed without being read: touched, or a number in it changed where it lies.
    Touch,
    /// The key was deleted, whether there was an item or not; or its item had expired or been flushed, and
    /// was removed. More memory would have kept neither.
    Delete,
}

/// Who is shown accesses; see the module's laws for what it may do.
pub trait AccessObserver: Send + Sync {
    /// A key in the sample was accessed.
    fn accessed(&self, access: &KeyAccess);
}

/// The observers, and when they are called.
#[derive(Default)]
pub struct Tap {
    evictions_wanted: AtomicBool,
    observer: OnceLock<Arc<dyn EvictionObserver>>,
    /// Which keys are in the sample ([`slabwise_base::sampling`]).
    sample_threshold: AtomicU64,
    access_observer: OnceLock<Arc<dyn AccessObserver>>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("evictions_wanted", &self.evictions_wanted)
            .field("sample_threshold", &self.sample_threshold)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// Sets the observer of evictions, once; [`Tap::want_evictions`] says when it is called.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(self.observer.set(observer).is_ok(), "an engine has one observer, set once");
    }

    /// Sets the observer of accesses, once; [`Tap::sample_accesses`] says to which keys.
    pub fn set_access_observer(&self, observer: Arc<dyn AccessObserver>) {
        let is_first = self.access_observer.set(observer).is_ok();
        assert!(is_first, "an engine has one observer of accesses, set once");
    }

    /// Shows accesses to keys below this threshold of [`slabwise_base::sampling`] from now on:
    /// [`THRESHOLD_NONE`] ends the calls of the observer.
    pub fn sample_accesses(&self, threshold: u64) {
        self.sample_threshold.store(threshold, Relaxed);
    }

    /// Starts or ends the calls of the observer of evictions.
    pub fn want_evictions(&self, wanted: bool) {
        self.evictions_wanted.store(wanted, Relaxed);
    }

    /// Whether evictions are shown.
    #[inline]
    pub fn wants_evictions(&self) -> bool {
        self.evictions_wanted.load(Relaxed)
    }

    /// Whether accesses to the key of this hash are shown.
    #[inline(always)]
    pub fn wants_access(&self, hash: u64) -> bool {
        let threshold = self.sample_threshold.load(Relaxed);
        threshold != THRESHOLD_NONE && is_sampled(hash, threshold)
    }

    /// Shows an access to a key in the sample.
    #[cold]
    pub fn show_access(&self, access: &KeyAccess) {
        if let Some(observer) = self.access_observer.get() {
            observer.accessed(access);
        }
    }

    /// Shows an eviction.
    #[cold]
    pub fn show_eviction(&self, eviction: &Eviction<'_>) {
        if let Some(observer) = self.observer.get() {
            observer.evicted(eviction);
        }
    }
}
