//! Administrative commands, and crawls that list items, prefixes or connections.

pub(crate) mod commands;
pub(crate) mod crawl;
pub(crate) mod debug;
