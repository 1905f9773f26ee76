//! The tap: where the engine shows what happens to keys, to whoever wants to know.
//!
//! ```text
//!   evict: class locked, victim detached and pinned -> class released -> TAP -> stripe, free
//! ```
//!
//! Laws:
//! - while nobody wants a kind of event it costs a relaxed load and a branch;
//! - an observer is called on the thread where it happens, with no stripe, class or pool locked: the
//!   item it is shown is pinned. The mover's lock may be held, so it must not wait, must call no
//!   operation of the engine and make no system call.
//!
//! Evictions are all that is shown so far.

use crate::class::ClassState;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Pin, ReadProof};
use slabwise_base::{ClassId, Expiry, Now, Ticks};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// The observer, and whether it is called.
#[derive(Default)]
pub(crate) struct Tap {
    evictions_wanted: AtomicBool,
    observer: OnceLock<Arc<dyn EvictionObserver>>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("evictions_wanted", &self.evictions_wanted).finish()
    }
}

impl Engine {
    /// Sets who is shown evictions, once and for all; [`Engine::want_evictions`] says when.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(self.tap.observer.set(observer).is_ok(), "an engine has one observer, set once");
    }

    /// Starts or ends the calls of the observer.
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
