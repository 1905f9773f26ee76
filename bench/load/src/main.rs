//! Loads a server with one kind of request: `load ADDRESS KIND key=value...`.
//!
//! ```text
//!   thread 1 -- connection 1: batch of requests -> one write; replies <- reads; again
//!   thread N -- connection N: the same, on keys of its own random order
//! ```
//!
//! Every connection sends its next batch when it has all replies to the last one. Every reply is compared
//! with the expected one: a miss, an error or a wrong value ends the run. Keys are `k` and 14 digits.
//!
//! At the end one line of JSON reports the requests, the seconds that they took, and percentiles of the
//! time from the write of a batch to its last reply, in microseconds.

#![forbid(unsafe_code)]

use hdrhistogram::Histogram;
use slabwise_base::{Clock, Random};
use slabwise_client::{ServerAddress, Stream, Timeouts, request};
use std::io::{self, Read, Write};
use std::time::Duration;

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Random keys are read; all of them must be there.
    Get,
    /// Random keys are read by the meta protocol: `mg <key> v`.
    MetaGet,
    /// Random keys are written.
    Set,
    /// Every key is written once, in order.
    Fill,
}

/// What to send.
#[derive(Clone)]
struct Plan {
    address: ServerAddress,
    kind: Kind,
    connections: u64,
    /// Requests in one write.
    pipeline: u64,
    keys: u64,
    value_len: u32,
    requests: u64,
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
        let mut all = no_times();
        for thread in threads {
            all += thread.join().expect("threads do not panic")?;
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

fn no_times() -> Times {
    Histogram::new_with_bounds(1, REPLY_TIMEOUT.as_nanos() as u64, 3)
        .expect("the bounds are in order, and three digits are allowed")
}

impl Plan {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        const USAGE: &str = "usage: load ADDRESS get|mg|set|fill [connections=16] [pipeline=32] \
                             [keys=1000000] [value_len=100] [requests=1000000]";
        let address = arguments.next().ok_or(USAGE)?.parse()?;
        let kind = match arguments.next().as_deref() {
            Some("get") => Kind::Get,
            Some("mg") => Kind::MetaGet,
            Some("set") => Kind::Set,
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
        };
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or(USAGE)?;
            let value: u64 = value.parse().map_err(|_| format!("{argument}: not a number"))?;
            match name {
                "connections" => plan.connections = value.max(1),
                "pipeline" => plan.pipeline = value.max(1),
                "keys" => plan.keys = value.max(1),
                "value_len" => plan.value_len = u32::try_from(value).map_err(|_| USAGE)?,
                "requests" => plan.requests = value,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(plan)
    }

    /// Requests over all connections.
    fn requests(&self) -> u64 {
        if self.kind == Kind::Fill { self.keys } else { self.requests }
    }

    /// The part of `total` that a connection takes: the parts differ by at most one.
    fn share(&self, total: u64, index: u64) -> std::ops::Range<u64> {
        total * index / self.connections..total * (index + 1) / self.connections
    }

    /// Appends one request, and the reply that it must get.
    fn compose(&self, key: u64, value: &[u8], out: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let (key, value_len) = (format!("k{key:014}"), self.value_len);
        match self.kind {
            Kind::Get => {
                request::get(out, key.as_bytes());
                reply.extend_from_slice(format!("VALUE {key} 0 {value_len}\r\n").as_bytes());
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\nEND\r\n");
            }
            Kind::MetaGet => {
                request::meta_get(out, key.as_bytes());
                reply.extend_from_slice(format!("VA {value_len}\r\n").as_bytes());
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\n");
            }
            Kind::Set | Kind::Fill => {
                request::set_line(out, key.as_bytes(), None, value_len);
                out.extend_from_slice(value);
                request::end_value(out);
                reply.extend_from_slice(b"STORED\r\n");
            }
        }
    }
}

fn run_connection(plan: &Plan, clock: &Clock, index: u64) -> Result<Times, String> {
    let describe = |error: io::Error| format!("{}: {error}", plan.address);
    let timeouts = Timeouts { connect: REPLY_TIMEOUT, read: REPLY_TIMEOUT, reply: REPLY_TIMEOUT };
    let stream = Stream::connect(&plan.address, timeouts);
    let mut stream = stream.map_err(|error| format!("{}: {error}", plan.address))?;

    let value = vec![b'v'; plan.value_len as usize];
    let mut random = Random::new(index + 1);
    let mut sent = plan.share(plan.requests(), index);
    let mut requests = Vec::new();
    let mut replies = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut times = no_times();
    while !sent.is_empty() {
        let count = plan.pipeline.min(sent.end - sent.start);
        requests.clear();
        replies.clear();
        for position in sent.start..sent.start + count {
            let key =
                if plan.kind == Kind::Fill { position } else { random.next_u64() % plan.keys };
            plan.compose(key, &value, &mut requests, &mut replies);
        }
        let start = clock.nanos();
        stream.write_all(&requests).map_err(describe)?;
        read_replies(&mut stream, &replies, &mut buffer).map_err(describe)?;
        times.saturating_record(clock.nanos() - start);
        sent.start += count;
    }
    Ok(times)
}

/// Reads as many bytes as are expected, and compares them as they come.
fn read_replies(stream: &mut Stream, expected: &[u8], buffer: &mut [u8]) -> io::Result<()> {
    let mut rest = expected;
    while !rest.is_empty() {
        let count = stream.read(buffer)?;
        if count == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
        let got = &buffer[..count];
        rest = rest.strip_prefix(got).ok_or_else(|| {
            let same = got.iter().zip(rest).take_while(|(got, wanted)| got == wanted).count();
            let excerpt = |bytes: &[u8]| {
                String::from_utf8_lossy(&bytes[same..bytes.len().min(same + 40)]).into_owned()
            };
            let (got, wanted) = (excerpt(got), excerpt(rest));
            io::Error::other(format!("got {got:?} where {wanted:?} was expected"))
        })?;
    }
    Ok(())
}
