//! Which page should move where.
//!
//! ```text
//!   engine or stock server --> Snapshot --> PagePolicy::step --> Plan --> page mover or `slabs reassign`
//!                                               ^  |
//!                                               '--' its own state
//! ```
//!
//! A policy is a pure state machine: what it answers follows from the snapshots it was given, its own
//! state and the generator, and from nothing else. It has no clock, no globals and no handle to a
//! cache. So one policy runs in the server, in the lab on virtual time, and against a stock server.
//!
//! Laws of every policy:
//!
//! - it is stepped at its [`Trigger`], by one caller, in the order of time;
//! - a plan's moves are carried out, or dropped, before the next step;
//! - a plan never has a class as its own receiver, and never takes more pages from a class than it
//!   owns; the last page of a class that holds items it takes only under Twemcache's policies;
//! - the classes may be others from step to step, and in any order of their numbers; retired ones are not
//!   among them: their pages leave without any policy's help.
//!
//! Beside these, [`sizes`]: which chunk sizes lose least memory for the sizes that items have.
//!
//! What is not here: how a page is emptied (the engine's mover) and when steps are made (`tuner`).
#![forbid(unsafe_code)]

mod automove;
mod automove_classic;
mod changes;
mod cliffhanger;
mod cost_partition;
mod cost_per_byte;
#[cfg(test)]
mod cost_tests;
mod costs;
mod draw;
mod dynacache;
mod eager;
mod lama;
#[cfg(test)]
mod laws_tests;
mod marginal;
mod none;
mod options;
mod per_class;
mod plan;
mod psa;
mod reserved_cost;
#[cfg(test)]
mod shift_tests;
pub mod sizes;
mod snapshot;
pub mod split;
mod tail_age;
#[cfg(test)]
mod test_cache;
#[cfg(test)]
mod test_curves;
mod twemcache;

pub use automove::{Automove, AutomoveOptions};
pub use automove_classic::{AutomoveClassic, AutomoveClassicOptions};
pub use cliffhanger::{Cliffhanger, CliffhangerOptions};
pub use cost_partition::{CostPartition, CostPartitionOptions};
pub use cost_per_byte::{CostPerByte, CostPerByteOptions};
pub use dynacache::{Dynacache, DynacacheOptions};
pub use eager::Eager;
pub use lama::{CurveSource, Lama, LamaOptions};
pub use marginal::{Marginal, MarginalOptions};
pub use options::{OptionInfo, PolicyOptionError};
pub use plan::{PageMove, Plan, Prediction};
pub use psa::{Psa, PsaOptions};
pub use reserved_cost::{ReservedCost, ReservedCostOptions};
pub use slabwise_profile::ClassProfile;
pub use snapshot::{ClassSnapshot, Snapshot};
pub use tail_age::{TailAge, TailAgeOptions, Worth};
pub use twemcache::{Pick, Twemcache, TwemcacheOptions};

use slabwise_base::Random;

/// When a policy wants its next step. Who steps it may look only now and then, so several triggers may have
/// come together; the counts of the snapshot say how many.
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
    /// After so many shadow hits (see [`ClassProfile::shadow_hits`]), at least 1.
    EveryShadowHits(u64),
}

/// What a policy wants to be shown beside the counts of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Nothing: keys need not be looked at.
    Counts,
    /// [`Snapshot::profiles`] as they were a moment ago, where somebody makes them; it can go without.
    AnyProfiles,
    /// [`Snapshot::profiles`] as they are at each step.
    Profiles,
    /// The same as they were a moment ago: enough for who steps many times a second, and to make curves
    /// takes longer than such a step.
    RecentProfiles,
}

impl Wants {
    /// Whether a policy without profiles does not do what it is for.
    pub fn needs_profiles(self) -> bool {
        match self {
            Wants::Counts | Wants::AnyProfiles => false,
            Wants::Profiles | Wants::RecentProfiles => true,
        }
    }
}

/// Every page policy, each with its state.
#[derive(Clone, Debug)]
pub enum PagePolicy {
    /// Pages never move.
    None,
    /// memcached's first: three windows of most evictions, from a class without any.
    AutomoveClassic(AutomoveClassic),
    /// memcached's, of today.
    Automove(Automove),
    /// memcached's `automove 2`: a page for whoever evicts.
    Eager(Eager),
    /// Facebook's: equal ages of the oldest items, at fine grain; or, ours, equal space-time.
    TailAge(TailAge),
    /// The split that misses least, by dynamic programming.
    Lama(Lama),
    /// The split that is best if curves were convex.
    Dynacache(Dynacache),
    /// Ours: LAMA's goal for any number of pages, and moves only where they pay.
    Marginal(Marginal),
    /// Twitter's: any page, or the one accessed longest ago, for a store that finds no free chunk.
    Twemcache(Twemcache),
    /// Carra and Michiardi's first: from the fewest requests a page to the most misses.
    Psa(Psa),
    /// Carra and Michiardi's second: the same by what misses of evicted keys cost.
    CostPartition(CostPartition),
    /// Li and Cox's: from the least cost a byte to whoever evicts at a higher one.
    CostPerByte(CostPerByte),
    /// Coelho's: from the least miss ratio and cost a byte to the most, when the hit ratio falls.
    ReservedCost(ReservedCost),
    /// Cidon and others': shadow hits earn credits at a random other's expense.
    Cliffhanger(Cliffhanger),
}

impl PagePolicy {
    /// The names that [`PagePolicy::named`] knows.
    pub const NAMES: [&str; 16] = [
        "none",
        "automove_classic",
        "automove",
        "eager",
        "twemcache_random",
        "twemcache_lra",
        "psa",
        "cost_partition",
        "tail_age",
        "space_time",
        "cost_per_byte",
        "reserved_cost",
        "cliffhanger",
        "dynacache",
        "lama",
        "marginal",
    ];

    /// The policy of this name with its default options; `None` for an unknown name.
    pub fn named(name: &str) -> Option<PagePolicy> {
        match name {
            "none" => Some(PagePolicy::None),
            "automove_classic" => {
                Some(PagePolicy::AutomoveClassic(AutomoveClassic::new(Default::default())))
            }
            "automove" => Some(PagePolicy::Automove(Automove::new(AutomoveOptions::default()))),
            "eager" => Some(PagePolicy::Eager(Eager::default())),
            "twemcache_random" => Some(PagePolicy::Twemcache(Twemcache::new(Default::default()))),
            "twemcache_lra" => {
                let pick = Pick::LeastRecentlyAccessed;
                let options = TwemcacheOptions { pick, ..Default::default() };
                Some(PagePolicy::Twemcache(Twemcache::new(options)))
            }
            "psa" => Some(PagePolicy::Psa(Psa::new(PsaOptions::default()))),
            "cost_partition" => {
                Some(PagePolicy::CostPartition(CostPartition::new(Default::default())))
            }
            "tail_age" => Some(PagePolicy::TailAge(TailAge::new(TailAgeOptions::default()))),
            "space_time" => {
                let options = TailAgeOptions { worth: Worth::SpaceTime, ..Default::default() };
                Some(PagePolicy::TailAge(TailAge::new(options)))
            }
            "lama" => Some(PagePolicy::Lama(Lama::new(LamaOptions::default()))),
            "dynacache" => Some(PagePolicy::Dynacache(Dynacache::new(DynacacheOptions::default()))),
            "marginal" => Some(PagePolicy::Marginal(Marginal::new(MarginalOptions::default()))),
            "cost_per_byte" => Some(PagePolicy::CostPerByte(CostPerByte::new(Default::default()))),
            "reserved_cost" => {
                Some(PagePolicy::ReservedCost(ReservedCost::new(Default::default())))
            }
            "cliffhanger" => Some(PagePolicy::Cliffhanger(Cliffhanger::new(Default::default()))),
            _ => None,
        }
    }

    /// Its name, as in [`PagePolicy::NAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            PagePolicy::None => "none",
            PagePolicy::AutomoveClassic(_) => "automove_classic",
            PagePolicy::Automove(_) => "automove",
            PagePolicy::Eager(_) => "eager",
            PagePolicy::TailAge(tail_age) => match tail_age.worth() {
                Worth::Age => "tail_age",
                Worth::SpaceTime => "space_time",
            },
            PagePolicy::Lama(_) => "lama",
            PagePolicy::Dynacache(_) => "dynacache",
            PagePolicy::Marginal(_) => "marginal",
            PagePolicy::Twemcache(twemcache) => match twemcache.pick() {
                Pick::Random => "twemcache_random",
                Pick::LeastRecentlyAccessed => "twemcache_lra",
            },
            PagePolicy::Psa(_) => "psa",
            PagePolicy::CostPartition(_) => "cost_partition",
            PagePolicy::CostPerByte(_) => "cost_per_byte",
            PagePolicy::ReservedCost(_) => "reserved_cost",
            PagePolicy::Cliffhanger(_) => "cliffhanger",
        }
    }

    /// When it wants to be stepped.
    pub fn trigger(&self) -> Trigger {
        match self {
            PagePolicy::None => none::TRIGGER,
            PagePolicy::AutomoveClassic(automove) => automove.trigger(),
            PagePolicy::Automove(automove) => automove.trigger(),
            PagePolicy::Eager(eager) => eager.trigger(),
            PagePolicy::TailAge(tail_age) => tail_age.trigger(),
            PagePolicy::Lama(lama) => lama.trigger(),
            PagePolicy::Dynacache(dynacache) => dynacache.trigger(),
            PagePolicy::Marginal(marginal) => marginal.trigger(),
            PagePolicy::Twemcache(twemcache) => twemcache.trigger(),
            PagePolicy::Psa(psa) => psa.trigger(),
            PagePolicy::CostPartition(cost_partition) => cost_partition.trigger(),
            PagePolicy::CostPerByte(cost_per_byte) => cost_per_byte.trigger(),
            PagePolicy::ReservedCost(reserved_cost) => reserved_cost.trigger(),
            PagePolicy::Cliffhanger(cliffhanger) => cliffhanger.trigger(),
        }
    }

    /// What it wants to be shown.
    pub fn wants(&self) -> Wants {
        match self {
            PagePolicy::None
            | PagePolicy::AutomoveClassic(_)
            | PagePolicy::Automove(_)
            | PagePolicy::Eager(_)
            | PagePolicy::TailAge(_)
            | PagePolicy::CostPerByte(_)
            | PagePolicy::ReservedCost(_)
            | PagePolicy::Twemcache(_) => Wants::Counts,
            PagePolicy::Psa(_) => Wants::AnyProfiles,
            PagePolicy::CostPartition(_)
            | PagePolicy::Cliffhanger(_)
            | PagePolicy::Lama(_)
            | PagePolicy::Dynacache(_) => Wants::Profiles,
            PagePolicy::Marginal(_) => Wants::RecentProfiles,
        }
    }

    /// How many gets the footprints are to be of that it goes by; `None` if it does not.
    pub fn footprint_gets(&self) -> Option<u64> {
        match self {
            PagePolicy::Lama(lama) => lama.footprint_gets(),
            _ => None,
        }
    }

    /// One step: the cache as it is now goes in, the page moves it calls for come out.
    ///
    /// `random` is the only source of chance.
    pub fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        match self {
            PagePolicy::None => none::step(snapshot),
            PagePolicy::AutomoveClassic(automove) => automove.step(snapshot),
            PagePolicy::Automove(automove) => automove.step(snapshot),
            PagePolicy::Eager(eager) => eager.step(snapshot),
            PagePolicy::TailAge(tail_age) => tail_age.step(snapshot),
            PagePolicy::Lama(lama) => lama.step(snapshot),
            PagePolicy::Dynacache(dynacache) => dynacache.step(snapshot),
            PagePolicy::Marginal(marginal) => marginal.step(snapshot),
            PagePolicy::Twemcache(twemcache) => twemcache.step(snapshot, random),
            PagePolicy::Psa(psa) => psa.step(snapshot),
            PagePolicy::CostPartition(cost_partition) => cost_partition.step(snapshot),
            PagePolicy::CostPerByte(cost_per_byte) => cost_per_byte.step(snapshot, random),
            PagePolicy::ReservedCost(reserved_cost) => reserved_cost.step(snapshot),
            PagePolicy::Cliffhanger(cliffhanger) => cliffhanger.step(snapshot, random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PagePolicy, Trigger, Wants};

    #[test]
    fn every_name_names_its_policy() {
        for name in PagePolicy::NAMES {
            assert_eq!(PagePolicy::named(name).map(|policy| policy.name()), Some(name));
        }
        assert!(PagePolicy::named("random").is_none());
    }

    #[test]
    fn who_steps_by_time_wants_no_curves_made_for_each_step() {
        for policy in PagePolicy::NAMES.into_iter().filter_map(PagePolicy::named) {
            let is_by_time = matches!(policy.trigger(), Trigger::EveryTicks(_));
            assert!(!is_by_time || policy.wants() != Wants::Profiles, "{}", policy.name());
        }
    }
}
