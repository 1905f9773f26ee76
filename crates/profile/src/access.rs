//! What a profiler is told of a cache's keys.

use slabwise_base::ClassId;

/// One access to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key's hash: which keys are looked at is decided by it, and it stands for the key.
    pub hash: u64,
    /// What happened.
    pub kind: AccessKind,
    /// The class of the key's item; `None` where there is none.
    pub class: Option<ClassId>,
    /// When, in nanoseconds of any one clock.
    pub at_nanos: u64,
}

/// What an access came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A get that found the item.
    Hit,
    /// A get that did not.
    Miss,
    /// The item was stored.
    Store,
    /// The item was deleted.
    Delete,
}
