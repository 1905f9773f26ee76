//! Waits that a signal ends, and the time that the driver reads.

use crate::error::SteerError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slabwise_base::Clock;
use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Waits until a time has passed or a signal has arrived.
pub struct Waiting {
    clock: Clock,
    signals: Receiver<()>,
    was_signalled: Cell<bool>,
}

impl Waiting {
    /// Starts to receive SIGINT, SIGTERM, and SIGHUP unless it is ignored, as by `nohup`.
    pub fn start() -> Result<Waiting, SteerError> {
        let (send, signals) = channel();
        let mut received = Signals::new([SIGINT, SIGTERM]).map_err(SteerError::Signals)?;
        if !is_ignored(SIGHUP) {
            received.add_signal(SIGHUP).map_err(SteerError::Signals)?;
        }
        let forward = move || {
            for _ in received.forever() {
                // The receiver lives as long as the command.
                let _ = send.send(());
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(forward).map_err(SteerError::Signals)?;
        Ok(Waiting { clock: Clock::real(), signals, was_signalled: Cell::new(false) })
    }

    /// Returns the nanoseconds since the start.
    pub fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// Waits for this time, or until a signal has arrived. Returns true if a signal has arrived, now or earlier.
    pub fn wait(&self, time: Duration) -> bool {
        if self.was_signalled.get() {
            return true;
        }
        let signal = self.signals.recv_timeout(time);
        self.was_signalled.set(signal != Err(RecvTimeoutError::Timeout));
        self.was_signalled.get()
    }
}

/// Returns true if this process has inherited that the signal is ignored; false if the system does not say so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
