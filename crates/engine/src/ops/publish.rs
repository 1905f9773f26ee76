//! Publishing what was reserved and filled: it enters the index and a queue, and what it replaces ends.

use super::lookup::Found;
use super::reservation::Reservation;
use crate::layout::ChunkAddress;
use crate::mem::StripeGuard;
use crate::mem::{OwnedChunk, ReadProof};
use crate::space::{AccessKind, Space};
use slabwise_base::{ClassId, Now};

/// An item that was published.
pub struct Stored {
    pub cas: u64,
    pub value_len: usize,
}

/// Publishes a filled reservation under its key, which leads to nothing.
pub fn publish_new(
    space: &Space,
    stripe: &mut StripeGuard<'_>,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> ChunkAddress {
    let hash = reservation.hash();
    let (chunk, queue_class, short_lived) = finish(space, reservation, cas, now);
    let address = chunk.address();
    let hash_of = |other, proof: ReadProof<'_>| space.hash_of(other, proof);
    if space.index.insert(stripe, hash, address, hash_of) {
        space.charge_index();
    }
    enqueue_new(space, queue_class, chunk, short_lived);
    address
}

/// Publishes a reservation in the place of the item found under its key, as new.
pub fn publish_over(
    reservation: Reservation<'_>,
    mut found: Found<'_>,
    cas: Option<u64>,
    now: Now,
) -> Stored {
    let (space, hash) = (found.space, reservation.hash());
    space.memory.prefetch_neighbours(found.address);
    let value_len = reservation.value_len();
    let (chunk, queue_class, short_lived) = finish(space, reservation, cas, now);
    let address = chunk.address();
    found.stripe.replace(found.slot, address);
    let remains = space.unlink_unfreed(found.address);
    enqueue_new(space, queue_class, chunk, short_lived);
    let outcome = stored(space, address, value_len);
    drop(found);
    space.free_remains(remains);
    space.show_access(hash, AccessKind::Store, Some(queue_class));
    outcome
}

/// The answer for an item that was just published, whose stripe is still locked.
pub fn stored(space: &Space, address: ChunkAddress, value_len: usize) -> Stored {
    Stored { cas: space.memory.header(address).cas(), value_len }
}

/// Gives a filled reservation its CAS value and time.
#[inline(always)]
fn finish(
    space: &Space,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (OwnedChunk, ClassId, bool) {
    let short_lived = reservation.short_lived();
    let chunk = reservation.into_published();
    let header = space.memory.header(chunk.address());
    header.set_time(now.ticks);
    space.flush.give_cas(header, cas, now);
    let class = space.queue_class(chunk.address());
    (chunk, class, short_lived)
}

fn enqueue_new(space: &Space, class: ClassId, chunk: OwnedChunk, short_lived: bool) {
    let mut class = space.class(class).lock();
    let queue = class.queue_for_new(short_lived);
    class.enqueue(&space.memory, chunk, queue);
}
