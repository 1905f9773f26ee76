//! The state that all threads share, and the checks after all threads have ended.

use crate::history::{History, Stamps};
use crate::values;
use crate::worker::{self, FLUSH_EVERY, Findings, Worker};
use crate::{COUNTERS, LOGS, REGISTERS, THREADS};
use slabwise_base::{Clock, Random};
use slabwise_engine::{Engine, Handle, MoverStep};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

/// The largest number of stamps that an operation takes, flushes excluded. A flush takes one for each register.
const STAMPS_PER_OPERATION_MAX: usize = 4;

/// The state that all threads share.
pub struct World<'e> {
    pub engine: &'e Engine,
    pub clock: Clock,
    /// The counter of stamps.
    pub stamps: Stamps,
    /// The history of each register.
    pub registers: Vec<History>,
    /// The number of records stored in each log by each writer.
    pub appended: Vec<[AtomicU64; THREADS]>,
    /// The number of attempts to create each counter. The value that an attempt stores contains the attempt's number,
    /// from 0, so that the increments after each creation can be checked separately.
    pub attempts: Vec<AtomicU64>,
    /// The number of operations of each thread.
    pub operations: usize,
    /// True if memory is short. Items may then be lost, some items have TTLs, and the first thread flushes from time to
    /// time.
    pub short: bool,
}

impl<'e> World<'e> {
    pub fn new(engine: &'e Engine, operations: usize, short: bool) -> World<'e> {
        let flush_stamps = operations / FLUSH_EVERY * REGISTERS as usize;
        let final_stamps = 4 * REGISTERS as usize;
        let stamps_max =
            THREADS * (operations * STAMPS_PER_OPERATION_MAX + flush_stamps + final_stamps);
        World {
            engine,
            clock: Clock::manual(),
            stamps: Stamps::new(stamps_max),
            registers: (0..REGISTERS).map(|_| History::default()).collect(),
            appended: (0..LOGS).map(|_| Default::default()).collect(),
            attempts: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            operations,
            short,
        }
    }

    /// Deletes every key that the threads have stored.
    pub fn delete_all(&self, handle: &mut Handle<'_>) {
        let now = self.clock.now();
        (0..REGISTERS).for_each(|key| _ = handle.delete(&worker::register_name(key), now));
        (0..LOGS).for_each(|key| _ = handle.delete(&worker::log_name(key), now));
        (0..COUNTERS).for_each(|key| _ = handle.delete(&worker::counter_name(key), now));
    }

    /// Checks the findings of all threads and all invariants. No thread may run any more, and no item may be pinned.
    pub fn check_findings(&self, findings: &[Findings], seed: u64) {
        self.engine.check();
        let now = self.clock.now();
        let steps_max = 1_000_000;
        let ended = (0..steps_max).any(|_| self.engine.mover_step(64, now) != MoverStep::Working);
        assert!(
            ended,
            "invariant MOVER-ENDS: the move has not ended after {steps_max} steps without pins"
        );
        self.engine.check();
        Worker::new(self, 0, Random::new(seed)).read_all();

        let mut cas: Vec<u64> = findings.iter().flat_map(|found| &found.cas).copied().collect();
        cas.sort_unstable();
        assert!(
            cas.windows(2).all(|pair| pair[0] != pair[1]),
            "invariant CAS: the engine assigned a CAS value twice"
        );

        let mut lives: HashMap<(u32, u64), Vec<u64>> = HashMap::new();
        for &result in findings.iter().flat_map(|found| &found.increments) {
            let (key, life, count) = values::split_counter(result);
            lives.entry((key, life)).or_default().push(count);
        }
        for ((key, life), mut counts) in lives {
            counts.sort_unstable();
            let expected: Vec<u64> = (1..=counts.len() as u64).collect();
            assert_eq!(
                counts, expected,
                "invariant COUNTED: counter {key}, life {life}: the increments return 1, 2, 3, ..."
            );
        }
        self.engine.check();
    }
}
