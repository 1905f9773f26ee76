//! The interface that every page policy implements.
//!
//! To add one: a file in `page/` with a type that implements [`Policy`], and a line in the table of
//! `registry.rs`. Server, lab, `--help` and the tests of every policy find it there.

use crate::options::Adjustable;
use crate::{Plan, Snapshot};
use slabwise_base::Random;
use std::fmt::Debug;

/// When a policy is to be stepped next. The caller polls, so several triggers may have fired since the last step;
/// the counts of the snapshot show how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The policy is never stepped.
    Never,
    /// After this many ticks (1/64 s) of the cache's time.
    EveryTicks(u32),
    /// After this many gets, at least 1.
    EveryGets(u64),
    /// After this many get misses, at least 1.
    EveryMisses(u64),
    /// After this many allocations that found no free chunk, at least 1: evictions, and stores that were refused or
    /// sent to another class.
    EveryEvictions(u64),
    /// After this many shadow hits (see [`ClassProfile::shadow_hits`](crate::ClassProfile::shadow_hits)), at least 1.
    EveryShadowHits(u64),
}

/// The inputs that a policy needs beside the counts of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// No profiles, so keys need not be sampled.
    Counts,
    /// Recent [`Snapshot::profiles`] if profiling is on; the policy also works without them.
    AnyProfiles,
    /// [`Snapshot::profiles`] computed for each step.
    Profiles,
    /// Recent [`Snapshot::profiles`]. They suit a policy with many steps a second, because computing curves takes
    /// longer than such a step.
    RecentProfiles,
}

impl Wants {
    /// True if the policy cannot do its work without profiles.
    pub fn needs_profiles(self) -> bool {
        matches!(self, Wants::Profiles | Wants::RecentProfiles)
    }
}

/// A page policy: a state machine without a clock, its own randomness or access to a cache.
pub(crate) trait Policy: Adjustable + ClonePolicy + Debug + Send + Sync {
    fn trigger(&self) -> Trigger;

    fn wants(&self) -> Wants {
        Wants::Counts
    }

    /// The number of gets that its footprints should cover; `None` if it uses no footprints.
    fn footprint_gets(&self) -> Option<u64> {
        None
    }

    /// Takes the current state of the cache and returns the page moves to make. `random` is the only source of
    /// randomness.
    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan;
}

/// Clones a boxed policy; implemented for every policy that is [`Clone`].
pub(crate) trait ClonePolicy {
    fn clone_boxed(&self) -> Box<dyn Policy>;
}

impl<P: Policy + Clone + 'static> ClonePolicy for P {
    fn clone_boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Box<dyn Policy> {
        (**self).clone_boxed()
    }
}
