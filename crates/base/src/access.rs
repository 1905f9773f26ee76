//! What happens to keys.

/// What an access came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A get that found the item. Gets that leave the item as old as it was are not shown.
    Hit,
    /// A get that did not, or that vivified: the item it made is not shown as stored.
    Miss,
    /// The item was stored: anew, or in the place of another.
    Store,
    /// The item was renewed without being read: touched, or a number in it changed where it lies.
    Touch,
    /// The key was deleted, whether there was an item or not; or its item had expired or been flushed, and
    /// was removed. More memory would have kept neither.
    Delete,
}
