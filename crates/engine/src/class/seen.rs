//! What a class shows its order: its queues and the items in them.

use super::{ClassState, ItemCosts};
use crate::evict::{ClassOrder, Item, Lanes, Place, View};
use crate::layout::ChunkAddress;
use crate::mem::{ReadProof, State};
use crate::memory::Memory;
use slabwise_base::{Cost, Ticks};

/// A class without its order.
#[derive(Clone, Copy)]
pub struct Seen<'c> {
    memory: &'c Memory,
    lanes: &'c Lanes,
    costs: &'c ItemCosts,
    page_count: u32,
    chunks_per_page: u32,
}

/// One item of it.
#[derive(Clone, Copy)]
pub struct SeenItem<'c> {
    memory: &'c Memory,
    address: ChunkAddress,
    proof: ReadProof<'c>,
}

impl ClassState {
    /// The order, and what it may read.
    #[inline]
    pub(super) fn order_and_view<'c>(
        &'c mut self,
        memory: &'c Memory,
    ) -> (&'c mut ClassOrder, Seen<'c>) {
        let ClassState { order, lanes, costs, page_count, chunks_per_page, .. } = self;
        let (page_count, chunks_per_page) = (*page_count, *chunks_per_page);
        (order, Seen { memory, lanes, costs, page_count, chunks_per_page })
    }

    /// What its order may read.
    #[inline]
    pub(super) fn view<'c>(&'c self, memory: &'c Memory) -> Seen<'c> {
        let ClassState { lanes, costs, page_count, chunks_per_page, .. } = self;
        let (page_count, chunks_per_page) = (*page_count, *chunks_per_page);
        Seen { memory, lanes, costs, page_count, chunks_per_page }
    }
}

impl<'c> Seen<'c> {
    /// An item that is in the queues, or enters or leaves them.
    #[inline]
    pub fn item(&self, address: ChunkAddress) -> SeenItem<'c> {
        SeenItem { memory: self.memory, address, proof: ReadProof::under_queues(self.lanes) }
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
        self.lanes.queue(place).tail().map(|address| self.item(address))
    }

    fn cost_mean(&self) -> u64 {
        self.costs.mean()
    }

    #[inline]
    fn chunk_count(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.chunks_per_page)
    }
}

impl Item for SeenItem<'_> {
    #[inline]
    fn state(self) -> State {
        self.memory.header(self.address).state().load()
    }

    #[inline]
    fn cost(self) -> Option<Cost> {
        self.memory.cost(self.address, self.proof)
    }

    #[inline]
    fn rank(self) -> u32 {
        self.memory.rank(self.address, self.proof)
    }

    #[inline]
    fn size_bytes(self) -> u64 {
        self.memory.counted_size_of(self.address, self.proof)
    }

    #[inline]
    fn age_ticks(self, now: Ticks) -> u32 {
        self.memory.header(self.address).time().age_at(now)
    }
}
