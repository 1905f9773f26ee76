//! Loads a server with one kind of request: `load ADDRESS KIND key=value...`.
//!
//! ```text
//!   thread 1 -- connection 1: batch of requests -> one write; replies <- reads; again
//!   thread N -- connection N: the same, on keys of its own random order
//! ```
//!
//! What is measured is the server's processor time, by the caller; so this program only has to
//! keep every connection busy, and has the time to compare every reply with the one expected. A
//! miss, an error or a wrong value ends the run. Keys are `k` and 14 digits.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const REPLY_DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Random keys are read; all of them must be there.
    Get,
    /// The same by the meta protocol: `mg <key> v`.
    MetaGet,
    /// Random keys are written.
    Set,
    /// Every key is written once, in order.
    Fill,
}

/// What to send.
#[derive(Clone)]
struct Plan {
    address: String,
    kind: Kind,
    connections: u64,
    /// Requests in one write.
    pipeline: u64,
    keys: u64,
    value_len: usize,
    requests: u64,
}

fn main() -> Result<(), String> {
    let plan = Plan::from_arguments(std::env::args().skip(1))?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.connections)
            .map(|index| {
                let plan = &plan;
                scope.spawn(move || run_connection(plan, index))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("threads do not panic"))
    })
}

impl Plan {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        const USAGE: &str = "usage: load ADDRESS get|mg|set|fill [connections=16] [pipeline=32] \
                             [keys=1000000] [value_len=100] [requests=1000000]";
        let address = arguments.next().ok_or(USAGE)?;
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
                "value_len" => plan.value_len = usize::try_from(value).map_err(|_| USAGE)?,
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
    fn compose(&self, key: u64, value: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let value_len = self.value_len;
        let written = match self.kind {
            Kind::Get => {
                let head = write!(reply, "VALUE k{key:014} 0 {value_len}\r\n");
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\nEND\r\n");
                head.and_then(|()| write!(request, "get k{key:014}\r\n"))
            }
            Kind::MetaGet => {
                let head = write!(reply, "VA {value_len}\r\n");
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\n");
                head.and_then(|()| write!(request, "mg k{key:014} v\r\n"))
            }
            Kind::Set | Kind::Fill => {
                reply.extend_from_slice(b"STORED\r\n");
                let head = write!(request, "set k{key:014} 0 0 {value_len}\r\n");
                request.extend_from_slice(value);
                request.extend_from_slice(b"\r\n");
                head
            }
        };
        written.expect("a Vec takes all");
    }
}

fn run_connection(plan: &Plan, index: u64) -> Result<(), String> {
    let describe = |error: io::Error| format!("{}: {error}", plan.address);
    let mut stream = TcpStream::connect(&plan.address).map_err(describe)?;
    stream.set_nodelay(true).map_err(describe)?;
    stream.set_read_timeout(Some(REPLY_DEADLINE)).map_err(describe)?;

    let value = vec![b'v'; plan.value_len];
    let mut random = index + 1;
    let mut sent = plan.share(plan.requests(), index);
    let mut requests = Vec::new();
    let mut replies = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    while !sent.is_empty() {
        let count = plan.pipeline.min(sent.end - sent.start);
        requests.clear();
        replies.clear();
        for position in sent.start..sent.start + count {
            let key =
                if plan.kind == Kind::Fill { position } else { next(&mut random) % plan.keys };
            plan.compose(key, &value, &mut requests, &mut replies);
        }
        stream.write_all(&requests).map_err(describe)?;
        read_replies(&mut stream, &replies, &mut buffer).map_err(describe)?;
        sent.start += count;
    }
    Ok(())
}

/// Reads as many bytes as are expected, and compares them as they come.
fn read_replies(stream: &mut TcpStream, expected: &[u8], buffer: &mut [u8]) -> io::Result<()> {
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

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
