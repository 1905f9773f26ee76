//! The status of a tuner, which other threads read without waiting for its steps.
//!
//! ```text
//!   step, step, step ... --writes--> | TunerStatus | --reads a copy--> `stats`
//! ```
//!
//! Plans are published after each step. Profiles are published every [`REPORT_TICKS`] while accesses arrive. The
//! predicted effect of more or less memory takes longer to compute than any other field of a report. So it is computed
//! only every [`WHAT_IF_TICKS`], and whenever the number of accesses has doubled.
//!
//! Invariants: the status is locked only while some hundred bytes are copied, and no other lock is taken at that time;
//! curves and partitions are computed by the tuner's thread, not by readers.

use crate::learning::SizesReport;
use crate::profiling::{Profiling, ProfilingStats};
use crate::record::{PlanRecord, Records};
use crate::view::snapshot;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Now, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::partition::{WhatIf, what_if};
use slabwise_policy::{ClassSnapshot, PagePolicy, Snapshot};
use std::sync::Arc;

/// The minimum time between two reports of profiles.
const REPORT_TICKS: u32 = Ticks::PER_SECOND;
/// The minimum time between two predictions for more or less memory.
const WHAT_IF_TICKS: u32 = 10 * Ticks::PER_SECOND;

/// The place where a tuner publishes its status.
#[derive(Debug, Default)]
pub struct TunerStatus {
    report: Mutex<TunerReport>,
}

/// The status of a tuner at one moment.
#[derive(Clone, Debug)]
pub struct TunerReport {
    /// The name of the current policy.
    pub page_policy: &'static str,
    /// The number of moves that the current policy has planned since it was selected.
    pub moves_planned: u64,
    /// The record of the last plan with moves; `None` before the first.
    pub last_plan: Option<PlanRecord>,
    /// The records of the plans before the last one, oldest first.
    pub older_plans: Arc<[PlanRecord]>,
    /// The last profiles; `None` if keys are not profiled.
    pub profile: Option<Arc<ProfileReport>>,
    /// The last evaluation of item sizes; `None` before the first evaluation, or if the class table is not learned.
    pub sizes: Option<Arc<SizesReport>>,
}

/// Profiles, and predictions from them.
#[derive(Clone, Debug)]
pub struct ProfileReport {
    /// The counts and the memory of profiling.
    pub stats: ProfilingStats,
    /// The snapshot of the cache from which the report was made, with the profiles of its classes.
    pub snapshot: Snapshot,
    /// The predicted effect of more or less memory; empty if there are no curves.
    pub what_if: Vec<WhatIf>,
}

impl Default for TunerReport {
    fn default() -> TunerReport {
        TunerReport {
            page_policy: PagePolicy::none().name(),
            moves_planned: 0,
            last_plan: None,
            older_plans: Arc::default(),
            profile: None,
            sizes: None,
        }
    }
}

impl TunerStatus {
    /// Returns a copy of the current status.
    pub fn read(&self) -> TunerReport {
        lock(&self.report).clone()
    }

    pub(crate) fn set_plan(&self, policy: &PagePolicy, planned: u64, records: &Records) {
        let mut report = lock(&self.report);
        (report.page_policy, report.moves_planned) = (policy.name(), planned);
        report.last_plan = records.last().copied();
        report.older_plans = Arc::clone(records.older());
    }

    pub(crate) fn set_sizes(&self, sizes: Option<Arc<SizesReport>>) {
        let _old = std::mem::replace(&mut lock(&self.report).sizes, sizes);
    }

    fn set_profile(&self, report: Arc<ProfileReport>) {
        // The old report is dropped after the lock is released.
        let _old = lock(&self.report).profile.replace(report);
    }
}

/// Decides when profiles are published.
#[derive(Debug, Default)]
pub(crate) struct ProfileReporter {
    /// The last published report; `None` before the first.
    last: Option<Arc<ProfileReport>>,
    /// The time of the last predictions for more or less memory.
    what_if: ComputedAt,
}

#[derive(Clone, Copy, Debug, Default)]
struct ComputedAt {
    at: Ticks,
    /// The number of accesses counted or dropped since the start.
    accesses: u64,
}

impl ProfileReporter {
    /// Publishes a report if the last report is old enough and accesses or pages have changed since then.
    pub fn step(
        &mut self,
        status: &TunerStatus,
        profiling: &mut Profiling,
        engine: &Engine,
        now: Now,
    ) {
        if let Some(last) = &self.last
            && last.snapshot.now.age_at(now.ticks) < REPORT_TICKS
        {
            return;
        }
        let (accesses, snapshot) = (profiling.stats().accesses_all(), snapshot(engine, now));
        let pages = |classes: &[ClassSnapshot]| -> Vec<(ClassId, u64)> {
            classes.iter().map(|class| (class.class, class.pages)).collect()
        };
        let is_reported = self.last.as_ref().is_some_and(|last| {
            last.stats.accesses_all() == accesses
                && pages(&last.snapshot.classes) == pages(&snapshot.classes)
        });
        let known = self.last.as_ref().map(|last| last.what_if.as_slice()).unwrap_or_default();
        // While the number of accesses is small, it soon doubles, and curves change much.
        let is_similar = !known.is_empty() && accesses < 2 * self.what_if.accesses;
        let is_fresh = self.what_if.at.age_at(now.ticks) < WHAT_IF_TICKS;
        let has_what_if = accesses == self.what_if.accesses || is_similar && is_fresh;
        if is_reported && has_what_if {
            return;
        }
        let snapshot = with_profiles(profiling, snapshot);
        let what_if = if has_what_if {
            known.to_vec()
        } else {
            self.what_if = ComputedAt { at: now.ticks, accesses };
            what_if(&snapshot)
        };
        let report = Arc::new(ProfileReport { stats: profiling.stats(), snapshot, what_if });
        self.last = Some(Arc::clone(&report));
        status.set_profile(report);
    }
}

/// Adds recent profiles to a snapshot, and keeps them as the last reported profiles.
pub(crate) fn with_profiles(profiling: &mut Profiling, mut snapshot: Snapshot) -> Snapshot {
    snapshot.profiles = profiling.report_profiles(&snapshot);
    snapshot.recent = profiling.profiler.recent_gets();
    snapshot
}
