//! Reads the server's memory and statistics once a second, in a thread of its own.
//!
//! The memory that slabwise may have at a moment is the sum of:
//!
//! - its pages and its index, as `stats slabs` and `stats` report them;
//! - the parts of `docs/memory.md` that do not depend on clients, and the state of each open connection, as
//!   `stats memory` reports them;
//! - the budget for replies and incomplete requests, but nothing for the buffers that connections may have beyond it,
//!   because the clients of this program read every reply at once.

use crate::link::ReadWrite;
use slabwise_client::process::Server;
use slabwise_client::{ClientError, Connection, LINE_LEN_MAX, Rows};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The time between two samples.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// The server at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub resident_bytes: u64,
    /// The memory that the server may have. `None` for memcached, which does not specify it.
    pub allowed_bytes: Option<u64>,
    /// The part of it that an open connection may have without buffers.
    pub connection_bytes: Option<u64>,
    pub counts: Counts,
}

/// Counts since the start of the server, and the number of open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub open: u64,
    pub rejected: u64,
    /// How often the server stopped accepting connections.
    pub pauses: u64,
    pub evictions: u64,
}

/// A connection that reads the statistics of a server.
pub struct Observer<'s> {
    server: &'s Server,
    connection: Connection<Box<dyn ReadWrite>>,
}

impl<'s> Observer<'s> {
    pub fn new(server: &'s Server, stream: Box<dyn ReadWrite>) -> Observer<'s> {
        Observer { server, connection: Connection::over(stream, LINE_LEN_MAX) }
    }

    /// Reads the memory and the statistics.
    pub fn sample(&mut self) -> Result<Sample, String> {
        let failed = |error: ClientError| format!("cannot read the statistics: {error}");
        let general = self.connection.ask_rows("stats").map_err(failed)?;
        let slabs = self.connection.ask_rows("stats slabs").map_err(failed)?;
        let memory = match self.connection.ask_rows("stats memory") {
            Ok(rows) => Some(rows),
            Err(ClientError::Refused(_)) => None,
            Err(error) => return Err(failed(error)),
        };
        let resident = self.server.status_bytes("VmRSS");
        let resident_bytes = resident.map_err(|error| format!("the server has ended: {error}"))?;
        let number = |name: &str| number(&general, name).unwrap_or(0);
        let connection_bytes =
            memory.as_ref().map(|memory| connection_bytes(&general, memory)).transpose()?;
        let allowed_bytes =
            memory.map(|memory| allowed_bytes(&general, &slabs, &memory)).transpose()?;
        Ok(Sample {
            resident_bytes,
            allowed_bytes,
            connection_bytes,
            counts: Counts {
                open: number("curr_connections"),
                rejected: number("rejected_connections"),
                pauses: number("listen_disabled_num"),
                evictions: number("evictions"),
            },
        })
    }

    /// Adds a sample to `samples` once a second, until the sender of `end` is dropped.
    pub fn run(&mut self, samples: &Mutex<Vec<Sample>>, end: &Receiver<()>) -> Result<(), String> {
        while end.recv_timeout(SAMPLE_PERIOD) == Err(RecvTimeoutError::Timeout) {
            let sample = self.sample()?;
            samples.lock().expect("no thread panics while it has the lock").push(sample);
        }
        Ok(())
    }
}

fn number(rows: &Rows, name: &str) -> Option<u64> {
    rows.get(name)?.value.parse().ok()
}

/// Returns a number that the statistics of slabwise have.
fn read(rows: &Rows, name: &str) -> Result<u64, String> {
    number(rows, name).ok_or_else(|| format!("the statistics have no number {name}"))
}

/// Returns the memory that an open connection may have without buffers, in bytes.
fn connection_bytes(general: &Rows, memory: &Rows) -> Result<u64, String> {
    Ok(read(memory, "model_connections_bytes")? / read(general, "max_connections")?)
}

/// Returns the memory that slabwise may have now, in bytes.
fn allowed_bytes(general: &Rows, slabs: &Rows, memory: &Rows) -> Result<u64, String> {
    let mut sum = read(slabs, "total_malloced")? + read(general, "hash_bytes")?;
    for part in ["tables", "workers", "program"] {
        sum += read(memory, &format!("model_{part}_bytes"))?;
    }
    // Without profiling, and without huge pages, there is no such part.
    for part in ["profiles", "huge_pages"] {
        sum += number(memory, &format!("model_{part}_bytes")).unwrap_or(0);
    }
    sum += read(memory, "reply_limit_bytes")?;
    Ok(sum + connection_bytes(general, memory)? * read(general, "curr_connections")?)
}

#[cfg(test)]
mod tests {
    use super::allowed_bytes;
    use slabwise_client::{Row, Rows};

    fn rows(values: &[(&str, u64)]) -> Rows {
        let row =
            |&(name, value): &(&str, u64)| Row { name: name.into(), value: value.to_string() };
        Rows(values.iter().map(row).collect())
    }

    #[test]
    fn the_allowed_memory_depends_on_pages_index_and_open_connections() {
        let general =
            |open| rows(&[("hash_bytes", 7), ("max_connections", 100), ("curr_connections", open)]);
        let slabs = rows(&[("total_malloced", 1_000)]);
        let model = [
            ("model_tables_bytes", 10),
            ("model_workers_bytes", 20),
            ("model_program_bytes", 30),
            ("model_connections_bytes", 500),
            ("model_watchers_bytes", 999_999),
            ("reply_limit_bytes", 40),
        ];
        let allowed = allowed_bytes(&general(0), &slabs, &rows(&model));
        assert_eq!(allowed, Ok(1_107));
        assert_eq!(allowed_bytes(&general(10), &slabs, &rows(&model)), Ok(1_157));
        let with_profiles = [&model[..], &[("model_profiles_bytes", 5)]].concat();
        assert_eq!(allowed_bytes(&general(10), &slabs, &rows(&with_profiles)), Ok(1_162));
        assert!(allowed_bytes(&general(0), &slabs, &rows(&model[1..])).is_err());
    }
}
