//! What an order reads of its class: the queues, and the items in them. Nothing here changes anything.

use super::lanes::{Lanes, Place};
use crate::mem::State;
use slabwise_base::{Cost, Ticks};

/// One item of a class, or one that enters it.
pub trait Item: Copy {
    /// Its state bits: hit, pinned, in which queue.
    fn state(self) -> State;

    /// What it costs to recompute, if that is known.
    fn cost(self) -> Option<Cost>;

    /// The rank that it stores; 0 if it stores none.
    fn rank(self) -> u32;

    /// Its counted bytes.
    fn size_bytes(self) -> u64;

    /// Ticks since its last use.
    fn age_ticks(self, now: Ticks) -> u32;
}

/// A class whose lock is held.
pub trait View {
    /// Its items.
    type Item: Item;

    /// Its queues.
    fn lanes(&self) -> &Lanes;

    /// The last item of a queue.
    fn tail(&self, place: Place) -> Option<Self::Item>;

    /// The mean of the costs that are known, in units; at least 1.
    fn cost_mean(&self) -> u64;

    /// Chunks on its pages, free ones included.
    fn chunk_count(&self) -> u64;
}
