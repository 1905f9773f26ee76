//! Why there is no answer.

use thiserror::Error;

/// Why there is no answer: what is wrong with the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(transparent)]
pub struct SizesError(#[from] BadArgument);

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum BadArgument {
    #[error("there is no item: give at least one demand with items")]
    NoItems,
    #[error(
        "an item of {size_bytes} bytes is larger than the largest chunk, \
         {chunk_size_bytes_max} bytes: give a larger chunk, or a chaining"
    )]
    ItemTooLarge { size_bytes: usize, chunk_size_bytes_max: usize },
    #[error("a byte of items of {size_bytes} bytes is worth {byte_value}: give a number from 0 up")]
    ByteValue { byte_value: f64, size_bytes: usize },
    #[error("a price is {price}: give a number from 0 up")]
    Price { price: f64 },
    #[error("a table of {count} classes was asked for: give 1 to {max}")]
    ClassCount { count: usize, max: usize },
    #[error(
        "{kept} sizes are kept, the largest chunk included, and there may be {class_count_max} \
         classes: keep fewer, or give more classes"
    )]
    TooManyKept { kept: usize, class_count_max: usize },
    #[error(
        "chunk size {size_bytes} comes after {before}: give different sizes in ascending order"
    )]
    NotAscending { size_bytes: usize, before: usize },
    #[error("chunk size {size_bytes} is not within {min} to {max} bytes")]
    SizeBeyondLimits { size_bytes: usize, min: usize, max: usize },
    #[error("chunk size {size_bytes} is no multiple of {align}: round it up")]
    SizeNotAligned { size_bytes: usize, align: usize },
    #[error("the table does not end with the largest chunk, {chunk_size_bytes_max} bytes: add it")]
    LargestMissing { chunk_size_bytes_max: usize },
    #[error(
        "chunks from {min} to {max} bytes in multiples of {align}: give limits that are \
         multiples, from 1 up, the least first"
    )]
    Limits { min: usize, max: usize, align: usize },
    #[error(
        "the largest chunk, {chunk_size_bytes_max} bytes, is larger than a page, \
         {page_size_bytes} bytes: give a smaller chunk or larger pages"
    )]
    PageTooSmall { chunk_size_bytes_max: usize, page_size_bytes: usize },
    #[error(
        "a head of {head_size_bytes} bytes with a link of {link_size_bytes}, or a body's header \
         of {body_header_size_bytes}, does not fit the largest chunk, {chunk_size_bytes_max} \
         bytes: give a larger chunk, or a link that is less than the head"
    )]
    Chaining {
        head_size_bytes: usize,
        link_size_bytes: usize,
        body_header_size_bytes: usize,
        chunk_size_bytes_max: usize,
    },
}
