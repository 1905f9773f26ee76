//! A bounded queue from the engine's access observer, on the threads that serve, to the thread that tunes.
//!
//! ```text
//!   worker: Engine -> tap -> Sampler --dated, pushed--> | queue | --> Samples: the tuner's thread
//!   worker: Engine -> tap -> Sampler ------------------> '-------'
//!                               '- half full: calls -----------------------------^
//! ```
//!
//! Invariants: a sampler never waits: an access that finds the queue full is dropped, and counted; accesses are popped
//! once, in the order in which they were pushed; the consumer may sleep until it is called, which happens at most once
//! between two calls of [`Samples::begin`].

use slabwise_base::Clock;
use slabwise_engine::{AccessObserver, KeyAccess};
use slabwise_profile::Access;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// The queue's end at the engine.
pub struct Sampler {
    clock: Arc<Clock>,
    queue: SyncSender<Access>,
    dropped: AtomicU64,
    /// Accesses shown since the other end last began to take out: no fewer than are in the queue.
    shown: AtomicUsize,
    half: usize,
    caller: OnceLock<Caller>,
}

/// Calls whoever takes out. Like an observer of accesses it must not wait.
pub type Caller = Box<dyn Fn() + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Samples {
    sampler: Arc<Sampler>,
    queue: Receiver<Access>,
}

impl Sampler {
    /// Bytes that the queue takes for an access.
    pub const ACCESS_SIZE_BYTES: usize = size_of::<Access>() + size_of::<usize>();

    /// A queue for at most `len_max` accesses, dated by this clock.
    pub(crate) fn new(clock: Arc<Clock>, len_max: usize) -> (Arc<Sampler>, Samples) {
        assert!(len_max > 0, "a queue without room takes nothing");
        let (push, pop) = sync_channel(len_max);
        let sampler = Arc::new(Sampler {
            clock,
            queue: push,
            dropped: AtomicU64::new(0),
            shown: AtomicUsize::new(0),
            half: len_max.div_ceil(2),
            caller: OnceLock::new(),
        });
        (Arc::clone(&sampler), Samples { sampler, queue: pop })
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl AccessObserver for Sampler {
    fn accessed(&self, access: &KeyAccess) {
        let access = Access {
            hash: access.hash,
            kind: access.kind,
            class: access.class,
            at_nanos: self.clock.nanos(),
        };
        if self.queue.try_send(access).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
        if self.shown.fetch_add(1, Relaxed) + 1 == self.half
            && let Some(call) = self.caller.get()
        {
            call();
        }
    }
}

impl Samples {
    /// Sets, once, what is called when the queue is half full.
    pub fn set_caller(&self, caller: Caller) {
        let is_first = self.sampler.caller.set(caller).is_ok();
        assert!(is_first, "a queue has one who is called, set once");
    }

    pub fn is_half_full(&self) -> bool {
        self.sampler.shown.load(Relaxed) >= self.sampler.half
    }

    /// Call before popping: accesses from here on may be a reason to call again.
    pub fn begin(&self) {
        self.sampler.shown.store(0, Relaxed);
    }

    pub fn pop(&self) -> Option<Access> {
        // The other end is kept, so that this is never disconnected.
        self.queue.try_recv().ok()
    }

    pub fn dropped(&self) -> u64 {
        self.sampler.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Sampler;
    use slabwise_base::{AccessKind, ClassId, Clock};
    use slabwise_engine::{AccessObserver, KeyAccess};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    const CLASS: Option<ClassId> = Some(ClassId(3));

    #[test]
    fn what_does_not_fit_is_dropped_and_counted_and_the_rest_comes_out_in_order() {
        let clock = Arc::new(Clock::manual());
        let (sampler, samples) = Sampler::new(Arc::clone(&clock), 4);
        let push = |hash| {
            clock.advance(Duration::from_nanos(7));
            sampler.accessed(&KeyAccess { hash, kind: AccessKind::Hit, class: CLASS });
        };
        let popped = || std::iter::from_fn(|| samples.pop()).map(|access| access.hash);
        (0..6).for_each(push);
        assert_eq!(samples.dropped(), 2);
        let first = samples.pop().expect("four fit");
        assert_eq!((first.hash, first.at_nanos, first.class), (0, 7, CLASS));
        push(6);
        assert!(popped().eq([1, 2, 3, 6]));
        assert_eq!(samples.dropped(), 2);
    }

    #[test]
    fn whoever_takes_out_is_called_once_at_the_half() {
        let (sampler, samples) = Sampler::new(Arc::new(Clock::manual()), 8);
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        samples.set_caller(Box::new(move || {
            count.fetch_add(1, Relaxed);
        }));
        let push = |count| {
            for hash in 0..count {
                sampler.accessed(&KeyAccess { hash, kind: AccessKind::Hit, class: CLASS });
            }
        };
        let seen = || (calls.load(Relaxed), samples.is_half_full());
        push(3);
        assert_eq!(seen(), (0, false));
        push(1);
        assert_eq!(seen(), (1, true));
        push(20);
        assert_eq!(seen(), (1, true), "a full queue calls no more");
        samples.begin();
        while samples.pop().is_some() {}
        assert_eq!(seen(), (1, false));
        push(4);
        assert_eq!(seen(), (2, true));
    }

    #[test]
    fn nothing_is_lost_between_threads_but_what_is_counted() {
        const PUSHED: u64 = 20_000;
        let (sampler, samples) = Sampler::new(Arc::new(Clock::manual()), 64);
        let push = |thread: u64| {
            for number in 0..PUSHED {
                let hash = thread << 32 | number;
                sampler.accessed(&KeyAccess { hash, kind: AccessKind::Hit, class: CLASS });
            }
        };
        let mut popped = [Vec::new(), Vec::new()];
        std::thread::scope(|scope| {
            let threads = [scope.spawn(|| push(0)), scope.spawn(|| push(1))];
            loop {
                let all_pushed = threads.iter().all(|thread| thread.is_finished());
                while let Some(access) = samples.pop() {
                    popped[(access.hash >> 32) as usize].push(access.hash as u32);
                }
                if all_pushed {
                    break;
                }
            }
        });
        let count = popped.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(count + samples.dropped(), 2 * PUSHED);
        for numbers in popped {
            assert!(numbers.is_sorted_by(|a, b| a < b), "in the order in which they were pushed");
        }
    }
}
