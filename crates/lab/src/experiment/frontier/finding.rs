//! What came of one server or simulation.

pub struct Finding {
    /// A share of 1, or why there is none.
    pub miss_ratio: Result<f64, String>,
    pub memory_share: f64,
}
