//! The memory of the cache; see `mem`.

pub use crate::mem::Memory;
