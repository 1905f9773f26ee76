//! Recomputes every counter from the bytes of the arena and checks all invariants. Only tests run this check, while no
//! other thread uses the cache.

use crate::class::{CHAINED, ClassState, ClassStatus};
use crate::evict::{ItemCosts, Lane, Place};
use crate::layout::ChunkAddress;
use crate::mem::{Kind, PageState, QueueKind};
use crate::space::Space;
use slabwise_base::sync::lock;
use slabwise_base::{PageId, SizeHistogram};
use std::collections::HashSet;

/// Panics with the name of a broken invariant, if there is one. No operation may run during the check, but pins and
/// reservations may exist.
pub fn check(space: &Space) {
    let linked = check_index(space);
    let mut queued = HashSet::new();
    let mut owned = 0;
    check_table(space);
    for class in &space.classes {
        let state = class.lock();
        if state.status() == ClassStatus::Vacant {
            assert_eq!(state.pages.token.page_count(), 0, "a vacant class number owns no page");
            continue;
        }
        owned += state.pages.token.page_count();
        check_pages(space, &state);
        check_queues(&state, &mut queued);
    }
    check_queues(&space.class(CHAINED).lock(), &mut queued);
    assert_eq!(linked, queued, "the items in the index are those in the queues");
    check_spares(space);
    let pool = space.lock_pool();
    let held = owned + pool.free_count();
    assert_eq!(held, pool.allocated, "owned pages + free pages == pages that hold memory");
    pool.check((space.memory.size_bytes() / space.config.page_size_bytes) as u32);
}

/// Checks that the class table has the same classes and chunk sizes as the classes whose status is `Present`, that the
/// size map (the copy of the table that stores read without a lock) matches the table, and that no page belongs to a
/// vacant class.
fn check_table(space: &Space) {
    let tables = lock(&space.tables);
    let table = &tables.table;
    assert_eq!(table.largest(), space.largest, "the largest class has not changed");
    let size_max = space.config.classes.chunk_size_bytes_max();
    assert_eq!(table.chunk_size_bytes_max(), size_max, "the largest chunk size has not changed");
    for class in &space.classes {
        let state = class.lock();
        let present = state.status() == ClassStatus::Present;
        assert_eq!(table.has(state.id()), present, "the table has exactly the present classes");
        if present {
            let size = table.chunk_size_bytes(state.id());
            assert_eq!(state.chunk_size_bytes(), size, "a class has the chunk size of the table");
            let chosen = space.size_map.class_for(size).map(|choice| choice.id);
            assert_eq!(
                chosen,
                Some(state.id()),
                "the size map and the table select the same class"
            );
        }
    }
    let frontier = space.lock_pool().frontier;
    let owners = (0..frontier).filter_map(|page| space.memory.page(PageId(page)).owner());
    for owner in owners {
        let status = space.class(owner).lock().status();
        assert!(status != ClassStatus::Vacant, "a page's owner is not vacant");
    }
}

/// Checks the invariants of the index. Returns the addresses of all items in the index, as bits.
fn check_index(space: &Space) -> HashSet<u64> {
    let mut linked = HashSet::new();
    space.index.for_each_stripe(|stripe| {
        stripe.check(|item| space.hash_of(item));
        let mut keys = HashSet::new();
        for item in stripe.items() {
            assert!(item.state().linked(), "an item in the index is marked as linked");
            assert_eq!(item.state().kind(), Kind::Item, "an entry of the index refers to an item");
            assert!(keys.insert(item.key()), "a key has one entry in the index");
            linked.insert(ChunkAddress::to_bits(Some(item.address())));
            item.check_chain();
        }
    });
    linked
}

/// Checks the pages of a class: `used + free == chunks` holds on each page, the list of partial pages (the pages with
/// free chunks) is complete, and the class's counts of pages and used chunks are right.
fn check_pages(space: &Space, state: &ClassState) {
    let frontier = space.lock_pool().frontier;
    let partial: HashSet<u32> = {
        let next = |page: &PageId| space.memory.page(*page).next();
        std::iter::successors(state.pages.partial(), next).map(|page| page.0).collect()
    };
    let (mut pages, mut used) = (0, 0);
    for id in (0..frontier).map(PageId) {
        let page = space.memory.page(id);
        if page.owner() != Some(state.id()) {
            continue;
        }
        let (in_use, free) = state.pages.token.check_page(id);
        assert_eq!(
            in_use + free,
            state.pages.token.chunks_per_page(),
            "used + free == chunks of the page"
        );
        let is_partial = page.state() == PageState::Owned && free > 0;
        assert_eq!(
            is_partial,
            partial.contains(&id.0),
            "the list of partial pages has the owned pages with free chunks"
        );
        pages += 1;
        used += u64::from(in_use);
    }
    assert_eq!(pages, state.pages.token.page_count(), "the class's count of pages is right");
    assert_eq!(used, state.pages.used_count(), "the class's count of used chunks is right");
}

/// Checks that each spare chunk is in one slot only and neither holds an item nor is on a free list, and that each
/// holder is within the limit of each class. [`check_pages`] counts spare chunks as chunks in use.
fn check_spares(space: &Space) {
    let mut slots = HashSet::new();
    for class in &space.classes {
        let state = class.lock();
        let id = state.id();
        for address in space.spares.addresses(id) {
            assert!(slots.insert(address), "a spare chunk is in one slot only");
            let found = state.pages.token.state_of(address);
            let is_owned = found.is_some_and(|state| state.kind() == Kind::Item && !state.linked());
            assert!(is_owned, "a spare chunk is neither free nor in the index, but is {found:?}");
        }
        let may_be_spare = space.spares.limits.allows(id, state.chunk_size_bytes());
        // A holder that read the limit before it fell may have put one more chunk into its slots.
        let count_max = if may_be_spare { space.spares.count_max(id).max(1) } else { 0 };
        for holder in space.spares.holders() {
            let count = holder.addresses(id).count();
            assert!(count <= count_max, "{count} spare chunks are above the limit of {count_max}");
        }
    }
}

/// Checks the queues of a class, their counts and their sums. Also checks that each queued item is linked, belongs to
/// the class, and is in one queue only. Adds the addresses of the items to `queued`, as bits.
fn check_queues(state: &ClassState, queued: &mut HashSet<u64>) {
    let mut sizes = SizeHistogram::default();
    let mut costs = ItemCosts::default();
    let lanes: Vec<Lane> = state.lanes.all().collect();
    for kind in QueueKind::ALL {
        let is_in_use = state.lanes.occupied(kind).iter().all(|lane| lanes.contains(&lane));
        assert!(is_in_use, "a lane that is marked as occupied is marked as in use");
    }
    let count = |lane, queue| state.lanes.queue(Place { lane, queue }).count();
    let holds = |lane| QueueKind::ALL.map(|queue| count(lane, queue)) != [0; 4];
    assert!(lanes.iter().all(|&lane| holds(lane)), "a lane that is marked as in use holds an item");
    assert_eq!(state.lanes.has_several(), lanes.len() > 1, "the count of lanes in use is right");
    for (lane, kind) in lanes.iter().flat_map(|&lane| QueueKind::ALL.map(|kind| (lane, kind))) {
        let queue = state.lanes.queue(Place { lane, queue: kind });
        let is_occupied = state.lanes.occupied(kind).first_from(lane) == Some(lane);
        assert_eq!(
            is_occupied,
            queue.count() > 0,
            "a lane is marked as occupied if and only if the queue holds an item"
        );
        queue.check(&state.pages.token);
        let (mut count, mut bytes) = (0, 0);
        for item in queue.iter_from_tail(&state.pages.token) {
            assert!(
                item.state().queued() && item.state().linked(),
                "a queued item is marked as queued and linked"
            );
            assert_eq!(item.state().queue(), kind, "an item's state names the queue that it is in");
            assert_eq!(state.lane_of(item), lane, "an item is in the lane that its data determine");
            costs.add(item.cost());
            assert_eq!(
                item.queue_class(),
                state.id(),
                "an item is queued in the class that its data determine"
            );
            let is_new = queued.insert(ChunkAddress::to_bits(Some(item.address())));
            assert!(is_new, "an item is in one queue only");
            count += 1;
            sizes.add(item.counted_size_bytes() as usize, 1);
            bytes += item.counted_size_bytes();
        }
        assert_eq!(
            (count, bytes),
            (queue.count(), queue.bytes()),
            "the queue's counts of items and bytes are right"
        );
    }
    let mut counted = SizeHistogram::default();
    state.sizes.add_to(&mut counted);
    assert!(counted.bins().eq(sizes.bins()), "the class's histogram of item sizes is right");
    assert_eq!(state.costs, costs, "the class's sum of item costs is right");
}
