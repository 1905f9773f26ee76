//! The log: writes the line of each event into the buffers of its watchers.

use super::event::WatchEvent;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Clock, Seconds, counts};
use slabwise_engine::{Engine, Eviction, EvictionObserver};
use slabwise_protocol::WatchKinds;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The maximum number of watchers, as in memcached.
const WATCHERS_MAX: usize = 20;

/// Distributes events to watchers; the module `watch` states its invariants.
pub struct WatchLog {
    clock: Arc<Clock>,
    buffer_bytes_max: usize,
    /// The union of all watchers' kinds: bits of [`WatchKinds`].
    pub(in crate::shared) kinds: AtomicU8,
    /// True if a worker must be woken.
    pub(in crate::shared) undelivered: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    readers: [Option<Reader>; WATCHERS_MAX],
    event_number: u64,
    counts: WatchCounts,
    /// The line being written; kept to reuse its memory.
    line: Vec<u8>,
}

/// The log's state for one watcher.
struct Reader {
    kinds: WatchKinds,
    /// The worker that serves the watcher.
    worker: usize,
    buffer: LineBuffer,
    /// True if the worker must be woken to take the buffer.
    needs_wake: bool,
}

counts! {
    pub struct WatchCounts {
        written,
        sent,
        /// Lines dropped because a watcher's buffer was full.
        skipped,
    }
}

impl WatchLog {
    /// Makes a log without watchers. Each watcher's buffer holds at most `buffer_bytes_max` bytes.
    pub fn new(clock: Arc<Clock>, buffer_bytes_max: usize) -> WatchLog {
        WatchLog {
            clock,
            buffer_bytes_max,
            kinds: AtomicU8::new(WatchKinds::NONE.bits()),
            undelivered: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Writes an event to all watchers that requested its kind.
    pub fn write(&self, event: &WatchEvent<'_>) {
        let kind = event.kind();
        if !WatchKinds::from_bits(self.kinds.load(Relaxed)).intersects(kind) {
            return;
        }
        let state = &mut *lock(&self.state);
        state.event_number += 1;
        state.counts.written += 1;
        let nanos = self.clock.nanos();
        let seconds =
            self.clock.zero_unix_seconds() + u64::from(Seconds::START.0) + nanos / 1_000_000_000;
        let micros = nanos % 1_000_000_000 / 1_000;
        let line = &mut state.line;
        line.clear();
        write!(line, "ts={seconds}.{micros:06} gid={} ", state.event_number)
            .expect("a Vec takes every write");
        event.write(line);
        let readers = state.readers.iter_mut().flatten();
        for reader in readers.filter(|reader| reader.kinds.intersects(kind)) {
            let was_empty = reader.buffer.is_empty();
            match reader.buffer.push(&state.line) {
                Pushed::Kept => state.counts.sent += 1,
                Pushed::Skipped => state.counts.skipped += 1,
            }
            if was_empty {
                reader.needs_wake = true;
                self.undelivered.store(true, Relaxed);
            }
        }
    }

    /// Calls `wake` with the number of each worker that has unread lines and was not woken for them.
    #[cold]
    pub fn deliver(&self, wake: impl FnMut(usize)) {
        let mut workers = [None; WATCHERS_MAX];
        {
            let mut state = lock(&self.state);
            self.undelivered.store(false, Relaxed);
            for (worker, reader) in workers.iter_mut().zip(state.readers.iter_mut().flatten()) {
                *worker = std::mem::take(&mut reader.needs_wake).then_some(reader.worker);
            }
        }
        workers.into_iter().flatten().for_each(wake);
    }

    pub fn counts(&self) -> WatchCounts {
        lock(&self.state).counts
    }

    pub fn watcher_count(&self) -> usize {
        lock(&self.state).readers.iter().flatten().count()
    }

    fn add(&self, kinds: WatchKinds, worker: usize, engine: &Engine) -> Option<usize> {
        let mut state = lock(&self.state);
        let slot = state.readers.iter().position(Option::is_none)?;
        let buffer = LineBuffer::new(self.buffer_bytes_max);
        state.readers[slot] = Some(Reader { kinds, worker, buffer, needs_wake: false });
        self.update_kinds(&state, engine);
        Some(slot)
    }

    fn remove(&self, slot: usize, engine: &Engine) {
        let mut state = lock(&self.state);
        state.readers[slot] = None;
        self.update_kinds(&state, engine);
    }

    /// Publishes the union of all kinds to event sites. The caller holds the lock, so that the latest union is
    /// published last.
    fn update_kinds(&self, state: &State, engine: &Engine) {
        let all = state
            .readers
            .iter()
            .flatten()
            .fold(WatchKinds::NONE, |all, reader| all.union(reader.kinds));
        self.kinds.store(all.bits(), Relaxed);
        engine.observers().observe_evictions(all.intersects(WatchKinds::EVICTIONS));
    }
}

impl EvictionObserver for WatchLog {
    fn evicted(&self, eviction: &Eviction<'_>) {
        self.write(&WatchEvent::Eviction(eviction));
    }
}

/// A watcher's subscription to the log; dropping it ends the subscription.
pub struct Watcher<'e> {
    log: &'e WatchLog,
    engine: &'e Engine,
    slot: usize,
    /// Lines taken in the current call; kept to reuse its memory.
    taken: Vec<u8>,
}

impl<'e> Watcher<'e> {
    /// Subscribes to these kinds of events for a session on this worker. Returns `None` if there are too many watchers.
    pub fn new(
        log: &'e WatchLog,
        engine: &'e Engine,
        worker: usize,
        kinds: WatchKinds,
    ) -> Option<Watcher<'e>> {
        let slot = log.add(kinds, worker, engine)?;
        Some(Watcher { log, engine, slot, taken: Vec::new() })
    }

    /// Appends the waiting lines to `out`. Because of BOUNDED, call it only when all earlier output is written.
    pub fn take_lines(&mut self, out: &mut Vec<u8>) {
        if let Some(reader) = &mut lock(&self.log.state).readers[self.slot] {
            reader.buffer.take(&mut self.taken);
        }
        // Copied without the lock, so that writers do not wait.
        out.append(&mut self.taken);
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.log.remove(self.slot, self.engine);
    }
}

/// The lines that one watcher has not taken yet, in order and at most `bytes_max` bytes. Dropped lines are replaced by
/// their number.
#[derive(Debug)]
struct LineBuffer {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// Lines dropped since the buffer was last taken. While there are any, every new line is dropped, so that the
    /// dropped lines all follow the kept ones.
    skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    Kept,
    Skipped,
}

impl LineBuffer {
    fn new(bytes_max: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), bytes_max, skipped: 0 }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.skipped == 0
    }

    fn push(&mut self, line: &[u8]) -> Pushed {
        if self.skipped > 0 || self.bytes.len() + line.len() > self.bytes_max {
            self.skipped += 1;
            return Pushed::Skipped;
        }
        self.make_room(line.len());
        self.bytes.extend_from_slice(line);
        Pushed::Kept
    }

    /// Grows by doubling, up to the bound.
    fn make_room(&mut self, len: usize) {
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            let capacity = needed.max(2 * self.bytes.capacity()).min(self.bytes_max);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Moves everything into `lines`, which must be empty, and reuses its memory.
    fn take(&mut self, lines: &mut Vec<u8>) {
        debug_assert!(lines.is_empty(), "lines taken before are left");
        std::mem::swap(&mut self.bytes, lines);
        if self.skipped > 0 {
            writeln!(lines, "skipped={}", self.skipped).expect("a Vec takes every write");
            self.skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, Pushed};
    use slabwise_base::Random;

    /// The expected content of a buffer.
    #[derive(Default)]
    struct Model {
        lines: Vec<String>,
        skipped: u64,
    }

    #[test]
    fn a_buffer_is_bounded_and_keeps_or_counts_every_line() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let bytes_max = random.below(300) as usize;
            let mut buffer = LineBuffer::new(bytes_max);
            let mut model = Model::default();
            let mut lines = Vec::new();
            let (mut kept, mut reported, mut pushed) = (0, 0, 0);
            for number in 0..500 {
                if random.below(8) == 0 {
                    buffer.take(&mut lines);
                    let mut expected = std::mem::take(&mut model.lines).concat();
                    if model.skipped > 0 {
                        expected += &format!("skipped={}\n", model.skipped);
                        reported += std::mem::take(&mut model.skipped);
                    }
                    assert_eq!(String::from_utf8_lossy(&lines), expected, "seed {seed}");
                    assert!(buffer.is_empty(), "seed {seed}");
                    lines.clear();
                }
                let line = format!("{number} {}\n", "x".repeat(random.below(60) as usize));
                let held: usize = model.lines.iter().map(String::len).sum();
                let fits = model.skipped == 0 && held + line.len() <= bytes_max;
                let expected = if fits { Pushed::Kept } else { Pushed::Skipped };
                assert_eq!(buffer.push(line.as_bytes()), expected, "seed {seed}");
                assert!(buffer.bytes.len() <= bytes_max, "seed {seed}");
                pushed += 1;
                if fits {
                    model.lines.push(line);
                    kept += 1;
                } else {
                    model.skipped += 1;
                }
            }
            assert_eq!(kept + reported + model.skipped, pushed, "seed {seed}");
        }
    }

    #[test]
    fn a_buffer_of_zero_bytes_counts_dropped_lines() {
        let mut buffer = LineBuffer::new(0);
        assert!(buffer.is_empty());
        buffer.push(b"line\n");
        assert!(!buffer.is_empty());
        let mut lines = Vec::new();
        buffer.take(&mut lines);
        assert_eq!(lines, b"skipped=1\n");
    }
}
