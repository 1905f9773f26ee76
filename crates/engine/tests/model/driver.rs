//! The driver: draws operations, runs them on the engine, and passes the answers to the oracle.

use crate::held::{HeldPin, HeldReservation};
use crate::oracle::{Marks, Oracle, Seen, show};
use crate::scenario::{self, Operation, Scenario};
use slabwise_base::{ClassId, Clock, Cost, Expiry, Now, Random, Seconds};
use slabwise_engine::{
    ArithmeticConditions, CrawlStep, Crawler, Delta, Engine, Handle, ItemMeta, ItemView, MoverStep,
    Pinned, ReassignError, StoreMode,
};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The largest number of items that are pinned at the same time.
const PINS_MAX: usize = 8;
/// The largest number of reservations that exist at the same time.
const RESERVATIONS_MAX: usize = 4;
/// The number of operations that a failed run prints.
const LOG_LEN_MAX: usize = 30;

/// An engine, its oracle, and everything that a client may hold between two operations.
pub struct Driver<'e> {
    pub(crate) engine: &'e Engine,
    /// The handles of two workers. Each operation uses a random one.
    handles: [Handle<'e>; 2],
    pub(crate) scenario: &'e Scenario,
    pub(crate) random: Random,
    clock: Clock,
    pub(crate) oracle: Oracle,
    pub(crate) pins: Vec<HeldPin<'e>>,
    reservations: Vec<HeldReservation<'e>>,
    /// The crawl in progress; `None`: no crawl is in progress.
    crawler: Option<Crawler>,
    /// The largest number of pages that the memory limit has allowed so far.
    limit_pages_max: u64,
    /// True if the engine records the accesses to pages.
    pub(crate) notes_pages: bool,
    /// The number of operations so far.
    steps: usize,
    /// The last operations and their outcomes, oldest first.
    log: VecDeque<String>,
}

/// The state of a run that continues with the next engine after a restart.
pub struct RunState {
    random: Random,
    clock: Clock,
    oracle: Oracle,
}

impl RunState {
    pub fn new(scenario: &Scenario, random: Random) -> RunState {
        RunState { random, clock: Clock::manual(), oracle: Oracle::new(scenario.rules) }
    }

    /// Returns the time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.nanos())
    }

    /// Advances the clock by this time.
    pub fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        self.oracle.settle(self.clock.now());
    }

    /// Returns the number of items that must be in the cache.
    pub fn certain_count(&self) -> u64 {
        self.oracle.keys_certain().len() as u64
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the last operations:");
            self.log.iter().for_each(|line| println!("  {line}"));
            println!("configuration: {:?}", self.engine.config());
        }
    }
}

impl<'e> Driver<'e> {
    pub fn new(engine: &'e Engine, scenario: &'e Scenario, state: RunState) -> Driver<'e> {
        let RunState { random, clock, oracle } = state;
        let config = &scenario.config;
        let first_limit = config.memory_limit_bytes / config.page_size_bytes as u64;
        Driver {
            engine,
            handles: [engine.handle(), engine.handle()],
            scenario,
            random,
            clock,
            oracle,
            pins: Vec::new(),
            reservations: Vec::new(),
            crawler: None,
            // The items of an engine with a higher limit may have been restored.
            limit_pages_max: first_limit.max(1).max(engine.page_stats().held),
            notes_pages: false,
            steps: 0,
            log: VecDeque::new(),
        }
    }

    /// Runs one operation. From time to time also checks all invariants.
    pub fn step(&mut self) {
        let operation = self.scenario.operation(&mut self.random);
        let now = self.clock.now();
        self.oracle.settle(now);
        self.perform(operation, now);
        self.steps += 1;
        if self.steps.is_multiple_of(self.scenario.check_every) {
            self.check(now);
        }
    }

    /// Checks all invariants and returns the state for the next engine. Drops all pins and reservations, so that this
    /// engine can be closed.
    pub fn stop(mut self) -> RunState {
        self.check(self.clock.now());
        let oracle = Oracle::new(self.scenario.rules);
        RunState {
            random: Random::new(self.random.next_u64()),
            clock: std::mem::replace(&mut self.clock, Clock::manual()),
            oracle: std::mem::replace(&mut self.oracle, oracle),
        }
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Reads every key and crawls over all items. Checks all invariants, before and after dropping pins and
    /// reservations.
    pub fn finish(mut self) {
        let now = self.clock.now();
        self.oracle.settle(now);
        for key in &self.scenario.keys {
            self.get(key, now);
        }
        self.crawl_all(now);
        self.check(now);
        self.pins.clear();
        self.reservations.clear();
        self.check(now);
    }

    /// Stores a value in the engine and records another value in the oracle, so that the two disagree.
    pub fn corrupt_oracle(&mut self) {
        let now = self.clock.now();
        let key = &self.scenario.keys[0];
        let outcome = self.handles[0].set(key, b"new", ItemMeta::default(), StoreMode::Set, now);
        self.oracle.settle(now);
        self.oracle.store(key, b"odd", ItemMeta::default(), StoreMode::Set.into(), outcome, now);
    }

    /// Performs an operation on a random key.
    fn perform(&mut self, operation: Operation, now: Now) {
        let key = &self.scenario.keys[self.random.below(self.scenario.keys.len() as u64) as usize];
        match operation {
            Operation::Get => self.get(key, now),
            Operation::Peek => self.peek(key, now),
            Operation::GetAndTouch => self.get_and_touch(key, now),
            Operation::Touch => self.touch(key, now),
            Operation::Set => self.store(key, StoreMode::Set, now),
            Operation::Add => self.store(key, StoreMode::Add, now),
            Operation::Replace => self.store(key, StoreMode::Replace, now),
            Operation::Append => self.store(key, StoreMode::Append, now),
            Operation::Prepend => self.store(key, StoreMode::Prepend, now),
            Operation::Cas => {
                let wrong = self.random.below(4) == 0;
                let cas = self.oracle.cas_of(key).unwrap_or(1).wrapping_add(u64::from(wrong));
                self.store(key, StoreMode::Cas(cas), now);
            }
            Operation::Delete => {
                let found = self.handle().delete(key, now);
                self.log_line(format!("delete {} -> {found}", show(key)));
                self.oracle.deleted(key, found);
            }
            Operation::Arithmetic => self.arithmetic(key, now),
            Operation::StoreIf => self.store_if(key, now),
            Operation::GetWith => self.get_with(key, now),
            Operation::DeleteIf => self.delete_if(key, now),
            Operation::ArithmeticIf => self.arithmetic_if(key, now),
            Operation::Reserve => self.reserve(key, now),
            Operation::FillReservation => self.fill_reservation(),
            Operation::StoreReservation => self.store_reservation(now),
            Operation::DropReservation => {
                if let Some(index) = self.random_index(self.reservations.len()) {
                    let held = self.reservations.swap_remove(index);
                    self.log_line(format!("drop reservation of {}", show(&held.key)));
                }
            }
            Operation::Pin => self.pin(key, now),
            Operation::Unpin => {
                if let Some(index) = self.random_index(self.pins.len()) {
                    let held = self.pins.swap_remove(index);
                    self.log_line(format!("unpin {}", show(&held.key)));
                    held.verify();
                }
            }
            _ => self.perform_without_key(operation, now),
        }
    }

    /// Performs an operation that has no key.
    fn perform_without_key(&mut self, operation: Operation, now: Now) {
        match operation {
            Operation::FlushNow => self.flush(None, now),
            Operation::FlushLater => {
                let at = Seconds(now.seconds.0 + 1 + self.random.below(5) as u32);
                self.flush(Some(at), now);
            }
            Operation::Advance => {
                let millis = [1, 20, 300, 2_000][self.random.below(4) as usize];
                self.log_line(format!("advance {millis} ms"));
                self.clock.advance(Duration::from_millis(millis));
            }
            Operation::Maintain => {
                let budget = self.random.below(100) as usize;
                let moved = self.engine.maintain_step(budget, now);
                self.log_line(format!("maintain_step({budget}) -> {moved}"));
            }
            Operation::CrawlStep => self.crawl_step(now),
            Operation::CrawlAll => self.crawl_all(now),
            Operation::Reassign => self.reassign(now),
            Operation::MoverStep => {
                self.mover_step(now);
            }
            Operation::MoverDrain => self.end_move(now),
            Operation::MemoryLimit => {
                let pages = self.scenario.config.memory_limit_bytes
                    / self.scenario.config.page_size_bytes as u64;
                let pages_max = if self.scenario.rules.losses_allowed { 2 * pages } else { pages };
                let pages = 1 + self.random.below(pages_max);
                self.limit_pages_max = self.limit_pages_max.max(pages);
                let bytes = pages * self.scenario.config.page_size_bytes as u64;
                self.log_line(format!("set_memory_limit({bytes})"));
                if let Err(error) = self.engine.set_memory_limit(bytes) {
                    panic!("invariant LIMIT: there is room for a limit of {bytes} B, but: {error}");
                }
            }
            Operation::TuneLru => {
                let lru = scenario::lru(&mut self.random);
                self.log_line(format!("set_lru({lru:?})"));
                self.engine.set_lru(lru);
                if self.engine.config().eviction.info().can_switch {
                    self.engine.set_segmented(self.random.below(2) == 0);
                }
            }
            Operation::ChangeClasses => self.change_classes(),
            Operation::EvictPage => self.evict_page(now),
            Operation::PlanMoves => self.plan_moves(),
            Operation::DivideQueues => self.divide_queues(),
            Operation::NotePages => self.note_pages(now),
            other => unreachable!("{other:?} has a key, so `perform` handles it"),
        }
    }

    fn get(&mut self, key: &[u8], now: Now) {
        let seen = self.handle().get(key, now, read_view);
        if seen.is_some() {
            self.check_page_access(now);
        }
        self.check_answer(key, "get", seen, true);
    }

    fn peek(&mut self, key: &[u8], now: Now) {
        let seen = self.handle().peek(key, now, read_view);
        self.check_answer(key, "peek", seen, false);
    }

    /// Checks the answer of a lookup. `marks` is true if the lookup counts as a use of the item.
    pub(crate) fn check_answer(&mut self, key: &[u8], what: &str, seen: Option<Seen>, marks: bool) {
        let len = seen.as_ref().map(|seen| seen.value.len());
        self.log_line(format!("{what} {} -> {len:?} B", show(key)));
        match seen {
            Some(seen) => self.oracle.hit(key, &seen, marks),
            None => self.oracle.miss(key),
        }
    }

    fn get_and_touch(&mut self, key: &[u8], now: Now) {
        let expiry = self.expiry(now);
        let outcome = self.handle().get_and_touch(key, expiry, now, read_view);
        let brief = outcome.as_ref().map(|seen| seen.as_ref().map(|seen| seen.value.len()));
        self.log_line(format!("get_and_touch {} {expiry:?} -> {brief:?}", show(key)));
        match outcome {
            Ok(Some(seen)) => {
                self.oracle.touched(key, expiry, now);
                // A get that sets an expiry in the past may still return the item, or may already miss.
                if !expiry.is_past(now.seconds) {
                    self.oracle.hit(key, &seen, true);
                }
            }
            Ok(None) if expiry.is_past(now.seconds) => self.oracle.assume_deleted(key),
            Ok(None) => self.oracle.miss(key),
            Err(error) => self.oracle.refused(key, error, self.oracle.value_len(key)),
        }
    }

    fn touch(&mut self, key: &[u8], now: Now) {
        let expiry = self.expiry(now);
        let outcome = self.handle().touch(key, expiry, now);
        self.log_line(format!("touch {} {expiry:?} -> {outcome:?}", show(key)));
        match outcome {
            Ok(true) => self.oracle.touched(key, expiry, now),
            Ok(false) => self.oracle.miss(key),
            Err(error) => self.oracle.refused(key, error, self.oracle.value_len(key)),
        }
    }

    fn store(&mut self, key: &[u8], mode: StoreMode, now: Now) {
        let (value, meta) = (self.value(), self.meta(now));
        let outcome = self.handle().set(key, &value, meta, mode, now);
        self.log_line(format!("{mode:?} {} {} B {meta:?} -> {outcome:?}", show(key), value.len()));
        self.oracle.store(key, &value, meta, mode.into(), outcome, now);
    }

    fn arithmetic(&mut self, key: &[u8], now: Now) {
        let delta = self.delta();
        let outcome = self.handle().arithmetic(key, delta, &Default::default(), now);
        self.log_line(format!("{delta:?} {} -> {outcome:?}", show(key)));
        let pinned = self.pins.iter().any(|held| held.key == key);
        let conditions = ArithmeticConditions::default();
        self.oracle.arithmetic(key, delta, &conditions, outcome, pinned, now);
    }

    /// Draws an incr or decr.
    pub(crate) fn delta(&mut self) -> Delta {
        let amount = [0, 1, 10, u64::MAX][self.random.below(4) as usize];
        if self.random.below(2) == 0 { Delta::Increment(amount) } else { Delta::Decrement(amount) }
    }

    fn reserve(&mut self, key: &[u8], now: Now) {
        if self.reservations.len() == RESERVATIONS_MAX {
            return;
        }
        let (value, meta) = (self.value(), self.meta(now));
        let outcome = self.handle().reserve(key, value.len(), meta, now);
        self.log_line(format!("reserve {} {} B -> {:?}", show(key), value.len(), outcome.is_ok()));
        match outcome {
            Ok(reservation) => {
                let key = key.to_vec();
                self.reservations.push(HeldReservation { key, value, meta, reservation });
            }
            // A reservation that fails does not change the item of its key.
            Err(error) => self.oracle.reservation_refused(key, error, value.len()),
        }
    }

    fn fill_reservation(&mut self) {
        if let Some(index) = self.random_index(self.reservations.len()) {
            let held = &mut self.reservations[index];
            let len = self.random.below(held.value.len() as u64 + 1) as usize;
            held.fill(len, &mut self.random);
        }
    }

    fn store_reservation(&mut self, now: Now) {
        let Some(index) = self.random_index(self.reservations.len()) else { return };
        let Some(held) = self.reservations.swap_remove(index).complete(&mut self.random) else {
            let allowed = self.scenario.rules.out_of_memory_allowed;
            assert!(allowed, "invariant NO-LOSS: an upload got no memory although memory is ample");
            self.log_line(String::from("an upload got no memory"));
            return;
        };
        let mode = match self.random.below(6) {
            0 => StoreMode::Add,
            1 => StoreMode::Replace,
            2 => StoreMode::Append,
            3 => StoreMode::Prepend,
            4 => StoreMode::Cas(self.oracle.cas_of(&held.key).unwrap_or(7)),
            _ => StoreMode::Set,
        };
        let (key, value, meta) = (held.key, held.value, held.meta);
        let outcome = self.handle().store(held.reservation, mode, now);
        self.log_line(format!("store reserved {mode:?} {} -> {outcome:?}", show(&key)));
        self.oracle.store(&key, &value, meta, mode.into(), outcome, now);
    }

    fn pin(&mut self, key: &[u8], now: Now) {
        if self.pins.len() == PINS_MAX {
            return;
        }
        let pinned = self.handle().get(key, now, |view| (read_view(view), view.pin()));
        let (seen, pin): (Option<Seen>, Option<Pinned<'e>>) = match pinned {
            Some((seen, pin)) => (Some(seen), pin),
            None => (None, None),
        };
        let expected = seen.as_ref().map(|seen| seen.value.clone()).unwrap_or_default();
        let found = seen.is_some();
        self.check_answer(key, "pin", seen, true);
        match pin {
            Some(pin) => self.pins.push(HeldPin { key: key.to_vec(), expected, pin }),
            None => assert!(
                !found || self.pins.iter().any(|held| held.key == key),
                "invariant PINNED: {} could not be pinned although it has no pins",
                show(key)
            ),
        }
    }

    fn flush(&mut self, at: Option<Seconds>, now: Now) {
        self.log_line(format!("flush_all({at:?}) at {:?}", now.seconds));
        self.engine.flush_all(at, now);
        self.oracle.flush(at, now);
    }

    fn crawl_step(&mut self, now: Now) {
        let classes = self.some_classes();
        let mut crawler = self.crawler.take().unwrap_or_else(|| Crawler::new(classes));
        let budget = 1 + self.random.below(64) as usize;
        self.log_line(format!("crawl({budget})"));
        let oracle = &mut self.oracle;
        let step =
            self.engine.crawl_step(&mut crawler, budget, now, &mut |item| oracle.crawled(&item));
        if step == CrawlStep::More {
            self.crawler = Some(crawler);
        }
    }

    fn crawl_all(&mut self, now: Now) {
        self.log_line(String::from("crawl all"));
        let mut crawler = Crawler::new(self.engine.class_ids());
        let mut visited: HashSet<Vec<u8>> = HashSet::new();
        let oracle = &mut self.oracle;
        let mut steps = 0;
        while self.engine.crawl_step(&mut crawler, 257, now, &mut |item| {
            oracle.crawled(&item);
            assert!(
                visited.insert(item.key.to_vec()),
                "invariant CRAWL: {} was visited twice",
                show(item.key)
            );
        }) == CrawlStep::More
        {
            steps += 1;
            assert!(
                steps < 1_000_000,
                "invariant CRAWL: the crawl has not ended after {steps} steps"
            );
        }
        for key in self.oracle.keys_certain() {
            assert!(visited.contains(&key), "invariant CRAWL: {} was not visited", show(&key));
        }
    }

    fn reassign(&mut self, now: Now) {
        let known = self.engine.class_ids();
        let unknown = (0..).map(ClassId).find(|id| !known.contains(id));
        let mut draw = || match self.random.below(known.len() as u64 + 2) as usize {
            index if index < known.len() => Some(known[index]),
            index if index == known.len() => unknown,
            _ => None,
        };
        let (victim, receiver) = (draw(), draw());
        let outcome = self.engine.reassign(victim, receiver, "test", now);
        self.log_line(format!("reassign({victim:?}, {receiver:?}) -> {outcome:?}"));
        let table = self.engine.class_table();
        // A retired class can be the victim, but not the receiver.
        let bad_victim = victim.is_some_and(|class| !known.contains(&class));
        let bad_receiver = receiver.is_some_and(|class| !table.has(class));
        let expected = match outcome {
            Ok(()) | Err(ReassignError::NoMovablePage | ReassignError::Running) => None,
            Err(ReassignError::BadClass) => Some(bad_victim || bad_receiver),
            Err(ReassignError::SameClass) => Some(victim.is_some() && victim == receiver),
        };
        assert_ne!(expected, Some(false), "invariant OUTCOME: reassign answered {outcome:?}");
        if outcome.is_ok() {
            assert!(
                !bad_victim && !bad_receiver,
                "invariant OUTCOME: a move from or to an unknown class was accepted"
            );
            assert!(
                victim.is_none() || victim != receiver,
                "invariant OUTCOME: a move of a page to its own class was accepted"
            );
        }
    }

    fn mover_step(&mut self, now: Now) -> MoverStep {
        let budget = 1 + self.random.below(48) as usize;
        let outcome = self.engine.mover_step(budget, now);
        self.log_line(format!("mover_step({budget}) -> {outcome:?}"));
        outcome
    }

    /// Runs the mover until the current move ends. Without pins and reservations it must end.
    fn end_move(&mut self, now: Now) {
        self.pins.drain(..).for_each(|held| held.verify());
        self.reservations.clear();
        let steps_max = 100 + 2 * self.scenario.config.page_size_bytes;
        let ended = (0..steps_max).any(|_| self.mover_step(now) != MoverStep::Working);
        assert!(ended, "invariant MOVER-ENDS: the move has not ended after {steps_max} steps");
    }

    /// Checks all invariants, the pinned items, and the numbers of items and pages.
    fn check(&mut self, now: Now) {
        self.log_line(String::from("check"));
        self.engine.check();
        self.pins.iter().for_each(HeldPin::verify);
        let (stats, config) = (self.engine.stats(now), &self.scenario.config);
        let certain = self.oracle.keys_certain().len() as u64;
        assert!(
            stats.items >= certain,
            "invariant COUNT: {} items, but {certain} must exist",
            stats.items
        );
        // Each class may get its first page beyond the limit, and there are at most `ClassId::NUMBERS` classes.
        let beyond = if config.first_page_beyond_limit { ClassId::NUMBERS as u64 } else { 0 };
        let pages_max = self.limit_pages_max + beyond;
        assert!(
            stats.pages <= pages_max,
            "invariant LIMIT: {} pages are above the limit of {pages_max}",
            stats.pages
        );
    }

    /// Returns the handle of a random worker.
    pub(crate) fn handle(&mut self) -> &mut Handle<'e> {
        &mut self.handles[self.random.below(2) as usize]
    }

    /// Draws an index below `len`. `None`: `len` is 0.
    fn random_index(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.random.below(len as u64) as usize)
    }

    /// Draws a set of classes.
    pub(crate) fn some_classes(&mut self) -> Vec<ClassId> {
        let all = self.engine.class_ids().into_iter();
        all.filter(|_| self.random.below(4) > 0).collect()
    }

    /// Draws an expiry, which may be in the past.
    pub(crate) fn expiry(&mut self, now: Now) -> Expiry {
        if self.random.below(100) >= self.scenario.ttl_percent {
            return Expiry::NEVER;
        }
        match self.random.below(16) {
            0 => Expiry::PAST,
            ahead => Expiry::at(Seconds(now.seconds.0 + ahead as u32)),
        }
    }

    /// Draws the metadata of a store.
    pub(crate) fn meta(&mut self, now: Now) -> ItemMeta {
        let client_flags = [0, 0, 1, u32::MAX][self.random.below(4) as usize];
        let cost = match self.random.below(3) {
            0 => None,
            1 => Some(Cost::default()),
            _ => Some(Cost::from_units(self.random.next_u64() as u32 >> self.random.below(32))),
        };
        ItemMeta { client_flags, expiry: self.expiry(now), cost }
    }

    /// Draws a value: a number, or bytes that no other value has.
    pub(crate) fn value(&mut self) -> Vec<u8> {
        if self.random.below(100) < self.scenario.numbers_percent {
            let numbers: [&[u8]; 8] = [
                b"0",
                b"9",
                b"41",
                b"99  ",
                b"18446744073709551615",
                b"18446744073709551616",
                b"x1",
                b" 5",
            ];
            return numbers[self.random.below(8) as usize].to_vec();
        }
        let item_max = self.scenario.config.item_size_bytes_max;
        let len = match self.random.below(100) {
            0..10 => 0,
            10..70 => self.random.below(200),
            70..92 => self.random.below(self.scenario.config.page_size_bytes as u64 / 2),
            _ => self.random.below(item_max + item_max / 16),
        };
        // The words of the value are random, so any two values differ in every word.
        let mut words = Random::new(self.random.next_u64());
        let words = std::iter::repeat_with(|| words.next_u64().to_le_bytes());
        words.flatten().take(len as usize).collect()
    }

    /// Adds a line to the log of the last operations.
    pub(crate) fn log_line(&mut self, line: String) {
        if self.log.len() == LOG_LEN_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{}: {line}", self.steps));
    }
}

/// Reads all fields of a view. Reads the value in two ways, and checks that both return the same bytes.
pub(crate) fn read_view(view: ItemView<'_, '_>) -> Seen {
    let value: Vec<u8> = view.value().flatten().copied().collect();
    let mut copied = Vec::new();
    view.copy_value(&mut copied);
    assert!(
        value == copied,
        "invariant VIEW: `value` and `copy_value` return different bytes for {}",
        show(view.key())
    );
    assert_eq!(
        value.len(),
        view.value_len(),
        "invariant VIEW: the length of the value of {}",
        show(view.key())
    );
    Seen {
        value,
        client_flags: view.client_flags(),
        cost: view.cost(),
        expiry: view.expiry(),
        cas: view.cas(),
        fetched: view.fetched(),
        marks: Marks { stale: view.is_stale(), claimed: view.is_claimed() },
    }
}
