//! Recorded requests, read as a stream in fixed memory.
//!
//! | format | what a record is | its requests |
//! |---|---|---|
//! | `slabwise` | 16 bytes ([`records`]) | gets, sets, deletes, costs |
//! | `oracleGeneral` | libCacheSim's 24 bytes ([`records`]) | gets |
//! | `twitter` | a line of twitter/cache-trace ([`lines`]) | as the operation says |
//! | `kvcache` | a line of CacheLib's kvcache traces ([`lines`]) | as the operation says, so many times |
//! | `key-size` | a line of a key and a length ([`lines`]) | gets |
//!
//! Any of them may be compressed with zstd, which its first bytes tell. Text tells its format by its first line, binary by
//! the file's name: with `oracleGeneral` in it, that; else slabwise's own.
//!
//! A length of 0 means that none is recorded, as of a get that missed. Keys that are text are hashed to 64 bits: of a
//! thousand million keys, three in a hundred traces would have two that are taken for one. What a trace tells beyond this
//! (times, clients, lifetimes, key lengths) is not used.
//!
//! Invariants: what was read before the first fault is delivered; then the fault, with its place and a reason; then nothing.
//! Memory is bounded, whatever the file holds.

mod lines;
mod reader;
mod records;
mod source;

#[cfg(test)]
mod tests;

pub use reader::TraceFormat;
pub use reader::TraceReader;
