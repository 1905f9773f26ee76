//! Tests that `mem` refuses misuse and keeps the bytes of items intact. They also run under the sanitizers.

mod refused;
mod threads;
mod world;

use super::class_token::HeadPin;
use super::item::Queued;
use super::list::List;
use super::restore::RestoredItem;
use super::state::QueueKind;
use super::stripe::Entry;
use crate::layout::{CHAINED, ChunkAddress};
use slabwise_base::{ClassId, Expiry, PageId, Random};
use std::collections::HashMap;
use world::{LARGE, SMALL, World};

#[test]
fn a_deleted_item_frees_its_chunk_after_the_last_unpin() {
    let mut world = World::new();
    let address = world.store(b"key", b"value");
    let entry = world.stripes.find(b"key").expect("it was stored");
    let item = entry.item();
    assert_eq!((item.key(), item.value_len(), item.address()), (&b"key"[..], 5, address));
    assert_eq!(item.value().flatten().copied().collect::<Vec<u8>>(), b"value");
    let pin = item.pin().expect("nobody else pins it");
    let removed = entry.remove().1;
    assert_eq!(world.unlink(removed), None, "it is pinned");
    assert_eq!(pin.item(&world.memory).value().flatten().count(), 5);
    let remains = world.memory.unpin(pin).expect("the last pin");
    let chunk = remains.into_chunk(&world.memory).expect("it has no bodies");
    assert_eq!((chunk.address(), chunk.class(), chunk.size_bytes()), (address, SMALL, 512));
    world.small.give(chunk);
    assert_eq!(world.store(b"next", b""), address, "the chunk freed last is allocated first");
}

#[test]
fn expiry_rank_and_value_are_written_in_place() {
    let mut world = World::new();
    world.store(b"key", b"41");
    let mut entry = world.stripes.find(b"key").expect("it was stored");
    let mut access = entry.meta_access(&mut world.small);
    access.set_expiry(Expiry::PAST);
    access.set_rank(7);
    assert_eq!((entry.item().expiry(), entry.item().rank()), (Expiry::PAST, 7));
    entry.value_access(None).expect("nobody pins it").overwrite(1, b"2");
    assert_eq!(entry.item().value_in_first_chunk(), b"42");
    let pin = entry.item().pin().expect("nobody else pins it");
    assert!(entry.value_access(None).is_none(), "it is pinned");
    assert!(world.memory.unpin(pin).is_none(), "it is linked");
    let pin = entry.item().pin_key().expect("nobody else pins it");
    entry.value_access(Some(&pin)).expect("nobody but the writer pins it").overwrite(0, b"5");
    assert!(world.memory.unpin(pin).is_none(), "it is linked");
    assert_eq!(entry.item().value_in_first_chunk(), b"52");
}

#[test]
fn a_chained_item_is_read_moved_and_freed() {
    let mut world = World::new();
    let value: Vec<u8> = (0..2500u32).map(|byte| byte as u8).collect();
    let head = world.store_chained(b"long", &value);
    let read = |world: &World| {
        let entry = world.stripes.find(b"long").expect("it was stored");
        entry.item().value().flatten().copied().collect::<Vec<u8>>()
    };
    assert_eq!(read(&world), value);
    let mut mover = world.memory.mover_token();
    // Moves a body to another chunk.
    let body =
        world.stripes.find(b"long").expect("it was stored").item().bodies().nth(1).expect("three");
    let HeadPin::Pinned(pin) = world.large.pin_head_of(body, &mover) else {
        panic!("nobody pins it")
    };
    assert_eq!(pin.address(), head);
    let chunk = world.take(LARGE);
    let mut entry =
        Entry::find_address(world.stripes.lock(0), 0, head).ok().expect("it was stored");
    let emptied = entry.carry_body(body, chunk, &pin, &mut mover).expect("there is room");
    assert_eq!(emptied.address(), body);
    drop(entry);
    world.large.give(emptied);
    assert_eq!(read(&world), value);
    // Moves the head.
    let chunk = world.take(SMALL);
    let mut entry =
        Entry::find_address(world.stripes.lock(0), 0, head).ok().expect("it was stored");
    let copied = entry.copy_to(chunk).expect("there is room");
    let removed = entry.carry_to(copied, &pin, &mut mover).expect("nobody else pins it");
    let left = world.chained_queue.take_place(&mut world.chained, removed, entry.entered());
    assert_eq!(left, None, "the mover pins it");
    drop(entry);
    let remains = world.memory.unpin(pin).expect("the last pin");
    world.small.give(remains.into_chunk(&world.memory).expect("the copy has the bodies"));
    assert_eq!(read(&world), value);
    // Frees the item.
    let removed = world.stripes.find(b"long").expect("it was stored").remove().1;
    assert_eq!(removed.queue_class(&world.memory), CHAINED);
    let mut remains =
        world.chained_queue.unlink(&mut world.chained, removed, 1).expect("nobody pins it");
    for _ in 0..3 {
        let (rest, class) = remains.into_chunk(&world.memory).expect_err("it has a body");
        assert_eq!(class, LARGE);
        remains = rest;
        let body = remains.take_body(&mut world.large);
        world.large.give(body);
    }
    world.small.give(remains.into_chunk(&world.memory).expect("it has no bodies"));
    assert_eq!((world.used(SMALL), world.used(LARGE)), (0, 0));
}

#[test]
fn a_list_agrees_with_a_vector_as_model() {
    let mut world = World::new();
    let mut lists = [List::EMPTY, List::EMPTY];
    let mut model: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    let mut keys = HashMap::new();
    let mut random = Random::new(3);
    for step in 0..20_000u64 {
        let (from, to) = (random.below(2) as usize, random.below(2) as usize);
        match random.below(3) {
            0 if keys.len() < 40 => {
                let item = world.new_item(&step.to_le_bytes(), b"");
                let mut entry = Entry::insert(world.stripes.lock(0), step, item, |_| 0);
                keys.insert(entry.item().address(), step);
                lists[from].push_head(&mut world.small, entry.entered(), QueueKind::Hot, 1);
                model[from].insert(0, step);
            }
            1 if lists[from].count() > 0 => {
                let taken = lists[from].take_tail(&mut world.small, 1).expect("it holds an item");
                taken.push_head(&mut lists[to], QueueKind::Cold, 1);
                let key = model[from].pop().expect("it holds an item");
                model[to].insert(0, key);
            }
            _ if lists[from].count() > 0 => {
                let at = random.below(model[from].len() as u64) as usize;
                let key = model[from].remove(at);
                let guard = world.stripes.lock(0);
                let entry = Entry::find(guard, key, &key.to_le_bytes()).ok().expect("it is there");
                let removed = entry.remove().1;
                keys.remove(&removed.address());
                let left = lists[from].unlink(&mut world.small, removed, 1);
                world.free(left.expect("nobody pins it"));
            }
            _ => {}
        }
        for (list, model) in lists.iter().zip(&model) {
            let found = list.iter_from_tail(&world.small).map(|item| keys[&item.address()]);
            assert!(found.eq(model.iter().rev().copied()), "step {step}");
        }
    }
}

#[test]
fn an_item_lost_between_lists_does_not_change_other_items() {
    let mut world = World::new();
    world.store(b"a", b"");
    world.store(b"b", b"");
    world.store(b"c", b"");
    let lost = world.stripes.find(b"b").expect("it was stored");
    let _ = world.queue.take_entry(&mut world.small, &lost, 1);
    drop(lost);
    let removed = world.stripes.find(b"b").expect("it was stored").remove().1;
    let left = world.queue.unlink(&mut world.small, removed, 0);
    world.free(left.expect("nobody pins it"));
    let keys: Vec<&[u8]> =
        world.queue.iter_from_tail(&world.small).map(|item| item.key()).collect();
    assert_eq!(keys, [b"a", b"c"]);
}

#[test]
fn an_empty_page_moves_to_another_class() {
    let mut world = World::new();
    let address = world.store(b"key", b"value");
    let page = world.memory.page_of(address);
    let removed = world.stripes.find(b"key").expect("it was stored").remove().1;
    let left = world.unlink(removed).expect("nobody pins it");
    world.free(left);
    let page = world.small.release_page(page);
    assert_eq!(world.small.queued(address).map(|item| item.address()), None);
    assert_eq!(world.small.state_of(address), None, "it is no longer a chunk of the class");
    let id = world.large.adopt(page);
    let chunk = world.large.take(id).expect("the page is empty");
    assert_eq!((chunk.class(), chunk.size_bytes()), (ClassId(1), 1024));
    world.large.give(chunk);
}

#[test]
fn items_of_another_process_are_restored() {
    let mut old = World::new();
    let kept: Vec<ChunkAddress> =
        (0..20u64).map(|key| old.store(&key.to_le_bytes(), b"value")).collect();
    let head = old.store_chained(b"long", &[7; 2500]);
    let upload = old.new_item(b"upload", b"cut short");
    let tails = [old.queue.tail_address(), old.chained_queue.tail_address()];
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.blank(page));
    let (mut world, mut restore) = World::restored_from(&old);
    let items: Vec<RestoredItem> = (0..128)
        .map(|slot| world.memory.chunk_at(PageId(0), slot, 512))
        .filter_map(|address| restore.item(address).expect("no invariant is broken"))
        .collect();
    assert_eq!(items.len(), 21, "an unfinished upload is not an item");
    for item in items {
        let guard = Entry::enter_restored(world.stripes.lock(0), 0, item, |_| 0).into_guard();
        drop(guard);
    }
    assert!(world.small.state_of(head).is_none(), "the page's chunks are not visible yet");
    assert!(world.stripes.find(b"long").expect("it was entered").item().pin().is_none());
    let visit = |item: Queued<'_>| Ok(item.counted_size_bytes());
    let lists = [&mut world.small, &mut world.chained].map(|class| {
        let tail = tails[usize::from(class.class() == CHAINED)];
        restore.list(class, (tail, QueueKind::Hot), visit).expect("no invariant is broken")
    });
    assert_eq!(lists.each_ref().map(List::count), [20, 1]);
    assert_eq!(restore.finish_page(&mut world.small, PageId(0)), 21);
    assert_eq!(restore.finish_page(&mut world.large, PageId(1)), 3);
    let entry = world.stripes.find(b"long").expect("it was entered");
    assert!(entry.item().value().flatten().all(|&byte| byte == 7));
    entry.item().check_chain();
    drop(entry);
    let chunk = world.take(SMALL);
    assert_eq!(chunk.address(), upload.head.address(), "the chunk of the upload is free");
    assert_eq!(lists[0].tail(&world.small).map(|item| item.address()), Some(kept[0]));
    world.small.give(chunk);
    upload.into_chunks().for_each(|chunk| old.small.give(chunk));
}

#[test]
fn broken_chains_and_queues_are_detected() {
    let mut old = World::new();
    let first = old.store(b"a", b"");
    old.store(b"b", b"");
    old.store_chained(b"long", &[7; 2500]);
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.blank(page));
    let visit = |item: Queued<'_>| Ok(item.counted_size_bytes());
    // An item that is in no table is in no queue; a chunk belongs to one item.
    let (mut world, mut restore) = World::restored_from(&old);
    let broken = restore.list(&mut world.small, (Some(first), QueueKind::Hot), visit);
    assert_eq!(broken.unwrap_err().invariant, "an item is in the queue of its state");
    let (_, mut restore) = World::restored_from(&old);
    let _item = restore.item(first).expect("it is valid").expect("it is linked");
    assert_eq!(restore.item(first).unwrap_err().invariant, "a chunk belongs to one item");
    // The queue holds another item, which was not inserted.
    let (mut world, mut restore) = World::restored_from(&old);
    let item = restore.item(first).expect("it is valid").expect("it is linked");
    drop(Entry::enter_restored(world.stripes.lock(0), 0, item, |_| 0));
    let broken = restore.list(&mut world.small, (Some(first), QueueKind::Hot), visit);
    assert_eq!(broken.unwrap_err().invariant, "an item is in the queue of its state");
    // A body of another item.
    let (world, mut restore) = World::restored_from(&old);
    let head = world.memory.chunk_at(PageId(0), 2, 512);
    world.forge_body(world.memory.chunk_at(PageId(1), 1, 1024));
    assert_eq!(restore.item(head).unwrap_err().invariant, "a body links to its item");
}
