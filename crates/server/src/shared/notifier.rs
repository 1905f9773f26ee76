//! The notifier, on which the background threads wait. It ends a thread's wait when there is work for the thread or the
//! server stops, so that the threads do not poll.
//!
//! Invariants: a notification ends exactly one wait of its thread. If the thread is not waiting, the notification ends
//! the thread's next wait. After [`Notifier::shut_down`] every wait returns at once.

use slabwise_base::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundThread {
    /// The thread of the LRU maintainer.
    Maintainer,
    /// The thread of the tuner, which also runs the mover and the profiler.
    Tuner,
    /// The thread of the LRU crawler.
    Crawler,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The period of the wait is over.
    Timeout,
    /// Another thread has work for the waiting thread.
    Notified,
    /// The server stops.
    Shutdown,
}

/// Ends the waits of background threads.
#[derive(Debug, Default)]
pub struct Notifier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_shut_down: bool,
    /// One entry per [`BackgroundThread`]: true if a notification has not ended a wait yet.
    pending: [bool; 3],
}

impl Notifier {
    /// Ends all current waits, and makes every later wait return at once.
    pub fn shut_down(&self) {
        lock(&self.state).is_shut_down = true;
        self.changed.notify_all();
    }

    /// Ends the current wait of the thread `driver`, or its next wait if the thread is not waiting.
    pub fn wake(&self, driver: BackgroundThread) {
        lock(&self.state).pending[driver as usize] = true;
        self.changed.notify_all();
    }

    /// Waits until another thread notifies the thread `driver` or the server stops, for at most `period`.
    pub fn wait(&self, driver: BackgroundThread, period: Duration) -> WakeReason {
        let (mut state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), period, |state| {
                !state.is_shut_down && !state.pending[driver as usize]
            })
            .unwrap_or_else(PoisonError::into_inner);
        let notified = std::mem::take(&mut state.pending[driver as usize]);
        match (state.is_shut_down, notified) {
            (true, _) => WakeReason::Shutdown,
            (false, true) => WakeReason::Notified,
            (false, false) => WakeReason::Timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BackgroundThread, Notifier, WakeReason};
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn shut_down_ends_the_current_wait_and_the_next_wait() {
        let notifier = Notifier::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| notifier.wait(BackgroundThread::Tuner, HOUR));
            notifier.shut_down();
            let reason = waiter.join().expect("the waiting thread ends without a panic");
            assert_eq!(reason, WakeReason::Shutdown);
        });
        assert_eq!(notifier.wait(BackgroundThread::Tuner, HOUR), WakeReason::Shutdown);
    }

    #[test]
    fn a_notification_ends_one_wait_of_its_thread() {
        let notifier = Notifier::default();
        notifier.wake(BackgroundThread::Tuner);
        assert_eq!(notifier.wait(BackgroundThread::Crawler, Duration::ZERO), WakeReason::Timeout);
        assert_eq!(notifier.wait(BackgroundThread::Tuner, HOUR), WakeReason::Notified);
        assert_eq!(notifier.wait(BackgroundThread::Tuner, Duration::ZERO), WakeReason::Timeout);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| notifier.wait(BackgroundThread::Crawler, HOUR));
            notifier.wake(BackgroundThread::Crawler);
            let reason = waiter.join().expect("the waiting thread ends without a panic");
            assert_eq!(reason, WakeReason::Notified);
        });
    }
}
