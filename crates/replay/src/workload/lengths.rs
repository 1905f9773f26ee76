//! The law that gives a key its value length.

use super::etc::EtcLengths;
use super::mixture::part_of;
use super::mutilate::MutilateLengths;
use super::sizes::Sizes;
use super::two_phase::TwoPhase;

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
