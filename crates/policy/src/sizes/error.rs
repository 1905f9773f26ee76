//! Why there is no answer.

use std::fmt;

/// What is wrong with the arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizesError {
    /// There is no item.
    NoItems,
    /// An item is larger than the largest chunk, and items are not chained.
    ItemTooLarge {
        /// Bytes of the item.
        size_bytes: usize,
        /// The layout's largest chunk.
        chunk_size_bytes_max: usize,
    },
    /// A byte's value is not a number from 0 up.
    ByteValue {
        /// The value.
        byte_value: f64,
        /// Of items of so many bytes.
        size_bytes: usize,
    },
    /// A price is not a number from 0 up.
    Price {
        /// The price.
        price: f64,
    },
    /// No class, or more than a table may have.
    ClassCount {
        /// How many were asked for.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// More sizes are to be kept than classes were asked for.
    TooManyKept {
        /// Sizes to be kept, the largest chunk included.
        kept: usize,
        /// The number of classes.
        class_count_max: usize,
    },
    /// A chunk size is not above the one before it.
    NotAscending {
        /// The size.
        size_bytes: usize,
        /// The one before it.
        before: usize,
    },
    /// A chunk size is outside the layout's limits.
    SizeBeyondLimits {
        /// The size.
        size_bytes: usize,
        /// The layout's least chunk.
        min: usize,
        /// Its largest.
        max: usize,
    },
    /// A chunk size is no multiple of the layout's alignment.
    SizeNotAligned {
        /// The size.
        size_bytes: usize,
        /// The alignment.
        align: usize,
    },
    /// A table does not end with the layout's largest chunk.
    LargestMissing {
        /// The layout's largest chunk.
        chunk_size_bytes_max: usize,
    },
    /// A layout's limits do not fit together.
    Limits {
        /// The least chunk.
        min: usize,
        /// The largest.
        max: usize,
        /// The alignment.
        align: usize,
    },
    /// A layout's largest chunk is larger than its page.
    PageTooSmall {
        /// The largest chunk.
        chunk_size_bytes_max: usize,
        /// The page.
        page_size_bytes: usize,
    },
    /// The parts of a chained item do not fit the largest chunk, or have no room.
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

impl fmt::Display for SizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SizesError::NoItems => {
                write!(f, "there is no item: give at least one demand with items")
            }
            SizesError::ItemTooLarge { size_bytes, chunk_size_bytes_max } => write!(
                f,
                "an item of {size_bytes} bytes is larger than the largest chunk, \
                 {chunk_size_bytes_max} bytes: give a larger chunk, or a chaining"
            ),
            SizesError::ByteValue { byte_value, size_bytes } => write!(
                f,
                "a byte of items of {size_bytes} bytes is worth {byte_value}: give a number from 0 up"
            ),
            SizesError::Price { price } => write!(f, "a price is {price}: give a number from 0 up"),
            SizesError::ClassCount { count, max } => {
                write!(f, "a table of {count} classes was asked for: give 1 to {max}")
            }
            SizesError::TooManyKept { kept, class_count_max } => write!(
                f,
                "{kept} sizes are kept, the largest chunk included, and there may be {class_count_max} \
                 classes: keep fewer, or give more classes"
            ),
            SizesError::NotAscending { size_bytes, before } => write!(
                f,
                "chunk size {size_bytes} comes after {before}: give different sizes in ascending order"
            ),
            SizesError::SizeBeyondLimits { size_bytes, min, max } => {
                write!(f, "chunk size {size_bytes} is not within {min} to {max} bytes")
            }
            SizesError::SizeNotAligned { size_bytes, align } => {
                write!(f, "chunk size {size_bytes} is no multiple of {align}: round it up")
            }
            SizesError::LargestMissing { chunk_size_bytes_max } => write!(
                f,
                "the table does not end with the largest chunk, {chunk_size_bytes_max} bytes: add it"
            ),
            SizesError::Limits { min, max, align } => write!(
                f,
                "chunks from {min} to {max} bytes in multiples of {align}: give limits that are \
                 multiples, from 1 up, the least first"
            ),
            SizesError::PageTooSmall { chunk_size_bytes_max, page_size_bytes } => write!(
                f,
                "the largest chunk, {chunk_size_bytes_max} bytes, is larger than a page, \
                 {page_size_bytes} bytes: give a smaller chunk or larger pages"
            ),
            SizesError::Chaining {
                head_size_bytes,
                link_size_bytes,
                body_header_size_bytes,
                chunk_size_bytes_max,
            } => write!(
                f,
                "a head of {head_size_bytes} bytes with a link of {link_size_bytes}, or a body's header \
                 of {body_header_size_bytes}, does not fit the largest chunk, {chunk_size_bytes_max} \
                 bytes: give a larger chunk, or a link that is less than the head"
            ),
        }
    }
}

impl std::error::Error for SizesError {}
