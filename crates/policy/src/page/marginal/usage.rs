//! The state that `marginal` keeps for each class.

use crate::history::filling::Filling;
use crate::{ClassProfile, ClassSnapshot};

/// A class is silent if its share of the gets of the cache, times its relative miss cost, is below this value.
const SILENT_SHARE: f64 = 1e-4;
/// A silent class is awake again after this many requests since the last evaluation.
const WAKING_REQUESTS: u64 = 10;
/// A class of any size is new for at least this many requests.
const NEW_REQUESTS_MIN: u64 = 64;
/// A curve that counts this many references is reliable, whatever the size of the class. Old references decay, so the
/// curve of a large class may never count two references for each chunk.
const KNOWN_REFERENCES_MAX: u64 = 250_000;
/// The curve of a class that has always grown shows no gain beyond its present size, because no key was reused after more
/// other keys. So a class is new until the number of its evictions is the number of its chunks divided by this number.
const NEW_EVICTIONS_DIVISOR: u64 = 2;
/// A class that evicts nothing is new until it has had this many requests for each chunk.
const NEW_REQUESTS_PER_CHUNK_MAX: u64 = 8;
/// The minimum number of references between two evaluations for a reliable miss ratio.
const MEASURED_REFERENCES_MIN: f64 = 1_000.0;
/// The curve agrees with the measured miss ratio if they differ by at most this value, or by at most
/// [`DEVIATIONS_MAX`] standard deviations.
const MISS_RATIO_ERROR: f64 = 0.03;
/// The maximum error that sampling explains, in standard deviations: of a measured miss ratio, and of a size of a
/// curve.
const DEVIATIONS_MAX: f64 = 3.0;
/// The step between two values of [`Usage::stretch`] that are tried.
const STRETCH_STEP: f64 = 0.005;
/// The maximum number of steps between 1 and a value of [`Usage::stretch`] that is tried, up or down.
const STRETCH_STEPS_MAX: u32 = 30;

/// The state that `marginal` keeps for a class between two steps.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    /// The hits since the start of the cache, at the last evaluation.
    hits: u64,
    /// The hits of items in retired classes since the start, as the profile counts them, at the last evaluation.
    hits_in_retired: f64,
    /// The misses since the start of the cache, as the profile counts them, at the last evaluation.
    misses: f64,
    /// The pages of the class at the last step.
    pages: u64,
    /// The number of references per get of the cache, in which old gets decay; `None` before the first evaluation.
    references: Option<f64>,
    /// An estimate of the same number over the time that the curve covers: the curve decays more slowly than
    /// `references`.
    references_of_curve: f64,
    /// True if the class had almost no references recently.
    pub is_silent: bool,
    /// The requests since the start, at the time when the class was first used, or used again after a silence.
    new_since_requests: u64,
    /// The evictions since the start, at the same time.
    new_since_evictions: u64,
    /// The requests since the start, at the last evaluation.
    requests_at_evaluation: u64,
    /// The requests and refused stores since the start, at the last evaluation.
    attempts_at_evaluation: u64,
    /// True if the class has had enough requests and evictions since it was new for a reliable curve. If the class grows
    /// afterwards, the field stays true.
    is_established: bool,
    /// True if the profile knew keys of the class when it was created: its items come from classes of an earlier class
    /// table, or were stored before the policy started.
    pub has_known_keys: bool,
    /// The number of evaluations since the class last changed its number of pages or had a page of free chunks.
    full_evaluations: u32,
    /// The number of real chunks that corresponds to one chunk of the curve; 1 if the curve agrees with measurements.
    pub stretch: f64,
    /// The chunks that new items take.
    pub filling: Filling,
    /// The marks at the ends of the last window and of the window before, newest first.
    marks: [Option<WindowMark>; 2],
    /// The minimum number of free chunks since the last mark.
    free_chunks_min: u64,
    /// The pages of the class in the target partition; `None` if there is no target.
    pub target: Option<u64>,
    /// The pages of the class in the partition under validation; `None` if no partition is under validation.
    pub proposal: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Evaluation {
    /// The number of gets of the whole cache since the last evaluation, at least 1.
    pub gets: f64,
    /// The half-life of reference counts, in gets.
    pub half_gets: f64,
    /// The number of gets that the curves count. Each get counts with its decayed weight.
    pub gets_of_curves: f64,
    /// The miss cost of the class divided by the mean miss cost of all classes.
    pub miss_cost: f64,
}

/// The state of a class at the end of a window, that is, of `window_gets` gets.
#[derive(Clone, Copy, Debug)]
struct WindowMark {
    used_chunks: u64,
    /// The minimum number of free chunks in the window.
    free_chunks_min: u64,
}

impl Usage {
    pub fn new(class: &ClassSnapshot) -> Usage {
        Usage {
            hits: class.hits,
            hits_in_retired: 0.0,
            misses: 0.0,
            pages: class.pages,
            references: None,
            references_of_curve: 0.0,
            is_silent: true,
            new_since_requests: requests(class),
            new_since_evictions: class.evicted,
            requests_at_evaluation: requests(class),
            attempts_at_evaluation: attempts(class),
            is_established: false,
            has_known_keys: false,
            full_evaluations: 0,
            stretch: 1.0,
            filling: Filling::new(class),
            marks: [None, None],
            free_chunks_min: class.free_chunks,
            target: None,
            proposal: None,
        }
    }

    /// Returns the state of a class whose keys are known: the class was in use before the policy started, or its keys
    /// come from classes of an earlier class table. The class is not new if its curve counts enough references. The
    /// curves of all classes together count `gets_of_curves` gets.
    pub fn of_known(class: &ClassSnapshot, profile: &ClassProfile, gets_of_curves: f64) -> Usage {
        let references = profile.curve.references();
        Usage {
            hits_in_retired: profile.hits_in_retired,
            misses: profile.misses,
            references_of_curve: references / gets_of_curves,
            is_established: references >= requests_enough(class).min(KNOWN_REFERENCES_MAX) as f64,
            has_known_keys: references > 0.0,
            ..Usage::new(class)
        }
    }

    /// Updates the state at every step.
    pub fn update(&mut self, class: &ClassSnapshot) {
        self.free_chunks_min = self.free_chunks_min.min(class.free_chunks);
        self.filling.update(class);
        if class.pages != self.pages || class.free_chunks >= class.chunks_per_page as u64 {
            (self.pages, self.full_evaluations) = (class.pages, 0);
        }
    }

    /// Updates the state at every evaluation with the events since the last evaluation.
    pub fn evaluate(
        &mut self,
        class: &ClassSnapshot,
        profile: &ClassProfile,
        evaluation: Evaluation,
    ) {
        let misses = (profile.misses - self.misses).max(0.0);
        let hits_in_retired = (profile.hits_in_retired - self.hits_in_retired).max(0.0);
        let hits = class.hits.saturating_sub(self.hits) as f64 + hits_in_retired;
        let references = hits + misses;
        (self.hits, self.misses) = (class.hits, profile.misses);
        self.hits_in_retired = profile.hits_in_retired;
        let recent = references / evaluation.gets;
        let kept = 0.5f64.powf(evaluation.gets / evaluation.half_gets);
        let decayed = |now: f64, before: Option<f64>| now + (before.unwrap_or(now) - now) * kept;
        let decaying = decayed(recent, self.references);
        let kept = (1.0 - evaluation.gets / evaluation.gets_of_curves).max(0.0);
        self.references_of_curve = recent + (self.references_of_curve - recent) * kept;
        self.references = Some(decaying);
        self.is_silent = decaying.max(recent) * evaluation.miss_cost < SILENT_SHARE;
        // Requests include stores, so a class that is only written to does not stay new forever.
        let requested = requests(class).saturating_sub(self.requests_at_evaluation) as f64;
        let requested = requested + hits_in_retired;
        self.requests_at_evaluation = requests(class);
        self.attempts_at_evaluation = attempts(class);
        if self.is_silent && requested * evaluation.miss_cost < SILENT_SHARE * evaluation.gets {
            self.new_since_requests = requests(class);
            self.new_since_evictions = class.evicted;
            self.is_established = false;
        }
        self.is_established = !self.is_new(class);
        self.full_evaluations += 1;
        if self.full_evaluations > 1 && references >= MEASURED_REFERENCES_MIN {
            let chunks = class.pages * class.chunks_per_page as u64;
            self.fit_stretch(profile, chunks, misses, references);
        }
    }

    /// Compares the curve with the misses that were measured while the class had `chunks` chunks, and corrects the
    /// stretch. Sampling can move a cliff of the curve to slightly fewer or more chunks; a stretch near 1 corrects
    /// this.
    fn fit_stretch(&mut self, profile: &ClassProfile, chunks: u64, misses: f64, references: f64) {
        let measured = misses / references;
        let error =
            |stretch: f64| profile.curve.miss_ratio((chunks as f64 / stretch) as u64) - measured;
        // The measured misses are sampled, too, so the measured miss ratio has a random error.
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
        // Choose the stretch nearest to the current stretch. If the new one is larger, add a step, so that the class
        // receives the whole cliff: a class just before the end of its cliff would still have most of the cliff's
        // misses.
        let fits = stretches.filter(|&stretch| error(stretch).abs() <= error_max);
        let nearer =
            |a: &f64, b: &f64| (a - self.stretch).abs().total_cmp(&(b - self.stretch).abs());
        if let Some(fit) = fits.min_by(nearer) {
            let further = STRETCH_STEP * (fit - self.stretch).signum();
            self.stretch = if further > 0.0 { fit + further } else { fit };
        }
    }

    /// Records the state at the end of a window, for [`Usage::idle_pages`].
    pub fn mark(&mut self, class: &ClassSnapshot) {
        let mark =
            WindowMark { used_chunks: class.used_chunks, free_chunks_min: self.free_chunks_min };
        self.marks = [Some(mark), self.marks[0].take()];
        self.free_chunks_min = class.free_chunks;
    }

    /// Returns the weight of a reference of the curve. It is above 1 if the class has more references per get now than
    /// in the time that the curve covers.
    pub fn weight(&self) -> f64 {
        match self.references {
            Some(references) if self.references_of_curve > 0.0 => {
                references / self.references_of_curve
            }
            _ => 1.0,
        }
    }

    /// Returns true if the class is not silent, or if it has had [`WAKING_REQUESTS`] requests or refused stores since
    /// the last evaluation.
    pub fn is_awake(&self, class: &ClassSnapshot) -> bool {
        !self.is_silent
            || attempts(class).saturating_sub(self.attempts_at_evaluation) >= WAKING_REQUESTS
    }

    /// Returns true if the curve of the class is not reliable, because too few of its keys were reused, or because it does
    /// not show what more memory would save.
    pub fn is_new(&self, class: &ClassSnapshot) -> bool {
        if self.is_established {
            return false;
        }
        let requested = requests(class).saturating_sub(self.new_since_requests);
        let evicted = class.evicted.saturating_sub(self.new_since_evictions);
        let chunks = chunks(class);
        let shows_larger_sizes = evicted >= chunks / NEW_EVICTIONS_DIVISOR
            || requested >= NEW_REQUESTS_PER_CHUNK_MAX * chunks;
        requested < requests_enough(class) || !shows_larger_sizes
    }

    /// Returns the number of pages whose chunks were free since the end of the window before the last, less one page.
    /// Returns 0 if the class has grown by a page or more in this time.
    pub fn idle_pages(&self, class: &ClassSnapshot) -> u64 {
        let [Some(newer), Some(older)] = &self.marks else { return 0 };
        let page = class.chunks_per_page as u64;
        let grown = class.used_chunks >= older.used_chunks + page;
        let free = self.free_chunks_min.min(newer.free_chunks_min);
        if grown { 0 } else { (free / page).saturating_sub(1) }
    }
}

/// Returns the number of requests to the class since the start. In a look-aside cache the stores are the misses.
fn requests(class: &ClassSnapshot) -> u64 {
    class.hits + class.sets
}

/// Returns the number of requests after which the keys of a class have been reused, so that its curve is reliable.
fn requests_enough(class: &ClassSnapshot) -> u64 {
    (2 * chunks(class)).max(NEW_REQUESTS_MIN)
}

/// Returns the number of chunks of a class.
fn chunks(class: &ClassSnapshot) -> u64 {
    class.used_chunks + class.free_chunks
}

/// Returns the number of requests since the start, including refused stores.
fn attempts(class: &ClassSnapshot) -> u64 {
    requests(class) + class.out_of_memory
}

#[cfg(test)]
mod tests {
    use super::{Evaluation, Usage};
    use crate::testing::curves::{cliff, scan, snapshot};
    use crate::{ClassProfile, ClassSnapshot};
    use slabwise_profile::Mrc;

    /// Returns a class of 10 pages of 10 chunks, after two evaluations with these hits and misses before each of them.
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
                Evaluation { gets, half_gets: 1.0, gets_of_curves: gets, miss_cost: 1.0 },
            );
        }
        (usage, class, profile)
    }

    #[test]
    fn a_curve_is_stretched_only_if_a_stretch_near_one_explains_the_misses() {
        // According to the curve, 97 chunks hold the loop. But with 100 chunks every get misses.
        let (usage, ..) = evaluated(cliff(97, 2_000.0), 0, 2_000.0);
        assert!((1.03..1.06).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = evaluated(cliff(103, 2_000.0), 2_000, 0.0);
        assert!((0.94..0.98).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = evaluated(cliff(50, 2_000.0), 0, 2_000.0);
        assert_eq!(usage.stretch, 1.0, "no stretch near 1 explains the misses");
    }

    #[test]
    fn the_curve_of_a_class_used_before_the_policy_started_has_weight_one() {
        let cache = snapshot(10, vec![(10, scan(10_000.0))]);
        let (mut class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        profile.misses = 1e7;
        let gets_of_curves = 1e6;
        let mut usage = Usage::of_known(&class, &profile, gets_of_curves);
        // The class had a hundredth of the gets that all curves count, and has a hundredth of the later gets.
        for _ in 0..10 {
            class.sets += 250;
            profile.misses += 250.0;
            usage.evaluate(
                &class,
                &profile,
                Evaluation { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves, miss_cost: 1.0 },
            );
            assert!((usage.weight() - 1.0).abs() < 1e-9, "{}", usage.weight());
        }
    }

    #[test]
    fn a_class_is_not_new_if_its_curve_counts_enough_references() {
        let class = |references| {
            let cache = snapshot(10, vec![(10, scan(references))]);
            let (class, profile) = (cache.classes[0], &cache.profiles[0]);
            Usage::of_known(&class, profile, references).is_new(&class)
        };
        // The class has 100 chunks.
        assert_eq!([0.0, 199.0, 200.0, 1e6].map(class), [true, true, false, false]);
    }

    #[test]
    fn a_class_whose_items_are_still_in_a_retired_class_is_not_silent() {
        let cache = snapshot(10, vec![(10, scan(1_000.0))]);
        let (class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        let mut usage = Usage::of_known(&class, &profile, 1e6);
        let evaluation =
            Evaluation { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves: 1e6, miss_cost: 1.0 };
        profile.hits_in_retired += 1_000.0;
        usage.evaluate(&class, &profile, evaluation);
        assert!(!usage.is_silent && !usage.is_new(&class), "{usage:?}");
        usage.evaluate(&class, &profile, Evaluation { gets: 1e6, ..evaluation });
        assert!(usage.is_silent && usage.is_new(&class), "{usage:?}");
    }

    #[test]
    fn a_class_that_is_only_written_to_is_not_new_until_after_a_silence() {
        let cache = snapshot(10, vec![(10, scan(1_000.0))]);
        let (mut class, profile) = (cache.classes[0], cache.profiles[0].clone());
        let mut usage = Usage::new(&class);
        let evaluation =
            Evaluation { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves: 1e6, miss_cost: 1.0 };
        let mut evaluate = |sets: u64, class: &mut ClassSnapshot| {
            class.sets += sets;
            usage.evaluate(class, &profile, evaluation);
            usage.is_new(class)
        };
        assert!(evaluate(100, &mut class), "the class is new after its first requests");
        let is_new =
            (0..10).map(|_| evaluate(100, &mut class)).last().expect("there are ten evaluations");
        assert!(!is_new, "the class is not new after ten evaluations");
        assert!(evaluate(0, &mut class), "the class is new after an evaluation without requests");
        assert!(evaluate(100, &mut class), "the class is new after the first requests since then");
    }
}
