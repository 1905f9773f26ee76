//! The value lengths of Facebook's ETC pool.

use super::sizes::salt;
use slabwise_base::random::{mix, unit};

/// Value lengths of Facebook's ETC pool: a generalised Pareto law at location 0, clipped.
///
/// Source: Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS
/// 2012; the discrete part for the smallest values is left out ([`MutilateLengths`](super::mutilate::MutilateLengths) has it).
#[derive(Clone, Debug)]
pub struct EtcLengths {
    salt: u64,
    more_bytes: u32,
}

impl EtcLengths {
    /// The longest value in bytes: it fits one item of a stock server.
    pub(super) const LEN_MAX: f64 = 500_000.0;

    /// `seed` gives every key another length.
    pub fn new(seed: u64) -> EtcLengths {
        EtcLengths::longer(seed, 0)
    }

    /// Every length is `more_bytes` longer than those of [`EtcLengths::new`].
    pub fn longer(seed: u64, more_bytes: u32) -> EtcLengths {
        EtcLengths { salt: salt(seed), more_bytes }
    }

    pub(super) fn of(&self, key: u64) -> u32 {
        let len = etc_pareto(unit(mix(key ^ self.salt)));
        len.clamp(1.0, Self::LEN_MAX) as u32 + self.more_bytes
    }
}

/// The length that a share `u`, in `[0, 1)`, of ETC's generalised Pareto law at location 0 lies below.
pub(super) fn etc_pareto(u: f64) -> f64 {
    const SCALE: f64 = 214.476;
    const SHAPE: f64 = 0.348238;
    SCALE * ((1.0 - u).powf(-SHAPE) - 1.0) / SHAPE
}
