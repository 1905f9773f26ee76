//! A scenario: an engine and the threads that use it. All random choices are drawn from the seed of the schedule.

use crate::worker::Worker;
use crate::world::World;
use crate::{META, THREADS};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::thread::{self, ScopedJoinHandle};
use slabwise_base::{ClassId, PageId, Random};
use slabwise_engine::{
    ClassChangeError, ClassTable, Engine, EngineConfig, EvictionKind, MoverKind, MoverStep, Pinned,
    PlannedMove, QueueSplit, SpareConfig, StoreMode,
};
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 4 << 10;
/// The number of pages of a short memory.
const PAGES_SHORT: u64 = 4;
/// The number of pages of an ample memory.
const PAGES_AMPLE: u64 = 64;
/// The least number of operations of a client. The largest number is twice this one.
const OPERATIONS_MIN: u64 = 4;
/// The largest number of page moves that the mover's thread requests.
const MOVES_MAX: u64 = 3;
/// The largest number of steps that the mover's thread runs for one move.
const STEPS_MAX: usize = 24;
/// The number of steps within which all moves must end if nothing is pinned.
const DRAIN_STEPS_MAX: usize = 10_000;
/// The number of items that are stored at the start to fill a short memory.
const FILLERS: u32 = 40;

/// The largest chunk size of every table; longer values are chained.
const LARGEST: usize = 1024;
/// The class tables among which a scenario chooses, without the largest size.
const TABLES: [&[usize]; 4] = [&[96, 256], &[64, 128, 512], &[96, 512], &[256]];

/// The amount of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Enough memory for all items: the engine evicts no item.
    Ample,
    /// Four pages, which are full at the start, so stores evict items.
    Short,
}

/// Whether the test has a thread that changes the class table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Only clients change the table, and they do so rarely.
    Stays,
    /// A thread changes the table several times.
    Changes,
}

/// Counts of the events under test, summed over all scenarios.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    moved: u64,
    given_up: u64,
    rescued: u64,
    evicted: u64,
    tables_changed: u64,
}

impl Events {
    /// Adds the counts of another scenario.
    pub fn add(&mut self, other: Events) {
        self.moved += other.moved;
        self.given_up += other.given_up;
        self.rescued += other.rescued;
        self.evicted += other.evicted;
        self.tables_changed += other.tables_changed;
    }

    /// Checks that the events under test have occurred, and that no item was evicted from an ample memory.
    pub fn check(&self, memory: Memory, table: Table) {
        assert!(
            self.moved > 0 && self.given_up > 0 && self.rescued > 0,
            "all kinds of moves must occur: {self:?}"
        );
        assert_eq!(self.evicted > 0, memory == Memory::Short, "only short memory evicts: {self:?}");
        assert!(
            self.tables_changed > 0 || table == Table::Stays,
            "the class table must change: {self:?}"
        );
    }
}

/// An engine, and the parameters of a run on it.
pub struct Scenario {
    seed: u64,
    memory: Memory,
    table: Table,
    engine: Engine,
}

/// Returns an engine with few pages and classes. The seed selects the eviction kind: every second time the default,
/// with which chunks are spare.
pub fn engine(mover: MoverKind, memory: Memory, seed: u64) -> Engine {
    let pages = if memory == Memory::Short { PAGES_SHORT } else { PAGES_AMPLE };
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[96, 256, LARGEST], PAGE_SIZE_BYTES)
        .expect("the class table is valid");
    config.index_within_limit = false;
    config.mover = mover;
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 2 };
    if seed.is_multiple_of(2) {
        config.eviction = EvictionKind::ALL[(seed / 2) as usize % EvictionKind::ALL.len()];
    }
    Engine::new(config).expect("the arena fits the address space")
}

impl Scenario {
    /// Draws a scenario. The seed of the scenario is part of the schedule. So a replay of the schedule repeats all
    /// random choices.
    pub fn draw(mover: MoverKind, memory: Memory, table: Table) -> Scenario {
        let seed = thread_rng().next_u64();
        Scenario { seed, memory, table, engine: engine(mover, memory, seed) }
    }

    /// Runs all threads and checks all invariants. Returns the counts of the events under test.
    pub fn run(&self) -> Events {
        let mut random = Random::new(self.seed);
        let operations = OPERATIONS_MIN + random.below(OPERATIONS_MIN + 1);
        let world = World::new(&self.engine, operations as usize, self.memory == Memory::Short);
        self.fill(&world);
        let held = if random.below(3) == 0 { self.store_pinned_item(&world) } else { None };
        let clients = 2 + random.below(THREADS as u64 - 1) as u32;
        let mut fork = || Random::new(random.next_u64());
        let (findings, handles): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let world = &world;
            let clients: Vec<_> = (0..clients)
                .map(|id| {
                    let random = fork();
                    scope.spawn(move || Worker::new(world, id, random).run())
                })
                .collect();
            if self.table == Table::Changes {
                let random = fork();
                scope.spawn(move || self.change_table(random));
            }
            let random = fork();
            scope.spawn(move || self.move_pages(world, random));
            let join = |client: ScopedJoinHandle<'_, _>| match client.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            clients.into_iter().map(join).unzip()
        });
        self.engine.check();
        drop(held);
        // The handles still have their spare chunks.
        self.run_mover_until_idle(&world);
        drop(handles);
        world.check_findings(&findings, self.seed);
        self.delete_all(&world);
        self.events(&world)
    }

    /// Returns the counts of the events under test.
    fn events(&self, world: &World<'_>) -> Events {
        let stats = self.engine.stats(world.clock.now());
        let changed = self.engine.class_table() != self.engine.config().classes;
        Events {
            moved: stats.mover.moved,
            given_up: stats.mover.aborted,
            rescued: stats.mover.rescued + stats.mover.bodies_rescued,
            evicted: stats.total.counters.evicted,
            tables_changed: u64::from(changed),
        }
    }

    /// Divides the queues, if the eviction kind can. Then fills a short memory with items that no client reads.
    fn fill(&self, world: &World<'_>) {
        let split = QueueSplit { left_key_share: 0.5, left_item_share: 0.5 };
        self.engine.class_ids().into_iter().for_each(|it| self.engine.divide_queue(it, split));
        if self.memory == Memory::Short {
            let mut handle = self.engine.handle();
            for number in 0..FILLERS {
                let value = [number as u8; 800];
                let len = [20, 150, 800][number as usize % 3];
                let now = world.clock.now();
                handle.set(&filler(number), &value[..len], META, StoreMode::Set, now);
            }
        }
    }

    /// Stores an item that stays pinned until all threads have ended.
    fn store_pinned_item(&self, world: &World<'_>) -> Option<Pinned<'_>> {
        let (mut handle, now) = (self.engine.handle(), world.clock.now());
        handle.set(b"r-held", &[7; 150], META, StoreMode::Set, now);
        handle.get(b"r-held", now, |view| view.pin()).flatten()
    }

    /// Requests random page moves and runs the steps of the mover.
    fn move_pages(&self, world: &World<'_>, mut random: Random) {
        let numbers = self.engine.config().classes.count() as u64 + 2;
        let mut class = || match random.below(numbers) {
            0 => None,
            above => Some(ClassId(above as u8 - 1)),
        };
        let requests = [(); MOVES_MAX as usize].map(|()| (class(), class()));
        // Stores in the receiver help with these moves.
        let planned = requests.iter().filter_map(|&(victim, receiver)| {
            Some(PlannedMove { victim: victim?, page: None, receiver, reason: "test" })
        });
        self.engine.plan_moves(planned.collect());
        for (victim, receiver) in requests.into_iter().take(1 + random.below(MOVES_MAX) as usize) {
            let now = world.clock.now();
            // The engine refuses the move if no class has one of these numbers, or if the victim has no page to move.
            let _outcome = match receiver.filter(|_| self.evicts_pages(&mut random)) {
                Some(receiver) => {
                    let page = PageId(random.below(PAGES_SHORT) as u32);
                    self.engine.evict_page(page, receiver, "test", now)
                }
                None => self.engine.reassign(victim, receiver, "test", now),
            };
            for _ in 0..STEPS_MAX {
                let budget_chunks = 1 + random.below(24) as usize;
                match self.engine.mover_step(budget_chunks, world.clock.now()) {
                    MoverStep::Working => {}
                    MoverStep::Pause(pause) => self.pause(world, pause, &mut random),
                    MoverStep::Idle | MoverStep::Done | MoverStep::GivenUp => break,
                }
            }
        }
    }

    /// Draws whether the next move evicts all items of a page. With ample memory no move does.
    fn evicts_pages(&self, random: &mut Random) -> bool {
        self.memory == Memory::Short && random.below(3) == 0
    }

    /// Advances the clock and lets other threads run. Sometimes advances the clock so far that the mover gives the move
    /// up, and otherwise by the pause that the mover has requested.
    fn pause(&self, world: &World<'_>, pause: Duration, random: &mut Random) {
        let long = random.below(4) == 0;
        world.clock.advance(if long { Duration::from_secs(3) } else { pause });
        thread::yield_now();
    }

    /// Changes the class table a few times.
    fn change_table(&self, mut random: Random) {
        for _ in 0..1 + random.below(3) {
            let sizes = TABLES[random.below(TABLES.len() as u64) as usize];
            match self.engine.change_classes(sizes) {
                Ok(()) | Err(ClassChangeError::Draining { .. }) => {}
                Err(error) => {
                    panic!("invariant TABLE: the valid table {sizes:?} was refused: {error}")
                }
            }
        }
    }

    /// Runs the mover until it is idle, while nothing is pinned. The move that is in progress may still be given up,
    /// because of earlier pins, but no later move.
    fn run_mover_until_idle(&self, world: &World<'_>) {
        let mut given_up = 0;
        for _ in 0..DRAIN_STEPS_MAX {
            match self.engine.mover_step(64, world.clock.now()) {
                MoverStep::Idle => return,
                MoverStep::Pause(pause) => world.clock.advance(pause),
                MoverStep::GivenUp => given_up += 1,
                MoverStep::Working | MoverStep::Done => {}
            }
            assert!(
                given_up < 2,
                "invariant MOVER-ENDS: a move was given up although nothing is pinned"
            );
        }
        panic!(
            "invariant MOVER-ENDS: the mover is not idle after {DRAIN_STEPS_MAX} steps without pins"
        );
    }

    /// Deletes every key and checks that no chunk is in use.
    fn delete_all(&self, world: &World<'_>) {
        let (mut handle, now) = (self.engine.handle(), world.clock.now());
        for number in 0..FILLERS {
            handle.delete(&filler(number), now);
        }
        world.delete_all(&mut handle);
        handle.delete(b"r-held", now);
        let stats = self.engine.stats(now);
        assert_eq!(
            (stats.items, stats.total.used_chunks),
            (0, 0),
            "invariant NO-LEAK: without items, no chunk is in use"
        );
        self.engine.check();
    }
}

/// Returns the key of an item that fills the memory. It begins with `r`, so the crawls of the clients accept it.
fn filler(number: u32) -> Vec<u8> {
    format!("r-filler-{number}").into_bytes()
}
