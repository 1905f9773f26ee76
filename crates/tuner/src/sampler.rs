//! A bounded queue of accesses from the threads of workers to the tuner's thread.
//!
//! ```text
//!   worker: Engine -> Sampler --with time, pushed--> | queue | --> Samples: the tuner's thread
//!   worker: Engine -> Sampler ---------------------> '-------'
//!                        '- half full: wakes -------------------------^
//! ```
//!
//! Invariants: a sampler never waits; if the queue is full, the access is dropped, and the dropped accesses are
//! counted; each access is popped once, in the order in which the accesses were pushed; the consumer is woken at most
//! once between two calls of [`Samples::begin`].

use slabwise_base::{Clock, Uses, WorkTime};
use slabwise_engine::{AccessObserver, KeyAccess};
use slabwise_profile::{Access, UseOfKey};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// The producer's end of the queue. It is the access observer of the engine.
pub struct Sampler {
    /// The clock from which the times of accesses are read.
    clock: Arc<Clock>,
    queue: SyncSender<Sample>,
    /// The number of accesses dropped since the start.
    dropped: AtomicU64,
    /// The number of accesses since the consumer last started to pop. The queue has at most this number of accesses.
    observed: AtomicUsize,
    /// Half of the maximum number of accesses in the queue, rounded up.
    half: usize,
    waker: OnceLock<Waker>,
}

/// A function that wakes the consumer. It must not block, because a worker calls it.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// The consumer's end of the queue.
#[derive(Debug)]
pub(crate) struct Samples {
    sampler: Arc<Sampler>,
    queue: Receiver<Sample>,
}

/// An access to a sampled key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub access: Access,
    pub work_time: WorkTime,
    pub uses: Uses,
}

impl Sample {
    /// Returns the access for the learner of hit densities.
    pub fn use_of_key(&self) -> UseOfKey {
        let Access { hash, kind, .. } = self.access;
        UseOfKey { hash, kind, uses: self.uses, work_time: self.work_time }
    }
}

impl Sampler {
    /// The memory that an access takes in the queue, in bytes.
    pub const ACCESS_SIZE_BYTES: usize = size_of::<Sample>() + size_of::<usize>();

    /// Creates both ends of a queue for at most `len_max` accesses. The times of accesses are read from `clock`.
    pub(crate) fn new(clock: Arc<Clock>, len_max: usize) -> (Arc<Sampler>, Samples) {
        assert!(len_max > 0, "len_max must be at least 1");
        let (push, pop) = sync_channel(len_max);
        let sampler = Arc::new(Sampler {
            clock,
            queue: push,
            dropped: AtomicU64::new(0),
            observed: AtomicUsize::new(0),
            half: len_max.div_ceil(2),
            waker: OnceLock::new(),
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
        let sampled = Access {
            hash: access.hash,
            kind: access.kind,
            class: access.class,
            size_bytes: access.size_bytes,
            at_nanos: self.clock.nanos(),
        };
        let sample = Sample { access: sampled, work_time: access.work_time, uses: access.uses };
        if self.queue.try_send(sample).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
        if self.observed.fetch_add(1, Relaxed) + 1 == self.half
            && let Some(wake) = self.waker.get()
        {
            wake();
        }
    }
}

impl Samples {
    /// Sets the function that wakes the consumer when the queue is half full. Panics if it was set before.
    pub fn set_waker(&self, waker: Waker) {
        let is_first = self.sampler.waker.set(waker).is_ok();
        assert!(is_first, "the waker was not set before: set it only once");
    }

    /// Returns true if the queue may be half full: if, since the last call of `begin`, the engine has reported at least
    /// half as many accesses as the queue can hold.
    pub fn is_half_full(&self) -> bool {
        self.sampler.observed.load(Relaxed) >= self.sampler.half
    }

    /// Starts to pop accesses. Accesses from now on may wake the consumer again.
    pub fn begin(&self) {
        self.sampler.observed.store(0, Relaxed);
    }

    /// Removes and returns the oldest access; `None` if the queue is empty.
    pub fn pop(&self) -> Option<Sample> {
        // `self.sampler` has the producer's end, so the queue is never disconnected.
        self.queue.try_recv().ok()
    }

    /// Returns the number of accesses dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.sampler.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Sampler};
    use slabwise_base::{AccessKind, ClassId, Clock, Uses, WorkTime};
    use slabwise_engine::{AccessObserver, KeyAccess};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    const CLASS: Option<ClassId> = Some(ClassId(3));

    fn access(hash: u64) -> KeyAccess {
        KeyAccess {
            hash,
            kind: AccessKind::Hit,
            class: CLASS,
            size_bytes: 0,
            work_time: WorkTime(5),
            uses: Uses::FIRST,
        }
    }

    #[test]
    fn accesses_beyond_the_queue_are_dropped_and_counted() {
        let clock = Arc::new(Clock::manual());
        let (sampler, samples) = Sampler::new(Arc::clone(&clock), 4);
        let push = |hash| {
            clock.advance(Duration::from_nanos(7));
            sampler.accessed(&access(hash));
        };
        let popped = || std::iter::from_fn(|| samples.pop()).map(|sample| sample.access.hash);
        (0..6).for_each(push);
        assert_eq!(samples.dropped(), 2);
        let first = samples.pop().expect("the queue has four accesses");
        let Access { hash, at_nanos, class, .. } = first.access;
        assert_eq!((hash, at_nanos, class, first.work_time), (0, 7, CLASS, WorkTime(5)));
        push(6);
        assert!(popped().eq([1, 2, 3, 6]));
        assert_eq!(samples.dropped(), 2);
    }

    #[test]
    fn the_consumer_is_woken_once_at_half_full() {
        let (sampler, samples) = Sampler::new(Arc::new(Clock::manual()), 8);
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        samples.set_waker(Box::new(move || {
            count.fetch_add(1, Relaxed);
        }));
        let push = |count| {
            for hash in 0..count {
                sampler.accessed(&access(hash));
            }
        };
        let seen = || (wakes.load(Relaxed), samples.is_half_full());
        push(3);
        assert_eq!(seen(), (0, false));
        push(1);
        assert_eq!(seen(), (1, true));
        push(20);
        assert_eq!(seen(), (1, true), "a full queue does not wake the consumer again");
        samples.begin();
        while samples.pop().is_some() {}
        assert_eq!(seen(), (1, false));
        push(4);
        assert_eq!(seen(), (2, true));
    }

    #[test]
    fn every_access_is_popped_or_counted_as_dropped() {
        const PUSHED: u64 = 20_000;
        let (sampler, samples) = Sampler::new(Arc::new(Clock::manual()), 64);
        let push = |thread: u64| {
            for number in 0..PUSHED {
                let hash = thread << 32 | number;
                sampler.accessed(&access(hash));
            }
        };
        let mut popped = [Vec::new(), Vec::new()];
        std::thread::scope(|scope| {
            let threads = [scope.spawn(|| push(0)), scope.spawn(|| push(1))];
            loop {
                let all_pushed = threads.iter().all(|thread| thread.is_finished());
                while let Some(sample) = samples.pop() {
                    let hash = sample.access.hash;
                    popped[(hash >> 32) as usize].push(hash as u32);
                }
                if all_pushed {
                    break;
                }
            }
        });
        let count = popped.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(count + samples.dropped(), 2 * PUSHED);
        for numbers in popped {
            assert!(
                numbers.is_sorted_by(|a, b| a < b),
                "accesses are popped in the order of pushes"
            );
        }
    }
}
