//! Reads the recorded requests of a trace as a stream, with bounded memory.
//!
//! | format | record | requests |
//! |---|---|---|
//! | `slabwise` | 16 bytes ([`records`]) | gets, sets, deletes, costs |
//! | `oracleGeneral` | libCacheSim's 24 bytes ([`records`]) | gets |
//! | `twitter` | a line of twitter/cache-trace ([`lines`]) | gets, sets, deletes |
//! | `kvcache` | a line of CacheLib's kvcache traces ([`lines`]) | gets, sets, deletes, each `op_count` times |
//! | `key-size` | a line with a key and a length ([`lines`]) | gets |
//!
//! The reader detects from the first bytes of a file whether it is compressed with zstd, and from the first line which
//! format of text it has. A binary file has the format `oracleGeneral` if its name contains this word, and otherwise
//! the format `slabwise`.
//!
//! The length 0 means that no length is recorded, for example for a get that missed. Keys of text are hashed to 64
//! bits. Among a billion different keys, the probability that any two have the same hash is 3 %. Times, clients,
//! lifetimes and key lengths are not used.
//!
//! Invariants:
//! - The reader returns all requests before the first fault in the file, then an error with the place of the fault and
//!   the reason, and then nothing.
//! - The memory that the reader uses is bounded for every input.

mod lines;
mod reader;
mod records;
mod source;

#[cfg(test)]
mod tests;

pub use reader::TraceFormat;
pub use reader::TraceReader;
