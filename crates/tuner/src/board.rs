//! What a tuner shows of itself, so that readers do not wait for its steps.
//!
//! ```text
//!   step, step, step ... --writes news--> | board | --reads a copy--> `stats`
//! ```
//!
//! Plans are shown after each step. Profiles are shown every [`REPORT_TICKS`] while accesses arrive, and the effect of
//! more or less memory every [`WHAT_IF_TICKS`], as that takes longest, or when accesses have doubled.
//!
//! Invariants: the board is locked for a copy of some hundred bytes, and no other lock is taken meanwhile; the thread
//! that steps makes curves and divides memory.

use crate::learning::SizesReport;
use crate::profiling::{Profiling, ProfilingStats};
use crate::record::PlanRecord;
use crate::view::snapshot;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Now, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::split::{WhatIf, what_if};
use slabwise_policy::{ClassSnapshot, PagePolicy, Snapshot};
use std::sync::Arc;

/// Between two reports of profiles, at least.
const REPORT_TICKS: u32 = Ticks::PER_SECOND;
/// Between two answers to what more or less memory would bring, at least.
const WHAT_IF_TICKS: u32 = 10 * Ticks::PER_SECOND;

/// Where a tuner shows itself.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
}

/// What it shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The policy in force, by its name.
    pub page_policy: &'static str,
    /// Moves that the policies have planned so far.
    pub moves_planned: u64,
    /// The last plan that moves pages.
    pub last_plan: Option<PlanRecord>,
    /// What is known of the keys; `None` where nobody profiles them.
    pub profile: Option<Arc<ProfileReport>>,
    /// What was learned of the items' sizes; `None` where the class table is not learned, and before the first look.
    pub sizes: Option<Arc<SizesReport>>,
}

/// Profiles, and what follows from them.
#[derive(Clone, Debug)]
pub struct ProfileReport {
    /// What profiling takes.
    pub stats: ProfilingStats,
    /// The cache as it was then, with the profiles of its classes.
    pub snapshot: Snapshot,
    /// What more or less memory would bring; empty before anything is known.
    pub what_if: Vec<WhatIf>,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            page_policy: PagePolicy::none().name(),
            moves_planned: 0,
            last_plan: None,
            profile: None,
            sizes: None,
        }
    }
}

impl Board {
    /// What is shown now.
    pub fn read(&self) -> Shown {
        lock(&self.shown).clone()
    }

    pub(crate) fn show_plan(&self, policy: &PagePolicy, planned: u64, last: Option<&PlanRecord>) {
        let mut shown = lock(&self.shown);
        (shown.page_policy, shown.moves_planned) = (policy.name(), planned);
        shown.last_plan = last.copied();
    }

    pub(crate) fn show_sizes(&self, sizes: Option<Arc<SizesReport>>) {
        let _old = std::mem::replace(&mut lock(&self.shown).sizes, sizes);
    }

    fn show_profile(&self, report: Arc<ProfileReport>) {
        // The old one is dropped when the board is free again.
        let _old = lock(&self.shown).profile.replace(report);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reporter {
    last: Option<Arc<ProfileReport>>,
    what_if: MadeAt,
}

/// When something was made, and how many accesses had been seen.
#[derive(Clone, Copy, Debug, Default)]
struct MadeAt {
    at: Ticks,
    seen: u64,
}

impl Reporter {
    /// Shows a report on the board, if the last is old and there is something new to tell.
    pub fn step(&mut self, board: &Board, profiling: &mut Profiling, engine: &Engine, now: Now) {
        if let Some(last) = &self.last
            && last.snapshot.now.age_at(now.ticks) < REPORT_TICKS
        {
            return;
        }
        let (seen, mut snapshot) = (profiling.stats().seen(), snapshot(engine, now));
        let pages = |classes: &[ClassSnapshot]| -> Vec<(ClassId, u64)> {
            classes.iter().map(|class| (class.class, class.pages)).collect()
        };
        let is_told = self.last.as_ref().is_some_and(|last| {
            last.stats.seen() == seen && pages(&last.snapshot.classes) == pages(&snapshot.classes)
        });
        let known = self.last.as_ref().map(|last| last.what_if.as_slice()).unwrap_or_default();
        // A young profile is soon another.
        let is_like = !known.is_empty() && seen < 2 * self.what_if.seen;
        let is_fresh = self.what_if.at.age_at(now.ticks) < WHAT_IF_TICKS;
        let is_answered = seen == self.what_if.seen || is_like && is_fresh;
        if is_told && is_answered {
            return;
        }
        snapshot.profiles = profiling.shown_profiles(&snapshot);
        snapshot.unstored_gets = profiling.profiler.unstored_gets();
        let what_if = if is_answered {
            known.to_vec()
        } else {
            self.what_if = MadeAt { at: now.ticks, seen };
            what_if(&snapshot)
        };
        let report = Arc::new(ProfileReport { stats: profiling.stats(), snapshot, what_if });
        self.last = Some(Arc::clone(&report));
        board.show_profile(report);
    }
}
