//! `eviction=split_lru`: an exact LRU whose queue can be divided in two. The page policy `cliffhanger` divides the queue
//! of a class that is on a cliff of its hit curve.
//!
//! Source: A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016, section 4.2; the division is that of Talus (N. Beckmann, D. Sanchez, HPCA 2015).
//!
//! ```text
//!   new item --hash of the key--> below the key share: left queue     above its share of the items? its tail is evicted
//!                            '--> otherwise:           right queue    otherwise the tail of the right queue is evicted
//! ```
//!
//! The queue of an item is decided when the item is stored, and does not change. After a change of the shares, items stay
//! in their queue until they are evicted or stored again, as in the paper. An item stores the number of its queue as its
//! rank. A class that was never divided has only the right queue.
//!
//! Invariant: an item is in the queue that it stores.

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Order, QueueSplit, View};
use crate::mem::{QueueKind, Queued};
use slabwise_base::random::unit;
use slabwise_base::{KeyHasher, WorkTime};

/// The lane of the left queue.
const LEFT: Lane = Lane(1);
/// The lane of the right queue, which holds all items of an undivided class.
const RIGHT: Lane = Lane::FIRST;
/// The only queue that this kind uses in a lane.
const QUEUE: QueueKind = QueueKind::Cold;

/// The eviction order of one class.
#[derive(Debug)]
pub struct SplitLru {
    split: QueueSplit,
    hasher: KeyHasher,
}

impl SplitLru {
    pub fn new() -> SplitLru {
        // The hash need not be secret: a client that knows the queue of a key gains nothing.
        SplitLru { split: QueueSplit::default(), hasher: KeyHasher::new(0) }
    }
}

impl Order for SplitLru {
    const INFO: Info = Info {
        stores_rank: true,
        acts_on_hits: true,
        ..Info::new(
            "split_lru",
            "exact LRU, which page_policy=cliffhanger may divide in two queues",
        )
    };

    #[inline]
    fn lane_of(&self, item: Queued<'_>) -> Lane {
        if item.rank() == u32::from(LEFT.0) { LEFT } else { RIGHT }
    }

    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, _queue: QueueKind) -> Entry {
        let position = unit(self.hasher.hash(item.key()));
        let lane = if position < self.split.left_key_share { LEFT } else { RIGHT };
        let place = Place { lane, queue: QUEUE };
        Entry { place, rank: Some(u32::from(lane.0)), displaced: None }
    }

    #[inline]
    fn hit(&mut self, _view: &View<'_>, item: Queued<'_>) -> Hit {
        let place = Place { lane: self.lane_of(item), queue: QUEUE };
        Hit::Enter(Entry { place, rank: None, displaced: None }, false)
    }

    fn coldest(&self, view: &View<'_>, now: WorkTime) -> Option<Place> {
        let [left, right] = [LEFT, RIGHT].map(|lane| Place { lane, queue: QUEUE });
        let (Some(left_tail), Some(right_tail)) = (view.tail(left), view.tail(right)) else {
            return [left, right].into_iter().find(|&place| view.tail(place).is_some());
        };
        let takes_left = if self.split.left_key_share > 0.0 {
            let [left_count, right_count] = [left, right].map(|it| view.lanes.queue(it).count());
            let left_max = (left_count + right_count) as f64 * self.split.left_item_share;
            left_count as f64 > left_max
        } else {
            // The left queue has only items from before the queues were joined. They are evicted by their age.
            left_tail.time().age_at(now) > right_tail.time().age_at(now)
        };
        Some(if takes_left { left } else { right })
    }

    fn forget(&mut self) {
        self.split = QueueSplit::default();
    }

    fn divide(&mut self, split: QueueSplit) {
        self.split = split;
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}
