//! What a page policy is.
//!
//! To add one: a file in `page/` with a type that implements [`Policy`], and a line in the table of
//! `registry.rs`. Server, lab, `--help` and the tests of every policy find it there.

use crate::options::Adjustable;
use crate::{Plan, Snapshot};
use slabwise_base::Random;
use std::fmt::Debug;

/// When a policy wants its next step. The caller polls, so several triggers may have fired since the last step;
/// the counts of the snapshot say how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Not at all.
    Never,
    /// After so many ticks (1/64 s) of the cache's time.
    EveryTicks(u32),
    /// After so many gets, at least 1.
    EveryGets(u64),
    /// After so many gets that missed, at least 1.
    EveryMisses(u64),
    /// After so many allocations that found no free chunk: evictions, and stores refused or sent to another
    /// class; at least 1.
    EveryEvictions(u64),
    /// After so many shadow hits (see [`ClassProfile::shadow_hits`](crate::ClassProfile::shadow_hits)), at least 1.
    EveryShadowHits(u64),
}

/// What a policy wants to be shown beside the counts of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Nothing: keys need not be looked at.
    Counts,
    /// [`Snapshot::profiles`] as they were a moment ago, where profiles are made; the policy can go without.
    AnyProfiles,
    /// [`Snapshot::profiles`] as they are at each step.
    Profiles,
    /// [`Snapshot::profiles`] as they were a moment ago: enough for a policy with many steps a second, as curves
    /// take longer to make than such a step.
    RecentProfiles,
}

impl Wants {
    /// Whether a policy without profiles does not do what it is for.
    pub fn needs_profiles(self) -> bool {
        matches!(self, Wants::Profiles | Wants::RecentProfiles)
    }
}

/// A page policy: a state machine without clock, randomness of its own or access to a cache.
pub(crate) trait Policy: Adjustable + ClonePolicy + Debug + Send + Sync {
    fn trigger(&self) -> Trigger;

    fn wants(&self) -> Wants {
        Wants::Counts
    }

    /// The number of gets that its footprints should cover; `None` if it uses no footprints.
    fn footprint_gets(&self) -> Option<u64> {
        None
    }

    /// One step: takes the cache as it is now and returns the page moves that it calls for. `random` is the only
    /// source of chance.
    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan;
}

/// Clones a policy behind a box; every policy that is [`Clone`] has it.
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
