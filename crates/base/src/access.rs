//! The kinds of accesses to keys that the engine reports to its access observer.

/// What a command did to a key, as the engine reports it to its access observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A get found the item. A get that does not update the item's access time is not reported.
    Hit,
    /// A get found no item. If the get then created an empty item (meta flag `N`, vivify), the engine does not report
    /// that item as a store.
    Miss,
    /// A command stored an item. The item may be new or replace an older item of the same key.
    Store,
    /// A command used the item without a get: it changed the item's expiry (`touch`), or the number that is the item's
    /// value (`incr`, `decr`).
    Touch,
    /// A client deleted the key, whether or not the key had an item; or the engine removed an item that had expired or
    /// been flushed. In both cases a larger cache would not have kept the item.
    Delete,
}
