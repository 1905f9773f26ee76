//! The law that gives a key its value length.

use super::mixture::part_of;
use super::mutilate::MutilateLengths;
use super::sizes::{Sizes, salt};
use super::two_phase::TwoPhase;
use slabwise_base::random::{mix, unit};

/// How long each key's value is; a function of the key alone.
#[derive(Debug)]
pub enum Lengths {
    /// One length in bytes for all keys; asked for by hand, so it overrides a trace's records.
    Fixed(u32),
    /// By a measured size table.
    Table(Sizes),
    /// By Facebook's ETC law.
    Etc(EtcLengths),
    /// By the same law as the load generator mutilate has it.
    Mutilate(MutilateLengths),
    /// By the key's class in the two-phase workload.
    TwoPhase,
    /// By the part of a mixture that the key belongs to.
    ByPart(Vec<Lengths>),
}

impl Lengths {
    /// The length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        match self {
            Lengths::Fixed(len) => *len,
            Lengths::Table(sizes) => sizes.of(key),
            Lengths::Etc(etc) => etc.of(key),
            Lengths::Mutilate(mutilate) => mutilate.of(key),
            Lengths::TwoPhase => TwoPhase::value_len(key),
            Lengths::ByPart(parts) => parts[part_of(key)].of(key),
        }
    }

    /// Whether these lengths stand above those that a trace records.
    pub fn is_override(&self) -> bool {
        matches!(self, Lengths::Fixed(_))
    }
}

/// Value lengths of Facebook's ETC pool: a generalised Pareto law at location 0, clipped.
///
/// Source: Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS
/// 2012; the discrete part for the smallest values is left out ([`MutilateLengths`] has it).
#[derive(Clone, Debug)]
pub struct EtcLengths {
    salt: u64,
    /// Added to every length.
    more_bytes: u32,
}

impl EtcLengths {
    /// The longest value in bytes: it fits one item of a stock server.
    pub(super) const LEN_MAX: f64 = 500_000.0;

    /// `seed` gives every key another length.
    pub fn new(seed: u64) -> EtcLengths {
        EtcLengths::longer(seed, 0)
    }

    /// The same law, every length so many bytes longer.
    pub fn longer(seed: u64, more_bytes: u32) -> EtcLengths {
        EtcLengths { salt: salt(seed), more_bytes }
    }

    fn of(&self, key: u64) -> u32 {
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
