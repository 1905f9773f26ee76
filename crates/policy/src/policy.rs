//! The interface that every page policy implements.
//!
//! To add a policy, write a file in `page/` with a type that implements [`Policy`], and add a line to the table in
//! `registry.rs`. The server, the lab, `--help=policies` and the tests that cover all policies read this table.

use crate::options::Adjustable;
use crate::{Plan, Snapshot};
use slabwise_base::Random;
use std::fmt::Debug;

/// The event after which the caller must step a policy. The caller polls, so the event may have occurred several times
/// since the last step. The policy sees the number of events in the counts of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The policy is never stepped.
    Never,
    /// The policy is stepped when this many ticks (1/64 s) of the cache's time have passed; 0 means at once.
    EveryTicks(u32),
    /// The policy is stepped after this much work of the cache. Gets and stores add up: half of `gets` and half of the
    /// stored bytes together are enough. With little work, the policy is stepped once in some minutes.
    EveryWork {
        /// The number of gets of all classes; at least 1.
        gets: u64,
        /// The stored bytes, as the memory for items divided by this number; at least 1.
        memory_divisor: u64,
    },
    /// The policy is stepped after this many gets of all classes; at least 1.
    EveryGets(u64),
    /// The policy is stepped after this many gets that missed; at least 1.
    EveryMisses(u64),
    /// The policy is stepped after this many allocations that found no free chunk; at least 1. Such an allocation
    /// evicts an item, is refused, or takes a chunk of another class.
    EveryEvictions(u64),
    /// The policy is stepped after this many shadow hits of classes; at least 1. See
    /// [`ClassProfile::shadow_hits`](crate::ClassProfile::shadow_hits).
    EveryShadowHits(u64),
    /// The policy is stepped after this many gets that hit the shadow queue of a class or of a partition; at least 1.
    /// See [`ClassProfile::partition_shadow_hits`](crate::ClassProfile::partition_shadow_hits).
    EveryShadowHitsWithPartitions(u64),
}

/// The data that a policy needs in a snapshot, in addition to the counts of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// The policy needs only the counts. Keys need not be sampled.
    Counts,
    /// The policy needs [`Snapshot::pages`], with the time of the last access of each page. Keys need not be sampled.
    Pages,
    /// The policy uses [`Snapshot::profiles`] if profiling is on, and also works without them. The profiles may have
    /// been computed for an earlier step.
    OptionalProfiles,
    /// The policy needs [`Snapshot::profiles`] that are computed for each step.
    FreshProfiles,
    /// The policy needs [`Snapshot::profiles`], which may have been computed for an earlier step. Policies with many
    /// steps a second use this value, because the computation of curves takes longer than the time between two steps.
    RecentProfiles,
}

impl Inputs {
    /// Returns true if the policy plans no useful moves without profiles.
    pub fn needs_profiles(self) -> bool {
        matches!(self, Inputs::FreshProfiles | Inputs::RecentProfiles)
    }
}

/// A page policy: a state machine without a clock, its own randomness or access to a cache.
pub(crate) trait Policy: Adjustable + ClonePolicy + Debug + Send + Sync {
    fn trigger(&self) -> Trigger;

    fn inputs(&self) -> Inputs {
        Inputs::Counts
    }

    /// Returns the number of gets that the policy's footprints must cover; `None` if it uses no footprints.
    fn footprint_gets(&self) -> Option<u64> {
        None
    }

    /// Returns true if the profiles must count stores of keys that were stored before.
    fn detects_stored_before(&self) -> bool {
        false
    }

    /// Receives the current state of the cache and returns the planned page moves. `random` is the policy's only
    /// source of randomness.
    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan;
}

/// Clones a policy behind a `dyn Policy`. Every policy that is [`Clone`] implements this trait.
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
