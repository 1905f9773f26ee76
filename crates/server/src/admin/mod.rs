//! Orders to the server, and walks over what it holds.

pub(crate) mod commands;
pub(crate) mod crawl;
pub(crate) mod debug;
