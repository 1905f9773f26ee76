//! Steps of the kind `warm` on several items at once, so that their cache lines are prefetched together.

use crate::mem::{OwnedChunk, Pin};
use crate::mover::job::Pass;
use crate::space::DetachedVictim;

/// The largest number of chunks in a batch.
pub const BATCH_CHUNKS_MAX: usize = 32;

/// Evicts up to `count` items of the class. Returns the number of evicted items, and those of their chunks that the
/// caller owns now.
pub fn evict(pass: &Pass<'_>, count: usize) -> (usize, Vec<OwnedChunk>) {
    let victims = pass.space.detach_victims(pass.job.request.victim, count, pass.now);
    (victims.len(), finish_evictions(pass, victims))
}

/// Removes detached victims from the index. Returns those of their chunks that the caller owns now.
pub fn finish_evictions(pass: &Pass<'_>, victims: Vec<DetachedVictim>) -> Vec<OwnedChunk> {
    let (space, class) = (pass.space, pass.job.request.victim);
    let hashes = prefetch_entries(pass, victims.iter().map(|victim| &victim.pin));
    hashes.iter().for_each(|&hash| space.prefetch_ghosts(hash));
    let both = victims.into_iter().zip(hashes);
    let chunks = both.filter_map(|(victim, hash)| space.finish_eviction(victim, hash, class));
    chunks.collect()
}

/// Prefetches the index entries of pinned items. Returns the hashes of their keys, in the same order.
pub fn prefetch_entries<'p>(pass: &Pass<'_>, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
    let space = pass.space;
    let hash = |pin: &Pin| space.hash_of(pin.item(&space.memory));
    let hashes: Vec<u64> = pins.map(hash).collect();
    hashes.iter().for_each(|&hash| space.index.prefetch(hash));
    hashes.iter().for_each(|&hash| space.index.prefetch_bucket(hash));
    hashes
}
