//! top
#![forbid(unsafe_code)]
