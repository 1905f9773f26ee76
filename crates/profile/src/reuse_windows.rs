//! The reuse times of the last M gets for each class, and the curves computed from them. M is the number of gets in a
//! window (`window_gets`).
//!
//! ```text
//!   gets        ... | last window: M gets | filling ...
//!   of a class      :  reuse times        :  reuse times      each a histogram, in the class's own references
//!                      '------------ a curve -----------'
//! ```
//!
//! A key may have been used last in an earlier window; its reuse time is not cut off at the start of the window. When
//! the filling window is full, it becomes the last window for all classes at once. So the curves of all classes cover
//! the same gets: between M and 2 M of the latest gets. With sampling, a window is full only when it also has M sampled
//! gets, or [`SAMPLED_GETS_ENOUGH`] of them.
//!
//! The curves follow from the footprints of [`reuse_times`](crate::reuse_times), as in X. Hu and others, "LAMA", ATC
//! 2015, which uses the references of each class in the last M requests.
//!
//! The clock of a class counts its references. A sampled reference advances the clock by `scale`, the number of
//! references that it represents. So the clock counts sampled and unsampled references at any sampling rate.

use crate::mrc::Mrc;
use crate::reuse_times::{ReuseTimes, curve};
use slabwise_base::ClassId;

/// The number of sampled gets that suffices for a window. It is some thousand for each class.
const SAMPLED_GETS_ENOUGH: f64 = 100_000.0;

/// The time of a key's last use: the value of the class's clock, which counts the references of the class. It wraps
/// around after 2^32 references, so the reuse time of a key that is reused after more references is too small.
pub type UsedAt = u32;

/// The reuse times of all classes.
#[derive(Debug)]
pub struct ReuseWindows {
    /// The number of gets in a window: M.
    window_gets: f64,
    /// The number of gets in the filling window.
    filled_gets: f64,
    /// The number of sampled gets in the filling window.
    sampled_gets: f64,
    /// The reuse times of each class, by the number of the class; `None` for a class without references.
    classes: Vec<Option<Box<ClassReuses>>>,
}

/// The reuse times of one class.
#[derive(Debug, Default)]
pub struct ClassReuses {
    /// The clock of the class: the number of its references since the start.
    time: f64,
    filling: Window,
    last: Window,
}

impl ClassReuses {
    /// Adds a share of the references of another class. `share_of` returns the share of the references with a reuse time,
    /// or of the references that miss at every size. For each reference of the other class, this class has `stretch`
    /// references in the same time.
    pub fn add_share(
        &mut self,
        other: &ClassReuses,
        share: f64,
        share_of: impl Fn(Option<f64>) -> f64,
        stretch: f64,
    ) {
        self.time += other.time * share;
        let windows = [(&mut self.filling, &other.filling), (&mut self.last, &other.last)];
        for (window, more) in windows {
            window.began += more.began * share;
            window.reuses.add_stretched(&more.reuses, |time| share_of(Some(time)), stretch);
            window.firsts.add_stretched(&more.firsts, |_| share_of(None), stretch);
        }
    }

    /// Returns the ranks of reuse times, as [`ReuseTimes::ranks`] does.
    pub fn ranks(&self) -> Vec<(u64, f64)> {
        let mut all = self.last.reuses.clone();
        all.add(&self.filling.reuses);
        all.ranks()
    }

    /// Returns the current value of the clock.
    pub fn now(&self) -> UsedAt {
        self.time as u64 as UsedAt
    }
}

/// The references of a class in one window.
#[derive(Debug, Default)]
struct Window {
    /// The clock of the class at the start of the window.
    began: f64,
    reuses: ReuseTimes,
    /// The first intervals of references that miss at every size.
    firsts: ReuseTimes,
}

impl ReuseWindows {
    /// Starts without references. A window has `window_gets` gets.
    ///
    /// # Panics
    /// Panics if `window_gets` is 0.
    pub fn new(window_gets: u64) -> ReuseWindows {
        assert!(window_gets > 0, "a window must have at least 1 get, not 0");
        ReuseWindows {
            window_gets: window_gets as f64,
            filled_gets: 0.0,
            sampled_gets: 0.0,
            classes: Vec::new(),
        }
    }

    pub fn window_gets(&self) -> u64 {
        self.window_gets as u64
    }

    /// Counts a sampled get of any class that represents `scale` gets.
    pub fn get(&mut self, scale: f64) {
        let is_enough = self.sampled_gets >= self.window_gets.min(SAMPLED_GETS_ENOUGH);
        if is_enough && self.filled_gets >= self.window_gets {
            (self.filled_gets, self.sampled_gets) = (0.0, 0.0);
            for class in self.classes.iter_mut().flatten() {
                let filling = Window { began: class.time, ..Window::default() };
                class.last = std::mem::replace(&mut class.filling, filling);
            }
        }
        self.filled_gets += scale;
        self.sampled_gets += 1.0;
    }

    /// Counts a reference of the class to a key that was last used at `used_at`. With `None` the reference misses at
    /// every size. The reference represents `scale` references; `part`, from 0 to below 1, selects the one whose reuse
    /// time counts.
    pub fn reference(&mut self, class: ClassId, used_at: Option<UsedAt>, scale: f64, part: f64) {
        let class = self.class_mut(class);
        let represented = (part * scale) as u64 + 1;
        match used_at {
            Some(used_at) => {
                let since = (class.time as u64 as UsedAt).wrapping_sub(used_at);
                class.filling.reuses.record(u64::from(since) + represented, scale);
            }
            None => class.filling.firsts.record(class.time as u64 + represented, scale),
        }
        class.time += scale;
    }

    /// Returns the current value of the class's clock.
    pub fn now(&mut self, class: ClassId) -> UsedAt {
        self.class_mut(class).now()
    }

    /// Removes the reuse times of a class and returns them; `None` if there are none.
    pub fn take(&mut self, class: ClassId) -> Option<ClassReuses> {
        self.classes.get_mut(class.index())?.take().map(|reuses| *reuses)
    }

    /// Gives these reuse times to a class, which has none.
    pub fn give(&mut self, class: ClassId, reuses: ClassReuses) {
        *self.class_mut(class) = reuses;
    }

    /// Returns the curve of a class, computed from the last window and the filling window.
    pub fn mrc(&self, class: ClassId) -> Mrc {
        let Some(Some(class)) = self.classes.get(class.index()) else { return Mrc::empty() };
        let (mut reuses, mut firsts) = (class.last.reuses.clone(), class.last.firsts.clone());
        reuses.add(&class.filling.reuses);
        firsts.add(&class.filling.firsts);
        curve(&reuses, &firsts, class.last.began..class.time)
    }

    pub fn size_bytes(&self) -> usize {
        let of_window = |window: &Window| window.reuses.size_bytes() + window.firsts.size_bytes();
        let size_bytes = |class: &ClassReuses| {
            size_of::<ClassReuses>() + of_window(&class.filling) + of_window(&class.last)
        };
        let classes: usize = self.classes.iter().flatten().map(|class| size_bytes(class)).sum();
        self.classes.capacity() * size_of::<Option<Box<ClassReuses>>>() + classes
    }

    fn class_mut(&mut self, class: ClassId) -> &mut ClassReuses {
        if class.index() >= self.classes.len() {
            self.classes.resize_with(class.index() + 1, || None);
        }
        self.classes[class.index()].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{ReuseWindows, SAMPLED_GETS_ENOUGH, UsedAt};
    use crate::key_map::KeyMap;
    use crate::{Distances, Mrc, StackDistances};
    use slabwise_base::random::mix;
    use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
    use slabwise_base::{ClassId, Random};

    const CLASS: ClassId = ClassId(3);

    /// The reuse times of one class, recorded for a sample of its keys.
    struct Sampled {
        windows: ReuseWindows,
        used_at: KeyMap<UsedAt>,
        random: Random,
        threshold: u64,
    }

    impl Sampled {
        fn new(window_gets: u64, rate: f64) -> Sampled {
            Sampled {
                windows: ReuseWindows::new(window_gets),
                used_at: KeyMap::default(),
                random: Random::new(window_gets),
                threshold: threshold_of(rate),
            }
        }

        fn get(&mut self, key: u64) {
            if !is_sampled(mix(key), self.threshold) {
                return;
            }
            let scale = 1.0 / rate_of(self.threshold);
            self.windows.get(scale);
            let used_at = self.used_at.get(&key).copied();
            self.windows.reference(CLASS, used_at, scale, self.random.unit());
            self.used_at.insert(key, self.windows.now(CLASS));
        }
    }

    /// Returns the exact curve of the references from the index `first` on.
    fn exact(keys: impl Iterator<Item = u64>, first: usize) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        for (at, key) in keys.enumerate() {
            let distance = stack.reference(key);
            if at >= first {
                distances.record(distance);
            }
        }
        distances.mrc(1)
    }

    #[test]
    fn the_curve_of_a_loop_has_its_cliff_even_if_the_loop_exceeds_the_window() {
        for keys in [1, 3, 31, 100, 5_000] {
            let mut class = Sampled::new(1_000, 1.0);
            (0..4 * keys + 3_000).for_each(|at| class.get(at % keys));
            let curve = class.windows.mrc(CLASS);
            let references = curve.references();
            assert!(
                (1_000.0..=2_000.0).contains(&references),
                "{keys} keys: 1,000 to 2,000 gets count, not {references}"
            );
            assert_eq!(
                (curve.miss_ratio(keys - 1), curve.miss_ratio(keys)),
                (1.0, 0.0),
                "{keys} keys: the cliff is at {keys} chunks: {curve:?}"
            );
        }
    }

    /// Returns the error of the miss ratio of random keys at each of 40 sizes.
    fn errors(seed: u64, rate: f64) -> Vec<f64> {
        const BOUND: u64 = 20_000;
        let mut random = Random::new(seed);
        let key = |_| mix(seed) ^ random.below(BOUND).min(random.below(BOUND));
        let keys: Vec<u64> = (0..300_000).map(key).collect();
        // At any sampling rate the windows cover the same gets.
        let mut class = Sampled::new((50_000.0 * rate) as u64, rate);
        keys.iter().for_each(|&key| class.get(key));
        let (found, exact) = (class.windows.mrc(CLASS), exact(keys.into_iter(), 200_000));
        let sizes = (0..BOUND).step_by(500);
        sizes.map(|at| found.miss_ratio(at) - exact.miss_ratio(at)).collect()
    }

    #[test]
    fn curves_of_random_keys_equal_curves_of_exact_distances() {
        for seed in 0..5 {
            let errors = errors(seed, 1.0);
            assert!(
                errors.iter().all(|off| off.abs() < 0.01),
                "seed {seed}: errors are below 0.01: {errors:?}"
            );
        }
    }

    #[test]
    fn the_mean_error_of_curves_of_samples_is_small() {
        const SEEDS: u64 = 20;
        let mut means = vec![0.0; 40];
        for seed in 0..SEEDS {
            let errors = errors(seed, 0.1);
            means.iter_mut().zip(errors).for_each(|(mean, off)| *mean += off / SEEDS as f64);
        }
        assert!(
            means.iter().all(|off| off.abs() < 0.02),
            "seeds below {SEEDS}: mean errors are below 0.02: {means:?}"
        );
    }

    #[test]
    fn gets_before_the_last_window_are_forgotten() {
        let mut class = Sampled::new(1_000, 1.0);
        let hits_of_10 = |class: &Sampled| {
            let curve = class.windows.mrc(CLASS);
            curve.references() - curve.misses(10)
        };
        (0..5_000).for_each(|at| class.get(at % 10));
        assert_eq!(hits_of_10(&class), 2_000.0, "the curve covers two full windows");
        // The following keys are not reused.
        (0..999).for_each(|at| class.get(100 + at));
        assert_eq!(
            hits_of_10(&class),
            1_000.0,
            "the last window and a part of the next are covered"
        );
        (0..1_002).for_each(|at| class.get(10_000 + at));
        assert_eq!(hits_of_10(&class), 0.0);
        assert_eq!(class.windows.mrc(CLASS).references(), 1_001.0);
    }

    #[test]
    fn a_window_of_a_sample_is_full_when_it_has_enough_sampled_gets() {
        let mut windows = ReuseWindows::new(1_000_000);
        let (scale, enough) = (100.0, SAMPLED_GETS_ENOUGH);
        let mut most = 0.0f64;
        for _ in 0..(5 * enough as usize) {
            windows.get(scale);
            windows.reference(CLASS, None, scale, 0.0);
            most = most.max(windows.mrc(CLASS).references());
        }
        assert_eq!(most, 2.0 * scale * enough);
    }

    #[test]
    fn reuse_times_move_to_another_class() {
        let mut class = Sampled::new(1_000, 1.0);
        (0..50).for_each(|at| class.get(at % 5));
        assert_ne!(class.windows.mrc(CLASS), Mrc::empty());
        let taken = class.windows.take(CLASS);
        assert!(class.windows.take(ClassId(99)).is_none());
        assert_eq!(class.windows.mrc(CLASS), Mrc::empty());
        assert_eq!(class.windows.now(CLASS), 0);
        let other = ClassId(4);
        class.windows.give(other, taken.expect("the class had reuse times"));
        assert_eq!((class.windows.now(other), class.windows.mrc(other).misses(5)), (50, 5.0));
    }
}
