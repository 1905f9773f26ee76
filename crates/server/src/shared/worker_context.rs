//! The context in which a worker serves requests.

use super::connections::Traffic;
use super::durations::Durations;
use super::key_samples::KeySamples;
use super::state::Shared;
use slabwise_base::{Expiry, Now, Seconds};
use slabwise_engine::Handle;
use slabwise_protocol::Exptime;
use std::os::fd::RawFd;

/// The size of a worker's read buffer, and so the maximum number of bytes of one receive call, except for the bytes of
/// a value that a client uploads. The buffer is large enough for many pipelined requests, and small enough for the L2
/// cache.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// The context in which one worker serves requests. A worker has one context for its whole run.
pub struct WorkerContext<'e> {
    /// The worker's handle to the engine.
    pub handle: Handle<'e>,
    /// The time at which the worker's event loop returned the current events. The event loop sets this field.
    pub now: Now,
    /// The state that all threads share.
    pub shared: &'e Shared<'e>,
    /// This worker's traffic counters.
    pub traffic: &'e Traffic,
    /// This worker's durations of requests; `None` without `-o http`.
    pub durations: Option<&'e Durations>,
    /// The samples to which gets add their keys; `None` except in timed rounds with `-o http_hot_keys`. The event loop sets
    /// this field before a round.
    pub key_samples: Option<&'e KeySamples>,
    /// The number of this worker, counted from 0.
    pub index: usize,
    /// The descriptor of the connection being served, for log lines and events. The event loop sets this field.
    pub descriptor: RawFd,
    /// The number of requests that may still be served in the current *round*: the time in which the worker serves one
    /// connection before it serves the next one. The event loop sets this field before a round. A session can set it to
    /// 0 to end the round.
    pub requests_left: u32,
    /// The requests served in the current round. The event loop resets this field before a round.
    pub served: RoundCounts,
    /// True if gets of large values must wait. The event loop sets this field.
    pub large_values_wait: bool,
}

/// The numbers of requests that a worker served in one round of a connection, before it served the next connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundCounts {
    /// The number of requests, as [`WorkerContext::requests_left`] counts them.
    pub requests: u32,
    /// The number of keys that gets looked up. One request may name several keys.
    pub gets: u32,
    /// The number of requests that are neither gets nor no-ops.
    pub other_requests: u32,
}

impl RoundCounts {
    /// Returns the number of keys of gets plus the number of other requests. The duration of the round divided by this
    /// number is an estimate of the time of one get. Returns `None` if the round had no get.
    pub fn time_shares(&self) -> Option<u32> {
        (self.gets > 0).then_some(self.gets + self.other_requests)
    }
}

/// The maximum expiration time in a command that is relative to the current time, in seconds: 30 days. As in memcached,
/// a larger expiration time is a Unix time.
const RELATIVE_EXPTIME_MAX: u32 = 60 * 60 * 24 * 30;

impl<'e> WorkerContext<'e> {
    /// Makes the context of the worker with this number. `requests_left` is 0 until the event loop sets it.
    pub fn new(shared: &'e Shared<'e>, index: usize) -> WorkerContext<'e> {
        WorkerContext {
            handle: shared.engine.handle(),
            now: shared.clock.now(),
            shared,
            traffic: &shared.traffic[index],
            durations: shared.durations.as_ref().map(|workers| &workers[index]),
            key_samples: None,
            index,
            descriptor: -1,
            requests_left: 0,
            served: RoundCounts::default(),
            large_values_wait: false,
        }
    }

    /// Converts the expiration time of a command to an expiry in seconds of the server's clock.
    #[inline]
    pub(crate) fn expiry(&self, exptime: Exptime) -> Expiry {
        match exptime {
            Exptime::Never => Expiry::NEVER,
            Exptime::Past => Expiry::PAST,
            Exptime::At(time) => Expiry::at(self.second(time)),
        }
    }

    /// Converts an expiration time of a command, which is relative or a Unix time, to a second of the clock. A Unix
    /// time before the start of the server is converted to second 1, which is in the past.
    pub(crate) fn second(&self, time: u32) -> Seconds {
        if time <= RELATIVE_EXPTIME_MAX {
            return Seconds(self.now.seconds.0 + time);
        }
        let since_zero = u64::from(time).saturating_sub(self.shared.clock.zero_unix_seconds());
        Seconds((since_zero as u32).max(1))
    }

    /// Returns the CAS value that replies show for an item with the CAS value `cas`: with `-C` it is 0.
    #[inline]
    pub(crate) fn shown_cas(&self, cas: u64) -> u64 {
        if self.shared.settings.cas_enabled { cas } else { 0 }
    }

    /// Returns the CAS value that an item must have if a command requests the CAS value `requested`. With `-C` items
    /// have no CAS value in replies: the requested value 0 is no condition, and any other value matches no item.
    pub(crate) fn expected_cas(&self, requested: Option<u64>) -> Option<u64> {
        match requested {
            Some(0) if !self.shared.settings.cas_enabled => None,
            // No item has the CAS value 0, so this condition is never met.
            Some(_) if !self.shared.settings.cas_enabled => Some(0),
            expected => expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RoundCounts;
    use crate::session::testing::{Client, Fixture};
    use slabwise_base::{Expiry, Seconds};
    use slabwise_protocol::Exptime;
    use std::time::Duration;

    #[test]
    fn a_get_counts_once_per_key_and_a_no_op_is_neither_a_get_nor_another_request() {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        let mut client = Client::new(fixture.worker(&shared));
        let mut served = |script: &[u8]| {
            client.worker.served = RoundCounts::default();
            client.send(script);
            client.worker.served
        };
        let get = b"\x80\x09\0\x01\0\0\0\0\0\0\0\x01opaqcasvaluek";
        let noop = b"\x80\x0a\0\0\0\0\0\0\0\0\0\0opaqcasvalue";
        for (script, requests, gets) in [
            (&b"get a b c\r\n"[..], 1, 3),
            (b"gat 10 a b\r\ngets c\r\n", 2, 3),
            (b"mg a v\r\nmg b v q\r\nmn\r\n", 3, 2),
            (&format!("get{}\r\n", " key".repeat(100)).into_bytes(), 2, 100),
        ] {
            let expected = RoundCounts { requests, gets, other_requests: 0 };
            assert_eq!(served(script), expected, "the script is {}", script.escape_ascii());
            assert_eq!(expected.time_shares(), Some(gets));
        }
        for script in [
            &b"get a\r\nset a 0 0 1\r\nx\r\n"[..],
            b"get a\r\ndelete a\r\n",
            b"mg a v\r\nms a 1\r\nx\r\n",
            b"mg a v\r\nmd a\r\n",
            b"get a\r\nstats\r\n",
        ] {
            let expected = RoundCounts { requests: 2, gets: 1, other_requests: 1 };
            assert_eq!(served(script), expected, "the script is {}", script.escape_ascii());
        }
        assert_eq!(served(b"mn\r\ndelete a\r\n").time_shares(), None, "the round had no get");
        let mut binary = Client::new(fixture.worker(&shared));
        binary.worker.served = RoundCounts::default();
        binary.send(&[&get[..], get, noop].concat());
        assert_eq!(binary.worker.served, RoundCounts { requests: 3, gets: 2, other_requests: 0 });
        let delete = [&b"\x80\x04"[..], &get[2..]].concat();
        binary.send(&delete);
        assert_eq!(binary.worker.served.time_shares(), Some(3));
    }

    #[test]
    fn expiration_times_up_to_30_days_are_relative_and_larger_ones_are_unix_times() {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        fixture.clock.advance(Duration::from_secs(100));
        let worker = fixture.worker(&shared);
        let start = fixture.clock.zero_unix_seconds() as i32;
        let signed = |number| worker.expiry(Exptime::of_signed(number));
        let unsigned = |number| worker.expiry(Exptime::of_unsigned(number));
        assert_eq!(signed(0), Expiry::NEVER);
        assert_eq!(signed(-1), Expiry::PAST);
        assert_eq!(signed(i32::MIN), Expiry::PAST);
        assert_eq!(signed(5), Expiry::at(Seconds(107)));
        assert_eq!(signed(2_592_000), Expiry::at(Seconds(2_592_102)));
        assert_eq!(signed(2_592_001), Expiry::PAST);
        assert_eq!(signed(start - 5), Expiry::PAST);
        assert_eq!(signed(start + 500), Expiry::at(Seconds(500)));
        assert_eq!(unsigned(0), Expiry::NEVER);
        assert_eq!(unsigned(5), Expiry::at(Seconds(107)));
        // The largest unsigned time is in the year 2106. As a signed number it would be -1.
        let since_start = u32::MAX - start as u32;
        assert_eq!(unsigned(u32::MAX), Expiry::at(Seconds(since_start)));
    }
}
