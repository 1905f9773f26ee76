//! The watchers' log: writes the line of each event to the buffers of the watchers that requested the event's kind.

use super::event::WatchEvent;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Clock, Seconds, counts};
use slabwise_engine::{Engine, Eviction, EvictionObserver};
use slabwise_protocol::WatchKinds;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The maximum number of watchers, as in memcached.
pub(crate) const WATCHERS_MAX: usize = 20;

/// Distributes events to watchers. The documentation of the module [`watch`](super) states the invariants.
pub struct WatchLog {
    clock: Arc<Clock>,
    /// The maximum number of bytes in the buffer of each watcher.
    buffer_bytes_max: usize,
    /// The kinds of events that at least one watcher has requested: bits of [`WatchKinds`].
    pub(in crate::shared) kinds: AtomicU8,
    /// True if a buffer has lines for which no thread has woken the buffer's worker yet.
    pub(in crate::shared) undelivered: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// One entry per possible watcher; `None` if the entry is unused.
    subscriptions: [Option<Subscription>; WATCHERS_MAX],
    /// The number of the last written event. The first event has the number 1.
    event_number: u64,
    counts: WatchCounts,
    /// The line of the last written event. The log keeps the vector to reuse its memory.
    line: Vec<u8>,
}

/// The log's state for one watcher.
struct Subscription {
    /// The kinds of events that the watcher requested.
    kinds: WatchKinds,
    /// The number of the worker that serves the watcher.
    worker: usize,
    buffer: LineBuffer,
    /// The size of the empty buffer that the worker keeps for the exchange with `buffer`, in bytes.
    spare_bytes: usize,
    /// True if [`WatchLog::deliver`] must wake the worker, which then takes the buffer.
    needs_wake: bool,
}

counts! {
    /// Counts of events and lines since the start of the server.
    pub struct WatchCounts {
        /// Events that at least one watcher requested.
        written,
        /// Lines that were written to the buffers of watchers.
        sent,
        /// Lines that were dropped because the buffer of a watcher was full.
        skipped,
    }
}

impl WatchLog {
    /// Makes a log without watchers. The buffer of each watcher has at most `buffer_bytes_max` bytes.
    pub fn new(clock: Arc<Clock>, buffer_bytes_max: usize) -> WatchLog {
        WatchLog {
            clock,
            buffer_bytes_max,
            kinds: AtomicU8::new(WatchKinds::NONE.bits()),
            undelivered: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Writes an event to the buffers of all watchers that requested its kind.
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
            .expect("a write into a vector succeeds");
        event.write(line);
        let subscriptions = state.subscriptions.iter_mut().flatten();
        for subscription in subscriptions.filter(|subscription| subscription.kinds.intersects(kind))
        {
            let was_empty = subscription.buffer.is_empty();
            match subscription.buffer.push(&state.line) {
                PushOutcome::Kept => state.counts.sent += 1,
                PushOutcome::Skipped => state.counts.skipped += 1,
            }
            if was_empty {
                subscription.needs_wake = true;
                self.undelivered.store(true, Relaxed);
            }
        }
    }

    /// Calls `wake` with the number of each worker that has lines to take and that no earlier call has woken for them.
    #[cold]
    pub fn deliver(&self, wake: impl FnMut(usize)) {
        let mut workers = [None; WATCHERS_MAX];
        {
            let mut state = lock(&self.state);
            self.undelivered.store(false, Relaxed);
            for (worker, subscription) in
                workers.iter_mut().zip(state.subscriptions.iter_mut().flatten())
            {
                *worker =
                    std::mem::take(&mut subscription.needs_wake).then_some(subscription.worker);
            }
        }
        workers.into_iter().flatten().for_each(wake);
    }

    /// Returns the current counts.
    pub fn counts(&self) -> WatchCounts {
        lock(&self.state).counts
    }

    /// Returns the size of all buffers, without the lines that workers are sending, and its maximum. In bytes.
    pub fn buffer_bytes(&self) -> (usize, usize) {
        let buffers = |subscription: &Subscription| {
            subscription.buffer.bytes.capacity() + subscription.spare_bytes
        };
        let bytes = lock(&self.state).subscriptions.iter().flatten().map(buffers).sum();
        (bytes, WATCHERS_MAX * 2 * self.buffer_bytes_max)
    }

    /// Returns the current number of watchers.
    pub fn watcher_count(&self) -> usize {
        lock(&self.state).subscriptions.iter().flatten().count()
    }

    /// Adds a watcher. Returns the index of its subscription, or `None` if there is the maximum number of watchers.
    fn add(&self, kinds: WatchKinds, worker: usize, engine: &Engine) -> Option<usize> {
        let mut state = lock(&self.state);
        let slot = state.subscriptions.iter().position(Option::is_none)?;
        let buffer = LineBuffer::new(self.buffer_bytes_max);
        state.subscriptions[slot] =
            Some(Subscription { kinds, worker, buffer, spare_bytes: 0, needs_wake: false });
        self.update_kinds(&state, engine);
        Some(slot)
    }

    fn remove(&self, slot: usize, engine: &Engine) {
        let mut state = lock(&self.state);
        state.subscriptions[slot] = None;
        self.update_kinds(&state, engine);
    }

    /// Stores the union of the kinds of all watchers, which event sites read. The caller holds the log's lock, so that
    /// two threads store their unions in the order in which they changed the subscriptions.
    fn update_kinds(&self, state: &State, engine: &Engine) {
        let all = state
            .subscriptions
            .iter()
            .flatten()
            .fold(WatchKinds::NONE, |all, subscription| all.union(subscription.kinds));
        self.kinds.store(all.bits(), Relaxed);
        engine.observers().observe_evictions(all.intersects(WatchKinds::EVICTIONS));
    }
}

impl EvictionObserver for WatchLog {
    fn evicted(&self, eviction: &Eviction<'_>) {
        self.write(&WatchEvent::Eviction(eviction));
    }
}

/// A watcher's access to its subscription. Dropping this value ends the subscription.
pub struct Watcher<'e> {
    log: &'e WatchLog,
    engine: &'e Engine,
    /// The index of the subscription in the log.
    slot: usize,
    /// An empty vector, whose memory the log uses for the next lines.
    taken: Vec<u8>,
}

impl<'e> Watcher<'e> {
    /// Makes a watcher of these kinds of events. `worker` is the number of the worker that serves its connection.
    /// Returns `None` if there is the maximum number of watchers.
    pub fn new(
        log: &'e WatchLog,
        engine: &'e Engine,
        worker: usize,
        kinds: WatchKinds,
    ) -> Option<Watcher<'e>> {
        let slot = log.add(kinds, worker, engine)?;
        Some(Watcher { log, engine, slot, taken: Vec::new() })
    }

    /// Takes the lines from the buffer and appends them to `out`. The caller calls this function only when all earlier
    /// output is written (the invariant BOUNDED of the module [`watch`](super)).
    pub fn take_lines(&mut self, out: &mut Vec<u8>) {
        if let Some(subscription) = &mut lock(&self.log.state).subscriptions[self.slot] {
            subscription.buffer.take(&mut self.taken);
            subscription.spare_bytes = self.taken.capacity();
        }
        // The lines are copied after the lock is released, so that writers of events do not wait for the copy.
        out.append(&mut self.taken);
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.log.remove(self.slot, self.engine);
    }
}

/// The lines that a watcher's worker has not taken yet, in the order of their events.
#[derive(Debug)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// The maximum number of bytes in the buffer. Lines that do not fit are dropped.
    bytes_max: usize,
    /// The number of lines that were dropped since the buffer was last taken. After a dropped line every later line is
    /// dropped, too, so that all kept lines are older than all dropped lines.
    skipped: u64,
}

/// What [`LineBuffer::push`] did with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushOutcome {
    /// The line is in the buffer.
    Kept,
    /// The line was dropped and counted.
    Skipped,
}

impl LineBuffer {
    fn new(bytes_max: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), bytes_max, skipped: 0 }
    }

    /// True if no line was pushed since the buffer was last taken.
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.skipped == 0
    }

    /// Appends a line to the buffer, or drops and counts it.
    fn push(&mut self, line: &[u8]) -> PushOutcome {
        if self.skipped > 0 || self.bytes.len() + line.len() > self.bytes_max {
            self.skipped += 1;
            return PushOutcome::Skipped;
        }
        self.make_room(line.len());
        self.bytes.extend_from_slice(line);
        PushOutcome::Kept
    }

    /// Makes room for `len` more bytes. The capacity at least doubles, but does not exceed `bytes_max`.
    fn make_room(&mut self, len: usize) {
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            let capacity = needed.max(2 * self.bytes.capacity()).min(self.bytes_max);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Exchanges the buffer with `lines`, which must be empty, and appends the line `skipped=` if lines were dropped.
    fn take(&mut self, lines: &mut Vec<u8>) {
        debug_assert!(lines.is_empty(), "the caller has removed the lines of the previous call");
        std::mem::swap(&mut self.bytes, lines);
        if self.skipped > 0 {
            writeln!(lines, "skipped={}", self.skipped).expect("a write into a vector succeeds");
            self.skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, PushOutcome};
    use slabwise_base::Random;

    /// The lines that a buffer should contain, and the number of lines that it should have dropped.
    #[derive(Default)]
    struct Model {
        lines: Vec<String>,
        skipped: u64,
    }

    #[test]
    fn a_buffer_never_exceeds_its_maximum_and_keeps_or_counts_every_line() {
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
                let kept_bytes: usize = model.lines.iter().map(String::len).sum();
                let fits = model.skipped == 0 && kept_bytes + line.len() <= bytes_max;
                let expected = if fits { PushOutcome::Kept } else { PushOutcome::Skipped };
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
    fn a_buffer_of_zero_bytes_drops_and_counts_every_line() {
        let mut buffer = LineBuffer::new(0);
        assert!(buffer.is_empty());
        buffer.push(b"line\n");
        assert!(!buffer.is_empty());
        let mut lines = Vec::new();
        buffer.take(&mut lines);
        assert_eq!(lines, b"skipped=1\n");
    }
}
