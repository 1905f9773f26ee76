//! Every counter and invariant, recomputed from the bytes. For tests, while nothing else runs.

use crate::class::{CHAINED, ClassState, ItemCosts, Standing};
use crate::evict::{Lane, Place};
use crate::layout::ChunkAddress;
use crate::mem::{Kind, PageState, QueueKind, ReadProof};
use crate::space::Space;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, PageId, SizeHistogram};
use std::collections::HashSet;

/// Panics with the invariant's name if one is broken. No handle may be in an operation; pins and
/// reservations may be held.
pub fn check(space: &Space) {
    let linked = check_index(space);
    let mut queued = HashSet::new();
    let mut owned = 0;
    check_table(space);
    for class in &space.classes {
        let state = class.lock();
        if state.standing() == Standing::Vacant {
            assert_eq!(state.page_count(), 0, "a vacant number owns no page");
            continue;
        }
        owned += state.page_count();
        check_pages(space, &state);
        check_queues(space, &state, &mut queued);
    }
    check_queues(space, &space.class(CHAINED).lock(), &mut queued);
    assert_eq!(linked, queued, "an item is in the index exactly if it is in a queue");
    let pool = lock(&space.pool);
    let kept = owned + pool.free_count();
    assert_eq!(kept, pool.allocated(), "free + owned + draining == all pages");
}

/// The table's classes are those that are present, of the sizes that it says.
fn check_table(space: &Space) {
    let tables = lock(&space.tables);
    let table = &tables.table;
    assert_eq!(table.largest(), space.largest, "the largest class stays");
    let size_max = space.config.classes.chunk_size_bytes_max();
    assert_eq!(table.chunk_size_bytes_max(), size_max, "the largest size stays");
    for class in &space.classes {
        let state = class.lock();
        let present = state.standing() == Standing::Present;
        assert_eq!(table.has(state.id()), present, "a present class is in the table");
        if present {
            let size = table.chunk_size_bytes(state.id());
            assert_eq!(state.chunk_size_bytes(), size, "a class has the table's size");
            let chosen = space.size_map.class_for(size).map(|choice| choice.id);
            assert_eq!(chosen, Some(state.id()), "who stores chooses from the table");
        }
    }
    let frontier = lock(&space.pool).frontier();
    let owners = (0..frontier).filter_map(|page| space.memory.pages.page(PageId(page)).owner());
    for owner in owners {
        let standing = space.class(owner).lock().standing();
        assert!(standing != Standing::Vacant, "a page's owner is in the table, or retired");
    }
}

/// The index's invariants; returns what it leads to.
fn check_index(space: &Space) -> HashSet<u64> {
    let mut linked = HashSet::new();
    space.index.for_each_stripe(|table| {
        let proof = ReadProof::under_stripe(&table);
        table.check(|address| space.hash_of(address, proof));
        let mut keys = HashSet::new();
        for address in table.addresses() {
            let state = space.memory.header(address).state().load();
            assert!(state.linked(), "what the index leads to is linked");
            assert_eq!(state.kind(), Kind::Item, "what the index leads to is an item");
            assert!(keys.insert(space.memory.key(address, proof)), "a key is indexed once");
            linked.insert(ChunkAddress::to_bits(Some(address)));
            check_chain(space, address, proof);
        }
    });
    linked
}

/// A chained item's bodies belong to it and hold its value.
fn check_chain(space: &Space, address: ChunkAddress, proof: ReadProof<'_>) {
    let mut len = space.memory.header(address).len();
    let mut body = space.memory.first_body(address, proof);
    while let Some(part) = body {
        let header = space.memory.header(part);
        assert_eq!(header.state().load().kind(), Kind::Body, "a chain leads over bodies");
        assert_eq!(header.prev(), Some(address), "a body knows its item");
        len += header.len();
        body = header.next();
    }
    assert_eq!(len, space.memory.value_len(address, proof), "the parts make the value");
}

/// Chunks and pages of a class: `used + free == chunks`, in each page and over all.
fn check_pages(space: &Space, state: &ClassState) {
    let frontier = lock(&space.pool).frontier();
    let partial: HashSet<u32> = {
        let next = |page: &PageId| space.memory.pages.page(*page).next();
        std::iter::successors(state.partial(), next).map(|page| page.0).collect()
    };
    let (mut pages, mut used) = (0, 0);
    for id in (0..frontier).map(PageId) {
        let page = space.memory.pages.page(id);
        if page.owner() != Some(state.id()) {
            continue;
        }
        let in_use = chunks_in_use(space, state, id);
        assert_eq!(in_use, page.used(), "a page counts its chunks in use");
        let free = check_free_list(space, state, id);
        assert_eq!(in_use + free, state.chunks_per_page(), "used + free == chunks in a page");
        let lists = page.state() == PageState::Owned && free > 0;
        assert_eq!(lists, partial.contains(&id.0), "a page is listed while it has a free chunk");
        pages += 1;
        used += u64::from(in_use);
    }
    assert_eq!(pages, state.page_count(), "a class counts its pages");
    assert_eq!(used, state.used_count(), "a class counts its chunks in use");
}

fn chunks_in_use(space: &Space, state: &ClassState, id: PageId) -> u32 {
    let fresh = space.memory.pages.page(id).fresh();
    let in_use = |slot: &u32| {
        let address = space.memory.chunk_at(id, *slot, state.chunk_size_bytes());
        space.memory.header(address).state().load().kind() != Kind::Free
    };
    (0..fresh).filter(in_use).count() as u32
}

/// The free list holds free chunks, each once; returns all free chunks of the page.
fn check_free_list(space: &Space, state: &ClassState, id: PageId) -> u32 {
    let page = space.memory.pages.page(id);
    let mut seen = HashSet::new();
    let mut slot = page.free_head();
    while let Some(index) = slot {
        let address = space.memory.chunk_at(id, index, state.chunk_size_bytes());
        let header = space.memory.header(address);
        assert_eq!(header.state().load().kind(), Kind::Free, "a free list holds free chunks");
        assert!(index < page.fresh() && seen.insert(index), "a free list holds each once");
        slot = header.free_next();
    }
    seen.len() as u32 + state.chunks_per_page() - page.fresh()
}

/// Lists lead both ways; counts and bytes are right; queued items are linked, and here.
fn check_queues(space: &Space, state: &ClassState, queued: &mut HashSet<u64>) {
    let proof = ReadProof::under_class(state);
    let mut sizes = SizeHistogram::default();
    let mut costs = ItemCosts::default();
    let lanes: Vec<Lane> = state.lanes().all().collect();
    for kind in QueueKind::ALL {
        let is_in_use = state.lanes().occupied(kind).iter().all(|lane| lanes.contains(&lane));
        assert!(is_in_use, "a lane that holds an item in a queue is in use");
    }
    let count = |lane, queue| state.lanes().queue(Place { lane, queue }).count();
    let holds = |lane| QueueKind::ALL.map(|queue| count(lane, queue)) != [0; 4];
    assert!(lanes.iter().all(|&lane| holds(lane)), "a lane in use holds an item");
    assert_eq!(state.lanes().are_many(), lanes.len() > 1, "lanes in use are counted");
    for (lane, kind) in lanes.iter().flat_map(|&lane| QueueKind::ALL.map(|kind| (lane, kind))) {
        let queue = state.lanes().queue(Place { lane, queue: kind });
        let is_occupied = state.lanes().occupied(kind).first_from(lane) == Some(lane);
        assert_eq!(is_occupied, queue.count() > 0, "a lane is noted while it holds an item");
        let (mut count, mut bytes, mut toward_tail) = (0, 0, None);
        for address in queue.iter_from_tail(&space.memory) {
            let header = space.memory.header(address);
            let item = header.state().load();
            assert_eq!(header.next(), toward_tail, "a queue's links lead both ways");
            assert!(item.queued() && item.linked(), "a queued item is linked");
            assert_eq!(item.queue(), kind, "an item knows its queue");
            assert_eq!(state.lane_of(&space.memory, address), lane, "an item is in its lane");
            costs.add(space.memory.cost(address, proof));
            let class: ClassId = space.queue_class(address);
            assert_eq!(class, state.id(), "an item is queued in its class");
            let first = queued.insert(ChunkAddress::to_bits(Some(address)));
            assert!(first, "an item is queued once");
            toward_tail = Some(address);
            count += 1;
            let size_bytes = space.memory.counted_size_of(address, proof);
            sizes.add(size_bytes as usize, 1);
            bytes += size_bytes;
        }
        assert_eq!((count, bytes), (queue.count(), queue.bytes()), "a queue counts its items");
    }
    let mut counted = SizeHistogram::default();
    state.sizes().add_to(&mut counted);
    assert!(counted.bars().eq(sizes.bars()), "a class counts its items by size");
    assert_eq!(state.costs(), costs, "a class sums the costs of its items");
}
