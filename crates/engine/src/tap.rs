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

use crate::class::{CHAINED, ClassState};
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Pin, ReadProof};
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
pub(crate) struct Tap {
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

impl Engine {
    /// Sets who is shown evictions, once and for all; [`Engine::want_evictions`] says when.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(self.tap.observer.set(observer).is_ok(), "an engine has one observer, set once");
    }

    /// Sets who is shown accesses, once and for all; [`Engine::sample_accesses`] says of which keys.
    pub fn set_access_observer(&self, observer: Arc<dyn AccessObserver>) {
        let is_first = self.tap.access_observer.set(observer).is_ok();
        assert!(is_first, "an engine has one observer of accesses, set once");
    }

    /// From here on the accesses to those keys are shown that are below this threshold of
    /// [`slabwise_base::sampling`]: [`THRESHOLD_NONE`] ends the calls of the observer.
    pub fn sample_accesses(&self, threshold: u64) {
        self.tap.sample_threshold.store(threshold, Relaxed);
    }

    /// Shows an access to the key of this hash, if it is in the sample. The caller has locked no class, no
    /// pool, and should hold no stripe.
    #[inline(always)]
    pub(crate) fn tap(&self, hash: u64, kind: AccessKind, class: Option<ClassId>) {
        let threshold = self.tap.sample_threshold.load(Relaxed);
        if threshold != THRESHOLD_NONE && is_sampled(hash, threshold) {
            self.show_access(KeyAccess { hash, kind, class });
        }
    }

    #[cold]
    fn show_access(&self, mut access: KeyAccess) {
        if access.class == Some(CHAINED) {
            access.class = Some(self.largest);
        }
        if let Some(observer) = self.tap.access_observer.get() {
            observer.accessed(&access);
        }
    }

    /// Starts or ends the calls of the observer of evictions.
    pub fn want_evictions(&self, wanted: bool) {
        self.tap.evictions_wanted.store(wanted, Relaxed);
    }

    /// The expiry of a victim that is to be shown once it is detached; `None` if nobody wants to see it,
    /// or if it has ended: then its memory is reclaimed and nothing is lost.
    #[inline]
    pub(crate) fn wanted_eviction(
        &self,
        state: &ClassState,
        victim: ChunkAddress,
        now: Now,
    ) -> Option<Expiry> {
        if !self.tap.evictions_wanted.load(Relaxed) {
            return None;
        }
        // The expiry stands still under this lock, and not under the pin that follows.
        let proof = ReadProof::under_class(state);
        let lives = self.death_of(victim, now, proof).is_none();
        lives.then(|| self.memory.expiry(victim, proof))
    }

    /// Shows a victim that the caller has detached and pinned.
    #[cold]
    pub(crate) fn show_eviction(&self, pin: &Pin, expiry: Expiry, now: Now) {
        // Under the pin the key stands still; the length of a value is never changed.
        let (victim, proof) = (pin.address(), ReadProof::under_pin(pin));
        let header = self.memory.header(victim);
        if let Some(observer) = self.tap.observer.get() {
            observer.evicted(&Eviction {
                key: self.memory.key(victim, proof),
                value_len: self.memory.value_len(victim, proof),
                expiry,
                last_access: header.time(),
                fetched: header.state().load().fetched(),
                class: self.shown_class(victim),
                now,
            });
        }
    }
}
