//! Checks every counter and invariant against the bytes. For tests, while nothing else runs.

use crate::class::{CHAINED, ClassState, ClassStatus};
use crate::evict::{ItemCosts, Lane, Place};
use crate::layout::ChunkAddress;
use crate::mem::{Kind, PageState, QueueKind};
use crate::space::Space;
use slabwise_base::sync::lock;
use slabwise_base::{PageId, SizeHistogram};
use std::collections::HashSet;

/// Panics with the broken invariant, if there is one. No operation may run; pins and reservations may be held.
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
    assert_eq!(linked, queued, "an item is in the index exactly if it is in a queue");
    let pool = lock(&space.pool);
    let kept = owned + pool.free_count();
    assert_eq!(kept, pool.allocated, "free + owned + draining == all pages");
}

/// Checks that the class table matches the present classes and their sizes.
fn check_table(space: &Space) {
    let tables = lock(&space.tables);
    let table = &tables.table;
    assert_eq!(table.largest(), space.largest, "the largest class is constant");
    let size_max = space.config.classes.chunk_size_bytes_max();
    assert_eq!(table.chunk_size_bytes_max(), size_max, "the largest size is constant");
    for class in &space.classes {
        let state = class.lock();
        let present = state.status() == ClassStatus::Present;
        assert_eq!(table.has(state.id()), present, "a present class is in the table");
        if present {
            let size = table.chunk_size_bytes(state.id());
            assert_eq!(state.chunk_size_bytes(), size, "a class has the table's size");
            let chosen = space.size_map.class_for(size).map(|choice| choice.id);
            assert_eq!(chosen, Some(state.id()), "the size map matches the table");
        }
    }
    let frontier = lock(&space.pool).frontier;
    let owners = (0..frontier).filter_map(|page| space.memory.page(PageId(page)).owner());
    for owner in owners {
        let status = space.class(owner).lock().status();
        assert!(status != ClassStatus::Vacant, "a page's owner is in the table, or retired");
    }
}

/// Checks the index's invariants and returns the addresses of its items.
fn check_index(space: &Space) -> HashSet<u64> {
    let mut linked = HashSet::new();
    space.index.for_each_stripe(|stripe| {
        stripe.check(|item| space.hash_of(item));
        let mut keys = HashSet::new();
        for item in stripe.items() {
            assert!(item.state().linked(), "an indexed item is linked");
            assert_eq!(item.state().kind(), Kind::Item, "the index holds items");
            assert!(keys.insert(item.key()), "a key is indexed once");
            linked.insert(ChunkAddress::to_bits(Some(item.address())));
            item.check_chain();
        }
    });
    linked
}

/// Checks `used + free == chunks` in each page of a class and in total.
fn check_pages(space: &Space, state: &ClassState) {
    let frontier = lock(&space.pool).frontier;
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
            "used + free == chunks in a page"
        );
        let lists = page.state() == PageState::Owned && free > 0;
        assert_eq!(lists, partial.contains(&id.0), "a page is listed while it has a free chunk");
        pages += 1;
        used += u64::from(in_use);
    }
    assert_eq!(pages, state.pages.token.page_count(), "a class counts its pages");
    assert_eq!(used, state.pages.used_count(), "a class counts its chunks in use");
}

/// Checks a class's lists, counts and sums, and that its queued items are linked and belong to the class.
fn check_queues(state: &ClassState, queued: &mut HashSet<u64>) {
    let mut sizes = SizeHistogram::default();
    let mut costs = ItemCosts::default();
    let lanes: Vec<Lane> = state.lanes.all().collect();
    for kind in QueueKind::ALL {
        let is_in_use = state.lanes.occupied(kind).iter().all(|lane| lanes.contains(&lane));
        assert!(is_in_use, "a lane that holds an item in a queue is in use");
    }
    let count = |lane, queue| state.lanes.queue(Place { lane, queue }).count();
    let holds = |lane| QueueKind::ALL.map(|queue| count(lane, queue)) != [0; 4];
    assert!(lanes.iter().all(|&lane| holds(lane)), "a lane in use holds an item");
    assert_eq!(state.lanes.has_several(), lanes.len() > 1, "lanes in use are counted");
    for (lane, kind) in lanes.iter().flat_map(|&lane| QueueKind::ALL.map(|kind| (lane, kind))) {
        let queue = state.lanes.queue(Place { lane, queue: kind });
        let is_occupied = state.lanes.occupied(kind).first_from(lane) == Some(lane);
        assert_eq!(
            is_occupied,
            queue.count() > 0,
            "a lane is marked as occupied exactly while it holds an item"
        );
        queue.check(&state.pages.token);
        let (mut count, mut bytes) = (0, 0);
        for item in queue.iter_from_tail(&state.pages.token) {
            assert!(item.state().queued() && item.state().linked(), "a queued item is linked");
            assert_eq!(item.state().queue(), kind, "an item's state names its queue");
            assert_eq!(state.lane_of(item), lane, "an item is in its lane");
            costs.add(item.cost());
            assert_eq!(item.queue_class(), state.id(), "an item is queued in its class");
            let first = queued.insert(ChunkAddress::to_bits(Some(item.address())));
            assert!(first, "an item is queued once");
            count += 1;
            sizes.add(item.counted_size_bytes() as usize, 1);
            bytes += item.counted_size_bytes();
        }
        assert_eq!((count, bytes), (queue.count(), queue.bytes()), "a queue counts its items");
    }
    let mut counted = SizeHistogram::default();
    state.sizes.add_to(&mut counted);
    assert!(counted.bins().eq(sizes.bins()), "a class counts its items by size");
    assert_eq!(state.costs, costs, "a class sums the costs of its items");
}
