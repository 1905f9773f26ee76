//! How bytes are laid out: addresses, the parts of an item, chunk sizes. Values and arithmetic only; nothing
//! here touches memory, and nothing of the engine is used.
//!
//! ```text
//!   address       where a chunk is
//!   item          which fields an item stores, and where they lie in its chunk
//!   size_model    how an item's bytes are counted when its class is chosen
//!   class_table   chunk sizes, and the class of an item of a given size
//! ```
mod address;
mod class_table;
mod item;
mod size_model;

pub use address::{ADDRESS_BITS, CHUNK_ALIGN_BYTES, ChunkAddress};
pub use class_table::{CHAINED, CHUNK_SIZE_BYTES_MIN, CLASS_NUMBERS, ClassTable, ClassTableError};
pub use item::{
    CHAIN_SIZE_BYTES, COST_SIZE_BYTES, HEADER_SIZE_BYTES, ItemFields, ItemLayout, ItemMeta,
    chain_head_size_bytes,
};
pub use size_model::SizeModel;
