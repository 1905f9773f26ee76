//! Tests that `mem` panics on misuse and keeps the bytes of items intact. `./test --full` also runs these tests with
//! AddressSanitizer, and those of `threads.rs` with ThreadSanitizer.

mod fixture;
mod refused;
mod spare;
mod table;
mod threads;

use super::class_token::PinOutcome;
use super::item::Queued;
use super::list::List;
use super::restore::RestoredItem;
use super::state::QueueKind;
use super::stripe::Entry;
use crate::layout::{CHAINED, ChunkAddress};
use fixture::{Fixture, LARGE, SMALL};
use slabwise_base::{ClassId, Expiry, PageId, Random};
use std::collections::HashMap;

#[test]
fn a_deleted_item_frees_its_chunk_after_the_last_unpin() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"key", b"value");
    let entry = fixture.stripes.find(b"key").expect("the key was stored");
    let item = entry.item();
    assert_eq!((item.key(), item.value_len(), item.address()), (&b"key"[..], 5, address));
    assert_eq!(item.value().flatten().copied().collect::<Vec<u8>>(), b"value");
    let pin = item.pin().expect("the item has no pins");
    let removed = entry.remove().1;
    assert_eq!(fixture.unlink(removed), None, "an unlinked item with a pin is not freed");
    assert_eq!(pin.item(&fixture.memory).value().flatten().count(), 5);
    let remains = fixture.memory.unpin(pin).expect("the unlinked item has no pins any more");
    let chunk = remains.try_into_chunk(&fixture.memory).expect("the item has no bodies");
    assert_eq!((chunk.address(), chunk.class(), chunk.size_bytes()), (address, SMALL, 512));
    fixture.small.give(chunk);
    assert_eq!(fixture.store(b"next", b""), address, "the chunk freed last is allocated first");
}

#[test]
fn expiry_rank_and_value_are_written_in_place() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"41");
    let mut entry = fixture.stripes.find(b"key").expect("the key was stored");
    let mut access = entry.meta_access(&mut fixture.small);
    access.set_expiry(Expiry::PAST);
    access.set_rank(7);
    assert_eq!((entry.item().expiry(), entry.item().rank()), (Expiry::PAST, 7));
    entry.value_access(None).expect("the item has no pins").overwrite(1, b"2");
    assert_eq!(entry.item().value_in_first_chunk(), b"42");
    let pin = entry.item().pin().expect("the item has no pins");
    assert!(entry.value_access(None).is_none(), "a pinned value is not written");
    assert!(fixture.memory.unpin(pin).is_none(), "the unpin of a linked item does not free it");
    let pin = entry.item().pin_key().expect("the item has no pins");
    entry.value_access(Some(&pin)).expect("only the writer pins the item").overwrite(0, b"5");
    assert!(fixture.memory.unpin(pin).is_none(), "the unpin of a linked item does not free it");
    assert_eq!(entry.item().value_in_first_chunk(), b"52");
}

#[test]
fn a_chained_item_is_read_moved_and_freed() {
    let mut fixture = Fixture::new();
    let value: Vec<u8> = (0..2500u32).map(|byte| byte as u8).collect();
    let head = fixture.store_chained(b"long", &value);
    let read = |fixture: &Fixture| {
        let entry = fixture.stripes.find(b"long").expect("the key was stored");
        entry.item().value().flatten().copied().collect::<Vec<u8>>()
    };
    assert_eq!(read(&fixture), value);
    let mut mover = fixture.memory.mover_token();
    // Move a body to another chunk.
    let body = fixture
        .stripes
        .find(b"long")
        .expect("the key was stored")
        .item()
        .bodies()
        .nth(1)
        .expect("the item has three bodies");
    let PinOutcome::Pinned(pin) = fixture.large.pin_head_of(body, &mover) else {
        panic!("the item has no pins")
    };
    assert_eq!(pin.address(), head);
    let chunk = fixture.take(LARGE);
    let mut entry =
        Entry::find_address(fixture.stripes.lock(0), 0, head).ok().expect("the key was stored");
    let emptied =
        entry.move_body(body, chunk, &pin, &mut mover).expect("the chunk has room for the copy");
    assert_eq!(emptied.address(), body);
    drop(entry);
    fixture.large.give(emptied);
    assert_eq!(read(&fixture), value);
    // Move the head to another chunk.
    let chunk = fixture.take(SMALL);
    let mut entry =
        Entry::find_address(fixture.stripes.lock(0), 0, head).ok().expect("the key was stored");
    let copied = entry.copy_to(chunk).expect("the chunk has room for the copy");
    let removed = entry.carry_to(copied, &pin, &mut mover).expect("the item has no pins");
    let copy = entry.entered();
    let left = fixture.chained_queue.take_place(&mut fixture.chained, removed, copy, (1, 3));
    assert_eq!(left, None, "the old head is not freed while the mover pins it");
    drop(entry);
    let remains = fixture.memory.unpin(pin).expect("the old head has no pins any more");
    let chunk = remains.try_into_chunk(&fixture.memory).expect("the bodies are linked to the copy");
    fixture.small.give(chunk);
    assert_eq!(read(&fixture), value);
    // Delete and free the item.
    let removed = fixture.stripes.find(b"long").expect("the key was stored").remove().1;
    assert_eq!(removed.queue_class(&fixture.memory), CHAINED);
    let mut remains = fixture
        .chained_queue
        .unlink(&mut fixture.chained, removed, 3)
        .expect("the item has no pins");
    assert_eq!(fixture.chained_queue.bytes(), 0);
    for _ in 0..3 {
        let (rest, class) =
            remains.try_into_chunk(&fixture.memory).expect_err("the item has a body");
        assert_eq!(class, LARGE);
        remains = rest;
        let body = remains.take_body(&mut fixture.large);
        fixture.large.give(body);
    }
    fixture.small.give(remains.try_into_chunk(&fixture.memory).expect("the item has no bodies"));
    assert_eq!((fixture.used_count(SMALL), fixture.used_count(LARGE)), (0, 0));
}

#[test]
fn a_list_holds_its_items_in_the_same_order_as_a_vector() {
    let mut fixture = Fixture::new();
    let mut lists = [List::EMPTY, List::EMPTY];
    let mut model: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    let mut keys = HashMap::new();
    let mut random = Random::new(3);
    for step in 0..20_000u64 {
        let (from, to) = (random.below(2) as usize, random.below(2) as usize);
        match random.below(3) {
            0 if keys.len() < 40 => {
                let item = fixture.new_item(&step.to_le_bytes(), b"");
                let mut entry = Entry::insert(fixture.stripes.lock(0), step, item, |_| 0);
                keys.insert(entry.item().address(), step);
                lists[from].push_head(&mut fixture.small, entry.entered(), QueueKind::Hot, 1);
                model[from].insert(0, step);
            }
            1 if lists[from].count() > 0 => {
                let taken = lists[from].take_tail(&mut fixture.small, 1);
                let taken = taken.expect("the list has an item");
                taken.push_head(&mut lists[to], QueueKind::Cold, 1);
                let key = model[from].pop().expect("the vector has an item");
                model[to].insert(0, key);
            }
            _ if lists[from].count() > 0 => {
                let at = random.below(model[from].len() as u64) as usize;
                let key = model[from].remove(at);
                let guard = fixture.stripes.lock(0);
                let entry = Entry::find(guard, key, &key.to_le_bytes())
                    .ok()
                    .expect("the item is in the index");
                let removed = entry.remove().1;
                keys.remove(&removed.address());
                let left = lists[from].unlink(&mut fixture.small, removed, 1);
                fixture.free(left.expect("the item has no pins"));
            }
            _ => {}
        }
        for (list, model) in lists.iter().zip(&model) {
            let found = list.iter_from_tail(&fixture.small).map(|item| keys[&item.address()]);
            let is_equal = found.eq(model.iter().rev().copied());
            assert!(is_equal, "after step {step}, list and vector hold the same items");
        }
    }
}

#[test]
fn the_unlink_of_an_item_in_no_list_does_not_change_other_items() {
    let mut fixture = Fixture::new();
    fixture.store(b"a", b"");
    fixture.store(b"b", b"");
    fixture.store(b"c", b"");
    let entry = fixture.stripes.find(b"b").expect("the key was stored");
    let _ = fixture.queue.take_entry(&mut fixture.small, &entry, 1);
    drop(entry);
    let removed = fixture.stripes.find(b"b").expect("the key was stored").remove().1;
    let left = fixture.queue.unlink(&mut fixture.small, removed, 0);
    fixture.free(left.expect("the item has no pins"));
    let keys: Vec<&[u8]> =
        fixture.queue.iter_from_tail(&fixture.small).map(|item| item.key()).collect();
    assert_eq!(keys, [b"a", b"c"]);
}

#[test]
fn an_empty_page_moves_to_another_class() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"key", b"value");
    let page = fixture.memory.page_of(address);
    let removed = fixture.stripes.find(b"key").expect("the key was stored").remove().1;
    let left = fixture.unlink(removed).expect("the item has no pins");
    fixture.free(left);
    let page = fixture.small.release_page(page);
    assert_eq!(fixture.small.queued(address).map(|item| item.address()), None);
    assert_eq!(fixture.small.state_of(address), None, "the class does not own the page any more");
    let id = fixture.large.adopt(page);
    let chunk = fixture.large.take(id).expect("the page is empty");
    assert_eq!((chunk.class(), chunk.size_bytes()), (ClassId(1), 1024));
    fixture.large.give(chunk);
}

#[test]
fn items_of_another_process_are_restored() {
    let mut old = Fixture::new();
    let kept: Vec<ChunkAddress> =
        (0..20u64).map(|key| old.store(&key.to_le_bytes(), b"value")).collect();
    let head = old.store_chained(b"long", &[7; 2500]);
    let upload = old.new_item(b"upload", b"cut short");
    let tails = [old.queue.tail_address(), old.chained_queue.tail_address()];
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.mark_fresh_free(page));
    let (mut fixture, mut restore) = Fixture::restored_from(&old);
    let items: Vec<RestoredItem> = (0..128)
        .map(|slot| fixture.memory.chunk_at(PageId(0), slot, 512))
        .filter_map(|address| restore.item(address).expect("no invariant is broken"))
        .collect();
    assert_eq!(items.len(), 21, "an unfinished upload is not an item");
    for item in items {
        let guard = Entry::enter_restored(fixture.stripes.lock(0), 0, item, |_| 0).into_guard();
        drop(guard);
    }
    assert!(fixture.small.state_of(head).is_none(), "the chunks of an adopted page are fresh");
    assert!(
        fixture.stripes.find(b"long").expect("the item is in the table").item().pin().is_none()
    );
    let visit = |item: Queued<'_>| Ok(item.counted_size_bytes());
    let lists = [&mut fixture.small, &mut fixture.chained].map(|class| {
        let tail = tails[usize::from(class.class() == CHAINED)];
        restore.list(class, (tail, QueueKind::Hot), visit).expect("no invariant is broken")
    });
    assert_eq!(lists.each_ref().map(List::count), [20, 1]);
    assert_eq!(restore.finish_page(&mut fixture.small, PageId(0)), 21);
    assert_eq!(restore.finish_page(&mut fixture.large, PageId(1)), 3);
    let entry = fixture.stripes.find(b"long").expect("the item is in the table");
    assert!(entry.item().value().flatten().all(|&byte| byte == 7));
    entry.item().check_chain();
    drop(entry);
    let chunk = fixture.take(SMALL);
    assert_eq!(chunk.address(), upload.head.address(), "the chunk of the upload is free");
    assert_eq!(lists[0].tail(&fixture.small).map(|item| item.address()), Some(kept[0]));
    fixture.small.give(chunk);
    upload.into_chunks().for_each(|chunk| old.small.give(chunk));
}

#[test]
fn broken_chains_and_queues_are_detected() {
    let mut old = Fixture::new();
    let first = old.store(b"a", b"");
    old.store(b"b", b"");
    old.store_chained(b"long", &[7; 2500]);
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.mark_fresh_free(page));
    let visit = |item: Queued<'_>| Ok(item.counted_size_bytes());
    // The queue holds an item that `Restore::item` has not checked.
    let (mut fixture, mut restore) = Fixture::restored_from(&old);
    let broken = restore.list(&mut fixture.small, (Some(first), QueueKind::Hot), visit);
    assert_eq!(
        broken.unwrap_err().invariant,
        "a queue links only items whose state names this queue"
    );
    // `Restore::item` is called twice for the same item.
    let (_, mut restore) = Fixture::restored_from(&old);
    let _item = restore.item(first).expect("the item is valid").expect("the item is linked");
    assert_eq!(restore.item(first).unwrap_err().invariant, "a chunk belongs to one item only");
    // The queue holds an item that `Restore::item` has checked, and one that it has not checked.
    let (mut fixture, mut restore) = Fixture::restored_from(&old);
    let item = restore.item(first).expect("the item is valid").expect("the item is linked");
    drop(Entry::enter_restored(fixture.stripes.lock(0), 0, item, |_| 0));
    let broken = restore.list(&mut fixture.small, (Some(first), QueueKind::Hot), visit);
    assert_eq!(
        broken.unwrap_err().invariant,
        "a queue links only items whose state names this queue"
    );
    // A body links to another item.
    let (fixture, mut restore) = Fixture::restored_from(&old);
    let head = fixture.memory.chunk_at(PageId(0), 2, 512);
    fixture.forge_body(fixture.memory.chunk_at(PageId(1), 1, 1024));
    assert_eq!(restore.item(head).unwrap_err().invariant, "a body links to its item's first chunk");
}
