//! What the server calls itself.

/// Clients read the numbers to know what they may ask for, so they
/// are those of the memcached whose classic protocol is spoken here.
pub const VERSION: &str = "1.6.45";
