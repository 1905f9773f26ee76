//! What the threads of the background wait at, so that none has to look whether there is work.
//!
//! Invariants: a call is heard once, by the driver it is for, also when it came before the driver waited;
//! when the bell rings, every wait ends, now and later.

use slabwise_base::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Keeps the LRU's parts at their limits.
    Maintainer,
    /// Plans and makes page moves.
    Tuner,
    Crawler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Time,
    Call,
    /// The server ends.
    Ring,
}

/// What the drivers wait at.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rung: bool,
    /// Calls that are not heard yet, by driver.
    calls: [bool; 3],
}

impl Bell {
    /// Ends all waiting, now and later.
    pub fn ring(&self) {
        lock(&self.state).rung = true;
        self.changed.notify_all();
    }

    /// Ends the present wait of `driver`, or the next.
    pub fn call(&self, driver: Driver) {
        lock(&self.state).calls[driver as usize] = true;
        self.changed.notify_all();
    }

    /// Waits for `period` at most.
    pub fn wait(&self, driver: Driver, period: Duration) -> Woken {
        let (mut state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), period, |state| {
                !state.rung && !state.calls[driver as usize]
            })
            .unwrap_or_else(PoisonError::into_inner);
        let called = std::mem::take(&mut state.calls[driver as usize]);
        match (state.rung, called) {
            (true, _) => Woken::Ring,
            (false, true) => Woken::Call,
            (false, false) => Woken::Time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bell, Driver, Woken};
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_bell_ends_a_wait_at_once_and_stays_rung() {
        let bell = Bell::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| bell.wait(Driver::Tuner, HOUR));
            bell.ring();
            assert_eq!(waiter.join().expect("the waiter ends"), Woken::Ring);
        });
        assert_eq!(bell.wait(Driver::Tuner, HOUR), Woken::Ring);
    }

    #[test]
    fn a_call_is_heard_once_by_whom_it_is_for() {
        let bell = Bell::default();
        bell.call(Driver::Tuner);
        assert_eq!(bell.wait(Driver::Crawler, Duration::ZERO), Woken::Time);
        assert_eq!(bell.wait(Driver::Tuner, HOUR), Woken::Call);
        assert_eq!(bell.wait(Driver::Tuner, Duration::ZERO), Woken::Time);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| bell.wait(Driver::Crawler, HOUR));
            bell.call(Driver::Crawler);
            assert_eq!(waiter.join().expect("the waiter ends"), Woken::Call);
        });
    }
}
