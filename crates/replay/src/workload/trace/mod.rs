//! Reads recorded requests as a stream with bounded memory.
//!
//! | format | record | requests |
//! |---|---|---|
//! | `slabwise` | 16 bytes ([`records`]) | gets, sets, deletes, costs |
//! | `oracleGeneral` | libCacheSim's 24 bytes ([`records`]) | gets |
//! | `twitter` | a line of twitter/cache-trace ([`lines`]) | the operation |
//! | `kvcache` | a line of CacheLib's kvcache traces ([`lines`]) | the operation, `op_count` times |
//! | `key-size` | a line with a key and a length ([`lines`]) | gets |
//!
//! A trace can be compressed with zstd, which is detected from its first bytes. The format of text is detected from its
//! first line. A binary file is `oracleGeneral` if its name contains that word, otherwise `slabwise`.
//!
//! The length 0 means that no length is recorded, for example for a get that missed. Text keys are hashed to 64 bits: the
//! probability of a collision among a billion keys is 3 %. Other fields (times, clients, lifetimes, key lengths) are not
//! used.
//!
//! Invariants:
//! - The reader returns all requests before the first fault, then the fault with its place and reason, and nothing after.
//! - Memory is bounded for every input.

mod lines;
mod reader;
mod records;
mod source;

#[cfg(test)]
mod tests;

pub use reader::TraceFormat;
pub use reader::TraceReader;
