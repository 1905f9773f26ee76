//! What a worker lends to the sessions it drives.

use crate::shared::{Shared, Traffic};
use slabwise_base::{Expiry, Now, Seconds};
use slabwise_engine::Handle;
use std::os::fd::RawFd;

/// A worker's face of everything shared. One worker has one, for ever.
pub struct WorkerContext<'e> {
    /// The engine's operations.
    pub handle: Handle<'e>,
    /// The time of this wake-up; the event loop sets it.
    pub now: Now,
    /// What all threads share.
    pub shared: &'e Shared<'e>,
    /// This worker's part of it.
    pub traffic: &'e Traffic,
    /// This worker's number.
    pub index: usize,
    /// The descriptor of the connection being served, for what is logged; the event loop sets it.
    pub descriptor: RawFd,
    /// How many requests may still be served before other connections have a turn; the event loop
    /// refills it.
    pub requests_left: u32,
}

/// Lifetimes up to this many seconds count from now; larger ones are Unix times. Clients rely on it.
const RELATIVE_EXPTIME_MAX: i32 = 60 * 60 * 24 * 30;

impl WorkerContext<'_> {
    /// The expiry that a lifetime on the wire asks for.
    pub(crate) fn expiry(&self, exptime: i32) -> Expiry {
        match exptime {
            0 => Expiry::NEVER,
            i32::MIN..0 => Expiry::PAST,
            _ => Expiry::at(self.second(exptime)),
        }
    }

    /// The second that a positive lifetime on the wire names. A Unix time before the start is the
    /// earliest second there is, so that it is past.
    pub(crate) fn second(&self, exptime: i32) -> Seconds {
        let exptime_seconds = exptime.unsigned_abs();
        if exptime <= RELATIVE_EXPTIME_MAX {
            return Seconds(self.now.seconds.0 + exptime_seconds);
        }
        let since_zero =
            u64::from(exptime_seconds).saturating_sub(self.shared.clock.zero_unix_seconds());
        Seconds((since_zero as u32).max(1))
    }

    /// The Unix time of a second of the clock.
    pub(crate) fn unix_seconds(&self, second: Seconds) -> u64 {
        self.shared.clock.zero_unix_seconds() + u64::from(second.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Fixture;
    use slabwise_base::{Expiry, Seconds};
    use std::time::Duration;

    #[test]
    fn lifetimes_are_relative_up_to_30_days_and_unix_times_beyond() {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        fixture.clock.advance(Duration::from_secs(100));
        let worker = fixture.worker(&shared);
        let start = fixture.clock.zero_unix_seconds() as i32;
        assert_eq!(worker.expiry(0), Expiry::NEVER);
        assert_eq!(worker.expiry(-1), Expiry::PAST);
        assert_eq!(worker.expiry(i32::MIN), Expiry::PAST);
        assert_eq!(worker.expiry(5), Expiry::at(Seconds(107)));
        assert_eq!(worker.expiry(2_592_000), Expiry::at(Seconds(2_592_102)));
        assert_eq!(worker.expiry(2_592_001), Expiry::PAST);
        assert_eq!(worker.expiry(start - 5), Expiry::PAST);
        assert_eq!(worker.expiry(start + 500), Expiry::at(Seconds(500)));
    }
}
