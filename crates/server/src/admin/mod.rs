//! Administrative commands, and crawls over items, prefixes and connections.

pub(crate) mod commands;
pub(crate) mod crawl;
pub(crate) mod debug;
