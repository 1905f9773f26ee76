//! Locks that count how often threads take them, and how long threads wait for them.
//!
//! The counts are part of the data that the lock protects. So a thread counts in a cache line that it owns anyway, and
//! without atomic operations. A thread reads the clock only if another thread holds the lock.

use slabwise_base::counts;
use slabwise_base::sync::{Mutex, MutexGuard, lock, try_lock};
use std::ops::{Deref, DerefMut};

counts! {
    /// How often threads have taken a lock, and how long they have waited for it.
    pub struct LockCounts {
        /// The number of times that a thread has taken the lock.
        taken,
        /// The number of times that a thread found the lock held by another thread, and waited.
        contended,
        /// The sum of the times that threads have waited, in nanoseconds.
        wait_nanos,
    }
}

/// The data that a lock protects, and the counts of the lock. The number of takes is first, so that it is in the cache line
/// of the lock's word.
#[derive(Debug)]
#[repr(C)]
struct Counted<T> {
    taken: u64,
    data: T,
    contended: u64,
    wait_nanos: u64,
}

/// A lock that counts how often threads take it.
#[derive(Debug)]
pub struct CountedLock<T>(Mutex<Counted<T>>);

/// Holds a [`CountedLock`], and gives access to the data that it protects.
pub struct CountedGuard<'l, T>(MutexGuard<'l, Counted<T>>);

impl<T> CountedLock<T> {
    /// Returns a lock that no thread has taken.
    pub fn new(data: T) -> CountedLock<T> {
        CountedLock(Mutex::new(Counted { taken: 0, data, contended: 0, wait_nanos: 0 }))
    }

    /// Takes the lock. Panics if a thread panicked while it held the lock.
    #[inline]
    pub fn lock(&self) -> CountedGuard<'_, T> {
        let mut guard = self.acquire();
        guard.taken += 1;
        CountedGuard(guard)
    }

    /// Takes the lock if no thread holds it. Returns `None` if a thread holds the lock, or panicked while it held the
    /// lock.
    pub fn try_lock(&self) -> Option<CountedGuard<'_, T>> {
        let mut guard = try_lock(&self.0)?;
        guard.taken += 1;
        Some(CountedGuard(guard))
    }

    /// Takes the lock as [`CountedLock::lock`] does, but does not count this. For statistics, which read the data of all
    /// locks.
    pub fn lock_uncounted(&self) -> CountedGuard<'_, T> {
        CountedGuard(lock(&self.0))
    }

    /// Returns the counts since the lock was created.
    pub fn counts(&self) -> LockCounts {
        let &Counted { taken, contended, wait_nanos, .. } = &*lock(&self.0);
        LockCounts { taken, contended, wait_nanos }
    }

    /// Waits for the lock if a thread holds it.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    fn acquire(&self) -> MutexGuard<'_, Counted<T>> {
        match try_lock(&self.0) {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// Waits for the lock and counts the wait.
    #[cfg(not(any(loom, shuttle)))]
    #[cold]
    #[inline(never)]
    fn wait(&self) -> MutexGuard<'_, Counted<T>> {
        let (mut guard, nanos) = slabwise_base::timed(|| lock(&self.0));
        guard.contended += 1;
        guard.wait_nanos += nanos;
        guard
    }

    /// Takes the lock in one step, so that counting adds no orders of steps to a model.
    #[cfg(any(loom, shuttle))]
    fn acquire(&self) -> MutexGuard<'_, Counted<T>> {
        lock(&self.0)
    }
}

impl<T> Deref for CountedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.data
    }
}

impl<T> DerefMut for CountedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.data
    }
}

/// A kind of lock: a numbered row of `docs/locking.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// The page move in progress.
    Mover,
    /// One stripe of the index.
    Stripe,
    /// One class.
    Class,
    /// The pages that no class owns.
    PagePool,
}

impl LockKind {
    /// Returns the name of the kind in statistics and metrics.
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Mover => "mover",
            LockKind::Stripe => "stripe",
            LockKind::Class => "class",
            LockKind::PagePool => "page_pool",
        }
    }
}

/// The counts of all locks of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStats {
    /// The kind of the locks.
    pub kind: LockKind,
    /// The counts of each lock.
    pub locks: Vec<LockCounts>,
}

impl LockStats {
    /// Returns the sum of the counts of all locks.
    pub fn total(&self) -> LockCounts {
        let mut total = LockCounts::default();
        self.locks.iter().for_each(|counts| total += counts);
        total
    }

    /// Returns the number of locks that threads have taken.
    pub fn used_count(&self) -> usize {
        self.locks.iter().filter(|counts| counts.taken > 0).count()
    }

    /// Returns the counts of the lock that threads have taken most often.
    pub fn busiest(&self) -> LockCounts {
        self.locks.iter().copied().max_by_key(|counts| counts.taken).unwrap_or_default()
    }

    /// Returns the counts since earlier statistics of the same locks. Statistics without locks are those of a new engine.
    #[must_use]
    pub fn since(&self, earlier: Option<&LockStats>) -> LockStats {
        let Some(earlier) = earlier else { return self.clone() };
        let pairs = self.locks.iter().zip(&earlier.locks);
        LockStats { kind: self.kind, locks: pairs.map(|(now, then)| now.since(then)).collect() }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{CountedLock, LockCounts, LockKind, LockStats};
    use std::sync::mpsc;

    #[test]
    fn a_lock_counts_takes_but_not_those_of_statistics() {
        let lock = CountedLock::new(5);
        *lock.lock() += 1;
        drop(lock.try_lock());
        assert_eq!(*lock.lock_uncounted(), 6);
        assert_eq!(lock.counts(), LockCounts { taken: 2, contended: 0, wait_nanos: 0 });
    }

    #[test]
    fn a_failed_attempt_to_take_a_lock_does_not_count() {
        let lock = CountedLock::new(());
        let guard = lock.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none(), "another thread holds the lock"));
        });
        drop(guard);
        assert_eq!(lock.counts(), LockCounts { taken: 1, contended: 0, wait_nanos: 0 });
    }

    /// The holder cannot see when the other thread begins to wait. So the test repeats until a wait was counted.
    #[test]
    fn a_lock_counts_waits_and_their_time() {
        let lock = CountedLock::new(0_u64);
        let mut rounds = 0;
        while lock.counts().contended == 0 {
            let (sender, receiver) = mpsc::channel();
            std::thread::scope(|scope| {
                let guard = lock.lock();
                scope.spawn(|| {
                    sender.send(()).expect("the receiver exists");
                    *lock.lock() += 1;
                });
                receiver.recv().expect("the other thread sends");
                (0..100).for_each(|_| std::thread::yield_now());
                drop(guard);
            });
            rounds += 1;
        }
        let counts = lock.counts();
        assert_eq!((counts.taken, counts.contended), (2 * rounds, 1), "{counts:?}");
        assert!(counts.wait_nanos > 0, "{counts:?}");
        assert_eq!(*lock.lock(), rounds);
    }

    #[test]
    fn statistics_of_locks_find_the_busiest_lock_and_subtract_earlier_counts_of_each_lock() {
        let counts = |taken| LockCounts { taken, contended: taken / 2, wait_nanos: taken * 10 };
        let stats =
            |taken: [u64; 3]| LockStats { kind: LockKind::Class, locks: taken.map(counts).into() };
        let (earlier, later) = (stats([100, 0, 4]), stats([104, 0, 24]));
        assert_eq!(later.busiest(), counts(104));
        let since = later.since(Some(&earlier));
        assert_eq!((since.busiest().taken, since.total().taken, since.used_count()), (20, 24, 2));
        assert_eq!(later.since(None), later);
    }
}
