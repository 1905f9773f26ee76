//! Publishing what was reserved and filled: it enters the index and a queue, and what it replaces ends.

use super::lookup::Found;
use super::reservation::Reservation;
use crate::mem::{Entry, NewItem, StripeGuard};
use crate::space::{AccessKind, Space};
use slabwise_base::{ClassId, Now};

/// An item that was published.
pub struct Stored {
    pub cas: u64,
    pub value_len: usize,
}

/// Publishes a filled reservation under its key, which leads to nothing.
pub fn publish_new<'e>(
    space: &'e Space,
    stripe: StripeGuard<'e>,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> Entry<'e> {
    let hash = reservation.hash();
    let (item, short_lived) = finish(space, reservation, cas, now);
    let (mut entry, has_grown) =
        space.index.insert(stripe, hash, item, |other| space.hash_of(other));
    if has_grown {
        space.charge_index();
    }
    enqueue_new(space, &mut entry, short_lived);
    entry
}

/// Publishes a reservation in the place of the item found under its key, as new.
pub fn publish_over(
    reservation: Reservation<'_>,
    mut found: Found<'_>,
    cas: Option<u64>,
    now: Now,
) -> Stored {
    let (space, hash) = (found.space, reservation.hash());
    found.item().prefetch_neighbours();
    let (item, short_lived) = finish(space, reservation, cas, now);
    let removed = found.entry.replace(item);
    let remains = space.unlink_unfreed(removed);
    let class = enqueue_new(space, &mut found.entry, short_lived);
    let outcome = stored(&found.entry);
    drop(found);
    space.free_remains(remains);
    space.show_access(hash, AccessKind::Store, Some(class));
    outcome
}

/// The answer for an item that was just published, whose stripe is still locked.
pub fn stored(entry: &Entry<'_>) -> Stored {
    Stored { cas: entry.item().cas(), value_len: entry.item().value_len() }
}

/// Gives a filled reservation its CAS value and time.
#[inline(always)]
fn finish(
    space: &Space,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (NewItem, bool) {
    let short_lived = reservation.short_lived();
    let new = reservation.into_published();
    new.item(&space.memory).set_time(now.ticks);
    space.flush.give_cas(new.item(&space.memory), cas, now);
    (new, short_lived)
}

/// Returns the class in whose queue the item is.
fn enqueue_new(space: &Space, entry: &mut Entry<'_>, short_lived: bool) -> ClassId {
    let item = entry.entered();
    let id = item.queue_class();
    let mut class = space.class(id).lock();
    let queue = class.queue_for_new(short_lived);
    class.enqueue(item, queue);
    id
}
