//! Sends requests of one kind to a server: `slabwise-bench-load ADDRESS KIND name=value ...`.
//!
//! ```text
//!   thread 1 -- connection 1: writes a batch of requests, reads all replies, and repeats this
//!   thread N -- connection N: the same, with other random keys
//! ```
//!
//! A connection sends its next batch when it has received all replies to the last batch and, with a rate, not before the
//! scheduled time of the batch. Every reply is compared with the expected reply. A miss, an error or a wrong value ends the
//! run with an error. Keys are `k` and 14 digits.
//!
//! At the end, the program prints one line of JSON: the number of requests, the duration of the run in seconds, and
//! percentiles of the round-trip time in microseconds. The round-trip time of a batch is the time from its write or, with
//! a rate, from its scheduled time to its last reply.

#![forbid(unsafe_code)]

use hdrhistogram::Histogram;
use slabwise_base::{Clock, Random};
use slabwise_client::{ServerAddress, Stream, Timeouts, Tls, TlsOptions, Trust, request};
use std::io::{self, Read, Write};
use std::time::Duration;

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of keys of a [`Kind::MultiGet`].
const MULTI_GET_KEYS: usize = 10;

/// The kind of the requests.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Gets of random keys. The server must have an item for each key.
    Get,
    /// Gets of [`MULTI_GET_KEYS`] random keys each. The server must have an item for each key.
    MultiGet,
    /// Gets of random keys by the meta protocol: `mg <key> v`.
    MetaGet,
    /// Sets of random keys.
    Set,
    /// Gets and sets of random keys: ten gets for each set, in random order.
    Mixed,
    /// Sets of all keys, each once, in ascending order.
    Fill,
}

impl Kind {
    /// Returns the kind of the next request.
    fn next(self, random: &mut Random) -> Kind {
        match self {
            Kind::Mixed if random.below(11) == 0 => Kind::Set,
            Kind::Mixed => Kind::Get,
            kind => kind,
        }
    }

    /// Returns the number of keys of a request of this kind.
    fn keys(self) -> usize {
        if self == Kind::MultiGet { MULTI_GET_KEYS } else { 1 }
    }
}

/// The requests to send.
#[derive(Clone)]
struct Plan {
    address: ServerAddress,
    kind: Kind,
    connections: u64,
    /// The number of requests in a batch.
    pipeline: u64,
    /// The number of different keys.
    keys: u64,
    /// The length of every value in bytes.
    value_len: u32,
    /// The number of requests over all connections. Not used by [`Kind::Fill`].
    requests: u64,
    /// The number of requests per second over all connections; 0 is the maximum rate.
    rate: u64,
    /// TLS, if the connections use it. Every certificate of the server is accepted.
    tls: Option<Tls>,
}

/// Round-trip times of batches, in nanoseconds.
type Times = Histogram<u64>;

fn main() -> Result<(), String> {
    let plan = Plan::from_arguments(std::env::args().skip(1))?;
    let clock = Clock::real();
    let start = clock.nanos();
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.connections)
            .map(|index| {
                let (plan, clock) = (&plan, &clock);
                scope.spawn(move || run_connection(plan, clock, index))
            })
            .collect();
        let mut all = empty_times();
        for thread in threads {
            all += thread.join().expect("the thread of a connection does not panic")?;
        }
        Ok::<Times, String>(all)
    })?;
    let seconds = (clock.nanos() - start) as f64 / 1e9;
    let micros = |percentile| times.value_at_percentile(percentile) as f64 / 1e3;
    println!(
        "{{\"requests\": {}, \"seconds\": {seconds:.6}, \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}}}",
        plan.requests(),
        micros(50.0),
        micros(99.0),
        micros(99.9),
    );
    Ok(())
}

/// Returns a TLS configuration that accepts every certificate.
fn trusting_tls() -> Result<Tls, String> {
    Tls::load(&TlsOptions { trust: Trust::Any, certificate: None, server_name: None })
}

/// Returns an empty histogram.
fn empty_times() -> Times {
    Histogram::new_with_bounds(1, REPLY_TIMEOUT.as_nanos() as u64, 3)
        .expect("the bounds and the number of digits are valid constants")
}

impl Plan {
    /// Parses the command line.
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        const USAGE: &str = "usage: slabwise-bench-load ADDRESS get|multiget|mg|set|mixed|fill [connections=16] \
                             [pipeline=32] [keys=1000000] [value_len=100] [requests=1000000] [rate=0] [tls=0]";
        let address = arguments.next().ok_or(USAGE)?.parse()?;
        let kind = match arguments.next().as_deref() {
            Some("get") => Kind::Get,
            Some("multiget") => Kind::MultiGet,
            Some("mg") => Kind::MetaGet,
            Some("set") => Kind::Set,
            Some("mixed") => Kind::Mixed,
            Some("fill") => Kind::Fill,
            _ => return Err(USAGE.to_owned()),
        };
        let mut plan = Plan {
            address,
            kind,
            connections: 16,
            pipeline: 32,
            keys: 1_000_000,
            value_len: 100,
            requests: 1_000_000,
            rate: 0,
            tls: None,
        };
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or(USAGE)?;
            let value: u64 = value.parse().map_err(|_| {
                format!("{argument}: the value must be a whole number of at least 0")
            })?;
            match name {
                "connections" => plan.connections = value.max(1),
                "pipeline" => plan.pipeline = value.max(1),
                "keys" => plan.keys = value.max(1),
                "value_len" => plan.value_len = u32::try_from(value).map_err(|_| USAGE)?,
                "requests" => plan.requests = value,
                "rate" => plan.rate = value,
                "tls" => plan.tls = (value > 0).then(trusting_tls).transpose()?,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(plan)
    }

    /// Returns the number of requests over all connections.
    fn requests(&self) -> u64 {
        if self.kind == Kind::Fill { self.keys } else { self.requests }
    }

    /// Returns the range of requests that a connection sends, of `total` requests. The numbers of requests of two
    /// connections differ by at most one.
    fn share(&self, total: u64, index: u64) -> std::ops::Range<u64> {
        total * index / self.connections..total * (index + 1) / self.connections
    }

    /// Returns the scheduled time of a connection's batch in nanoseconds after the start of the connection, or `None` if
    /// the plan has no rate. The batches of different connections are at different times.
    fn scheduled_nanos(&self, connection: u64, batch: u64) -> Option<u64> {
        let number = batch * self.connections + connection;
        let nanos = u128::from(number * self.pipeline) * 1_000_000_000;
        nanos.checked_div(u128::from(self.rate)).map(|nanos| nanos as u64)
    }

    /// Appends a request to `out`, and the expected reply to `reply`. The kind is one of a single request, and `next_key`
    /// returns a key for each call.
    fn compose(
        &self,
        kind: Kind,
        mut next_key: impl FnMut() -> u64,
        value: &[u8],
        out: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) {
        let value_len = self.value_len;
        let mut next_key = || format!("k{:014}", next_key());
        match kind {
            Kind::Mixed => unreachable!("a request is a get or a set"),
            Kind::Get | Kind::MultiGet => {
                out.extend_from_slice(b"get");
                for key in std::iter::repeat_with(next_key).take(kind.keys()) {
                    out.extend_from_slice(format!(" {key}").as_bytes());
                    reply.extend_from_slice(format!("VALUE {key} 0 {value_len}\r\n").as_bytes());
                    reply.extend_from_slice(value);
                    reply.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"\r\n");
                reply.extend_from_slice(b"END\r\n");
            }
            Kind::MetaGet => {
                request::meta_get(out, next_key().as_bytes());
                reply.extend_from_slice(format!("VA {value_len}\r\n").as_bytes());
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\n");
            }
            Kind::Set | Kind::Fill => {
                request::set_line(out, next_key().as_bytes(), None, value_len);
                out.extend_from_slice(value);
                request::end_value(out);
                reply.extend_from_slice(b"STORED\r\n");
            }
        }
    }
}

/// Sends all batches of one connection. Returns their round-trip times.
fn run_connection(plan: &Plan, clock: &Clock, index: u64) -> Result<Times, String> {
    let describe = |error: io::Error| format!("{}: {error}", plan.address);
    let timeouts = Timeouts { connect: REPLY_TIMEOUT, read: REPLY_TIMEOUT, reply: REPLY_TIMEOUT };
    let stream = Stream::connect(&plan.address, timeouts, plan.tls.as_ref());
    let mut stream = stream.map_err(|error| format!("{}: {error}", plan.address))?;

    let value = vec![b'v'; plan.value_len as usize];
    let mut random = Random::new(index + 1);
    let mut remaining = plan.share(plan.requests(), index);
    let mut requests = Vec::new();
    let mut replies = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut times = empty_times();
    let (run_start, mut batch) = (clock.nanos(), 0);
    while !remaining.is_empty() {
        let count = plan.pipeline.min(remaining.end - remaining.start);
        requests.clear();
        replies.clear();
        for position in remaining.start..remaining.start + count {
            let kind = plan.kind.next(&mut random);
            let next_key = || match kind {
                Kind::Fill => position,
                _ => random.next_u64() % plan.keys,
            };
            plan.compose(kind, next_key, &value, &mut requests, &mut replies);
        }
        let start = match plan.scheduled_nanos(index, batch) {
            Some(nanos) => wait_until(clock, run_start + nanos),
            None => clock.nanos(),
        };
        batch += 1;
        stream.write_all(&requests).map_err(describe)?;
        read_replies(&mut stream, &replies, &mut buffer).map_err(describe)?;
        times.saturating_record(clock.nanos() - start);
        remaining.start += count;
    }
    Ok(times)
}

/// Waits until a time of the clock, and returns this time.
#[expect(clippy::disallowed_methods, reason = "the thread waits for the scheduled time")]
fn wait_until(clock: &Clock, nanos: u64) -> u64 {
    let early_nanos = nanos.saturating_sub(clock.nanos());
    if early_nanos > 0 {
        std::thread::sleep(Duration::from_nanos(early_nanos));
    }
    nanos
}

/// Reads replies until all expected bytes have arrived. Fails as soon as a byte differs.
fn read_replies(stream: &mut Stream, expected: &[u8], buffer: &mut [u8]) -> io::Result<()> {
    let mut rest = expected;
    while !rest.is_empty() {
        let count = stream.read(buffer)?;
        if count == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
        let received = &buffer[..count];
        rest = rest.strip_prefix(received).ok_or_else(|| {
            let equal_bytes = received.iter().zip(rest);
            let equal_len = equal_bytes.take_while(|(found, expected)| found == expected).count();
            let excerpt = |bytes: &[u8]| {
                String::from_utf8_lossy(&bytes[equal_len..bytes.len().min(equal_len + 40)])
                    .into_owned()
            };
            let (found, expected) = (excerpt(received), excerpt(rest));
            io::Error::other(format!("the reply is {found:?}, expected {expected:?}"))
        })?;
    }
    Ok(())
}
