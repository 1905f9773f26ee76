//! Errors of functions that choose chunk sizes.

use thiserror::Error;

/// Which argument is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(transparent)]
pub struct SizesError(#[from] BadArgument);

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum BadArgument {
    #[error("there are no items: give at least one demand with items")]
    NoItems,
    #[error(
        "an item of {size_bytes} bytes exceeds the largest chunk of \
         {chunk_size_bytes_max} bytes: give a larger chunk, or a chaining"
    )]
    ItemTooLarge { size_bytes: usize, chunk_size_bytes_max: usize },
    #[error(
        "byte value {byte_value} of items of {size_bytes} bytes: give a finite number of at least 0"
    )]
    ByteValue { byte_value: f64, size_bytes: usize },
    #[error("price {price}: give a finite number of at least 0")]
    Price { price: f64 },
    #[error("a table of {count} classes: give 1 to {max}")]
    ClassCount { count: usize, max: usize },
    #[error(
        "{kept} sizes are kept, including the largest chunk, but there may be only \
         {class_count_max} classes: keep fewer, or allow more classes"
    )]
    TooManyKept { kept: usize, class_count_max: usize },
    #[error("chunk size {size_bytes} follows {before}: give different sizes in ascending order")]
    NotAscending { size_bytes: usize, before: usize },
    #[error("chunk size {size_bytes} is out of range: give {min} to {max} bytes")]
    SizeBeyondLimits { size_bytes: usize, min: usize, max: usize },
    #[error("chunk size {size_bytes} is not a multiple of {align}: round it up")]
    SizeNotAligned { size_bytes: usize, align: usize },
    #[error("the table does not end with the largest chunk, {chunk_size_bytes_max} bytes: add it")]
    LargestMissing { chunk_size_bytes_max: usize },
    #[error(
        "chunks from {min} to {max} bytes in multiples of {align}: give limits above 0 that are \
         multiples, the smaller one first"
    )]
    Limits { min: usize, max: usize, align: usize },
    #[error(
        "the largest chunk of {chunk_size_bytes_max} bytes exceeds a page of \
         {page_size_bytes} bytes: give a smaller chunk or larger pages"
    )]
    PageTooSmall { chunk_size_bytes_max: usize, page_size_bytes: usize },
    #[error(
        "a head of {head_size_bytes} bytes with a link of {link_size_bytes}, or a body's header \
         of {body_header_size_bytes}, does not fit the largest chunk, {chunk_size_bytes_max} \
         bytes: give a larger chunk, or a link smaller than the head"
    )]
    Chaining {
        head_size_bytes: usize,
        link_size_bytes: usize,
        body_header_size_bytes: usize,
        chunk_size_bytes_max: usize,
    },
}
