//! Why there is no answer.

use thiserror::Error;

/// What is wrong with the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SizesError {
    /// There is no item.
    #[error("there is no item: give at least one demand with items")]
    NoItems,
    /// An item is larger than the largest chunk, and items are not chained.
    #[error(
        "an item of {size_bytes} bytes is larger than the largest chunk, \
         {chunk_size_bytes_max} bytes: give a larger chunk, or a chaining"
    )]
    ItemTooLarge {
        /// Bytes of the item.
        size_bytes: usize,
        /// The layout's largest chunk.
        chunk_size_bytes_max: usize,
    },
    /// A byte's value is not a number from 0 up.
    #[error("a byte of items of {size_bytes} bytes is worth {byte_value}: give a number from 0 up")]
    ByteValue {
        /// The value.
        byte_value: f64,
        /// Of items of so many bytes.
        size_bytes: usize,
    },
    /// A price is not a number from 0 up.
    #[error("a price is {price}: give a number from 0 up")]
    Price {
        /// The price.
        price: f64,
    },
    /// No class, or more than a table may have.
    #[error("a table of {count} classes was asked for: give 1 to {max}")]
    ClassCount {
        /// How many were asked for.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// More sizes are to be kept than classes were asked for.
    #[error(
        "{kept} sizes are kept, the largest chunk included, and there may be {class_count_max} \
         classes: keep fewer, or give more classes"
    )]
    TooManyKept {
        /// Sizes to be kept, the largest chunk included.
        kept: usize,
        /// The number of classes.
        class_count_max: usize,
    },
    /// A chunk size is not above the one before it.
    #[error(
        "chunk size {size_bytes} comes after {before}: give different sizes in ascending order"
    )]
    NotAscending {
        /// The size.
        size_bytes: usize,
        /// The one before it.
        before: usize,
    },
    /// A chunk size is outside the layout's limits.
    #[error("chunk size {size_bytes} is not within {min} to {max} bytes")]
    SizeBeyondLimits {
        /// The size.
        size_bytes: usize,
        /// The layout's least chunk.
        min: usize,
        /// Its largest.
        max: usize,
    },
    /// A chunk size is no multiple of the layout's alignment.
    #[error("chunk size {size_bytes} is no multiple of {align}: round it up")]
    SizeNotAligned {
        /// The size.
        size_bytes: usize,
        /// The alignment.
        align: usize,
    },
    /// A table does not end with the layout's largest chunk.
    #[error("the table does not end with the largest chunk, {chunk_size_bytes_max} bytes: add it")]
    LargestMissing {
        /// The layout's largest chunk.
        chunk_size_bytes_max: usize,
    },
    /// A layout's limits do not fit together.
    #[error(
        "chunks from {min} to {max} bytes in multiples of {align}: give limits that are \
         multiples, from 1 up, the least first"
    )]
    Limits {
        /// The least chunk.
        min: usize,
        /// The largest.
        max: usize,
        /// The alignment.
        align: usize,
    },
    /// A layout's largest chunk is larger than its page.
    #[error(
        "the largest chunk, {chunk_size_bytes_max} bytes, is larger than a page, \
         {page_size_bytes} bytes: give a smaller chunk or larger pages"
    )]
    PageTooSmall {
        /// The largest chunk.
        chunk_size_bytes_max: usize,
        /// The page.
        page_size_bytes: usize,
    },
    /// The parts of a chained item do not fit the largest chunk, or have no room.
    #[error(
        "a head of {head_size_bytes} bytes with a link of {link_size_bytes}, or a body's header \
         of {body_header_size_bytes}, does not fit the largest chunk, {chunk_size_bytes_max} \
         bytes: give a larger chunk, or a link that is less than the head"
    )]
    Chaining {
        /// Bytes of a head.
        head_size_bytes: usize,
        /// Of these, the link.
        link_size_bytes: usize,
        /// Bytes of a body's header.
        body_header_size_bytes: usize,
        /// The layout's largest chunk.
        chunk_size_bytes_max: usize,
    },
}
