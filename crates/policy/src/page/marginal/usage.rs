//! What `marginal` remembers of a class from step to step.

use crate::{ClassProfile, ClassSnapshot};

/// A class with fewer references a get, each by what a miss costs, has fallen silent.
const SILENT_SHARE: f64 = 1e-4;
/// One that is asked for as often between two looks has begun to speak.
const WAKING_REQUESTS: u64 = 10;
/// However small the class, it is young for so many requests.
const YOUNG_REQUESTS_MIN: u64 = 64;
/// However large.
const YOUNG_REQUESTS_MAX: u64 = 250_000;
/// So many references between two looks tell a miss ratio.
const MEASURED_REFERENCES_MIN: f64 = 1_000.0;
/// A measured miss ratio as near to the curve's confirms it ...
const MISS_RATIO_ERROR: f64 = 0.03;
/// ... or one within so many standard deviations; and no curve's sizes are believed to be off by more.
const DEVIATIONS_MAX: f64 = 3.0;
/// Steps of a stretch.
const STRETCH_STEP: f64 = 0.005;
/// The most steps that a curve can be off by, in either direction.
const STRETCH_STEPS_MAX: u32 = 30;

#[derive(Clone, Debug)]
pub(super) struct Usage {
    hits: u64,
    misses: f64,
    pages: u64,
    /// References a get lately, fading; `None` before the second look.
    references: Option<f64>,
    references_of_curve: f64,
    /// Whether there were next to none lately.
    pub is_silent: bool,
    /// Requests ever when it was used first, or again after a silence; and at the last look.
    born_at_requests: u64,
    requests_at_look: u64,
    attempts_at_look: u64,
    /// It was asked for often enough since then; what it grows by later does not make it young again.
    grown_up: bool,
    /// It has had the same pages, all full, since so many looks.
    full_looks: u32,
    pub stretch: f64,
    /// Allocations without a free chunk at the last step, and whether there was one since the step before.
    pressed: u64,
    pub is_pressed: bool,
    marks: [Option<Mark>; 2],
    free_chunks_min: u64,
    pub target: Option<u64>,
    /// The pages that it would have by the split that is to prove itself.
    pub proposal: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// At least 1.
    pub gets: f64,
    pub half_gets: f64,
    /// How many the curves are of: an older one counts for less.
    pub gets_of_curves: f64,
    /// What a miss of the class costs, beside the mean of all.
    pub miss_cost: f64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    used_chunks: u64,
    /// The least free chunks between the mark before and this one.
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
            born_at_requests: requests(class),
            requests_at_look: requests(class),
            attempts_at_look: attempts(class),
            grown_up: false,
            full_looks: 0,
            stretch: 1.0,
            pressed: class.pressed(),
            is_pressed: false,
            marks: [None, None],
            free_chunks_min: class.free_chunks,
            target: None,
            proposal: None,
        }
    }

    /// The same of a class that has been in use before, and whose curve with the others' is of so many gets.
    pub fn after(self, profile: &ClassProfile, gets_of_curves: f64) -> Usage {
        let references_of_curve = profile.curve.references() / gets_of_curves;
        Usage { misses: profile.misses, references_of_curve, ..self }
    }

    pub fn note(&mut self, class: &ClassSnapshot) {
        self.free_chunks_min = self.free_chunks_min.min(class.free_chunks);
        self.is_pressed = class.pressed() > self.pressed;
        self.pressed = class.pressed();
        if class.pages != self.pages || class.free_chunks >= class.chunks_per_page as u64 {
            (self.pages, self.full_looks) = (class.pages, 0);
        }
    }

    /// Every look: takes in what happened since the last.
    pub fn look(&mut self, class: &ClassSnapshot, profile: &ClassProfile, since: Since) {
        let misses = (profile.misses - self.misses).max(0.0);
        let hits = class.hits.saturating_sub(self.hits) as f64;
        let references = hits + misses;
        (self.hits, self.misses) = (class.hits, profile.misses);
        let lately = references / since.gets;
        let kept = 0.5f64.powf(since.gets / since.half_gets);
        let faded = |now: f64, before: Option<f64>| now + (before.unwrap_or(now) - now) * kept;
        let fading = faded(lately, self.references);
        let kept = (1.0 - since.gets / since.gets_of_curves).max(0.0);
        self.references_of_curve = lately + (self.references_of_curve - lately) * kept;
        self.references = Some(fading);
        self.is_silent = fading.max(lately) * since.miss_cost < SILENT_SHARE;
        // A class that is stored to and never read does not stay young for ever.
        let asked = requests(class).saturating_sub(self.requests_at_look) as f64;
        self.requests_at_look = requests(class);
        self.attempts_at_look = attempts(class);
        if self.is_silent && asked * since.miss_cost < SILENT_SHARE * since.gets {
            self.born_at_requests = requests(class);
            self.grown_up = false;
        }
        self.grown_up = !self.is_young(class);
        self.full_looks += 1;
        if self.full_looks > 1 && references >= MEASURED_REFERENCES_MIN {
            let chunks = class.pages * class.chunks_per_page as u64;
            self.fit(profile, chunks, misses, references);
        }
    }

    /// Holds the curve against the misses measured at `chunks` chunks. A sampled cliff may stand a little too
    /// near or too far: then some small stretch explains what is measured.
    fn fit(&mut self, profile: &ClassProfile, chunks: u64, misses: f64, references: f64) {
        let measured = misses / references;
        let error =
            |stretch: f64| profile.curve.miss_ratio((chunks as f64 / stretch) as u64) - measured;
        // The misses are of the sample, too.
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
        // The nearest to what was believed, and then one step more: what is left of a cliff is not worth much.
        let fits = stretches.filter(|&stretch| error(stretch).abs() <= error_max);
        let nearer =
            |a: &f64, b: &f64| (a - self.stretch).abs().total_cmp(&(b - self.stretch).abs());
        if let Some(fit) = fits.min_by(nearer) {
            let further = STRETCH_STEP * (fit - self.stretch).signum();
            self.stretch = if further > 0.0 { fit + further } else { fit };
        }
    }

    /// Every window: what is looked back to.
    pub fn mark(&mut self, class: &ClassSnapshot) {
        let mark = Mark { used_chunks: class.used_chunks, free_chunks_min: self.free_chunks_min };
        self.marks = [Some(mark), self.marks[0].take()];
        self.free_chunks_min = class.free_chunks;
    }

    /// What a reference of its curve counts: more than one where there were more lately.
    pub fn weight(&self) -> f64 {
        match self.references {
            Some(references) if self.references_of_curve > 0.0 => {
                references / self.references_of_curve
            }
            _ => 1.0,
        }
    }

    pub fn is_awake(&self, class: &ClassSnapshot) -> bool {
        !self.is_silent || attempts(class).saturating_sub(self.attempts_at_look) >= WAKING_REQUESTS
    }

    /// Whether its keys have had too little time to come again for its curve to be believed.
    pub fn is_young(&self, class: &ClassSnapshot) -> bool {
        if self.grown_up {
            return false;
        }
        let chunks = class.used_chunks + class.free_chunks;
        let youth = (2 * chunks).clamp(YOUNG_REQUESTS_MIN, YOUNG_REQUESTS_MAX);
        requests(class).saturating_sub(self.born_at_requests) < youth
    }

    /// Pages' worth of chunks that were free all the last one to two windows, but one, while the class
    /// grew by no page.
    pub fn idle_pages(&self, class: &ClassSnapshot) -> u64 {
        let [Some(newer), Some(older)] = &self.marks else { return 0 };
        let page = class.chunks_per_page as u64;
        let grown = class.used_chunks >= older.used_chunks + page;
        let free = self.free_chunks_min.min(newer.free_chunks_min);
        if grown { 0 } else { (free / page).saturating_sub(1) }
    }
}

/// Requests of the class ever: in a look-aside cache a miss is a store.
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

    /// A class of 10 pages of 10 chunks, looked at twice, with so many hits and misses between.
    fn looked_at(curve: Mrc, hits: u64, misses: f64) -> (Usage, ClassSnapshot, ClassProfile) {
        let cache = snapshot(10, vec![(10, curve)]);
        let (mut class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        profile.sample.rate = 0.1;
        let mut usage = Usage::new(&class);
        for _ in 0..2 {
            class.hits += hits;
            profile.misses += misses;
            usage.note(&class);
            let gets = hits as f64 + misses;
            usage.look(
                &class,
                &profile,
                Since { gets, half_gets: 1.0, gets_of_curves: gets, miss_cost: 1.0 },
            );
        }
        (usage, class, profile)
    }

    #[test]
    fn a_cliff_a_little_too_near_is_moved_and_one_far_off_is_not() {
        // By the curve 97 chunks hold the loop; but with 100 every get misses.
        let (usage, ..) = looked_at(cliff(97, 2_000.0), 0, 2_000.0);
        assert!((1.03..1.06).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = looked_at(cliff(103, 2_000.0), 2_000, 0.0);
        assert!((0.94..0.98).contains(&usage.stretch), "{}", usage.stretch);
        let (usage, ..) = looked_at(cliff(50, 2_000.0), 0, 2_000.0);
        assert_eq!(usage.stretch, 1.0, "no small stretch explains it");
    }

    #[test]
    fn a_curve_that_is_older_than_the_policy_counts_as_much_as_one_that_is_not() {
        let cache = snapshot(10, vec![(10, scan(10_000.0))]);
        let (mut class, mut profile) = (cache.classes[0], cache.profiles[0].clone());
        profile.misses = 1e7;
        let gets_of_curves = 1e6;
        let mut usage = Usage::new(&class).after(&profile, gets_of_curves);
        // A hundredth of the gets, now as then.
        for _ in 0..10 {
            class.sets += 250;
            profile.misses += 250.0;
            usage.look(
                &class,
                &profile,
                Since { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves, miss_cost: 1.0 },
            );
            assert!((usage.weight() - 1.0).abs() < 1e-9, "{}", usage.weight());
        }
    }

    #[test]
    fn a_class_that_is_only_stored_to_grows_up_and_one_that_rested_is_young_again() {
        let cache = snapshot(10, vec![(10, scan(1_000.0))]);
        let (mut class, profile) = (cache.classes[0], cache.profiles[0].clone());
        let mut usage = Usage::new(&class);
        let since =
            Since { gets: 25_000.0, half_gets: 50_000.0, gets_of_curves: 1e6, miss_cost: 1.0 };
        let mut look = |sets: u64, class: &mut ClassSnapshot| {
            class.sets += sets;
            usage.look(class, &profile, since);
            usage.is_young(class)
        };
        assert!(look(100, &mut class), "its first requests");
        assert!(!(0..10).map(|_| look(100, &mut class)).last().expect("ten looks"));
        // Nobody asks for a while, then somebody does.
        assert!(look(0, &mut class));
        assert!(look(100, &mut class));
    }
}
