//! The curves that policies read, estimated from the counters of the server.
//!
//! memcached counts the hits of the queue COLD. Its items are those of the class that are evicted next, so their hits per
//! item are the hits that the class would lose with fewer chunks. [`ColdHits`] builds a curve around the present size of
//! each class from this number:
//!
//! ```text
//!   misses                          misses(x) = m - g ln(x / x0)
//!     |  \                            x0  the present chunks of the class
//!     |    \.                         m   its present misses
//!     |       '-o--..___              g   x0 times its hits per chunk of COLD: the slope at x0 on a logarithmic scale
//!     '---------x0------ chunks
//! ```
//!
//! The shape is that of the hit ratios of web caches, which grow about with the logarithm of the memory (L. Breslau and
//! others, "Web Caching and Zipf-like Distributions: Evidence and Implications", INFOCOM 1999). With this shape `g` does
//! not depend on the size of the class, so counts from before a page move remain valid. The curve is convex, so it shows
//! no cliff.
//!
//! Counts decay with a half-life of as many gets as the cache has items, but at least [`HALF_LIFE_GETS_MIN`], so that
//! chance decides about no page.
//!
//! Invariants: the misses of a curve never increase with the size and never exceed the references; a class that has not
//! evicted recently gains nothing from more chunks than it uses.

use crate::tracked::Tracked;
use slabwise_observer::counters::{ClassCounters, Counters};
use slabwise_policy::{ClassProfile, Snapshot};
use slabwise_profile::{Mrc, Point, Sample};

/// The share of their weight that counts keep when the traffic has shifted: that of two half-lives. The shift is noticed
/// after some seconds, so some of the counts are of the new traffic.
const KEPT_AFTER_SHIFT: f64 = 0.25;
/// The minimum half-life of counts, in gets.
const HALF_LIFE_GETS_MIN: f64 = 400_000.0;
/// COLD has at least this share of the chunks of a class, as far as the slope is concerned. A class that was just filled
/// has few items in COLD, whose hits are not those of the items that it would evict later.
const COLD_SHARE_MIN: f64 = 0.1;
/// A curve ends at this multiple of the present size. Farther away, the shape of the curve is a guess.
const SIZE_FACTOR_MAX: u64 = 4;
/// The number of points on each side of the present size, in a class with many pages.
const POINTS_PER_SIDE: u64 = 32;
/// A class with fewer decayed evictions than this has not evicted recently.
const EVICTIONS_MIN: f64 = 0.5;

/// The decayed counts of one class.
#[derive(Clone, Debug, Default)]
struct ClassState {
    last: ClassCounters,
    /// The hits of the class.
    hits: f64,
    /// The stores of the class. In a look-aside cache they are its misses.
    misses: f64,
    /// The sum over the hits of COLD, of the chunks of the class divided by the chunks of COLD: `g` of the curve.
    slope: f64,
    evictions: f64,
}

/// Curves from the hits of the queue COLD.
#[derive(Debug, Default)]
pub struct ColdHits {
    states: Tracked<ClassState>,
    gets: Option<u64>,
}

impl ClassState {
    fn new(class: &ClassCounters) -> ClassState {
        ClassState { last: *class, ..ClassState::default() }
    }

    /// Adds the counts since the last reading. Older counts keep the share `kept` of their weight.
    fn update(&mut self, class: &ClassCounters, kept: f64) {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let (now, before) = (&class.shown, &self.last.shown);
        let moved = (now.pages.max(1) as f64 / before.pages.max(1) as f64).ln();
        // With another number of pages, the earlier requests would have had other misses.
        let saved = (self.slope * moved).clamp(-self.hits, self.misses);
        self.hits = (self.hits + saved) * kept + since(now.hits, before.hits);
        self.misses = (self.misses - saved) * kept + since(now.sets, before.sets);
        let evicted = since(now.evicted, before.evicted);
        self.evictions =
            self.evictions * kept + evicted + since(now.out_of_memory, before.out_of_memory);
        let share = (class.cold.items as f64 / class.items.max(1) as f64).max(COLD_SHARE_MIN);
        self.slope = self.slope * kept + since(class.cold.hits, self.last.cold.hits) / share;
        self.last = *class;
    }

    fn profile(&self) -> ClassProfile {
        let shown = &self.last.shown;
        ClassProfile {
            curve: self.curve(),
            footprint_curve: self.curve(),
            sample: Sample { rate: 1.0, keys: shown.used_chunks },
            misses: shown.sets as f64,
            misses_by_eviction: shown.evicted.min(shown.sets) as f64,
            ..ClassProfile::default()
        }
    }

    fn curve(&self) -> Mrc {
        let shown = &self.last.shown;
        let per_page = shown.chunks_per_page as u64;
        let references = self.hits + self.misses;
        let evicts = self.evictions >= EVICTIONS_MIN;
        let size = if evicts { shown.pages * per_page } else { shown.used_chunks };
        if size == 0 || references == 0.0 {
            return Mrc::new(vec![Point { chunks: 0, misses: references }]);
        }
        let misses_at = |chunks: u64| {
            let factor = chunks as f64 / size as f64;
            let gained = if factor > 1.0 && !evicts { 0.0 } else { self.slope * factor.ln() };
            (self.misses - gained).clamp(0.0, references)
        };
        let mut points = vec![Point { chunks: 0, misses: references }];
        for pages in sizes(shown.pages.max(1)) {
            let chunks = pages * per_page;
            points.push(Point { chunks, misses: misses_at(chunks) });
        }
        Mrc::new(points)
    }
}

/// Returns the numbers of pages at which a curve has points, in ascending order: every number near `pages`, and some of
/// the others.
fn sizes(pages: u64) -> Vec<u64> {
    let step = (pages / POINTS_PER_SIDE).max(1);
    let below = (1..pages).step_by(step as usize);
    let near = [pages - 1, pages, pages + 1].into_iter().filter(|&it| it > 0);
    let above = (pages + 1..=pages * SIZE_FACTOR_MAX).step_by(step as usize);
    let mut sizes: Vec<u64> = below.chain(near).chain(above).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl ColdHits {
    /// Receives one reading of the counters.
    pub fn observe(&mut self, counters: &Counters) {
        let gets = counters.gets.saturating_sub(self.gets.unwrap_or(counters.gets)) as f64;
        self.gets = Some(counters.gets);
        let items: u64 = counters.classes.iter().map(|class| class.items).sum();
        let kept = 0.5f64.powf(gets / (items as f64).max(HALF_LIFE_GETS_MIN));
        self.states.follow(&counters.classes, |class| class.shown, ClassState::new);
        for (class, state) in counters.classes.iter().zip(self.states.iter_mut()) {
            state.update(class, kept);
        }
    }

    /// Gives less weight to all counts so far, because the traffic has shifted.
    pub fn shifted(&mut self) {
        for state in self.states.iter_mut() {
            let ClassState { hits, misses, slope, evictions, last: _ } = state;
            [hits, misses, slope, evictions]
                .into_iter()
                .for_each(|count| *count *= KEPT_AFTER_SHIFT);
        }
    }

    /// Returns the profile of each class, in the order of the classes of the snapshot; empty if there is none yet.
    pub fn profiles(&mut self, snapshot: &Snapshot) -> Vec<ClassProfile> {
        let known = self.states.iter().map(|state| state.last.shown.class);
        // The snapshot is that of the last reading, unless the caller read the server twice.
        if !known.eq(snapshot.classes.iter().map(|class| class.class)) {
            return Vec::new();
        }
        self.states.iter().map(ClassState::profile).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ColdHits, sizes};
    use slabwise_base::{ClassId, Ticks};
    use slabwise_observer::counters::{ClassCounters, Counters, QueueCounters};
    use slabwise_policy::ClassSnapshot;

    const PER_PAGE: usize = 100;

    fn class(pages: u64, requests: [u64; 3], evicted: u64) -> ClassCounters {
        let [hits, sets, cold_hits] = requests;
        let chunks = pages * PER_PAGE as u64;
        let shown = ClassSnapshot {
            pages,
            used_chunks: chunks,
            hits,
            sets,
            evicted,
            ..ClassSnapshot::empty(ClassId(3), 1_000, PER_PAGE)
        };
        let cold = QueueCounters { items: chunks / 2, hits: cold_hits };
        ClassCounters { shown, items: chunks, cold, ..ClassCounters::default() }
    }

    fn counters(gets: u64, class: ClassCounters) -> Counters {
        Counters { gets, classes: vec![class], ..Counters::default() }
    }

    fn curve_of(readings: &[Counters]) -> slabwise_profile::Mrc {
        let mut curves = ColdHits::default();
        readings.iter().for_each(|reading| curves.observe(reading));
        let snapshot = readings[readings.len() - 1].snapshot(Ticks(0), 0.0);
        curves.profiles(&snapshot).remove(0).curve
    }

    #[test]
    fn the_curve_has_the_present_misses_and_the_hits_of_cold_as_slope() {
        let curve = curve_of(&[
            counters(0, class(10, [0, 0, 0], 0)),
            counters(1_000, class(10, [900, 100, 25], 90)),
        ]);
        assert_eq!(curve.references(), 1_000.0);
        assert_eq!(curve.misses(1_000), 100.0);
        // 25 hits of half of the chunks: 50 hits per e-fold.
        let more = curve.misses(1_000) - curve.misses(1_100);
        assert!((more - 50.0 * 1.1f64.ln()).abs() < 1e-9, "{more}");
        let less = curve.misses(500) - curve.misses(1_000);
        assert!((less - 50.0 * 2f64.ln()).abs() < 1e-9, "{less}");
    }

    #[test]
    fn a_page_move_changes_the_misses_but_not_the_slope() {
        let before =
            [counters(0, class(10, [0, 0, 0], 0)), counters(1_000, class(10, [900, 100, 25], 90))];
        let unmoved = curve_of(&before);
        let [first, second] = before;
        let moved = curve_of(&[first, second, counters(1_000, class(12, [900, 100, 25], 90))]);
        assert!((moved.misses(1_200) - unmoved.misses(1_200)).abs() < 1e-9);
        assert!((moved.misses(800) - unmoved.misses(800)).abs() < 1e-9);
    }

    #[test]
    fn a_class_that_evicts_nothing_gains_nothing() {
        let curve = curve_of(&[
            counters(0, class(10, [0, 0, 0], 50)),
            counters(1_000, class(10, [900, 100, 25], 50)),
        ]);
        assert_eq!(curve.misses(1_000), curve.misses(2_000));
        assert!(curve.misses(900) > curve.misses(1_000));
    }

    #[test]
    fn other_classes_than_those_of_the_reading_have_no_profiles() {
        let mut curves = ColdHits::default();
        let reading = counters(0, class(1, [0, 0, 0], 0));
        curves.observe(&reading);
        let mut snapshot = reading.snapshot(Ticks(0), 0.0);
        assert_eq!(curves.profiles(&snapshot).len(), 1);
        snapshot.classes[0].class = ClassId(4);
        assert!(curves.profiles(&snapshot).is_empty());
    }

    #[test]
    fn a_curve_has_points_at_the_next_and_the_last_page() {
        for pages in [1, 2, 63, 5_000] {
            let sizes = sizes(pages);
            assert!(sizes.is_sorted() && sizes[0] == 1 && sizes.len() < 260, "{pages}: {sizes:?}");
            for near in [pages - 1, pages, pages + 1] {
                assert!(near == 0 || sizes.contains(&near), "{pages}: {near}");
            }
        }
    }
}
