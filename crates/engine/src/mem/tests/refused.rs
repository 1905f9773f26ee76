//! Access tokens of a wrong stripe, class, memory or item are refused.

use super::world::{FIELDS, LARGE, PAGE_SIZE_BYTES, SMALL, World, memory};
use crate::layout::{ChunkAddress, ItemMeta, SizeModel};
use crate::mem::arena::Arena;
use crate::mem::chunk::{NewItem, ValueShape};
use crate::mem::class_token::HeadPin;
use crate::mem::list::List;
use crate::mem::memory::Memory;
use crate::mem::restore::Restore;
use crate::mem::state::QueueKind;
use crate::mem::stripe::Entry;
use slabwise_base::PageId;
use std::os::fd::AsFd;

#[test]
fn an_item_of_another_stripe_is_not_found() {
    let mut world = World::new();
    let address = world.store(b"key", b"value");
    let other = world.stripes.lock(1);
    let Err(other) = Entry::find_address(other, 0, address) else { panic!("it is in stripe 0") };
    assert!(Entry::find(other, 0, b"key").is_err());
}

#[test]
#[should_panic(expected = "a copy replaces an item of its stripe")]
fn a_copy_made_under_another_stripe_is_refused() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let chunk = world.take(SMALL);
    let entry = world.stripes.find(b"key").expect("it was stored");
    let pin = entry.item().pin_key().expect("it is linked");
    let copied = entry.copy_to(chunk).expect("there is room");
    drop(entry);
    let item = world.new_item(b"key", b"value");
    let guard = world.stripes.lock(1);
    let mut other = Entry::insert(guard, 0, item, |_| 0);
    let _ = other.carry_to(copied, &pin, &mut world.memory.mover_token());
}

#[test]
#[should_panic(expected = "a chunk is used with its own memory")]
fn a_copy_made_in_another_memory_is_refused() {
    let (mut world, mut other) = (World::new(), World::new());
    assert_eq!(world.store(b"key", b"value"), other.store(b"key", b"value"));
    let chunk = other.take(SMALL);
    let copied = other.stripes.find(b"key").expect("it was stored").copy_to(chunk);
    let mut entry = world.stripes.find(b"key").expect("it was stored");
    let pin = entry.item().pin_key().expect("it is linked");
    let copied = copied.expect("there is room");
    let _ = entry.carry_to(copied, &pin, &mut world.memory.mover_token());
}

#[test]
#[should_panic(expected = "a copy replaces its original")]
fn a_copy_of_another_item_is_refused() {
    let mut world = World::new();
    world.store(b"a", b"");
    world.store(b"b", b"");
    let chunk = world.take(SMALL);
    let entry = world.stripes.find(b"a").expect("it was stored");
    let pin = entry.item().pin_key().expect("it is linked");
    let copied = entry.copy_to(chunk).expect("there is room");
    drop(entry);
    let mut other = world.stripes.find(b"b").expect("it was stored");
    let _ = other.carry_to(copied, &pin, &mut world.memory.mover_token());
}

#[test]
#[should_panic(expected = "the writer's pin is on this item")]
fn a_pin_on_another_item_does_not_allow_writing() {
    let mut world = World::new();
    world.store(b"a", b"1");
    world.store(b"b", b"2");
    let pin =
        world.stripes.find(b"a").expect("it was stored").item().pin_key().expect("it is linked");
    let _ = world.stripes.find(b"b").expect("it was stored").value_access(Some(&pin));
}

#[test]
#[should_panic(expected = "the token of class 1 was already handed out")]
fn a_class_has_one_token() {
    let world = World::new();
    let _ = world.memory.class_token(LARGE);
}

#[test]
#[should_panic(expected = "an item is written under its class")]
fn the_token_of_another_class_does_not_allow_writing() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let mut entry = world.stripes.find(b"key").expect("it was stored");
    let _ = entry.meta_access(&mut world.large);
}

#[test]
#[should_panic(expected = "an item is queued in its own class")]
fn an_item_is_not_queued_in_another_class() {
    let mut world = World::new();
    let item = world.new_item(b"key", b"value");
    let guard = world.stripes.lock(0);
    let mut entry = Entry::insert(guard, 0, item, |_| 0);
    let mut queue = List::EMPTY;
    queue.push_head(&mut world.large, entry.entered(), QueueKind::Hot, 1);
}

#[test]
#[should_panic(expected = "a new item is queued once")]
fn an_item_is_queued_once() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let mut entry = world.stripes.find(b"key").expect("it was stored");
    world.queue.push_head(&mut world.small, entry.entered(), QueueKind::Hot, 1);
}

#[test]
#[should_panic(expected = "a list is used with its own class's token")]
fn a_list_is_used_with_its_own_class() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let _ = world.queue.tail(&world.large);
}

#[test]
#[should_panic(expected = "an item is removed from the list that it is in")]
fn an_item_at_the_end_of_another_list_is_refused() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let mut other = std::mem::take(&mut world.queue);
    world.store(b"other", b"value");
    let pin = world.stripes.find(b"other").expect("it was stored").item().pin_key();
    let _ = other.detach_pinned(&mut world.small, &pin.expect("it is linked"), 1);
}

#[test]
#[should_panic(expected = "an item is removed from a list of its class")]
fn a_detached_item_is_in_no_list() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let pin = world.queue.detach_tail(&mut world.small, 1).expect("it is queued");
    let _ = world.queue.detach_pinned(&mut world.small, &pin, 1);
}

#[test]
#[should_panic(expected = "a class uses its own pages")]
fn a_class_allocates_no_chunk_of_another_class_s_page() {
    let mut world = World::new();
    let _ = world.small.take(PageId(1));
}

#[test]
#[should_panic(expected = "a chunk goes back to its class")]
fn a_class_does_not_accept_a_chunk_of_another_class() {
    let mut world = World::new();
    let chunk = world.take(LARGE);
    world.small.give(chunk);
}

#[test]
#[should_panic(expected = "a free chunk is listed on its page")]
fn a_chunk_in_use_is_not_allocated() {
    let mut world = World::new();
    let address = world.store(b"key", b"value");
    let _ = world.small.take_at(address);
}

#[test]
#[should_panic(expected = "a class gives up only empty pages")]
fn a_page_in_use_stays_with_its_class() {
    let mut world = World::new();
    let _owned = world.take(SMALL);
    let _ = world.small.release_page(PageId(0));
}

#[test]
fn addresses_that_are_not_chunks_of_the_class_are_rejected() {
    let mut world = World::new();
    let address = world.store(b"key", b"value");
    let large = world.store_chained(b"long", &[1; 1500]);
    let within = ChunkAddress::from_offset(address.offset() + 8);
    let fresh = ChunkAddress::from_offset(address.offset() + 4096);
    let beyond = ChunkAddress::from_offset(1 << 30);
    for other in [within, fresh, beyond] {
        assert_eq!(world.small.state_of(other), None);
        assert!(world.small.queued(other).is_none() && world.small.pin_at(other).is_none());
    }
    assert!(world.large.pin_at(address).is_none(), "it belongs to another class");
    assert!(world.small.queued(large).is_none(), "it is queued with the chained items");
    assert!(world.small.queued(address).is_some() && world.small.pin_at(address).is_some());
    let mover = world.memory.mover_token();
    assert!(matches!(world.small.pin_head_of(address, &mover), HeadPin::NoBody));
}

#[test]
#[should_panic(expected = "an item fits its chunk")]
fn an_item_that_is_too_large_is_refused() {
    let mut world = World::new();
    let chunk = world.take(SMALL);
    let meta = (ItemMeta::default(), FIELDS);
    let _ = NewItem::begin(&world.memory, chunk, b"key", meta, ValueShape::Whole(500));
}

#[test]
#[should_panic(expected = "within the value")]
fn a_value_is_not_written_beyond_its_end() {
    let mut world = World::new();
    let mut item = world.new_item(b"key", b"value");
    item.value_mut(&world.memory, 6).fill(0);
}

#[test]
#[should_panic(expected = "a write stays within the value")]
fn a_published_value_is_not_overwritten_beyond_its_end() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let mut entry = world.stripes.find(b"key").expect("it was stored");
    entry.value_access(None).expect("nobody pins it").overwrite(4, b"xy");
}

#[test]
#[should_panic(expected = "a write stays within its chunk")]
fn a_write_beyond_a_chunk_is_refused() {
    let mut world = World::new();
    let mut chunk = world.take(SMALL);
    chunk.write(&world.memory, 500, 13);
}

#[test]
#[should_panic(expected = "a write stays within its chunk")]
fn a_write_over_a_chunk_s_header_is_refused() {
    let mut world = World::new();
    let mut chunk = world.take(SMALL);
    chunk.write(&world.memory, 28, 1);
}

#[test]
fn a_copy_that_does_not_fit_returns_its_chunk() {
    let mut world = World::new();
    let chunk = world.take(LARGE);
    let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(600));
    let item = NewItem::begin(&world.memory, chunk, b"wide", meta, shape);
    let small = world.take(SMALL);
    let guard = world.stripes.lock(0);
    let entry = Entry::insert(guard, 0, item, |_| 0);
    assert!(entry.copy_to(small).is_err());
}

#[test]
fn a_head_is_not_freed_before_its_bodies() {
    let mut world = World::new();
    world.store_chained(b"long", &[1; 1500]);
    let removed = world.stripes.find(b"long").expect("it was stored").remove().1;
    let remains =
        world.chained_queue.unlink(&mut world.chained, removed, 1).expect("nobody pins it");
    assert!(remains.into_chunk(&world.memory).is_err_and(|(_, class)| class == LARGE));
}

#[test]
#[should_panic(expected = "a body is taken under its class")]
fn a_body_is_not_taken_under_another_class() {
    let mut world = World::new();
    world.store_chained(b"long", &[1; 1500]);
    let removed = world.stripes.find(b"long").expect("it was stored").remove().1;
    let mut remains =
        world.chained_queue.unlink(&mut world.chained, removed, 1).expect("nobody pins it");
    let _ = remains.take_body(&mut world.small);
}

#[test]
fn a_pinned_chain_is_not_moved() {
    let mut world = World::new();
    let head = world.store_chained(b"long", &[1; 1500]);
    let (spare, body) = (world.take(SMALL), world.take(LARGE));
    let mut entry = world.stripes.find(b"long").expect("it was stored");
    let (_reader, own) = (entry.item().pin(), entry.item().pin_key().expect("it is linked"));
    let copied = entry.copy_to(spare).expect("there is room");
    let mut mover = world.memory.mover_token();
    let copied = entry.carry_to(copied, &own, &mut mover).expect_err("it is pinned");
    assert_eq!(entry.item().address(), head);
    let first = entry.item().bodies().next().expect("it is chained");
    let body = entry.carry_body(first, body, &own, &mut mover).expect_err("it is pinned");
    drop(entry);
    world.small.give(copied.into_chunk());
    world.large.give(body);
}

#[test]
#[should_panic(expected = "a queued item is unlinked by its queue")]
fn a_queued_item_is_unlinked_only_through_its_queue() {
    let mut world = World::new();
    world.store(b"key", b"value");
    let removed = world.stripes.find(b"key").expect("it was stored").remove().1;
    let _ = removed.unlink(&world.memory);
}

#[test]
#[should_panic(expected = "a chunk is used with its own memory")]
fn a_chunk_of_another_memory_is_refused() {
    let (mut world, mut other) = (World::new(), World::new());
    world.small.give(other.take(SMALL));
}

#[test]
#[should_panic(expected = "a page is used with its own memory")]
fn a_page_of_another_memory_is_refused() {
    let mut world = World::new();
    world.small.adopt(memory().next_new_page().expect("there is a page"));
}

#[test]
#[should_panic(expected = "a pin is used with its own memory")]
fn a_pin_of_another_memory_is_refused() {
    let (mut world, other) = (World::new(), World::new());
    world.store(b"key", b"value");
    let pin =
        world.stripes.find(b"key").expect("it was stored").item().pin().expect("it is linked");
    let _ = other.memory.unpin(pin);
}

#[test]
#[should_panic(expected = "a class changes its chunk size while it owns no page")]
fn the_chunk_size_of_a_class_with_pages_does_not_change() {
    World::new().small.set_chunk_size(256);
}

#[test]
#[should_panic(expected = "a copy replaces its original")]
fn a_copy_of_an_item_whose_chunk_was_reused_is_refused() {
    let mut world = World::new();
    let address = world.store(b"a", b"");
    let chunk = world.take(SMALL);
    let copied = world.stripes.find(b"a").expect("it was stored").copy_to(chunk);
    let removed = world.stripes.find(b"a").expect("it was stored").remove().1;
    let remains = world.unlink(removed).expect("nobody pins it");
    world.free(remains);
    assert_eq!(world.store_chained(b"b", &[1; 1500]), address);
    let mut entry = world.stripes.find(b"b").expect("it was stored");
    let pin = entry.item().pin_key().expect("it is linked");
    let copied = copied.expect("there is room");
    let _ = entry.carry_to(copied, &pin, &mut world.memory.mover_token());
}

#[test]
#[should_panic(expected = "the writer's pin is on this item")]
fn an_item_is_not_moved_under_a_pin_on_another() {
    let mut world = World::new();
    world.store(b"a", b"");
    world.store(b"b", b"");
    let chunk = world.take(SMALL);
    let other = world.stripes.find(b"b").expect("it was stored").item().pin_key();
    let mut entry = world.stripes.find(b"a").expect("it was stored");
    let copied = entry.copy_to(chunk).expect("there is room");
    let other = other.expect("it is linked");
    let _ = entry.carry_to(copied, &other, &mut world.memory.mover_token());
}

/// A world that restores one with two items and a chained one, and the addresses of the two items, newest last.
fn being_restored() -> (World, Restore, [ChunkAddress; 2]) {
    let mut old = World::new();
    let addresses = [b"a", b"b"].map(|key| old.store(key, b""));
    old.store_chained(b"long", &[7; 2500]);
    [PageId(0), PageId(1)].into_iter().for_each(|page| old.blank(page));
    let (world, restore) = World::restored_from(&old);
    (world, restore, addresses)
}

fn enter(world: &World, restore: &mut Restore, address: ChunkAddress) {
    let item = restore.item(address).expect("it is valid").expect("it is linked");
    drop(Entry::enter_restored(world.stripes.lock(0), 0, item, |_| 0));
}

fn list(
    world: &mut World,
    restore: &mut Restore,
    tail: ChunkAddress,
) -> Result<List, &'static str> {
    let tail = (Some(tail), QueueKind::Hot);
    restore.list(&mut world.small, tail, |_| Ok(1)).map_err(|broken| broken.invariant)
}

#[test]
#[should_panic(expected = "a class restores chunks of its own memory")]
fn a_queue_is_not_restored_with_the_token_of_another_memory() {
    let (world, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&world, &mut restore, address));
    let _ = list(&mut World::new(), &mut restore, first);
}

#[test]
#[should_panic(expected = "a class restores chunks of its own memory")]
fn a_page_is_not_restored_with_the_token_of_another_memory() {
    let (_, mut restore, _) = being_restored();
    restore.finish_page(&mut World::new().small, PageId(0));
}

#[test]
fn a_queue_with_an_unchecked_item_is_not_restored() {
    let (mut world, mut restore, [first, second]) = being_restored();
    enter(&world, &mut restore, first);
    world.forge_restored(second);
    let refused = list(&mut world, &mut restore, first);
    assert_eq!(refused.unwrap_err(), "an item is in the queue of its state");
}

#[test]
fn an_item_with_a_link_out_of_the_arena_is_not_queued() {
    let beyond = ChunkAddress::from_offset(1 << 30);
    let (mut world, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&world, &mut restore, address));
    world.forge_prev(first, beyond);
    assert_eq!(list(&mut world, &mut restore, first).unwrap_err(), "a queue links chunks");
    let removed = world.stripes.find(b"a").expect("it was entered").remove().1;
    assert!(removed.queued(&world.small).is_none(), "a list would write through its link");
}

#[test]
#[should_panic(expected = "a restore ends at the first broken invariant")]
fn no_page_is_restored_after_a_broken_item() {
    let (mut world, mut restore, [first, _]) = being_restored();
    enter(&world, &mut restore, first);
    assert!(restore.item(first).is_err(), "a chunk belongs to one item");
    restore.finish_page(&mut world.small, PageId(0));
}

#[test]
#[should_panic(expected = "a restore ends at the first broken invariant")]
fn no_item_is_restored_after_a_broken_queue() {
    let (mut world, mut restore, [first, second]) = being_restored();
    enter(&world, &mut restore, first);
    assert!(
        list(&mut world, &mut restore, first).is_err(),
        "it links an item that was not inserted"
    );
    enter(&world, &mut restore, second);
}

#[test]
#[should_panic(expected = "a restore ends at the first broken invariant")]
fn no_page_is_restored_after_a_visit_that_panicked() {
    let (mut world, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&world, &mut restore, address));
    let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let tail = (Some(first), QueueKind::Hot);
        restore.list(&mut world.small, tail, |_| panic!("it objects"))
    }));
    assert!(visited.is_err(), "it panicked");
    restore.finish_page(&mut world.small, PageId(0));
}

#[test]
#[should_panic(expected = "an adopted page is unchanged until it is finished")]
fn a_page_that_was_used_since_it_was_adopted_is_not_restored() {
    let (mut world, mut restore, [first, second]) = being_restored();
    [first, second].into_iter().for_each(|address| enter(&world, &mut restore, address));
    world.queue = list(&mut world, &mut restore, first).expect("no invariant is broken");
    let removed = world.stripes.find(b"a").expect("it was entered").remove().1;
    let remains = world.unlink(removed).expect("nobody pins it");
    world.free(remains);
    restore.finish_page(&mut world.small, PageId(0));
}

#[test]
#[should_panic(expected = "page size 2048 is too small")]
fn a_page_below_4_kib_is_refused() {
    let arena = Arena::reserve(PAGE_SIZE_BYTES, false).expect("there is address space");
    let _ = Memory::new(arena, 2048, SizeModel::Exact);
}

#[test]
fn a_file_that_is_too_short_or_already_mapped_is_refused() {
    let file = tempfile::tempfile().expect("there is a directory for it");
    file.set_len(PAGE_SIZE_BYTES as u64).expect("there is room");
    let map = |size_bytes| Arena::of_file(file.as_fd(), size_bytes, false);
    assert!(map(PAGE_SIZE_BYTES + 1).is_err(), "it is short");
    let first = map(PAGE_SIZE_BYTES).expect("nobody else uses it");
    assert!(map(PAGE_SIZE_BYTES).is_err(), "two arenas would share bytes");
    drop(first);
    assert!(map(PAGE_SIZE_BYTES).is_ok());
}
