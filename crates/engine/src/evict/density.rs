//! `eviction=density`: evicts the item that is expected to have the fewest hits per tick, of a sample of the class.
//!
//! ```text
//!   slots drawn at random ----\
//!   candidates kept -----------+--> lowest rank: the victim; second rank: the next victim (the runner-up);
//!   items entered since -------/     the second and the next ranks are kept for the next comparison
//! ```
//!
//! The rank of an item is its hit density: the expected hits per tick, which depends on the requests for the item
//! ([`Uses`](slabwise_base::Uses)) and on the time since the last one. The tuner learns the densities
//! (`profile/src/hazards.rs`). Until then, the item that was not requested for the longest time has the lowest density,
//! as in an LRU. A tick is a unit of the work clock. If costs of items are known, the rank is the expected cost of the
//! hits per tick, in units of the mean of the known costs of all classes. So ranks can be compared between classes. An
//! item of unknown cost counts as an item with the mean cost. Until densities were set, the unit is the mean of the class.
//!
//! All items of a class take chunks of the same size, so the rank does not depend on the size of an item. Only chained
//! items differ in size: there, the density is divided by the size.
//!
//! A class has one queue, COLD. A new item enters it at the head, or takes the position of the item that it replaces. A hit
//! changes no queue. Chained items cannot be drawn at random, so a search compares the items at the tail of their queue, and
//! moves some of them to the head.
//!
//! Sources: the densities are those of LHD (N. Beckmann and others, "LHD: Improving Cache Hit Rate by Maximizing Hit
//! Density", NSDI 2018), with other ages at the eviction (`profile/src/hazards.rs`). The kept candidates are those of K.
//! Psounis, B. Prabhakar, "Efficient randomized web-cache replacement schemes using samples from past eviction times",
//! IEEE/ACM Transactions on Networking 10(4), 2002.
//!
//! Invariant: without pinned items, a comparison evicts the item with the lowest rank of all candidates. The runner-up is
//! evicted without another comparison only if its rank has not risen since, and is below that of the newest item.

use super::lanes::{Lane, Place};
use super::order::{Entry, Info, Move, Order, Position, Victim, View};
use crate::layout::CHAINED;
use crate::mem::{QueueKind, Queued, Slot, SlotRun};
use slabwise_base::density::{Densities, Log2};
use slabwise_base::{Cost, Random, WorkTime};
use std::cell::Cell;
use std::sync::Arc;

/// The number of slots that are drawn for a comparison, if a page has at least [`RUN`] chunks.
const DRAWN: usize = 32;
/// The number of neighbouring slots that are drawn together. They are on the same page of the system in most cases, so the
/// address of the page is translated once.
const RUN: usize = 4;
/// The number of candidates that are kept for the next comparison.
const KEPT: usize = 8;
/// The largest number of items that have entered since the last comparison and are candidates, too. So items that are
/// requested only once leave soon.
const RECENT: usize = 8;
/// The number of chained items that a search compares.
const CHAINED_COMPARED: usize = 8;
/// The number of chained items that a search moves from the tail to the head before it compares items.
const CHAINED_MOVED: usize = 4;
/// The means over the last victims are those of about a page of chunks, but at least and at most of these numbers. With
/// more victims, the means would follow a page move too late. With fewer, they would vary by chance, and pages would move
/// without need.
const VICTIMS_AVERAGED_MIN: u32 = 32;
const VICTIMS_AVERAGED_MAX: u32 = 256;
/// The number of samples of a class that evicts no items. The victims of a class that does are the lowest of a sample of
/// this size, and a single sample says little about the next one.
const SAMPLES: usize = 8;
/// The class has stopped evicting if the last eviction was this number of ticks ago. A sample of such a class is used
/// again for this number of ticks.
const IDLE_TICKS: u32 = 16;

/// The mover evicts an item of the moving page if its density is at most this many times that of a usual victim. To evict
/// another item and to carry this one instead would take several times as long.
const COLD_TOLERANCE: f64 = 1.25;

/// The highest estimate of the age at which a class evicts. Items whose misses cost nothing would have a higher one, and
/// the work clock cannot represent ages close to 2^32.
const AGE_TICKS_MAX: u32 = 1 << 31;

/// The only queue that this kind uses.
const PLACE: Place = Place { lane: Lane::FIRST, queue: QueueKind::Cold };

/// The eviction order of one class.
#[derive(Debug)]
pub struct Density {
    densities: Arc<Densities>,
    /// The mean of the known costs of all classes, in units, when the densities were set. `None`: no cost was known.
    mean_cost_units: Option<u64>,
    random: Random,
    slots: Box<Slots>,
    victims: Option<VictimMeans>,
    /// The result of the last samples of the class while it evicted no items.
    sampled: Cell<Option<SampledVictim>>,
}

/// The slots whose items are the candidates of the next comparison.
#[derive(Debug)]
struct Slots {
    drawn: [Option<SlotRun>; DRAWN / RUN],
    kept: [Option<Slot>; KEPT],
    /// The candidate with the second rank in the last comparison. A comparison takes most of the time of an eviction, so
    /// every other eviction needs none.
    runner_up: Option<Candidate>,
    /// The slots of the items that entered last, as a ring.
    recent: [Option<Slot>; RECENT],
    /// The number of items that have entered the class.
    entered_count: usize,
    /// The number of items that had entered the class at the last comparison.
    compared_count: usize,
}

impl Slots {
    /// Returns the slot of the item that entered last.
    fn newest(&self) -> Option<Slot> {
        self.recent[self.entered_count.wrapping_sub(1) % RECENT]
    }

    /// Returns the slots of the items that have entered since the last comparison, the newest one first.
    #[inline]
    fn entered_since_comparison(&self) -> impl Iterator<Item = Slot> + '_ {
        let count = self.entered_count.wrapping_sub(self.compared_count).min(RECENT);
        let slot_of = |back| self.recent[self.entered_count.wrapping_sub(back) % RECENT];
        (1..=count).filter_map(slot_of)
    }
}

/// What is expected of a victim.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// The logarithm of the expected hits per tick, times the relative cost if costs are known.
    log_density: f64,
    /// The logarithm of the size in bytes.
    log_bytes: f64,
}

impl Expected {
    fn of(rank: Log2, item: Queued<'_>) -> Expected {
        let log_bytes = Log2::of_integer(item.counted_size_bytes()).as_f64();
        Expected { log_density: rank.as_f64(), log_bytes }
    }

    /// Changes both values of a mean towards those of another item, which has this weight.
    fn include(&mut self, other: Expected, weight: f64) {
        self.log_density += (other.log_density - self.log_density) * weight;
        self.log_bytes += (other.log_bytes - self.log_bytes) * weight;
    }
}

/// Means over the last victims, in which recent victims count more.
#[derive(Clone, Copy, Debug)]
struct VictimMeans {
    expected: Expected,
    /// The number of victims, up to the number that the means are of.
    count: u32,
    /// The time of the last eviction.
    last_at: WorkTime,
}

/// What is expected of the next victim, as samples show.
#[derive(Clone, Copy, Debug)]
struct SampledVictim {
    expected: Expected,
    /// The highest rank of a cold item ([`Order::is_cold`]).
    cold_rank: Log2,
    at: WorkTime,
    /// The number of pages of the class. If it has changed, the class may have lost its coldest items.
    page_count: u32,
}

/// A candidate with its rank.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    rank: Log2,
    slot: Slot,
}

/// The candidates with the lowest ranks, in ascending order.
struct Lowest {
    candidates: [Option<Candidate>; KEPT + 1],
    /// A candidate with this rank or a higher one is not one of the lowest.
    rank_end: Log2,
}

impl Lowest {
    fn new() -> Lowest {
        Lowest { candidates: [None; KEPT + 1], rank_end: Log2::MAX }
    }

    /// Adds a candidate if its rank is one of the lowest. Ignores a candidate that was added before.
    #[inline(always)]
    fn add(&mut self, added: Candidate) {
        if added.rank < self.rank_end {
            self.insert(added);
        }
    }

    /// Adds a candidate whose rank is below [`Lowest::rank_end`], unless it was added before.
    fn insert(&mut self, added: Candidate) {
        let is_higher =
            |other: &Option<Candidate>| other.is_none_or(|other| other.rank > added.rank);
        let at = self.candidates.iter().position(is_higher).expect("the last rank is higher");
        if self.candidates[..at].iter().flatten().any(|other| other.slot == added.slot) {
            return;
        }
        self.candidates.copy_within(at..KEPT, at + 1);
        self.candidates[at] = Some(added);
        self.rank_end = self.candidates[KEPT].map_or(Log2::MAX, |last| last.rank);
    }
}

/// The function that ranks the items of a class at one moment.
struct Ranking<'d> {
    densities: &'d Densities,
    now: WorkTime,
    /// The logarithm of the mean cost. `None`: no cost is known.
    log_mean_cost: Option<Log2>,
}

impl Ranking<'_> {
    /// Returns the logarithm of the expected hits per tick, times the relative cost if costs are known.
    #[inline(always)]
    fn rank(&self, item: Queued<'_>) -> Log2 {
        let density = self.densities.log(item.uses(), item.time().age_at(self.now));
        match self.log_mean_cost {
            None => density,
            Some(log_mean) => density + log_cost(item.cost(), log_mean),
        }
    }
}

/// Returns the logarithm of the quotient of a cost and the mean cost. It is 0 for an unknown cost.
#[inline]
fn log_cost(cost: Option<Cost>, log_mean: Log2) -> Log2 {
    let Some(cost) = cost else { return Log2(0) };
    let log_units = match cost.units() {
        // A miss of such an item costs nothing. Among these items, the one with the lowest density is evicted first.
        0 => Log2::of_integer(1) - Log2::of_integer(1 << 10),
        units => Log2::of_integer(units.into()),
    };
    log_units - log_mean
}

impl Density {
    pub fn new() -> Density {
        Density {
            densities: Arc::default(),
            mean_cost_units: None,
            random: Random::new(1),
            slots: Box::new(Slots {
                drawn: [None; DRAWN / RUN],
                kept: [None; KEPT],
                runner_up: None,
                recent: [None; RECENT],
                entered_count: 0,
                compared_count: 0,
            }),
            victims: None,
            sampled: Cell::default(),
        }
    }

    /// Returns the ranking of the items of the class at this time.
    #[inline]
    fn ranking(&self, view: &View<'_>, now: WorkTime) -> Ranking<'_> {
        let mean_units = || self.mean_cost_units.unwrap_or_else(|| view.costs.mean());
        let log_mean_cost = (view.costs.count > 0).then(|| Log2::of_integer(mean_units()));
        Ranking { densities: &self.densities, now, log_mean_cost }
    }

    /// Returns the candidates with the lowest ranks. An item that has expired or was flushed has the lowest rank.
    fn lowest(
        &self,
        view: &View<'_>,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> Lowest {
        let (mut lowest, ranking) = (Lowest::new(), self.ranking(view, now));
        let mut compare = |slot, item: Queued<'_>| {
            if item.is_unpinned() {
                let rank = if is_invalid(item) { Log2::MIN } else { ranking.rank(item) };
                lowest.add(Candidate { rank, slot });
            }
        };
        let (token, Slots { drawn, kept, .. }) = (&view.pages.token, &*self.slots);
        // The kept candidates come first. They have low ranks, so few of the others are added.
        for slot in kept.iter().flatten().copied().chain(self.slots.entered_since_comparison()) {
            token.queued_in(slot).into_iter().for_each(|item| compare(slot, item));
        }
        drawn.iter().flatten().for_each(|&run| token.for_each_queued(run, &mut compare));
        lowest
    }

    /// Returns the runner-up of the last comparison, unless its rank has risen since, or the rank of the item that entered
    /// last is not higher.
    fn take_runner_up(
        &mut self,
        view: &View<'_>,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> Option<Slot> {
        let Candidate { rank, slot } = self.slots.runner_up.take()?;
        let item = view.pages.token.queued_in(slot)?;
        let ranking = self.ranking(view, now);
        let is_as_low = |item: Queued<'_>| ranking.rank(item) <= rank;
        let is_lowest = item.is_unpinned() && (is_invalid(item) || is_as_low(item));
        let newest = self.slots.newest().and_then(|slot| view.pages.token.queued_in(slot));
        (is_lowest && !newest.is_some_and(is_as_low)).then_some(slot)
    }

    /// Draws the slots for the next comparison, and prefetches the chunks in them.
    fn draw(&mut self, view: &View<'_>) {
        let Density { slots, random, .. } = self;
        slots.drawn.fill_with(|| view.pages.token.random_run(RUN as u32, random.next_u64()));
    }

    /// Returns the next step of a search for a chained item.
    fn chained_victim(
        &self,
        view: &View<'_>,
        moves: usize,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> Victim {
        let queue = view.lanes.queue(PLACE);
        if moves < CHAINED_MOVED && queue.count() > (CHAINED_COMPARED + CHAINED_MOVED) as u64 {
            return Victim::Move(Move::within(PLACE.lane, PLACE.queue, PLACE.queue));
        }
        let ranking = self.ranking(view, now);
        let rank_of = |(position, item): (usize, Queued<'_>)| {
            let rank = if is_invalid(item) {
                Log2::MIN
            } else {
                ranking.rank(item) - Log2::of_integer(item.counted_size_bytes())
            };
            (rank, position)
        };
        let compared = queue.iter_from_tail(&view.pages.token).take(CHAINED_COMPARED);
        let unpinned = compared.enumerate().filter(|(_, item)| item.is_unpinned());
        match unpinned.map(rank_of).min() {
            Some((_, position)) => Victim::EvictAt(Position::FromTail(PLACE, position)),
            None => Victim::Nothing,
        }
    }

    /// Returns the estimated density and size of the next victim. `None`: the class has no item and never had a victim.
    fn next_victim(&self, view: &View<'_>, now: WorkTime) -> Option<Expected> {
        match &self.victims {
            Some(VictimMeans { expected, last_at, .. }) if last_at.age_at(now) <= IDLE_TICKS => {
                Some(*expected)
            }
            // A class that evicts no items has no recent victims, and its items grow older.
            _ => {
                let sampled = self.sampled_victim(view, now).map(|it| it.expected);
                sampled.or(self.victims.as_ref().map(|it| it.expected))
            }
        }
    }

    /// Returns what samples show of the next victim. Uses the last samples if they are recent. `None`: the class has no item.
    fn sampled_victim(&self, view: &View<'_>, now: WorkTime) -> Option<SampledVictim> {
        let page_count = view.pages.token.page_count();
        let is_valid =
            |it: &SampledVictim| it.page_count == page_count && it.at.age_at(now) <= IDLE_TICKS;
        let sampled = self.sampled.get().filter(is_valid).or_else(|| self.sample(view, now));
        self.sampled.set(sampled);
        sampled
    }

    /// Compares the items of new samples. The next victim has the means of those with the lowest densities, or the density
    /// and size of the item at the tail of the queue if all slots of the samples are empty.
    fn sample(&self, view: &View<'_>, now: WorkTime) -> Option<SampledVictim> {
        let (token, ranking) = (&view.pages.token, self.ranking(view, now));
        let page_count = token.page_count();
        let expected_of = |item| Expected::of(ranking.rank(item), item);
        let found =
            |expected, cold_rank| SampledVictim { expected, cold_rank, at: now, page_count };
        let queue = view.lanes.queue(PLACE);
        if token.class() == CHAINED {
            let compared = queue.iter_from_tail(token).take(CHAINED_COMPARED).map(expected_of);
            let per_byte = |it: &Expected| it.log_density - it.log_bytes;
            let coldest = compared.min_by(|a, b| per_byte(a).total_cmp(&per_byte(b)))?;
            return Some(found(coldest, Log2::MIN));
        }
        let mut random = Random::new(u64::from(now.0));
        let mut ranks = Vec::with_capacity(SAMPLES * DRAWN);
        let mut lowest = || {
            let runs =
                (0..DRAWN / RUN).map_while(|_| token.random_run(RUN as u32, random.next_u64()));
            let mut lowest: Option<Expected> = None;
            runs.for_each(|run| {
                token.for_each_queued(run, |_, item| {
                    ranks.push(ranking.rank(item));
                    let other = expected_of(item);
                    if lowest.is_none_or(|it| other.log_density < it.log_density) {
                        lowest = Some(other);
                    }
                });
            });
            lowest
        };
        let mut samples = (0..SAMPLES).filter_map(|_| lowest()).zip(1..);
        let Some((mut mean, _)) = samples.next() else {
            return queue.tail(token).map(|tail| found(expected_of(tail), ranking.rank(tail)));
        };
        samples.for_each(|(sample, count)| mean.include(sample, 1.0 / f64::from(count)));
        // The class loses the coldest of its items with a page: this share of them.
        let lost = (ranks.len() / page_count as usize).min(ranks.len() - 1);
        let (_, &mut lost_rank, _) = ranks.select_nth_unstable(lost);
        let usual_rank = Log2::of(mean.log_density.exp2() * COLD_TOLERANCE);
        Some(found(mean, usual_rank.max(lost_rank)))
    }
}

impl Order for Density {
    const INFO: Info = Info {
        uses_costs: true,
        counts_uses: true,
        evicts_in_batches: true,
        ..Info::new("density", "the fewest expected hits, as learned from a sample of the requests")
    };

    fn enter(&mut self, view: &View<'_>, item: Queued<'_>, _queue: QueueKind) -> Entry {
        if let Some(slot) = view.pages.token.slot_of_chunk(item) {
            let Slots { recent, entered_count, .. } = &mut *self.slots;
            recent[*entered_count % RECENT] = Some(slot);
            *entered_count = entered_count.wrapping_add(1);
        }
        Entry { place: PLACE, rank: None, displaced: None }
    }

    #[inline]
    fn successors_take_places(&self, view: &View<'_>) -> bool {
        view.pages.token.class() != CHAINED
    }

    fn victim_preferring(
        &mut self,
        view: &View<'_>,
        moves: usize,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> Victim {
        if view.pages.token.class() == CHAINED {
            return self.chained_victim(view, moves, now, is_invalid);
        }
        if self.slots.drawn[0].is_none() {
            self.draw(view);
        }
        if let Some(slot) = self.take_runner_up(view, now, &is_invalid) {
            return Victim::EvictAt(Position::In(slot));
        }
        let lowest = self.lowest(view, now, is_invalid);
        let [victim, kept @ ..] = lowest.candidates;
        self.slots.kept = kept.map(|candidate| candidate.map(|candidate| candidate.slot));
        self.slots.runner_up = kept[0];
        self.slots.compared_count = self.slots.entered_count;
        // The victim leaves the queue next, and the runner-up soon.
        for candidate in [victim, kept[0]].into_iter().flatten() {
            if let Some(item) = view.pages.token.queued_in(candidate.slot) {
                item.prefetch_neighbours();
            }
        }
        self.draw(view);
        match victim {
            Some(victim) => Victim::EvictAt(Position::In(victim.slot)),
            None => Victim::Nothing,
        }
    }

    fn note_evicted(&mut self, view: &View<'_>, item: Queued<'_>, now: WorkTime) {
        let evicted = Expected::of(self.ranking(view, now).rank(item), item);
        let means = VictimMeans { expected: evicted, count: 0, last_at: now };
        let means = self.victims.get_or_insert(means);
        let page_chunks = view.pages.token.chunks_per_page();
        let averaged = page_chunks.clamp(VICTIMS_AVERAGED_MIN, VICTIMS_AVERAGED_MAX);
        means.count = averaged.min(means.count + 1);
        means.expected.include(evicted, 1.0 / f64::from(means.count));
        means.last_at = now;
    }

    fn eviction_age(&self, view: &View<'_>, now: WorkTime) -> Option<u32> {
        let expected = self.next_victim(view, now)?;
        Some((-expected.log_density).exp2().ceil().min(f64::from(AGE_TICKS_MAX)) as u32)
    }

    fn coldness(&self, view: &View<'_>, now: WorkTime) -> Option<u32> {
        let expected = self.next_victim(view, now)?;
        // A class with chunks evicts a chunk at a time, whatever the size of the item.
        let log_bytes = match view.pages.token.chunk_size_bytes() {
            0 => expected.log_bytes,
            size_bytes => (size_bytes as f64).log2(),
        };
        // Logarithms of densities and of relative costs are between -48 and 48, and those of sizes are below 64.
        Some(((96.0 + log_bytes - expected.log_density).max(0.0) * 1_024.0) as u32)
    }

    fn is_cold(&self, view: &View<'_>, item: Queued<'_>, now: WorkTime) -> bool {
        let sampled = self.sampled_victim(view, now);
        sampled.is_some_and(|it| self.ranking(view, now).rank(item) <= it.cold_rank)
    }

    fn set_densities(&mut self, densities: &Arc<Densities>, mean_cost_units: Option<u64>) {
        (self.densities, self.mean_cost_units) = (Arc::clone(densities), mean_cost_units);
        self.sampled.set(None);
        // Its rank has another unit.
        self.slots.runner_up = None;
    }

    fn forget(&mut self) {
        *self = Density {
            densities: Arc::clone(&self.densities),
            mean_cost_units: self.mean_cost_units,
            ..Density::new()
        };
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}
