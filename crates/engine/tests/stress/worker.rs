//! The work of one thread: it draws operations, performs them and checks every answer.

use crate::values::{self, RECORD_BYTES};
use crate::{COUNTERS, LOGS, REGISTERS, THREADS, World};
use slabwise_base::{Cost, Expiry, Now, Random, Seconds};
use slabwise_engine::{
    ArithmeticOutcome, ClassChangeError, CrawlStep, Crawler, Delta, Handle, ItemMeta, Pinned,
    PlannedMove, QueueSplit, StoreMode, StoreOutcome,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// If memory is short, the first thread flushes all items once in this number of its operations.
pub const FLUSH_EVERY: usize = 10_000;
/// A thread changes the class table about once in this number of crawls.
const TABLE_CHANGE_EVERY: u64 = 8;
/// The largest number of items that a thread pins at the same time.
const PINS_MAX: usize = 4;
/// The length of a log above which a reader deletes the log, in bytes.
const LOG_LEN_BYTES_MAX: usize = 5_000;

/// The answers of one thread that are checked after all threads have ended.
#[derive(Default)]
pub struct Findings {
    /// All CAS values of successful stores.
    pub cas: Vec<u64>,
    /// The results of all increments.
    pub increments: Vec<u64>,
}

/// A thread and its state.
pub struct Worker<'w, 'e> {
    world: &'w World<'e>,
    handle: Handle<'e>,
    id: u32,
    random: Random,
    findings: Findings,
    /// The pinned registers.
    pins: Vec<(u32, Pinned<'e>)>,
    /// The life (the number of the counter's creation) and the count that this thread has read last, for each counter.
    counters_seen: HashMap<u32, (u64, u64)>,
    /// The crawl in progress; `None`: no crawl is in progress.
    crawler: Option<Crawler>,
    /// A buffer for the value that is read or written.
    value: Vec<u8>,
    /// A buffer for the expected value.
    scratch: Vec<u8>,
}

impl<'w, 'e> Worker<'w, 'e> {
    pub fn new(world: &'w World<'e>, id: u32, random: Random) -> Worker<'w, 'e> {
        Worker {
            world,
            handle: world.engine.handle(),
            id,
            random,
            findings: Findings::default(),
            pins: Vec::new(),
            counters_seen: HashMap::new(),
            crawler: None,
            value: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Performs all operations of the thread. Returns the answers that are checked later, and the handle, which still
    /// has its spare chunks.
    pub fn run(mut self) -> (Findings, Handle<'e>) {
        for step in 0..self.world.operations {
            let now = self.world.clock.now();
            if self.world.short && step % FLUSH_EVERY == FLUSH_EVERY - 1 && self.id == 0 {
                self.flush(now);
            }
            let register = self.random.below(u64::from(REGISTERS)) as u32;
            let log = self.random.below(u64::from(LOGS)) as u32;
            let counter = self.random.below(u64::from(COUNTERS)) as u32;
            match self.random.below(100) {
                0..25 => self.get(register, now),
                25..45 => self.write(register, now),
                45..52 => self.compare_and_set(register, now),
                52..58 => self.delete(register, now),
                58..62 => self.pin(register, now),
                62..65 => self.unpin(),
                65..73 => self.append(log, now),
                73..78 => self.read_log(log, now),
                78..86 => self.increment(counter, now),
                86..90 => self.read_counter(counter, now),
                _ => self.background(now),
            }
        }
        while !self.pins.is_empty() {
            self.unpin();
        }
        (self.findings, self.handle)
    }

    /// Reads every key once and checks the answers.
    pub fn read_all(mut self) {
        let now = self.world.clock.now();
        (0..REGISTERS).for_each(|key| self.get(key, now));
        (0..LOGS).for_each(|key| self.read_log(key, now));
        (0..COUNTERS).for_each(|key| self.read_counter(key, now));
    }

    fn get(&mut self, key: u32, now: Now) {
        let (world, value) = (self.world, &mut self.value);
        let history = &world.registers[key as usize];
        let started = history.get_started(&world.stamps);
        let hit = self.handle.get(&register_name(key), now, |view| {
            assert_eq!(
                view.key(),
                register_name(key),
                "invariant OWN-BYTES: a get returned the item of another key"
            );
            assert!(
                !view.expiry().is_past(now.seconds),
                "invariant EXPIRED: a get returned register {key}, which has expired"
            );
            value.clear();
            view.copy_value(value);
        });
        match hit {
            Some(()) => {
                let begin = values::parse_register(key, &self.value, &mut self.scratch);
                history.hit(&started, begin, &world.stamps);
            }
            None => history.miss(&started, world.short),
        }
    }

    fn write(&mut self, key: u32, now: Now) {
        let mode = match self.random.below(8) {
            0 => StoreMode::Add,
            1 => StoreMode::Replace,
            _ => StoreMode::Set,
        };
        self.store(key, mode, now);
    }

    fn compare_and_set(&mut self, key: u32, now: Now) {
        if let Some(cas) = self.handle.peek(&register_name(key), now, |view| view.cas()) {
            self.store(key, StoreMode::Cas(cas), now);
        }
    }

    fn store(&mut self, key: u32, mode: StoreMode, now: Now) {
        let world = self.world;
        let history = &world.registers[key as usize];
        let started = history.get_started(&world.stamps);
        let begin = world.stamps.take();
        let len = match self.random.below(20) {
            0 => 3_000 + self.random.below(9_000),
            1..5 => 200 + self.random.below(2_000),
            _ => 20 + self.random.below(180),
        };
        values::compose_register(key, self.id, begin, len as usize, &mut self.value);
        let expires = world.short && self.random.below(4) == 0;
        let end = Seconds(now.seconds.0 + 1 + self.random.below(3) as u32);
        let expiry = if expires { Expiry::at(end) } else { Expiry::NEVER };
        let cost =
            (self.random.below(2) == 0).then(|| Cost::from_units(self.random.below(500) as u32));
        let meta = ItemMeta { client_flags: self.random.below(2) as u32, expiry, cost };
        match self.handle.set(&register_name(key), &self.value, meta, mode, now) {
            StoreOutcome::Stored { cas, .. } => {
                self.findings.cas.push(cas);
                history.write_ended(begin, &world.stamps);
            }
            StoreOutcome::NotStored if mode == StoreMode::Add => {}
            StoreOutcome::NotStored if mode == StoreMode::Replace => {
                history.miss(&started, world.short);
            }
            StoreOutcome::NotFound if matches!(mode, StoreMode::Cas(_)) => {
                history.miss(&started, world.short);
            }
            StoreOutcome::Exists if matches!(mode, StoreMode::Cas(_)) => {}
            StoreOutcome::OutOfMemory if world.short => {}
            other => panic!("invariant OUTCOME: {mode:?} of {len} B answered {other:?}"),
        }
    }

    fn delete(&mut self, key: u32, now: Now) {
        let world = self.world;
        let history = &world.registers[key as usize];
        history.removal_started();
        let begin = world.stamps.take();
        self.handle.delete(&register_name(key), now);
        history.removal_ended(begin, &world.stamps);
    }

    fn flush(&mut self, now: Now) {
        let world = self.world;
        world.registers.iter().for_each(|history| history.removal_started());
        let begin = world.stamps.take();
        world.engine.flush_all(None, now);
        world.registers.iter().for_each(|history| history.removal_ended(begin, &world.stamps));
    }

    fn pin(&mut self, key: u32, now: Now) {
        if self.pins.len() < PINS_MAX {
            let pin = self.handle.get(&register_name(key), now, |view| view.pin()).flatten();
            self.pins.extend(pin.map(|pin| (key, pin)));
        }
    }

    fn unpin(&mut self) {
        if let Some((key, pin)) = self.pins.pop() {
            self.value.clear();
            pin.value().for_each(|slice| self.value.extend_from_slice(slice));
            assert_eq!(
                self.value.len(),
                pin.value_len(),
                "invariant PINNED: the length of register {key} changed while it was pinned"
            );
            values::parse_register(key, &self.value, &mut self.scratch);
        }
    }

    fn append(&mut self, key: u32, now: Now) {
        let world = self.world;
        let appended = &world.appended[key as usize][self.id as usize];
        // Only this thread writes this number of appended records.
        let sequence = appended.load(SeqCst);
        let record = values::compose_record(key, self.id, sequence);
        for mode in [StoreMode::Append, StoreMode::Add, StoreMode::Append] {
            match self.handle.set(&log_name(key), &record, ItemMeta::default(), mode, now) {
                StoreOutcome::Stored { cas, .. } => {
                    self.findings.cas.push(cas);
                    appended.store(sequence + 1, SeqCst);
                    return;
                }
                // An append has found no log, or an add has found a log that another thread created meanwhile. So the
                // loop tries the next mode.
                StoreOutcome::NotStored => {}
                StoreOutcome::OutOfMemory if world.short => return,
                other => panic!("invariant OUTCOME: {mode:?} of a record answered {other:?}"),
            }
        }
    }

    fn read_log(&mut self, key: u32, now: Now) {
        let counts: [u64; THREADS] =
            std::array::from_fn(|writer| self.world.appended[key as usize][writer].load(SeqCst));
        let value = &mut self.value;
        value.clear();
        self.handle.get(&log_name(key), now, |view| view.copy_value(value));
        let last = values::parse_log::<THREADS>(key, &self.value);
        for (writer, (last, count)) in last.into_iter().zip(counts).enumerate() {
            assert!(
                last.is_none_or(|last| last + 1 >= count),
                "invariant FRESH: log {key}, writer {writer}: the last record is {last:?}, but {count} were stored"
            );
        }
        if self.value.len() > LOG_LEN_BYTES_MAX - RECORD_BYTES {
            self.handle.delete(&log_name(key), now);
        }
    }

    fn increment(&mut self, key: u32, now: Now) {
        let name = counter_name(key);
        match self.handle.arithmetic(&name, Delta::Increment(1), &Default::default(), now) {
            ArithmeticOutcome::Value { value, cas, .. } => {
                self.findings.cas.push(cas);
                self.findings.increments.push(value);
                self.check_counter(key, value);
            }
            ArithmeticOutcome::NotFound => {
                let life = self.world.attempts[key as usize].fetch_add(1, SeqCst);
                let text = values::counter(key, life, 0).to_string();
                let meta = ItemMeta::default();
                self.handle.set(&name, text.as_bytes(), meta, StoreMode::Add, now);
            }
            ArithmeticOutcome::OutOfMemory if self.world.short => {}
            other => panic!("invariant NUMBER: counter {key} answered {other:?}"),
        }
    }

    fn read_counter(&mut self, key: u32, now: Now) {
        let value = &mut self.value;
        value.clear();
        let hit = self.handle.get(&counter_name(key), now, |view| view.copy_value(value));
        if hit.is_some() {
            let text = std::str::from_utf8(self.value.trim_ascii_end()).unwrap_or("not text");
            let Ok(number) = text.parse::<u64>() else {
                panic!("invariant WHOLE: counter {key} holds \"{text}\", which is not a number");
            };
            self.check_counter(key, number);
        }
    }

    /// Checks a number of a counter that this thread has read, against the number that it has read before.
    fn check_counter(&mut self, key: u32, number: u64) {
        let (owner, life, count) = values::split_counter(number);
        assert_eq!(
            owner, key,
            "invariant OWN-BYTES: counter {key} holds the number of another counter"
        );
        if let Some((_, before)) =
            self.counters_seen.insert(key, (life, count)).filter(|&(l, _)| l == life)
        {
            assert!(
                count >= before,
                "invariant FRESH: counter {key} fell from {before} to {count}"
            );
        }
    }

    /// Does one step of background work: the LRU maintainer, the mover, the crawler, a change of the class table or of
    /// the eviction order, an advance of the clock, or a request of a page policy.
    fn background(&mut self, now: Now) {
        let engine = self.world.engine;
        match self.random.below(16) {
            0..2 => {
                engine.maintain_step(64, now);
            }
            2..4 => {
                let known = engine.class_ids();
                let mut class = || match self.random.below(known.len() as u64 + 1) {
                    0 => None,
                    above => Some(known[above as usize - 1]),
                };
                // The engine refuses the move if the class has no page to move.
                let _outcome = engine.reassign(class(), class(), "test", now);
            }
            4..10 => {
                engine.mover_step(16, now);
            }
            10 if self.random.below(TABLE_CHANGE_EVERY) == 0 => self.change_classes(),
            10 => self.crawl(now),
            11 if self.world.short => self.evict_page(now),
            12 => self.divide_queue(),
            14 => self.plan_moves(),
            15 if self.random.below(4) == 0 && engine.config().eviction.info().can_switch => {
                engine.set_segmented(self.random.below(2) == 0);
            }
            13 => engine.note_page_accesses(self.random.below(2) == 0, now),
            _ => self.world.clock.advance(Duration::from_millis(5)),
        }
    }

    /// Plans moves between random classes, which stores help to carry out.
    fn plan_moves(&mut self) {
        let engine = self.world.engine;
        let known = engine.class_ids();
        let mut class = || known[self.random.below(known.len() as u64) as usize];
        let moves = [(); 3].map(|()| {
            let (victim, receiver) = (class(), Some(class()));
            PlannedMove { victim, page: None, receiver, reason: "test" }
        });
        engine.plan_moves(moves.to_vec());
        // The engine drops moves that are not possible.
        let _begun = engine.take_begun_moves();
    }

    /// Requests the eviction of a page, which the class of another page receives.
    fn evict_page(&mut self, now: Now) {
        let engine = self.world.engine;
        let pages = engine.owned_pages();
        let mut page = || pages.get(self.random.below(pages.len().max(1) as u64) as usize);
        if let (Some(page), Some(receiver)) = (page(), page()) {
            // The engine refuses the request if another page is moving, or if the cache has changed meanwhile.
            let _outcome = engine.evict_page(page.id, receiver.class, "test", now);
        }
    }

    /// Divides the queue of a class in two, or joins its two queues.
    fn divide_queue(&mut self) {
        let engine = self.world.engine;
        let classes = engine.class_ids();
        let class = classes[self.random.below(classes.len() as u64) as usize];
        let mut share = || self.random.below(3) as f64 / 4.0;
        let split = QueueSplit { left_key_share: share(), left_item_share: share() };
        engine.divide_queue(class, split);
    }

    /// Changes the class table: keeps about half of the configured sizes, and makes most of these 8 or 16 bytes larger.
    fn change_classes(&mut self) {
        let engine = self.world.engine;
        let largest = engine.config().classes.chunk_size_bytes_max();
        let mut sizes = vec![largest];
        for &size in engine.config().classes.sizes() {
            if self.random.below(2) == 0 {
                sizes.push((size as usize + 8 * self.random.below(3) as usize).min(largest));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        match engine.change_classes(&sizes) {
            Ok(()) | Err(ClassChangeError::Draining { .. }) => {}
            Err(error) => panic!("invariant TABLE: the valid table {sizes:?} was refused: {error}"),
        }
    }

    fn crawl(&mut self, now: Now) {
        let engine = self.world.engine;
        let new = || Crawler::new(engine.class_ids());
        let mut crawler = self.crawler.take().unwrap_or_else(new);
        let step = engine.crawl_step(&mut crawler, 64, now, &mut |item| {
            let kind = item.key.first().copied();
            assert!(
                matches!(kind, Some(b'r' | b'l' | b'c')),
                "invariant OWN-BYTES: a crawl reports a key that no thread has stored"
            );
            assert!(
                !item.expiry.is_past(now.seconds),
                "invariant EXPIRED: a crawl reports an expired item"
            );
        });
        if step == CrawlStep::More {
            self.crawler = Some(crawler);
        }
    }
}

pub fn register_name(key: u32) -> Vec<u8> {
    format!("register-{key}").into_bytes()
}

pub fn log_name(key: u32) -> Vec<u8> {
    format!("log-{key}").into_bytes()
}

pub fn counter_name(key: u32) -> Vec<u8> {
    format!("counter-{key}").into_bytes()
}
