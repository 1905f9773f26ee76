//! Errors of functions that choose chunk sizes.

use thiserror::Error;

/// The error of a function that chooses chunk sizes: its text names the invalid argument, the limit and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(transparent)]
pub struct SizesError(#[from] BadArgument);

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum BadArgument {
    #[error("there are no items: give at least one demand with items")]
    NoItems,
    #[error(
        "an item of {size_bytes} bytes exceeds the largest chunk of \
         {chunk_size_bytes_max} bytes: give a larger chunk, or allow chained items (chaining)"
    )]
    ItemTooLarge { size_bytes: usize, chunk_size_bytes_max: usize },
    #[error(
        "the byte value {byte_value} of items of {size_bytes} bytes is not valid: give a finite \
         number of at least 0"
    )]
    ByteValue { byte_value: f64, size_bytes: usize },
    #[error("the price {price} is not valid: give a finite number of at least 0")]
    Price { price: f64 },
    #[error("a table cannot have {count} classes: give 1 to {max}")]
    ClassCount { count: usize, max: usize },
    #[error(
        "{kept} sizes are kept, including the largest chunk, but a table may have only \
         {class_count_max} classes: keep fewer sizes, or allow more classes"
    )]
    TooManyKept { kept: usize, class_count_max: usize },
    #[error(
        "chunk size {size_bytes} follows chunk size {before}: give different sizes in ascending \
         order"
    )]
    NotAscending { size_bytes: usize, before: usize },
    #[error("chunk size {size_bytes} is out of range: give {min} to {max} bytes")]
    SizeBeyondLimits { size_bytes: usize, min: usize, max: usize },
    #[error("chunk size {size_bytes} is not a multiple of {align}: round the size up")]
    SizeNotAligned { size_bytes: usize, align: usize },
    #[error("the table does not end with the largest chunk: add the size {chunk_size_bytes_max}")]
    LargestMissing { chunk_size_bytes_max: usize },
    #[error(
        "chunk sizes from {min} to {max} bytes in multiples of {align} are not valid: give a \
         minimum and a larger or equal maximum that are above 0 and multiples of {align}"
    )]
    Limits { min: usize, max: usize, align: usize },
    #[error(
        "the largest chunk of {chunk_size_bytes_max} bytes exceeds a page of \
         {page_size_bytes} bytes: give a smaller chunk or larger pages"
    )]
    PageTooSmall { chunk_size_bytes_max: usize, page_size_bytes: usize },
    #[error(
        "the largest chunk of {chunk_size_bytes_max} bytes does not hold a head of \
         {head_size_bytes} bytes or a body header of {body_header_size_bytes} bytes, or the head \
         does not hold its link of {link_size_bytes} bytes: give a larger chunk, or a smaller link"
    )]
    Chaining {
        head_size_bytes: usize,
        link_size_bytes: usize,
        body_header_size_bytes: usize,
        chunk_size_bytes_max: usize,
    },
}
