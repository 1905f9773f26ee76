//! Facebook's page policy (R. Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.1.2 on adaptive
//! slab allocation), adapted to small pages and short steps.
//!
//! The *tail age* of a class is the time since the last use of the item that the class would evict next. If the tail
//! ages of all classes are equal, the classes together behave like one LRU. So pages move to a class that evicts and
//! has a much lower tail age than the others:
//!
//! ```text
//!   tail age   class 0  ##############################     gives: oldest tail
//!              class 1  ################
//!              mean of the possible victims  - - - - - - - - - - -
//!              class 2  #####  evicting                    needs: 20 % below the mean
//! ```
//!
//! A class *needs* a page if three conditions hold:
//!
//! - it evicted or refused a store since the last step, or, under `space_time`, some steps ago;
//! - it has less than a page of free chunks, or, under `space_time`, fewer than it fills until the next step;
//! - its tail age is more than `tolerance_percent` below the mean of the other classes that can give a page.
//!
//! Of the classes that need a page, the class with the lowest tail age receives one from the class with the highest
//! tail age, if the receiver's age is more than `tolerance_percent` below the victim's. Whole pages of free chunks move
//! first: to a class that needs a page, or to the page pool.
//!
//! Moves stop under a steady workload, for three reasons. A receiver fills its new page before it needs another. Within
//! a step, each planned move changes the ages that the next move is planned with. A class that gave a page does not
//! receive one during a cooldown, and vice versa. The cooldown ends with time or with stores, whichever is earlier.
//!
//! The policy `tail_age` compares ages ([`Quantity::Age`]). The policy `space_time` compares age times chunk size
//! ([`Quantity::SpaceTime`]), so large items are evicted at a lower age than small ones. The reason: assume that the
//! probability of a hit is inversely proportional to the time since the last hit. Then the hits per byte of a tail are
//! inversely proportional to age times size. `space_time` relates to `tail_age` as GreedyDual-Size (Cao and Irani,
//! USITS 1997) relates to LRU. Under `space_time` a class receives only the pages that it would begin to fill until the
//! next step. A page that would double or halve a small class counts with the mean of the hits that it changes, not with
//! those at the tail. Otherwise the page would move back and forth.
//!
//! Invariants: at most `moves_max` moves a step; a class keeps one page unless it is empty.

use crate::history::filling::Filling;
use crate::history::per_class::PerClass;
use crate::options::{TICKS_MAX, options};
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Random, Ticks};

/// The maximum value of options that count pages. No cache has this number of pages.
const PAGES_MAX: u64 = 1 << 31;

/// The maximum number of moves of a step, unless more pages are stored between two steps or the options give another number.
const MOVES_MAX: usize = 8;

/// A class needs its free chunks if it fills them within this number of steps.
const FILLING_STEPS_MAX: u64 = 64;

options! {
    /// A step follows when a 256th of the memory was stored, and moves at most as many pages, or 8 if these are more. So a
    /// large cache can follow its traffic within a turnover. The tolerance of 20 % is the paper's, which gives no period.
    pub struct TailAgeOptions of TailAge {
        period_divisor: u64 = 256, memory_divisor;
        period_gets: u64 = 1_000_000, events, "gets between two steps";
        moves_max: usize = 0, moves_max_or_stored;
        tolerance_percent: u32 = 20, whole(0..=100),
            "a class needs a page if its tail age is more than this many percent below the mean";
        cooldown_ticks: u32 = Ticks::PER_SECOND, whole(0..=TICKS_MAX),
            "ticks (1/64 s) during which a class that gave a page does not receive one, and vice versa, \
             unless the cooldown by cooldown_divisor ends earlier";
        cooldown_divisor: u64 = 64, events,
            "a class that gave a page may receive one when the memory divided by this number was stored, and vice versa";
        spare_pages: u64 = 1, whole(0..=PAGES_MAX),
            "pages of free chunks that a class with items keeps";
    }
}

/// The quantity that the policy makes equal for all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// The age of the tail, as in the paper.
    #[default]
    Age,
    /// The age of the tail times the bytes of a chunk.
    SpaceTime,
}

#[derive(Clone, Debug, Default)]
pub struct TailAge {
    options: TailAgeOptions,
    quantity: Quantity,
    states: PerClass<ClassState>,
}

/// A moment in time and in work.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Ticks,
    /// See [`Snapshot::turnovers`].
    turnovers: f64,
}

impl Mark {
    fn of(snapshot: &Snapshot) -> Mark {
        Mark { at: snapshot.now, turnovers: snapshot.turnovers }
    }
}

#[derive(Clone, Copy, Debug)]
struct ClassState {
    filling: Filling,
    /// The time at which the class last gave a page; `None` if it never gave one.
    gave_at: Option<Mark>,
    /// The time at which the class last received a page; `None` if it never received one.
    received_at: Option<Mark>,
    /// The time at which the class last evicted, refused a store, received a page or filled free chunks, or at which it
    /// was created. For a while after this time it may still fill its free chunks.
    busy_at: Mark,
}

/// The limits that another policy sets for a class in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Permissions {
    /// True if the class may receive a page of any class. Otherwise it receives only pages of classes that give to all.
    pub receives_from_all: bool,
    /// True if any class may receive a page of this class. Otherwise it gives pages only to classes that receive from all.
    pub gives_to_all: bool,
    /// True if the class may give a page of free chunks.
    pub spare: bool,
    /// The miss cost of the class divided by the mean miss cost of all classes. The tail age is divided by this value,
    /// so the tail of a class with costlier misses may be older.
    pub miss_cost: f64,
}

/// The state of a class after the moves that are planned so far in a step.
#[derive(Clone, Copy, Debug)]
struct Projection {
    class: ClassSnapshot,
    /// The tail age in units of the work clock, for [`Quantity::SpaceTime`] times the chunk size in bytes, divided by
    /// the miss cost.
    weighted_age: f64,
    /// True if the class evicted or refused a store since the last step, or lacks memory for another reason
    /// ([`Filling::lacks_memory`]).
    lacks_memory: bool,
    /// True if the class has not received a page during the cooldown.
    may_give: bool,
    /// True if the class has not given a page during the cooldown.
    may_receive: bool,
    /// True if the class was not busy during the cooldown.
    quiet: bool,
    /// The maximum number of pages that the class may still receive in this step.
    receivable_pages: u64,
    permissions: Permissions,
    /// True if ages are compared at the page that moves, not at the tail: only for the policy `space_time`. `marginal`
    /// compares the tails of its new classes, and decides about small classes by their curves.
    compares_pages: bool,
}

impl TailAgeOptions {
    /// Returns the maximum number of moves of a step.
    pub(crate) fn moves_max(&self, snapshot: &Snapshot) -> usize {
        let pages: u64 = snapshot.classes.iter().map(|class| class.pages).sum();
        match self.moves_max {
            0 => MOVES_MAX.max((pages / self.period_divisor) as usize),
            moves_max => moves_max,
        }
    }
}

impl Policy for TailAge {
    fn trigger(&self) -> Trigger {
        let (gets, memory_divisor) = (self.options.period_gets, self.options.period_divisor);
        Trigger::EveryWork { gets, memory_divisor }
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let permissions = Permissions {
            receives_from_all: true,
            gives_to_all: true,
            spare: true,
            miss_cost: 1.0,
        };
        self.step_with_permissions(snapshot, self.quantity, |_| permissions)
    }
}

impl TailAge {
    /// Creates the policy that makes this quantity equal for all classes. Under `space_time` the tolerance is 30 %: the
    /// estimates of `eviction=density` vary, and with 20 % twice as many pages move under a steady workload, without fewer
    /// misses.
    pub fn balancing(quantity: Quantity) -> TailAge {
        let mut policy = TailAge { quantity, ..TailAge::default() };
        if quantity == Quantity::SpaceTime {
            policy.options.tolerance_percent = 30;
        }
        policy
    }

    /// Takes a step for another policy, which limits the moves of some classes. `permissions` receives the index of a
    /// class in the snapshot.
    pub(crate) fn step_with_permissions(
        &mut self,
        snapshot: &Snapshot,
        quantity: Quantity,
        permissions: impl Fn(usize) -> Permissions,
    ) -> Plan {
        let mut projections = self.project(snapshot, quantity, permissions);
        let mut plan = Plan::default();
        // While the page pool has pages, a class that needs a page takes it from the pool.
        if !snapshot.is_divided() {
            return plan;
        }
        let moves_max = self.options.moves_max(snapshot);
        while plan.moves.len() < moves_max {
            let Some(page_move) = self.next_move(&projections) else { break };
            self.apply(&mut projections, page_move, Mark::of(snapshot));
            plan.moves.push(page_move);
        }
        plan
    }

    /// Returns the state of each class before any move, in the order of the snapshot.
    fn project(
        &mut self,
        snapshot: &Snapshot,
        quantity: Quantity,
        permissions: impl Fn(usize) -> Permissions,
    ) -> Vec<Projection> {
        let now = Mark::of(snapshot);
        self.states.follow(snapshot, |class| ClassState {
            filling: Filling::new(class),
            gave_at: None,
            received_at: None,
            busy_at: now,
        });
        let TailAgeOptions { cooldown_ticks, cooldown_divisor, .. } = self.options;
        let is_recent = |mark: Option<Mark>| {
            mark.is_some_and(|mark| {
                let stored = (now.turnovers - mark.turnovers) * cooldown_divisor as f64;
                mark.at.age_at(now.at) < cooldown_ticks && stored < 1.0
            })
        };
        let each = snapshot.classes.iter().zip(self.states.iter_mut()).enumerate();
        each.map(|(index, (class, state))| {
            let permissions = permissions(index);
            state.filling.update(class);
            let had_shortage = state.filling.had_shortage;
            if had_shortage || state.filling.fills_within(FILLING_STEPS_MAX, class) {
                state.busy_at = now;
            }
            let age = f64::from(class.tail_age_work);
            let balanced = match quantity {
                Quantity::Age => age,
                Quantity::SpaceTime => age * class.chunk_size_bytes as f64,
            };
            Projection {
                class: *class,
                weighted_age: balanced / permissions.miss_cost,
                // Under `marginal`, the pages that a class takes ahead would be those that another new class needs.
                lacks_memory: match self.quantity {
                    Quantity::Age => had_shortage,
                    Quantity::SpaceTime => state.filling.lacks_memory(class),
                },
                may_give: !is_recent(state.received_at),
                may_receive: !is_recent(state.gave_at),
                quiet: !is_recent(Some(state.busy_at)),
                receivable_pages: match quantity {
                    Quantity::Age if class.free_chunks < class.chunks_per_page as u64 => u64::MAX,
                    Quantity::Age => 0,
                    Quantity::SpaceTime => state.filling.fillable_pages(class),
                },
                permissions,
                compares_pages: self.quantity == Quantity::SpaceTime,
            }
        })
        .collect()
    }

    /// Returns the next move of the step; `None` if no page should move.
    fn next_move(&self, projections: &[Projection]) -> Option<PageMove> {
        let receiver = self.neediest(projections);
        if let Some(victim) =
            projections.iter().find(|projection| projection.has_spare(&self.options))
        {
            // If the class that needs a page most is the victim itself, the page moves to the pool.
            let receiver = receiver.filter(|receiver| receiver.may_receive_from(victim));
            return Some(PageMove {
                victim: victim.class.class,
                page: None,
                receiver: receiver.map(|receiver| receiver.class.class),
                reason: "the victim has a page of free chunks that it does not need",
            });
        }
        let receiver = receiver?;
        let victim = self.oldest_except(projections, receiver)?;
        Some(PageMove {
            victim: victim.class.class,
            page: None,
            receiver: Some(receiver.class.class),
            reason: "from the class with the oldest tail to a class that evicts much younger items",
        })
    }

    /// Returns the class with the lowest weighted age among those that need a page; `None` if no class needs one.
    fn neediest<'o>(&self, projections: &'o [Projection]) -> Option<&'o Projection> {
        let needs = |projection: &&Projection| {
            let mean = mean_weighted_age_except(projections, projection);
            projection.lacks_memory
                && projection.may_receive
                && projection.receivable_pages > 0
                && projections.iter().any(|victim| projection.may_receive_from(victim))
                && mean.is_some_and(|mean| self.far_below(projection.age_of_next_page(), mean))
        };
        projections.iter().filter(needs).min_by(|a, b| a.weighted_age.total_cmp(&b.weighted_age))
    }

    /// Returns the class with the highest weighted age among the other classes that can give, if it is far above the
    /// weighted age of `receiver`.
    fn oldest_except<'o>(
        &self,
        projections: &'o [Projection],
        receiver: &Projection,
    ) -> Option<&'o Projection> {
        projections
            .iter()
            .filter(|victim| receiver.may_receive_from(victim) && victim.can_give())
            .max_by(|a, b| a.age_of_last_page().total_cmp(&b.age_of_last_page()))
            .filter(|oldest| self.far_below(receiver.age_of_next_page(), oldest.age_of_last_page()))
    }

    /// Returns true if this weighted age is more than `tolerance_percent` below `than`.
    fn far_below(&self, weighted_age: f64, than: f64) -> bool {
        weighted_age < than * f64::from(100 - self.options.tolerance_percent.min(100)) / 100.0
    }

    /// Updates the projections and the states of both classes with a planned move.
    fn apply(&mut self, projections: &mut [Projection], page_move: PageMove, now: Mark) {
        let victim = projection_of(projections, page_move.victim);
        let chunks = victim.class.chunks_per_page as u64;
        if victim.class.free_chunks < chunks {
            // The move drops the oldest items of the victim. In an LRU under a steady load, the tail age is
            // proportional to the number of pages.
            victim.weighted_age *= (victim.class.pages - 1) as f64 / victim.class.pages as f64;
        }
        victim.class.free_chunks = victim.class.free_chunks.saturating_sub(chunks);
        victim.class.pages -= 1;
        victim.may_receive = false;
        self.states.of(page_move.victim).gave_at = Some(now);

        if let Some(receiver) = page_move.receiver {
            let state = self.states.of(receiver);
            state.received_at = Some(now);
            state.busy_at = now;
            let receiver = projection_of(projections, receiver);
            // An age of 0 cannot be scaled: the class has no queued item, or evicts all of them between two readings of
            // the clock. So the next step decides whether the class needs another page.
            receiver.lacks_memory &= receiver.weighted_age > 0.0;
            receiver.weighted_age *=
                (receiver.class.pages + 1) as f64 / receiver.class.pages.max(1) as f64;
            receiver.class.pages += 1;
            receiver.receivable_pages -= 1;
            receiver.may_give = false;
        }
    }
}

fn projection_of(projections: &mut [Projection], class: ClassId) -> &mut Projection {
    let projection = projections.iter_mut().find(|projection| projection.class.class == class);
    projection.expect("a move is between classes of the snapshot")
}

/// Returns the mean of the weighted ages of the classes other than `except` that can give. Each class counts in
/// proportion to its pages. Returns `None` if no other class can give.
///
/// Classes that cannot give do not count. Otherwise the very old tail of an unused class with one page would raise the
/// mean, and all other classes would need a page.
fn mean_weighted_age_except(projections: &[Projection], except: &Projection) -> Option<f64> {
    let others = || {
        let other = |projection: &&Projection| projection.class.class != except.class.class;
        projections.iter().filter(other).filter(|projection| projection.can_give())
    };
    let pages: u64 = others().map(|projection| projection.class.pages).sum();
    let sum: f64 =
        others().map(|projection| projection.weighted_age * projection.class.pages as f64).sum();
    (pages > 0).then(|| sum / pages as f64)
}

impl Projection {
    /// Returns true if the class may receive a page of `victim`.
    fn may_receive_from(&self, victim: &Projection) -> bool {
        self.class.class != victim.class.class
            && (self.permissions.receives_from_all || victim.permissions.gives_to_all)
    }

    /// Returns the mean weighted age at which the items of one more page would be evicted.
    fn age_of_next_page(&self) -> f64 {
        self.age_of_page_above(self.class.pages)
    }

    /// Returns the mean weighted age at which the items of the page are evicted that the class would lose.
    fn age_of_last_page(&self) -> f64 {
        self.age_of_page_above(self.class.pages.saturating_sub(1))
    }

    /// Returns the mean weighted age of the memory from `below` to `below + 1` pages. In an LRU under a steady load, the age
    /// is proportional to the memory. So in a class with P pages, the mean of the hits of this memory is
    /// P ln((below + 1) / below) times those at the tail.
    fn age_of_page_above(&self, below: u64) -> f64 {
        if !self.compares_pages || below == 0 {
            return self.weighted_age;
        }
        self.weighted_age / (self.class.pages as f64 * (1.0 / below as f64).ln_1p())
    }

    /// Returns true if the class may give a page whose items must be evicted.
    fn can_give(&self) -> bool {
        self.may_give && self.class.pages > 1
    }

    /// Returns true if the class has free chunks of a whole page that it does not need.
    fn has_spare(&self, options: &TailAgeOptions) -> bool {
        let empty = self.class.used_chunks == 0;
        let (pages_kept, spare_pages) = if empty { (0, 0) } else { (1, options.spare_pages) };
        self.may_give
            && self.quiet
            && self.permissions.spare
            && self.class.pages > pages_kept
            && self.class.free_chunks >= (1 + spare_pages) * self.class.chunks_per_page as u64
    }
}

#[cfg(test)]
#[path = "tail_age_tests.rs"]
mod tests;
