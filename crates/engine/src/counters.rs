//! Counters that are written under a lock: those of a class, and the mover's.

use slabwise_base::counts;

counts! {
    /// What happened to the items of a class.
    pub struct ClassCounters {
        /// Items evicted.
        evicted,
        /// Of these, those that had an expiry.
        evicted_nonzero,
        /// Evicted items that were never hit.
        evicted_unfetched,
        /// Evicted items that were hit lately.
        evicted_active,
        /// Allocations that failed.
        out_of_memory,
        /// Allocations that went to a larger class because this one owned nothing.
        homeless,
        /// Expired or flushed items removed at a tail.
        reclaimed,
        /// Of these, those that were never hit.
        expired_unfetched,
        /// Expired or flushed items that the crawler removed.
        crawler_reclaimed,
        /// Items that the crawler looked at.
        crawler_items_checked,
        /// Tails that could not be evicted because they were pinned.
        tail_pinned,
        /// Items moved to the cold queue.
        moves_to_cold,
        /// Items moved to the warm queue.
        moves_to_warm,
        /// Items moved to the head of their own queue.
        moves_within_lru,
        /// Ended items that an allocation took the place of.
        direct_reclaims,
    }
    gauges {
        /// Seconds since the last access of the item evicted last.
        evicted_age_seconds: u64,
    }
}

counts! {
    /// Counters of the mover since the start. The cases are those of the paper on fast page moves (MEMSYS 2019,
    /// section 2.2).
    pub struct MoverCounters {
        /// Pages that arrived.
        moved,
        /// Moves given up because a chunk stayed held.
        aborted,
        /// Chunks looked at, one looked at twice counted twice.
        visits,
        /// Case 1: items whose stripe was locked (`base` and `fast` only try it).
        locked,
        /// Case 2: items that somebody pinned.
        pinned,
        /// Case 3: items that were unlinked and whose chunks had to be met again (`base`).
        unlinked,
        /// Chunks that were in use again when they were met again (`base`).
        reallocated,
        /// Items carried to another page.
        rescued,
        /// Bodies of chained items carried to another page.
        bodies_rescued,
        /// Items evicted to make room for those carried, or dropped for want of it.
        evicted,
        /// Chunks met that could not be emptied then.
        busy,
        /// Of these, those for which there was no room outside the page: where eviction is on, their items were
        /// dropped.
        busy_without_room,
    }
    gauges {
        /// Why the last of them could not be emptied.
        last_busy: Option<Busy>,
    }
}

/// Why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// Its item is pinned.
    Held,
    /// It holds no item that could be found: one that has ended, or was carried away, and is still pinned;
    /// or one that is being written.
    Unlinked,
    /// There is no room outside the page.
    NoRoom,
}

impl MoverCounters {
    /// Items and bodies carried to another page.
    pub fn carried(&self) -> u64 {
        self.rescued + self.bodies_rescued
    }

    /// Notes a chunk that could not be emptied.
    pub fn note_busy(&mut self, why: Busy) {
        self.busy += 1;
        self.busy_without_room += u64::from(why == Busy::NoRoom);
        self.last_busy = Some(why);
    }
}
