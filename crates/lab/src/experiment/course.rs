//! One run of a workload on one engine, on virtual time: requests, and from the change of phase on a
//! mover that brings the pages to a split.

use super::error::ExperimentError;
use super::spec::{CacheSetup, FIRST_CLASS, SECOND_CLASS, WorkloadSetup, scaled};
use super::split::{Split, pages_by_class};
use crate::virtual_time::{
    Access, Arrival, Cache, MoveCounts, Mover, MoverName, MoverTime, Rate, SleepLength, VisitCost,
};
use crate::workload::{Request, Workload};
use indicatif::ProgressBar;
use slabwise_engine::Engine;
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug)]
pub struct Run<'s> {
    /// The requests.
    pub workload: &'s WorkloadSetup,
    /// The cache.
    pub cache: &'s CacheSetup,
    /// The mover.
    pub mover: MoverName,
    /// What it sleeps after a busy chunk.
    pub mover_rest: Duration,
    /// How long such a sleep is.
    pub sleep: SleepLength,
    /// What it is charged for a visit.
    pub cost: VisitCost,
    /// When gets and sets come.
    pub rate: Rate,
    /// The size of the run.
    pub scale: f64,
    /// What everything random follows from.
    pub seed: u64,
    /// Equal stretches for which miss ratios are kept.
    pub windows: u64,
    /// Whether the run goes on when the pages are where they should be.
    pub at_target: AtTarget,
}

/// What happens when the pages are where they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTarget {
    /// The run goes on to its end.
    GoOn,
    /// It ends.
    Stop,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Requests made.
    pub requests: u64,
    /// Gets and sets made for them.
    pub operations: u64,
    /// The request at which the second phase began.
    pub changed_at: u64,
    /// Requests a window.
    pub window_requests: u64,
    /// Misses by window.
    pub misses: Vec<u64>,
    /// Pages by class at the end of each window.
    pub pages: Vec<Vec<u64>>,
    /// Where the pages should be from the change of phase on.
    pub split: Option<Split>,
    /// The moves, in order.
    pub arrivals: Vec<Arrival>,
    /// When the pages were where they should be.
    pub at_target: Option<u64>,
    /// What the mover met.
    pub counts: MoveCounts,
    /// Where its time went.
    pub time: MoverTime,
    /// Nanoseconds of virtual time from the change of phase to the end of the last move, or of the run.
    pub moving_nanos: f64,
}

impl Course {
    /// Misses of all requests.
    pub fn miss_ratio(&self) -> f64 {
        self.misses.iter().sum::<u64>() as f64 / self.requests.max(1) as f64
    }
}

impl Run<'_> {
    /// An engine of this run.
    pub fn engine(&self) -> Result<Engine, ExperimentError> {
        let mut config = self.cache.engine_config(self.scale, self.seed);
        config.mover = self.mover.kind();
        config.mover_rest = self.mover_rest;
        Ok(Engine::new(config)?)
    }

    /// The same run, its mover charged by what visits cost on an engine that is filled like this one's.
    pub fn measured(mut self) -> Result<Self, ExperimentError> {
        let engine = self.engine()?;
        let mut workload = self.workload.open(self.scale, self.seed)?;
        let first_phase = scaled(self.workload.first_phase_requests, self.scale);
        let mut cache = Cache::new(&engine);
        let (mut batch, mut requests) = (Vec::new(), 0);
        while requests < first_phase {
            let now = self.rate.now_at(requests);
            refill(&mut batch, &mut workload, first_phase - requests)?;
            cache.prefetch(&batch);
            for request in &batch {
                cache.request(request, now);
            }
            requests += batch.len() as u64;
        }
        let at = self.rate.moment_at(requests);
        self.cost = VisitCost::measure(&engine, FIRST_CLASS, SECOND_CLASS, at)?;
        Ok(self)
    }

    /// Runs it. `target` tells the split when the second phase begins, by the pages owned then.
    pub fn go(
        &self,
        target: impl Fn(&[u64]) -> Split,
        progress: &ProgressBar,
    ) -> Result<Course, ExperimentError> {
        let engine = self.engine()?;
        let mut workload = self.workload.open(self.scale, self.seed)?;
        let total = scaled(self.workload.requests, self.scale);
        let mut course = Course {
            changed_at: scaled(self.workload.first_phase_requests, self.scale),
            window_requests: total.div_ceil(self.windows),
            ..Course::default()
        };
        let mut cache = Cache::new(&engine);
        let (mut batch, mut second_phase) = (Vec::new(), None);
        progress.set_length(total);
        let mut misses = 0;
        while course.requests < total {
            // A batch ends where something changes.
            let window_left = course.window_requests - course.requests % course.window_requests;
            let phase_left = match course.changed_at.saturating_sub(course.requests) {
                0 => total - course.requests,
                left => left,
            };
            refill(&mut batch, &mut workload, window_left.min(phase_left))?;
            cache.prefetch(&batch);
            let now = self.rate.now_at(course.operations);
            if second_phase.is_none() && course.requests >= course.changed_at {
                let start_nanos = self.rate.nanos_at(course.operations);
                let mover = Mover::new(&engine, self.mover, self.cost, self.sleep, start_nanos);
                let split = target(&pages_by_class(&engine, now));
                course.split = Some(split.clone());
                second_phase = Some(SecondPhase { mover, split, start_nanos });
            }
            for request in &batch {
                if let Some(second_phase) = &mut second_phase {
                    course.move_pages(second_phase, self.rate);
                }
                let access = cache.request(request, now);
                misses += u64::from(access == Access::Miss);
                course.operations += access.operations();
                course.requests += 1;
            }
            if course.requests.is_multiple_of(course.window_requests) || course.requests == total {
                course.misses.push(std::mem::take(&mut misses));
                course.pages.push(pages_by_class(&engine, now));
                progress.set_position(course.requests);
            }
            if course.at_target.is_some() && self.at_target == AtTarget::Stop {
                break;
            }
        }
        course.counts = MoveCounts::of(&engine);
        course.time = second_phase.map_or_else(MoverTime::default, |phase| phase.mover.time());
        progress.finish_and_clear();
        Ok(course)
    }
}

impl Course {
    /// Lets the mover work until the next request comes.
    #[inline]
    fn move_pages(&mut self, phase: &mut SecondPhase<'_>, rate: Rate) {
        if self.at_target.is_some() {
            return;
        }
        let (request, nanos) = (self.requests, rate.nanos_at(self.operations));
        let SecondPhase { mover, split, start_nanos } = phase;
        let now = rate.now_at(self.operations);
        let (arrivals, at_target) = (&mut self.arrivals, &mut self.at_target);
        let next = |engine: &Engine| {
            let next = split.next_move(engine, now);
            if next.is_none() {
                *at_target = Some(request);
            }
            next
        };
        mover.work_until(nanos, request, next, |arrival| arrivals.push(arrival));
        self.moving_nanos = nanos - *start_nanos;
    }
}

/// What begins with the change of phase.
struct SecondPhase<'e> {
    mover: Mover<'e>,
    split: Split,
    start_nanos: f64,
}

/// The next requests of the stream, at most `limit`.
fn refill(
    batch: &mut Vec<Request>,
    workload: &mut Workload,
    limit: u64,
) -> Result<(), ExperimentError> {
    batch.clear();
    let count = limit.min(Cache::BATCH_MAX as u64) as usize;
    for _ in 0..count {
        let request = workload.next();
        batch.push(request.unwrap_or_else(|| panic!("an experiment's workload has all requests"))?);
    }
    Ok(())
}
