//! What a class shows its order: its queues and the items in them.

use super::{ClassState, ItemCosts};
use crate::evict::{ClassOrder, Item, Lanes, Place, View};
use crate::heap::Pages;
use crate::mem::{ClassToken, Queued, State};
use slabwise_base::{Cost, Ticks};

/// A class without its order.
#[derive(Clone, Copy)]
pub struct Seen<'c> {
    pages: &'c Pages,
    lanes: &'c Lanes,
    costs: &'c ItemCosts,
}

/// One item of it.
#[derive(Clone, Copy)]
pub struct SeenItem<'c>(pub Queued<'c>);

impl ClassState {
    /// The order, and what it may read.
    #[inline]
    pub(super) fn order_and_view(&mut self) -> (&mut ClassOrder, Seen<'_>) {
        let ClassState { order, lanes, costs, pages, .. } = self;
        (order, Seen { pages, lanes, costs })
    }

    /// What its order may read.
    #[inline]
    pub(super) fn view(&self) -> Seen<'_> {
        Seen { pages: &self.pages, lanes: &self.lanes, costs: &self.costs }
    }
}

impl<'c> Seen<'c> {
    #[inline]
    fn token(&self) -> &'c ClassToken {
        self.pages.token()
    }
}

impl<'c> View for Seen<'c> {
    type Item = SeenItem<'c>;

    #[inline]
    fn lanes(&self) -> &Lanes {
        self.lanes
    }

    #[inline]
    fn tail(&self, place: Place) -> Option<SeenItem<'c>> {
        self.lanes.queue(place).tail(self.token()).map(SeenItem)
    }

    fn cost_mean(&self) -> u64 {
        self.costs.mean()
    }

    #[inline]
    fn chunk_count(&self) -> u64 {
        u64::from(self.pages.count()) * u64::from(self.pages.chunks_per_page())
    }
}

impl Item for SeenItem<'_> {
    #[inline]
    fn state(self) -> State {
        self.0.state()
    }

    #[inline]
    fn cost(self) -> Option<Cost> {
        self.0.cost()
    }

    #[inline]
    fn rank(self) -> u32 {
        self.0.rank()
    }

    #[inline]
    fn size_bytes(self) -> u64 {
        self.0.counted_size_bytes()
    }

    #[inline]
    fn age_ticks(self, now: Ticks) -> u32 {
        self.0.time().age_at(now)
    }
}
