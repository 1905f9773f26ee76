//! Accesses to keys, as access observers see them.

/// The outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A get found the item. Gets that do not renew the item's access time are not reported.
    Hit,
    /// A get found no item, or it vivified one. The vivified item is not reported as a store.
    Miss,
    /// An item was stored, whether or not it replaced another.
    Store,
    /// The item was renewed but not read: it was touched, or its number was changed in place.
    Touch,
    /// The key was deleted, with or without an item; or its item had expired or been flushed and was removed.
    /// More memory would not have kept such an item.
    Delete,
}
