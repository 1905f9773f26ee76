//! Whether lines may carry costs.

/// Whether storage lines may say what their items cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostWire {
    /// They are memcached's alone.
    Off,
    /// `set|add|replace <key> <cost> <flags> <exptime> <bytes> [noreply]` does.
    On,
}
