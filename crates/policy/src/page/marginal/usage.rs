//! The state that `marginal` keeps for each class.

use crate::{ClassProfile, ClassSnapshot};

/// A class with fewer references per get, each weighted by its miss cost, is silent.
const SILENT_SHARE: f64 = 1e-4;
/// A silent class with this many requests since the last evaluation is awake again.
const WAKING_REQUESTS: u64 = 10;
/// Even the smallest class is new for this many requests.
const NEW_REQUESTS_MIN: u64 = 64;
/// Even the largest class is new for at most this many requests.
const NEW_REQUESTS_MAX: u64 = 250_000;
/// The minimum references between two evaluations for a reliable miss ratio.
const MEASURED_REFERENCES_MIN: f64 = 1_000.0;
/// A measured miss ratio confirms the curve if it differs by at most this ...
const MISS_RATIO_ERROR: f64 = 0.03;
/// ... or by this many standard deviations. Sizes of a curve are also not assumed to be off by more deviations.
const DEVIATIONS_MAX: f64 = 3.0;
const STRETCH_STEP: f64 = 0.005;
/// The maximum number of steps that a curve can be stretched, in either direction.
const STRETCH_STEPS_MAX: u32 = 30;

#[derive(Clone, Debug)]
pub(super) struct Usage {
    hits: u64,
    misses: f64,
    pages: u64,
    /// Recent references per get, decaying; `None` before the second evaluation.
    references: Option<f64>,
    references_of_curve: f64,
    /// True if the class had almost no references recently.
    pub is_silent: bool,
    /// Requests when the class was first used, or used again after a silence.
    new_since_requests: u64,
    requests_at_evaluation: u64,
    attempts_at_evaluation: u64,
    /// True once the class has had enough requests since then; later growth does not make it new again.
    is_established: bool,
    /// The number of evaluations for which it has had the same pages without a free page.
    full_evaluations: u32,
    pub stretch: f64,
    /// Allocations without a free chunk before the last step.
    pressed: u64,
    /// True if there was one between the last two steps.
    pub is_pressed: bool,
    marks: [Option<Mark>; 2],
    free_chunks_min: u64,
    pub target: Option<u64>,
    /// The pages of the class in the partition under validation.
    pub proposal: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// At least 1.
    pub gets: f64,
    pub half_gets: f64,
    /// The number of gets that the curves cover: older ones count for less.
    pub gets_of_curves: f64,
    /// The miss cost relative to the mean of all classes.
    pub miss_cost: f64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    used_chunks: u64,
    /// The fewest free chunks between the previous mark and this one.
    free_chunks_min: u64,
}

impl Usage {
    pub fn new(class: &ClassSnapshot) -> Usage {
        Usage {
            hits: class.hits,
            misses: 0.0,
            pages: class.pages,
            references: None,
            references_of_curve: 0.0,
            is_silent: true,
            new_since_requests: requests(class),
            requests_at_evaluation: requests(class),
            attempts_at_evaluation: attempts(class),
            is_established: false,
            full_evaluations: 0,
            stretch: 1.0,
            pressed: class.pressed(),
            is_pressed: false,
            marks: [None, None],
            free_chunks_min: class.free_chunks,
            target: None,
            proposal: None,
        }
    }

    /// Starts from the counts and the curve of a class that was in use before; the curves are of `gets_of_curves`.
    pub fn after(self, profile: &ClassProfile, gets_of_curves: f64) -> Usage {
        let references_of_curve = profile.curve.references() / gets_of_curves;
        Usage { misses: profile.misses, references_of_curve, ..self }
    }

    pub fn update(&mut self, class: &ClassSnapshot) {
        self.free_chunks_min = self.free_chunks_min.min(class.free_chunks);
        self.is_pressed = class.pressed() > self.pressed;
        self.pressed = class.pressed();
        if class.pages != self.pages || class.free_chunks >= class.chunks_per_page as u64 {
            (self.pages, self.full_evaluations) = (class.pages, 0);
        }
    }

    /// At every evaluation: takes the events since the last one into account.
    pub fn evaluate(&mut self, class: &ClassSnapshot, profile: &ClassProfile, since: Since) {
        let misses = (profile.misses - self.misses).max(0.0);
        let hits = class.hits.saturating_sub(self.hits) as f64;
        let references = hits + misses;
        (self.hits, self.misses) = (class.hits, profile.misses);
        let recent = references / since.gets;
        let kept = 0.5f64.powf(since.gets / since.half_gets);
        let decayed = |now: f64, before: Option<f64>| now + (before.unwrap_or(now) - now) * kept;
        let decaying = decayed(recent, self.references);
        let kept = (1.0 - since.gets / since.gets_of_curves).max(0.0);
        self.references_of_curve = recent + (self.references_of_curve - recent) * kept;
        self.references = Some(decaying);
        self.is_silent = decaying.max(recent) * since.miss_cost < SILENT_SHARE;
        // A class that is only written to does not stay new forever.
        let requested = requests(class).saturating_sub(self.requests_at_evaluation) as f64;
        self.requests_at_evaluation = requests(class);
        self.attempts_at_evaluation = attempts(class);
        if self.is_silent && requested * since.miss_cost < SILENT_SHARE * since.gets {
            self.new_since_requests = requests(class);
            self.is_established = false;
        }
        self.is_established = !self.is_new(class);
        self.full_evaluations += 1;
        if self.full_evaluations > 1 && references >= MEASURED_REFERENCES_MIN {
            let chunks = class.pages * class.chunks_per_page as u64;
            self.fit(profile, chunks, misses, references);
        }
    }

    /// Compares the curve with the misses measured at `chunks` chunks. A sampled cliff may be at slightly too few or
    /// too many chunks; then a small stretch explains the measurement.
    fn fit(&mut self, profile: &ClassProfile, chunks: u64, misses: f64, references: f64) {
        let measured = misses / references;
        let error =
            |stretch: f64| profile.curve.miss_ratio((chunks as f64 / stretch) as u64) - measured;
        // The misses are sampled, too.
        let counted = (references * profile.sample.rate).max(1.0);
        let chance = (measured * (1.0 - measured) / counted).sqrt();
        let error_max = MISS_RATIO_ERROR.max(DEVIATIONS_MAX * chance);
        if error(self.stretch).abs() <= error_max {
            return;
        }
        let off = DEVIATIONS_MAX * profile.sample.size_deviation(chunks) / chunks.max(1) as f64;
        let steps_max = ((off / STRETCH_STEP) as u32).min(STRETCH_STEPS_MAX);
        let steps = (1..=steps_max).flat_map(|step| [f64::from(step), -f64::from(step)]);
        let stretches = steps.map(|steps| 1.0 + steps * STRETCH_STEP);
        // The stretch nearest to the previous one, plus a step: the last part of a cliff is worth little.
        let fits = stretches.filter(|&stretch| error(stretch).abs() <= error_max);
        let nearer =
            |a: &f64, b: &f64| (a - self.stretch).abs().total_cmp(&(b - self.stretch).abs());
        if let Some(fit) = fits.min_by(nearer) {
            let further = STRETCH_STEP * (fit - self.stretch).signum();
            self.stretch = if further > 0.0 { fit + further } else { fit };
        }
    }

    /// At the end of every window: marks the state that later windows are compared with.
    pub fn mark(&mut self, class: &ClassSnapshot) {
        let mark = Mark { used_chunks: class.used_chunks, free_chunks_min: self.free_chunks_min };
        self.marks = [Some(mark), self.marks[0].take()];
        self.free_chunks_min = class.free_chunks;
    }

    /// The weight of a reference of its curve: above 1 if there were more references recently.
    pub fn weight(&self) -> f64 {
        match self.references {
            Some(references) if self.references_of_curve > 0.0 => {
                references / self.references_of_curve
            }
            _ => 1.0,
        }
    }

    pub fn is_awake(&self, class: &ClassSnapshot) -> bool {
        !self.is_silent
            || attempts(class).saturating_sub(self.attempts_at_evaluation) >= WAKING_REQUESTS
    }

    /// True if its keys have had too little time to be reused, so its curve is not reliable.
    pub fn is_new(&self, class: &ClassSnapshot) -> bool {
        if self.is_established {
            return false;
        }
        let chunks = class.used_chunks + class.free_chunks;
        let enough = (2 * chunks).clamp(NEW_REQUESTS_MIN, NEW_REQUESTS_MAX);
        requests(class).saturating_sub(self.new_since_requests) < enough
    }

    /// The pages of chunks, less one, that were free for the whole last window or two while the class grew by less
    /// than a page.
    pub fn idle_pages(&self, class: &ClassSnapshot) -> u64 {
        let [Some(newer), Some(older)] = &self.marks else { return 0 };
        let page = class.chunks_per_page as u64;
        let grown = class.used_chunks >= older.used_chunks + page;
        let free = self.free_chunks_min.min(newer.free_chunks_min);
        if grown { 0 } else { (free / page).saturating_sub(1) }
    }
}

/// Requests of the class since the start; in a look-aside cache a miss is a store.
fn requests(class: &ClassSnapshot) -> u64 {
    class.hits + class.sets
}

fn attempts(class: &ClassSnapshot) -> u64 {
    requests(class) + class.out_of_memory
}

#[cfg(test)]
mod tests {
    use super::{Since, Usage};
    use crate::testing::curves::{cliff, scan, snapshot};
    use crate::{ClassProfile, ClassSnapshot};
    use slabwise_profile::Mrc;

    /// A class of 10 pages of 10 chunks, evaluated twice with these hits and misses before each evaluation.
    fn evaluated(curve: Mrc, hits: u64, misses: f64) -> (Usage, ClassSnapshot, ClassProfile) {
        let cache = snapshot(10, vec![(10, curve)]);
        let (mut class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        profile.sample.rate = 0.1;
        let mut usage = Usage::new(&class);
        for _ in 0..2 {
            class.hits += hits;
            profile.misses += misses;
            usage.update(&class);
            let gets = hits as f64 + misses;
            usage.evaluate(
                &class,
                &profile,
                Since { gets, half_gets: 1.0, gets_of_curves: gets, miss_cost: 1.0 },
            );
        }
        (usage, class, profile)
    }

    #[test]
    fn stretches_a_curve_only_if_a_small_stretch_explains_the_misses() {
        // By the curve, 97 chunks hold the loop; but with 100 chunks every get misses.
        let (usage, ..) = evaluated(cliff(97, 2_000.0), 0, 2_000.0);
        assert!((1.03..1.06).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = evaluated(cliff(103, 2_000.0), 2_000, 0.0);
        assert!((0.94..0.98).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = evaluated(cliff(50, 2_000.0), 0, 2_000.0);
        assert_eq!(usage.stretch, 1.0, "no small stretch explains it");
    }

    #[test]
    fn a_curve_older_than_the_policy_has_weight_one() {
        let cache = snapshot(10, vec![(10, scan(10_000.0))]);
        let (mut class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        profile.misses = 1e7;
        let gets_of_curves = 1e6;
        let mut usage = Usage::new(&class).after(&profile, gets_of_curves);
        // A hundredth of the gets, before and after.
        for _ in 0..10 {
            class.sets += 250;
            profile.misses += 250.0;
            usage.evaluate(
                &class,
                &profile,
                Since { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves, miss_cost: 1.0 },
            );
            assert!((usage.weight() - 1.0).abs() < 1e-9, "{}", usage.weight());
        }
    }

    #[test]
    fn a_written_class_gets_established_and_a_silent_one_is_new_again() {
        let cache = snapshot(10, vec![(10, scan(1_000.0))]);
        let (mut class, profile) = (cache.classes[0], cache.profiles[0].clone());
        let mut usage = Usage::new(&class);
        let since =
            Since { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves: 1e6, miss_cost: 1.0 };
        let mut evaluate = |sets: u64, class: &mut ClassSnapshot| {
            class.sets += sets;
            usage.evaluate(class, &profile, since);
            usage.is_new(class)
        };
        assert!(evaluate(100, &mut class), "its first requests");
        assert!(!(0..10).map(|_| evaluate(100, &mut class)).last().expect("ten evaluations"));
        // A silence, then new requests.
        assert!(evaluate(0, &mut class));
        assert!(evaluate(100, &mut class));
    }
}
