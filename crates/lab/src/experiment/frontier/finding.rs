//! What came of one server or simulation.

/// What a server or a simulation came to under one limit.
pub struct Finding {
    /// A share of 1, or why there is none.
    pub miss_ratio: Result<f64, String>,
    /// Memory of its pages, of its limit.
    pub memory_share: f64,
}
