//! One engine and the threads that use it, drawn from the schedule's seed.

use crate::worker::{Findings, Worker};
use crate::world::World;
use crate::{META, THREADS};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::thread::{self, ScopedJoinHandle};
use slabwise_base::{ClassId, Random};
use slabwise_engine::{
    ClassChangeError, ClassTable, Engine, EngineConfig, EvictionKind, MoverKind, MoverStep, Pinned,
    StoreMode,
};
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 4 << 10;
const PAGES_SHORT: u64 = 4;
const PAGES_AMPLE: u64 = 64;
/// A client performs between this number of operations and twice as many.
const OPERATIONS_MIN: u64 = 4;
const MOVES_MAX: u64 = 3;
const STEPS_MAX: usize = 24;
/// The number of steps within which an unblocked move must end.
const DRAIN_STEPS_MAX: usize = 10_000;
/// Items that fill a short memory at the start.
const FILLERS: u32 = 40;

/// The largest chunk size of every table; longer values are chained.
const LARGEST: usize = 1024;
const TABLES: [&[usize]; 4] = [&[96, 256], &[64, 128, 512], &[96, 512], &[256]];

/// The amount of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// No item must be evicted.
    Ample,
    /// Four pages, all in use: every store evicts an item.
    Short,
}

/// Whether the class table changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Only clients change the table, rarely.
    Stays,
    /// A thread changes the table.
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
    pub fn add(&mut self, other: Events) {
        self.moved += other.moved;
        self.given_up += other.given_up;
        self.rescued += other.rescued;
        self.evicted += other.evicted;
        self.tables_changed += other.tables_changed;
    }

    pub fn check(&self, memory: Memory, table: Table) {
        assert!(self.moved > 0 && self.given_up > 0 && self.rescued > 0, "{self:?}");
        assert_eq!(self.evicted > 0, memory == Memory::Short, "{self:?}");
        assert!(self.tables_changed > 0 || table == Table::Stays, "{self:?}");
    }
}

/// An engine, and the parameters of a run on it.
pub struct Scenario {
    seed: u64,
    memory: Memory,
    table: Table,
    engine: Engine,
}

/// Returns an engine with few pages and classes. The seed selects the eviction kind.
pub fn engine(mover: MoverKind, memory: Memory, seed: u64) -> Engine {
    let pages = if memory == Memory::Short { PAGES_SHORT } else { PAGES_AMPLE };
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[96, 256, LARGEST], PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config.mover = mover;
    config.eviction = EvictionKind::ALL[seed as usize % EvictionKind::ALL.len()];
    Engine::new(config).expect("the arena fits the address space")
}

impl Scenario {
    /// Draws a scenario. Its seed is part of the schedule, so replaying the schedule repeats everything drawn from it.
    pub fn draw(mover: MoverKind, memory: Memory, table: Table) -> Scenario {
        let seed = thread_rng().next_u64();
        Scenario { seed, memory, table, engine: engine(mover, memory, seed) }
    }

    pub fn run(&self) -> Events {
        let mut random = Random::new(self.seed);
        let operations = OPERATIONS_MIN + random.below(OPERATIONS_MIN + 1);
        let world = World::new(&self.engine, operations as usize, self.memory == Memory::Short);
        self.fill(&world);
        let held = if random.below(3) == 0 { self.hold(&world) } else { None };
        let clients = 2 + random.below(THREADS as u64 - 1) as u32;
        let mut fork = || Random::new(random.next_u64());
        let findings = thread::scope(|scope| {
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
            let join = |client: ScopedJoinHandle<'_, Findings>| match client.join() {
                Ok(findings) => findings,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            clients.into_iter().map(join).collect::<Vec<_>>()
        });
        self.engine.check();
        drop(held);
        self.drain(&world);
        world.afterwards(&findings, self.seed);
        self.empty(&world);
        self.events(&world)
    }

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

    /// Fills a short memory with items that no client reads.
    fn fill(&self, world: &World<'_>) {
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
    fn hold(&self, world: &World<'_>) -> Option<Pinned<'_>> {
        let (mut handle, now) = (self.engine.handle(), world.clock.now());
        handle.set(b"r-held", &[7; 150], META, StoreMode::Set, now);
        handle.get(b"r-held", now, |view| view.pin()).flatten()
    }

    fn move_pages(&self, world: &World<'_>, mut random: Random) {
        let numbers = self.engine.config().classes.count() as u64 + 2;
        let mut class = || match random.below(numbers) {
            0 => None,
            above => Some(ClassId(above as u8 - 1)),
        };
        let orders = [(); MOVES_MAX as usize].map(|()| (class(), class()));
        for (victim, receiver) in orders.into_iter().take(1 + random.below(MOVES_MAX) as usize) {
            // The class or the page may not exist; the engine then refuses the move.
            let _outcome = self.engine.reassign(victim, receiver, "test", world.clock.now());
            for _ in 0..STEPS_MAX {
                let budget_chunks = 1 + random.below(24) as usize;
                match self.engine.mover_step(budget_chunks, world.clock.now()) {
                    MoverStep::Working => {}
                    MoverStep::Rest(rest) => self.rest(world, rest, &mut random),
                    MoverStep::Idle | MoverStep::Done | MoverStep::GivenUp => break,
                }
            }
        }
    }

    /// Lets other threads run and advances the clock, by the requested rest or so far that the mover gives up.
    fn rest(&self, world: &World<'_>, rest: Duration, random: &mut Random) {
        let long = random.below(4) == 0;
        world.clock.advance(if long { Duration::from_secs(3) } else { rest });
        thread::yield_now();
    }

    fn change_table(&self, mut random: Random) {
        for _ in 0..1 + random.below(3) {
            let sizes = TABLES[random.below(TABLES.len() as u64) as usize];
            match self.engine.change_classes(sizes) {
                Ok(()) | Err(ClassChangeError::Draining { .. }) => {}
                Err(error) => panic!("invariant TABLE: {sizes:?} are refused: {error}"),
            }
        }
    }

    /// Runs the mover to its end without pins. The move that is under way may be given up because of earlier pins, but
    /// no later move may.
    fn drain(&self, world: &World<'_>) {
        let mut given_up = 0;
        for _ in 0..DRAIN_STEPS_MAX {
            match self.engine.mover_step(64, world.clock.now()) {
                MoverStep::Idle => return,
                MoverStep::Rest(rest) => world.clock.advance(rest),
                MoverStep::GivenUp => given_up += 1,
                MoverStep::Working | MoverStep::Done => {}
            }
            assert!(given_up < 2, "invariant MOVER-ENDS: a move is given up without pins");
        }
        panic!("invariant MOVER-ENDS: still working after {DRAIN_STEPS_MAX} steps without pins");
    }

    /// Deletes every key and checks that no chunk is in use.
    fn empty(&self, world: &World<'_>) {
        let (mut handle, now) = (self.engine.handle(), world.clock.now());
        for number in 0..FILLERS {
            handle.delete(&filler(number), now);
        }
        let names = ["register-0", "register-1", "register-2", "log-0", "counter-0", "r-held"];
        names.iter().for_each(|name| _ = handle.delete(name.as_bytes(), now));
        let stats = self.engine.stats(now);
        assert_eq!((stats.items, stats.total.used_chunks), (0, 0), "invariant NO-LEAK");
        self.engine.check();
    }
}

/// Returns a key whose kind the clients' crawlers know.
fn filler(number: u32) -> Vec<u8> {
    format!("r-filler-{number}").into_bytes()
}
