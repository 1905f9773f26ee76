//! Questions about the server.

/// Questions about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsRequest<'a> {
    /// The general counters.
    General,
    /// Every setting.
    Settings,
    /// Items by class.
    Items,
    /// Memory by class.
    Slabs,
    /// A histogram of item sizes.
    Sizes,
    /// Allows `stats sizes`.
    SizesEnable,
    /// Forbids it.
    SizesDisable,
    /// Every connection.
    Conns,
    /// What items cost to recompute, by class and key prefix.
    Cost,
    /// The page mover's counters and its last moves.
    Moves,
    /// Curves by class, and what profiling takes.
    Profile,
    /// The page policy's last plan.
    Plan,
    /// The class table, and the best one for the items in the cache.
    SizesPlan,
    /// Counters by key prefix.
    Detail(DetailMode),
    /// Sets counters back to zero.
    Reset,
    /// The keys of a class.
    Cachedump {
        /// The class's number on the wire.
        class_number: u32,
        /// The most keys to list; 0 for no limit.
        limit: u32,
    },
    /// Something that nobody counts.
    Unknown(&'a [u8]),
}

/// `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailMode {
    /// Starts counting.
    On,
    /// Stops counting.
    Off,
    /// Lists the counts.
    Dump,
    /// A word that means none of these, or no word.
    Unknown,
}
