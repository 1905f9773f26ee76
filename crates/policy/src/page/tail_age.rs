//! Facebook's page policy (R. Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.1.2 on adaptive
//! slab allocation), adapted to small pages and short steps.
//!
//! If the oldest items of all classes have the same age, the classes together behave like one LRU. So memory goes to a
//! class that evicts items much younger than the oldest items of the others:
//!
//! ```text
//!   tail age   class 0  ##############################     gives: oldest tail
//!              class 1  ################
//!              mean of the possible victims  - - - - - - - - - - -
//!              class 2  #####  evicting                    needs: 20 % below the mean
//! ```
//!
//! A class *needs* a page if it evicted or was refused memory since the last step, has less than a page of free
//! chunks, and its tail is at least `tolerance_percent` younger than the mean of the other classes that can give. It
//! receives a page from the oldest of these, if that one is older by the same margin. Whole pages of free chunks move
//! first, to a class in need or to the pool.
//!
//! Moves stop under a steady workload, for three reasons: a receiver uses up its new page before it needs another;
//! within a step, ages are projected from the moves already planned; and for `cooldown_ticks` after a class has given a
//! page it does not receive one, and vice versa.
//!
//! [`Worth`] says which ages are compared. With [`Worth::Age`] a hit is worth the same for every item size. With
//! [`Worth::SpaceTime`] (the policy `space_time`), age times chunk size is balanced: if the probability of another hit
//! falls in proportion to the time since the last one, a byte at the tail earns one over that product. Large items
//! must then be younger to stay. It is to `tail_age` what GreedyDual-Size (Cao and Irani, USITS 1997) is to LRU.
//!
//! Invariants: at most `moves_max` moves a step; a class keeps one page unless it is empty.

use crate::history::per_class::PerClass;
use crate::options::{TICKS_MAX, options};
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{ClassId, Random, Ticks};

/// An upper limit that no cache reaches.
const PAGES_MAX: u64 = 1 << 31;

options! {
    /// A step every 62 ms with up to 8 pages, and the paper's gap of 20 %.
    pub struct TailAgeOptions of TailAge {
        period_ticks: u32 = 4, period_ticks;
        moves_max: usize = 8, moves_max;
        tolerance_percent: u32 = 20, whole(0..=100),
            "a class needs a page if its tail age is this many percent below the mean";
        cooldown_ticks: u32 = Ticks::PER_SECOND, whole(0..=TICKS_MAX),
            "ticks (1/64 s) during which a class that gave a page does not receive one, and vice versa";
        spare_pages: u64 = 1, whole(0..=PAGES_MAX),
            "pages of free chunks that a class in use keeps";
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worth {
    /// The age of the tail, as in the paper.
    #[default]
    Age,
    /// The age of the tail times the bytes of a chunk.
    SpaceTime,
}

#[derive(Clone, Debug, Default)]
pub struct TailAge {
    options: TailAgeOptions,
    worth: Worth,
    memory: PerClass<Memory>,
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    pressed: u64,
    gave_at: Option<Ticks>,
    received_at: Option<Ticks>,
    /// When it last evicted, was refused memory or received a page; free chunks may be left from then.
    busy_at: Ticks,
}

/// The permissions and weight that a caller sets for a class in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Permissions {
    pub receive: bool,
    pub spare: bool,
    /// The miss cost relative to the other classes: the tail may be this many times older.
    pub miss_cost: f64,
}

/// A class during one step, updated with each planned move.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    class: ClassSnapshot,
    /// The tail age in ticks (times the chunk size for [`Worth::SpaceTime`]) over the miss cost.
    weighed_age: f64,
    /// True if the class evicted or was refused memory since the last step.
    pressed: bool,
    may_give: bool,
    may_receive: bool,
    quiet: bool,
}

impl Policy for TailAge {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.period_ticks)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let permissions = Permissions { receive: true, spare: true, miss_cost: 1.0 };
        self.step_with_permissions(snapshot, self.worth, |_| permissions)
    }
}

impl TailAge {
    pub fn balancing(worth: Worth) -> TailAge {
        TailAge { worth, ..TailAge::default() }
    }

    /// A step for a policy that decides about some classes itself; `permissions` is called with each class's index.
    pub(crate) fn step_with_permissions(
        &mut self,
        snapshot: &Snapshot,
        worth: Worth,
        permissions: impl Fn(usize) -> Permissions,
    ) -> Plan {
        let mut outlooks = self.compare(snapshot, worth);
        for (index, outlook) in outlooks.iter_mut().enumerate() {
            let permissions = permissions(index);
            outlook.may_receive &= permissions.receive;
            outlook.quiet &= permissions.spare;
            outlook.weighed_age /= permissions.miss_cost;
        }
        let mut plan = Plan::default();
        // While the pool has pages, a class in need takes one from there.
        if !snapshot.is_divided() {
            return plan;
        }
        while plan.moves.len() < self.options.moves_max {
            let Some(page_move) = self.next_move(&outlooks) else { break };
            self.apply(&mut outlooks, page_move, snapshot.now);
            plan.moves.push(page_move);
        }
        plan
    }

    fn compare(&mut self, snapshot: &Snapshot, worth: Worth) -> Vec<Outlook> {
        let now = snapshot.now;
        self.memory.follow(snapshot, |class| Memory {
            pressed: class.pressed(),
            gave_at: None,
            received_at: None,
            busy_at: now,
        });
        let cooldown_ticks = self.options.cooldown_ticks;
        let held = |at: Option<Ticks>| at.is_some_and(|at| at.age_at(now) < cooldown_ticks);
        let each = snapshot.classes.iter().zip(self.memory.iter_mut());
        each.map(|(class, memory)| {
            let pressed = class.pressed() > memory.pressed;
            memory.pressed = class.pressed();
            if pressed {
                memory.busy_at = now;
            }
            Outlook {
                class: *class,
                weighed_age: match worth {
                    Worth::Age => f64::from(class.tail_age_ticks),
                    Worth::SpaceTime => {
                        f64::from(class.tail_age_ticks) * class.chunk_size_bytes as f64
                    }
                },
                pressed,
                may_give: !held(memory.received_at),
                may_receive: !held(memory.gave_at),
                quiet: memory.busy_at.age_at(now) >= cooldown_ticks,
            }
        })
        .collect()
    }

    fn next_move(&self, outlooks: &[Outlook]) -> Option<PageMove> {
        let receiver = self.neediest(outlooks);
        if let Some(victim) = outlooks.iter().find(|outlook| outlook.has_spare(&self.options)) {
            // A class that cannot use its free chunks does not receive them back.
            let receiver = receiver.filter(|receiver| receiver.class.class != victim.class.class);
            return Some(PageMove {
                victim: victim.class.class,
                receiver: receiver.map(|receiver| receiver.class.class),
                reason: "a page's worth of chunks is free",
            });
        }
        let receiver = receiver?;
        let victim = self.oldest_but(outlooks, receiver)?;
        Some(PageMove {
            victim: victim.class.class,
            receiver: Some(receiver.class.class),
            reason: "from the oldest tail to a class that evicts much younger items",
        })
    }

    fn neediest<'o>(&self, outlooks: &'o [Outlook]) -> Option<&'o Outlook> {
        let needs = |outlook: &&Outlook| {
            let mean = mean_weighed_age_but(outlooks, outlook);
            let used_up = outlook.class.free_chunks < outlook.class.chunks_per_page as u64;
            outlook.pressed
                && outlook.may_receive
                && used_up
                && mean.is_some_and(|mean| self.far_below(outlook.weighed_age, mean))
        };
        outlooks.iter().filter(needs).min_by(|a, b| a.weighed_age.total_cmp(&b.weighed_age))
    }

    /// The class other than `receiver` with the oldest tail that can give, if its tail is much older.
    fn oldest_but<'o>(&self, outlooks: &'o [Outlook], receiver: &Outlook) -> Option<&'o Outlook> {
        outlooks
            .iter()
            .filter(|outlook| outlook.class.class != receiver.class.class && outlook.can_give())
            .max_by(|a, b| a.weighed_age.total_cmp(&b.weighed_age))
            .filter(|oldest| self.far_below(receiver.weighed_age, oldest.weighed_age))
    }

    fn far_below(&self, weighed_age: f64, than: f64) -> bool {
        weighed_age < than * f64::from(100 - self.options.tolerance_percent.min(100)) / 100.0
    }

    /// Updates the outlooks and the memory with a planned move.
    fn apply(&mut self, outlooks: &mut [Outlook], page_move: PageMove, now: Ticks) {
        let victim = outlook_of(outlooks, page_move.victim);
        let chunks = victim.class.chunks_per_page as u64;
        if victim.class.free_chunks < chunks {
            // Its coldest items are dropped. In an LRU with steady turnover, age is proportional to size.
            victim.weighed_age *= (victim.class.pages - 1) as f64 / victim.class.pages as f64;
        }
        victim.class.free_chunks = victim.class.free_chunks.saturating_sub(chunks);
        victim.class.pages -= 1;
        victim.may_receive = false;
        self.memory.of(page_move.victim).gave_at = Some(now);

        if let Some(receiver) = page_move.receiver {
            let memory = self.memory.of(receiver);
            memory.received_at = Some(now);
            memory.busy_at = now;
            let receiver = outlook_of(outlooks, receiver);
            receiver.weighed_age *=
                (receiver.class.pages + 1) as f64 / receiver.class.pages.max(1) as f64;
            receiver.class.pages += 1;
            receiver.may_give = false;
        }
    }
}

fn outlook_of(outlooks: &mut [Outlook], class: ClassId) -> &mut Outlook {
    let outlook = outlooks.iter_mut().find(|outlook| outlook.class.class == class);
    outlook.expect("a move is between classes of the snapshot")
}

/// The mean weighed age, by pages, of the classes other than `but` that can give; `None` if there are none.
///
/// A class that cannot give is left out: the very old tail of an unused class with a single page would otherwise make
/// all other classes seem in need.
fn mean_weighed_age_but(outlooks: &[Outlook], but: &Outlook) -> Option<f64> {
    let others = || {
        let other = |outlook: &&Outlook| outlook.class.class != but.class.class;
        outlooks.iter().filter(other).filter(|outlook| outlook.can_give())
    };
    let pages: u64 = others().map(|outlook| outlook.class.pages).sum();
    let sum: f64 = others().map(|outlook| outlook.weighed_age * outlook.class.pages as f64).sum();
    (pages > 0).then(|| sum / pages as f64)
}

impl Outlook {
    /// True if a page may be taken even if its items must be evicted.
    fn can_give(&self) -> bool {
        self.may_give && self.class.pages > 1
    }

    /// True if a page may be taken without dropping items and without being missed.
    fn has_spare(&self, options: &TailAgeOptions) -> bool {
        let empty = self.class.used_chunks == 0;
        let (pages_kept, spare_pages) = if empty { (0, 0) } else { (1, options.spare_pages) };
        self.may_give
            && self.quiet
            && self.class.pages > pages_kept
            && self.class.free_chunks >= (1 + spare_pages) * self.class.chunks_per_page as u64
    }
}

#[cfg(test)]
#[path = "tail_age_tests.rs"]
mod tests;
