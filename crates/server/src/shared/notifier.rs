//! Wakes the background threads when there is work for them or the server stops, so that none has to poll.
//!
//! Invariants: a notification ends one wait of the driver it is for, also when it is sent before the driver waits;
//! after a shutdown every wait returns at once.

use slabwise_base::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Maintainer,
    Tuner,
    Crawler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    Timeout,
    Notified,
    Shutdown,
}

#[derive(Debug, Default)]
pub struct Notifier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_shut_down: bool,
    /// Notifications that ended no wait yet, by driver.
    pending: [bool; 3],
}

impl Notifier {
    /// Ends all present and future waits.
    pub fn shut_down(&self) {
        lock(&self.state).is_shut_down = true;
        self.changed.notify_all();
    }

    /// Ends the present or the next wait of `driver`.
    pub fn wake(&self, driver: Driver) {
        lock(&self.state).pending[driver as usize] = true;
        self.changed.notify_all();
    }

    /// Waits for a notification, at most for `period`.
    pub fn wait(&self, driver: Driver, period: Duration) -> WakeReason {
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
    use super::{Driver, Notifier, WakeReason};
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_notification_ends_a_wait_at_once_and_persists() {
        let notifier = Notifier::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| notifier.wait(Driver::Tuner, HOUR));
            notifier.shut_down();
            assert_eq!(waiter.join().expect("the waiter ends"), WakeReason::Shutdown);
        });
        assert_eq!(notifier.wait(Driver::Tuner, HOUR), WakeReason::Shutdown);
    }

    #[test]
    fn a_notification_ends_one_wait_of_its_driver() {
        let notifier = Notifier::default();
        notifier.wake(Driver::Tuner);
        assert_eq!(notifier.wait(Driver::Crawler, Duration::ZERO), WakeReason::Timeout);
        assert_eq!(notifier.wait(Driver::Tuner, HOUR), WakeReason::Notified);
        assert_eq!(notifier.wait(Driver::Tuner, Duration::ZERO), WakeReason::Timeout);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| notifier.wait(Driver::Crawler, HOUR));
            notifier.wake(Driver::Crawler);
            assert_eq!(waiter.join().expect("the waiter ends"), WakeReason::Notified);
        });
    }
}
