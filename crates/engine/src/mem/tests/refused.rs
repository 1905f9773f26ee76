//! Tests that a function panics or returns an error if its caller passes an access token of a wrong stripe, class,
//! memory or item.

use super::fixture::{FIELDS, Fixture, LARGE, PAGE_SIZE_BYTES, SMALL, memory};
use crate::layout::{ChunkAddress, ItemMeta, SizeModel};
use crate::mem::arena::Arena;
use crate::mem::chunk::{NewItem, ValueShape};
use crate::mem::class_token::PinOutcome;
use crate::mem::list::List;
use crate::mem::mapping::{FileAccess, HugePages};
use crate::mem::memory::Memory;
use crate::mem::restore::Restore;
use crate::mem::state::QueueKind;
use crate::mem::stripe::Entry;
use slabwise_base::PageId;
use std::os::fd::AsFd;

#[test]
fn an_item_of_another_stripe_is_not_found() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"key", b"value");
    let other = fixture.stripes.lock(1);
    let Err(other) = Entry::find_address(other, 0, address) else {
        panic!("the item is in stripe 0")
    };
    assert!(Entry::find(other, 0, b"key").is_err(), "stripe 1 has no item of the key");
}

#[test]
#[should_panic(expected = "a copy replaces an item of the stripe of its original")]
fn a_copy_made_under_another_stripe_is_refused() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let chunk = fixture.take(SMALL);
    let entry = fixture.stripes.find(b"key").expect("the key was stored");
    let pin = entry.item().pin_key().expect("the item is linked");
    let copied = entry.copy_to(chunk).expect("the chunk has room for the copy");
    drop(entry);
    let item = fixture.new_item(b"key", b"value");
    let guard = fixture.stripes.lock(1);
    let mut other = Entry::insert(guard, 0, item, |_| 0);
    let _ = other.carry_to(copied, &pin, &mut fixture.memory.mover_token());
}

#[test]
#[should_panic(expected = "a chunk is used with its own memory")]
fn a_copy_made_in_another_memory_is_refused() {
    let (mut fixture, mut other) = (Fixture::new(), Fixture::new());
    assert_eq!(fixture.store(b"key", b"value"), other.store(b"key", b"value"));
    let chunk = other.take(SMALL);
    let copied = other.stripes.find(b"key").expect("the key was stored").copy_to(chunk);
    let mut entry = fixture.stripes.find(b"key").expect("the key was stored");
    let pin = entry.item().pin_key().expect("the item is linked");
    let copied = copied.expect("the chunk has room for the copy");
    let _ = entry.carry_to(copied, &pin, &mut fixture.memory.mover_token());
}

#[test]
#[should_panic(expected = "a copy replaces only its original")]
fn a_copy_of_another_item_is_refused() {
    let mut fixture = Fixture::new();
    fixture.store(b"a", b"");
    fixture.store(b"b", b"");
    let chunk = fixture.take(SMALL);
    let entry = fixture.stripes.find(b"a").expect("the key was stored");
    let pin = entry.item().pin_key().expect("the item is linked");
    let copied = entry.copy_to(chunk).expect("the chunk has room for the copy");
    drop(entry);
    let mut other = fixture.stripes.find(b"b").expect("the key was stored");
    let _ = other.carry_to(copied, &pin, &mut fixture.memory.mover_token());
}

#[test]
#[should_panic(expected = "the caller's pin is on the item of the entry")]
fn a_value_is_not_written_with_a_pin_of_another_item() {
    let mut fixture = Fixture::new();
    fixture.store(b"a", b"1");
    fixture.store(b"b", b"2");
    let pin = fixture
        .stripes
        .find(b"a")
        .expect("the key was stored")
        .item()
        .pin_key()
        .expect("the item is linked");
    let _ = fixture.stripes.find(b"b").expect("the key was stored").value_access(Some(&pin));
}

#[test]
#[should_panic(expected = "the token of class 1 was already handed out")]
fn the_token_of_a_class_is_not_handed_out_twice() {
    let fixture = Fixture::new();
    let _ = fixture.memory.class_token(LARGE);
}

#[test]
#[should_panic(expected = "the token is of the class that queues the item")]
fn an_expiry_is_not_written_with_the_token_of_another_class() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let mut entry = fixture.stripes.find(b"key").expect("the key was stored");
    let _ = entry.meta_access(&mut fixture.large);
}

#[test]
#[should_panic(expected = "an item is queued in its own class")]
fn an_item_is_not_queued_in_another_class() {
    let mut fixture = Fixture::new();
    let item = fixture.new_item(b"key", b"value");
    let guard = fixture.stripes.lock(0);
    let mut entry = Entry::insert(guard, 0, item, |_| 0);
    let mut queue = List::EMPTY;
    queue.push_head(&mut fixture.large, entry.entered(), QueueKind::Hot, 1);
}

#[test]
#[should_panic(expected = "an item that enters a queue is in none yet")]
fn a_queued_item_is_not_queued_again() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let mut entry = fixture.stripes.find(b"key").expect("the key was stored");
    fixture.queue.push_head(&mut fixture.small, entry.entered(), QueueKind::Hot, 1);
}

#[test]
#[should_panic(expected = "a list is used with the token of its own class")]
fn a_list_is_not_read_with_the_token_of_another_class() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let _ = fixture.queue.tail(&fixture.large);
}

#[test]
#[should_panic(expected = "an item is removed from the list that it is in")]
fn an_item_at_the_end_of_a_list_is_not_removed_from_another_list() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let mut other = std::mem::take(&mut fixture.queue);
    fixture.store(b"other", b"value");
    let pin = fixture.stripes.find(b"other").expect("the key was stored").item().pin_key();
    let _ = other.detach_pinned(&mut fixture.small, &pin.expect("the item is linked"), 1);
}

#[test]
#[should_panic(expected = "an item is removed from a list of its class")]
fn a_detached_item_is_not_detached_again() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let pin = fixture.queue.detach_tail(&mut fixture.small, 1).expect("the item is in the queue");
    let _ = fixture.queue.detach_pinned(&mut fixture.small, &pin, 1);
}

#[test]
#[should_panic(expected = "the class owns the page")]
fn a_class_allocates_no_chunk_of_another_class_s_page() {
    let mut fixture = Fixture::new();
    let _ = fixture.small.take(PageId(1));
}

#[test]
#[should_panic(expected = "a chunk is freed by the class that owns its page")]
fn a_class_does_not_free_a_chunk_of_another_class() {
    let mut fixture = Fixture::new();
    let chunk = fixture.take(LARGE);
    fixture.small.give(chunk);
}

#[test]
#[should_panic(expected = "the allocated chunk is on the free list of its page")]
fn a_chunk_in_use_is_not_allocated() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"key", b"value");
    let _ = fixture.small.take_at(address);
}

#[test]
#[should_panic(expected = "a released page has no chunk in use")]
fn a_page_with_a_chunk_in_use_is_not_released() {
    let mut fixture = Fixture::new();
    let _owned = fixture.take(SMALL);
    let _ = fixture.small.release_page(PageId(0));
}

#[test]
fn addresses_that_are_not_chunks_of_the_class_are_rejected() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"key", b"value");
    let large = fixture.store_chained(b"long", &[1; 1500]);
    let within = ChunkAddress::from_offset(address.offset() + 8);
    let fresh = ChunkAddress::from_offset(address.offset() + 4096);
    let beyond = ChunkAddress::from_offset(1 << 30);
    for other in [within, fresh, beyond] {
        assert_eq!(fixture.small.state_of(other), None);
        assert!(fixture.small.queued(other).is_none() && fixture.small.pin_at(other).is_none());
    }
    assert!(
        fixture.large.pin_at(address).is_none(),
        "a class does not pin an item of another class"
    );
    assert!(fixture.small.queued(large).is_none(), "a chained item is queued in another class");
    assert!(fixture.small.queued(address).is_some() && fixture.small.pin_at(address).is_some());
    let mover = fixture.memory.mover_token();
    assert!(matches!(fixture.small.pin_head_of(address, &mover), PinOutcome::NoBody));
}

#[test]
#[should_panic(expected = "the item fits into its first chunk")]
fn an_item_that_is_too_large_is_refused() {
    let mut fixture = Fixture::new();
    let chunk = fixture.take(SMALL);
    let meta = (ItemMeta::default(), FIELDS);
    let _ = NewItem::begin(&fixture.memory, chunk, b"key", meta, ValueShape::Whole(500));
}

#[test]
#[should_panic(expected = "the offset is within the value")]
fn a_value_is_not_written_beyond_its_end() {
    let mut fixture = Fixture::new();
    let mut item = fixture.new_item(b"key", b"value");
    item.value_mut(&fixture.memory, 6).fill(0);
}

#[test]
#[should_panic(expected = "the written bytes are within the value")]
fn a_published_value_is_not_overwritten_beyond_its_end() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let mut entry = fixture.stripes.find(b"key").expect("the key was stored");
    entry.value_access(None).expect("the item has no pins").overwrite(4, b"xy");
}

#[test]
#[should_panic(expected = "the written bytes are within the chunk, after its header")]
fn a_write_beyond_a_chunk_is_refused() {
    let mut fixture = Fixture::new();
    let mut chunk = fixture.take(SMALL);
    chunk.write(&fixture.memory, 500, 13);
}

#[test]
#[should_panic(expected = "the written bytes are within the chunk, after its header")]
fn a_write_over_a_chunk_s_header_is_refused() {
    let mut fixture = Fixture::new();
    let mut chunk = fixture.take(SMALL);
    chunk.write(&fixture.memory, 28, 1);
}

#[test]
fn a_copy_that_does_not_fit_returns_its_chunk() {
    let mut fixture = Fixture::new();
    let chunk = fixture.take(LARGE);
    let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(600));
    let item = NewItem::begin(&fixture.memory, chunk, b"wide", meta, shape);
    let small = fixture.take(SMALL);
    let guard = fixture.stripes.lock(0);
    let entry = Entry::insert(guard, 0, item, |_| 0);
    assert!(entry.copy_to(small).is_err(), "an item of 600 bytes does not fit into 512 bytes");
}

#[test]
fn a_head_is_not_freed_before_its_bodies() {
    let mut fixture = Fixture::new();
    fixture.store_chained(b"long", &[1; 1500]);
    let removed = fixture.stripes.find(b"long").expect("the key was stored").remove().1;
    let remains = fixture
        .chained_queue
        .unlink(&mut fixture.chained, removed, 1)
        .expect("the item has no pins");
    assert!(remains.try_into_chunk(&fixture.memory).is_err_and(|(_, class)| class == LARGE));
}

#[test]
#[should_panic(expected = "the class owns the page of the body")]
fn a_body_is_not_taken_under_another_class() {
    let mut fixture = Fixture::new();
    fixture.store_chained(b"long", &[1; 1500]);
    let removed = fixture.stripes.find(b"long").expect("the key was stored").remove().1;
    let mut remains = fixture
        .chained_queue
        .unlink(&mut fixture.chained, removed, 1)
        .expect("the item has no pins");
    let _ = remains.take_body(&mut fixture.small);
}

#[test]
fn a_pinned_chain_is_not_moved() {
    let mut fixture = Fixture::new();
    let head = fixture.store_chained(b"long", &[1; 1500]);
    let (spare, body) = (fixture.take(SMALL), fixture.take(LARGE));
    let mut entry = fixture.stripes.find(b"long").expect("the key was stored");
    let (_reader, own) = (entry.item().pin(), entry.item().pin_key().expect("the item is linked"));
    let copied = entry.copy_to(spare).expect("the chunk has room for the copy");
    let mut mover = fixture.memory.mover_token();
    let copied = entry.carry_to(copied, &own, &mut mover).expect_err("a reader pins the item");
    assert_eq!(entry.item().address(), head);
    let first = entry.item().bodies().next().expect("the item is chained");
    let body = entry.move_body(first, body, &own, &mut mover).expect_err("a reader pins the item");
    drop(entry);
    fixture.small.give(copied.into_chunk());
    fixture.large.give(body);
}

#[test]
#[should_panic(expected = "an item in a queue is unlinked by its list")]
fn a_queued_item_is_unlinked_only_through_its_queue() {
    let mut fixture = Fixture::new();
    fixture.store(b"key", b"value");
    let removed = fixture.stripes.find(b"key").expect("the key was stored").remove().1;
    let _ = removed.unlink(&fixture.memory);
}

#[test]
#[should_panic(expected = "a chunk is used with its own memory")]
fn a_chunk_of_another_memory_is_refused() {
    let (mut fixture, mut other) = (Fixture::new(), Fixture::new());
    fixture.small.give(other.take(SMALL));
}

#[test]
#[should_panic(expected = "a page is used with its own memory")]
fn a_page_of_another_memory_is_refused() {
    let mut fixture = Fixture::new();
    fixture.small.adopt(memory().next_new_page().expect("the arena has an unused page"));
}

#[test]
#[should_panic(expected = "a pin is used with its own memory")]
fn a_pin_of_another_memory_is_refused() {
    let (mut fixture, other) = (Fixture::new(), Fixture::new());
    fixture.store(b"key", b"value");
    let pin = fixture
        .stripes
        .find(b"key")
        .expect("the key was stored")
        .item()
        .pin()
        .expect("the item is linked");
    let _ = other.memory.unpin(pin);
}

#[test]
#[should_panic(expected = "a class that changes its chunk size owns no page")]
fn the_chunk_size_of_a_class_with_pages_does_not_change() {
    Fixture::new().small.set_chunk_size(256);
}

#[test]
#[should_panic(expected = "a copy replaces only its original")]
fn a_copy_of_an_item_whose_chunk_was_reused_is_refused() {
    let mut fixture = Fixture::new();
    let address = fixture.store(b"a", b"");
    let chunk = fixture.take(SMALL);
    let copied = fixture.stripes.find(b"a").expect("the key was stored").copy_to(chunk);
    let removed = fixture.stripes.find(b"a").expect("the key was stored").remove().1;
    let remains = fixture.unlink(removed).expect("the item has no pins");
    fixture.free(remains);
    assert_eq!(fixture.store_chained(b"b", &[1; 1500]), address);
    let mut entry = fixture.stripes.find(b"b").expect("the key was stored");
    let pin = entry.item().pin_key().expect("the item is linked");
    let copied = copied.expect("the chunk has room for the copy");
    let _ = entry.carry_to(copied, &pin, &mut fixture.memory.mover_token());
}

#[test]
#[should_panic(expected = "the caller's pin is on the item of the entry")]
fn an_item_is_not_moved_with_a_pin_of_another_item() {
    let mut fixture = Fixture::new();
    fixture.store(b"a", b"");
    fixture.store(b"b", b"");
    let chunk = fixture.take(SMALL);
    let other = fixture.stripes.find(b"b").expect("the key was stored").item().pin_key();
    let mut entry = fixture.stripes.find(b"a").expect("the key was stored");
    let copied = entry.copy_to(chunk).expect("the chunk has room for the copy");
    let other = other.expect("the item is linked");
    let _ = entry.carry_to(copied, &other, &mut fixture.memory.mover_token());
}

/// Returns a fixture, a restore of three items in it, and the addresses of the two items that are not chained, the
/// older one first.
fn being_restored() -> (Fixture, Restore, [ChunkAddress; 2]) {
    let mut old = Fixture::new();
    let addresses = [b"a", b"b"].map(|key| old.store(key, b""));
    old.store_chained(b"long", &[7; 2500]);
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.mark_fresh_free(page));
    let (fixture, restore) = Fixture::restored_from(&old);
    (fixture, restore, addresses)
}

/// Checks an item and inserts it into the table of stripe 0.
fn enter(fixture: &Fixture, restore: &mut Restore, address: ChunkAddress) {
    let item = restore.item(address).expect("the item is valid").expect("the item is linked");
    drop(Entry::enter_restored(fixture.stripes.lock(0), 0, item, |_| 0));
}

/// Restores the hot queue of the class `SMALL` from its tail. Returns the broken invariant as the error.
fn restore_queue(
    fixture: &mut Fixture,
    restore: &mut Restore,
    tail: ChunkAddress,
) -> Result<List, &'static str> {
    let tail = (Some(tail), QueueKind::Hot);
    restore.list(&mut fixture.small, tail, |_| Ok(1)).map_err(|broken| broken.invariant)
}

#[test]
#[should_panic(expected = "the class belongs to the restored memory")]
fn a_queue_is_not_restored_with_the_token_of_another_memory() {
    let (fixture, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&fixture, &mut restore, address));
    let _ = restore_queue(&mut Fixture::new(), &mut restore, first);
}

#[test]
#[should_panic(expected = "the class belongs to the restored memory")]
fn a_page_is_not_restored_with_the_token_of_another_memory() {
    let (_, mut restore, _) = being_restored();
    restore.finish_page(&mut Fixture::new().small, PageId(0));
}

#[test]
fn a_queue_with_an_unchecked_item_is_not_restored() {
    let (mut fixture, mut restore, [first, second]) = being_restored();
    enter(&fixture, &mut restore, first);
    fixture.forge_restored(second);
    let refused = restore_queue(&mut fixture, &mut restore, first);
    assert_eq!(refused.unwrap_err(), "a queue links only items whose state names this queue");
}

#[test]
fn an_item_with_a_link_out_of_the_arena_is_not_queued() {
    let beyond = ChunkAddress::from_offset(1 << 30);
    let (mut fixture, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&fixture, &mut restore, address));
    fixture.forge_prev(first, beyond);
    assert_eq!(
        restore_queue(&mut fixture, &mut restore, first).unwrap_err(),
        "a queue links only chunks"
    );
    let removed = fixture.stripes.find(b"a").expect("the item is in the table").remove().1;
    let queued = removed.queued(&fixture.small);
    assert!(queued.is_none(), "an item with a wrong link does not become queued");
}

#[test]
#[should_panic(expected = "no step of a restore follows a step that failed")]
fn no_page_is_restored_after_a_broken_item() {
    let (mut fixture, mut restore, [first, _]) = being_restored();
    enter(&fixture, &mut restore, first);
    assert!(restore.item(first).is_err(), "an item cannot be restored twice");
    restore.finish_page(&mut fixture.small, PageId(0));
}

#[test]
#[should_panic(expected = "no step of a restore follows a step that failed")]
fn no_item_is_restored_after_a_broken_queue() {
    let (mut fixture, mut restore, [first, second]) = being_restored();
    enter(&fixture, &mut restore, first);
    assert!(
        restore_queue(&mut fixture, &mut restore, first).is_err(),
        "a queue with an item that was not inserted is not restored"
    );
    enter(&fixture, &mut restore, second);
}

#[test]
#[should_panic(expected = "no step of a restore follows a step that failed")]
fn no_page_is_restored_after_a_visit_that_panicked() {
    let (mut fixture, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&fixture, &mut restore, address));
    let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let tail = (Some(first), QueueKind::Hot);
        restore.list(&mut fixture.small, tail, |_| panic!("the visit of an item fails"))
    }));
    assert!(visited.is_err(), "the panic of the visit ends the restore of the queue");
    restore.finish_page(&mut fixture.small, PageId(0));
}

#[test]
#[should_panic(expected = "an adopted page does not change until it is finished")]
fn a_page_that_was_used_since_it_was_adopted_is_not_restored() {
    let (mut fixture, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&fixture, &mut restore, address));
    fixture.queue =
        restore_queue(&mut fixture, &mut restore, first).expect("no invariant is broken");
    let removed = fixture.stripes.find(b"a").expect("the item is in the table").remove().1;
    let remains = fixture.unlink(removed).expect("the item has no pins");
    fixture.free(remains);
    restore.finish_page(&mut fixture.small, PageId(0));
}

#[test]
#[should_panic(expected = "page size 2048 is too small")]
fn a_page_below_4_kib_is_refused() {
    let arena = Arena::reserve(PAGE_SIZE_BYTES, HugePages::BySystem)
        .expect("the system reserves the address space");
    let _ = Memory::new(arena, 2048, SizeModel::Exact);
}

#[test]
fn a_file_that_is_too_short_or_already_mapped_is_refused() {
    let file = tempfile::tempfile().expect("a temporary file can be created");
    file.set_len(PAGE_SIZE_BYTES as u64).expect("the disk has room for one page");
    let map = |size_bytes| {
        let sizes = (2 * PAGE_SIZE_BYTES, size_bytes as u64);
        Arena::of_file(file.as_fd(), sizes, HugePages::BySystem, FileAccess::Writable)
    };
    assert!(map(PAGE_SIZE_BYTES + 1).is_err(), "a file that is shorter than its pages is refused");
    let first = map(PAGE_SIZE_BYTES).expect("a file that no arena maps is accepted");
    assert!(map(PAGE_SIZE_BYTES).is_err(), "a file that another arena maps is refused");
    drop(first);
    assert!(map(PAGE_SIZE_BYTES).is_ok(), "a file is accepted after the other arena was dropped");
}
