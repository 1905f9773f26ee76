//! The thread that watches a server.
//!
//! ```text
//!            .--- budget allows a window ----> watch: own connection; lines --> Order --> Window --> Estimates
//!   pause ---'                                   |
//!     ^  '--> stats once per period              |  once per second: stats --> Counted, Budget
//!     '-- window complete, or budget used up ----'
//! ```
//!
//! Invariants: the thread waits at most [`WAIT`] without looking for the stop signal, except for the timeouts of a
//! connection; it sends only `stats` and `watch`, so it changes nothing on the server.

use super::budget::Budget;
use super::counters::{Counted, Reading};
use super::estimates::Estimates;
use super::line::{self, Line};
use super::options::{Options, TrafficError};
use super::order::Order;
use super::window::{KeyAccess, Window};
use crate::counters::Counters;
use slabwise_base::memcached::beside_value_bytes;
use slabwise_base::sampling::{is_sampled, threshold_of};
use slabwise_base::{Clock, KeyHasher};
use slabwise_client::{ClientError, Connection, Connector, LINE_LEN_MAX, Timeouts, is_refusal};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest wait for lines, and for the stop signal.
const WAIT: Duration = Duration::from_millis(200);
/// The time between two readings of the counters.
const PERIOD: Duration = Duration::from_secs(1);
/// The share of the references whose classes must be measured far enough before a window ends early. Small classes may
/// never see enough keys.
const COMPLETE_SHARE: f64 = 0.95;

/// What the thread and the owner of the observation share.
#[derive(Debug, Default)]
pub struct State {
    pub estimates: Estimates,
    pub counted: Counted,
    pub cost: Cost,
    pub error: Option<TrafficError>,
}

/// The lines that were watched, and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The number of lines received.
    pub lines: u64,
    /// The number of lines that the server dropped during windows.
    pub dropped: u64,
    /// The time of all windows together.
    pub watched: Duration,
    /// The time since the start.
    pub elapsed: Duration,
    /// The number of windows, including an open one.
    pub windows: u64,
    /// The estimated processor time that watching cost the server.
    pub server: Duration,
}

/// The thread.
pub struct Watcher {
    pub connector: Connector,
    pub options: Options,
    pub shared: Arc<Mutex<State>>,
    pub stop: Receiver<()>,
    pub hasher: KeyHasher,
    pub clock: Clock,
}

/// An open window.
struct Watch {
    lines: Connection,
    order: Order<KeyAccess>,
    window: Window,
    /// The threshold of the hashes of sampled keys.
    threshold: u64,
    dropped_before: u64,
}

/// Whether the thread shall continue.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Continue,
    Stop,
}

impl Watcher {
    /// Watches until the owner drops the sender of `stop`, or until an error.
    pub fn run(mut self) {
        if let Err(error) = self.watch_in_windows() {
            lock(&self.shared).error = Some(error);
        }
    }

    fn watch_in_windows(&mut self) -> Result<(), TrafficError> {
        let mut stats = self.connector.open()?;
        let mut meter = Meter::new(&self.options);
        meter.read(&mut stats, &self.clock, &self.shared)?;
        loop {
            if self.wait(PERIOD) == Next::Stop {
                return Ok(());
            }
            meter.read(&mut stats, &self.clock, &self.shared)?;
            if meter.budget.may_start() && self.watch(&mut stats, &mut meter)? == Next::Stop {
                return Ok(());
            }
        }
    }

    /// Watches a window.
    fn watch(&self, stats: &mut Connection, meter: &mut Meter) -> Result<Next, TrafficError> {
        let mut watch = self.open()?;
        let mut next = Next::Continue;
        let (mut last_nanos, mut read_nanos) = (self.clock.nanos(), self.clock.nanos());
        while next == Next::Continue {
            let (is_idle, is_closed) = match watch.lines.receive() {
                Ok(count) => (false, count == 0),
                Err(ClientError::ReadTimeout) => (true, false),
                Err(error) => return Err(error.into()),
            };
            let mut state = lock(&self.shared);
            let lines = self.take_lines(&mut watch, &mut state)?;
            if is_idle {
                let Watch { order, window, .. } = &mut watch;
                order.flush(&mut |access| window.access(&access, &mut state.estimates));
            }
            let now_nanos = self.clock.nanos();
            let watched = Duration::from_nanos(now_nanos - last_nanos);
            last_nanos = now_nanos;
            meter.budget.spend(lines, watched);
            state.cost.lines += lines;
            state.cost.watched += watched;
            state.cost.server = meter.budget.cost();
            if is_closed {
                return Err(ClientError::Closed.into());
            }
            let is_full = watch.window.keys() >= self.options.keys_max;
            drop(state);
            let is_due = now_nanos - read_nanos >= PERIOD.as_nanos() as u64;
            if is_due {
                read_nanos = now_nanos;
                meter.read(stats, &self.clock, &self.shared)?;
            }
            let is_complete = is_due && self.is_complete(&watch.window, &lock(&self.shared));
            if is_full || is_complete || !meter.budget.may_continue() {
                break;
            }
            next = self.wait(Duration::ZERO);
        }
        self.close(watch, stats, meter)?;
        Ok(next)
    }

    /// Starts a window: sends `watch` on a new connection.
    fn open(&self) -> Result<Watch, TrafficError> {
        let timeouts = Timeouts { read: WAIT, reply: Duration::MAX, ..self.connector.timeouts };
        let mut lines = Connector { timeouts, ..self.connector.clone() }.open()?;
        request_lines(&mut lines, self.connector.timeouts.read, &self.clock)?;
        let mut state = lock(&self.shared);
        let last = state.counted.last();
        let (items, dropped_before) =
            last.map_or((0, 0), |last| (last.items(), last.lines.dropped));
        let expected = (items as f64 * self.options.range_factor).max(1.0);
        let sampling_rate = (0.8 * self.options.keys_max as f64 / expected).min(1.0);
        if state.cost.windows > 0 {
            let factor = self.options.ageing_factor;
            state.estimates.start_window(sampling_rate, factor);
            state.counted.scale(factor);
        } else {
            state.estimates.start_window(sampling_rate, 1.0);
        }
        state.cost.windows += 1;
        Ok(Watch {
            lines,
            order: Order::new(),
            window: Window::new(sampling_rate),
            threshold: threshold_of(sampling_rate),
            dropped_before,
        })
    }

    /// Ends a window: closes its connection and records what is left.
    fn close(
        &self,
        watch: Watch,
        stats: &mut Connection,
        meter: &mut Meter,
    ) -> Result<(), TrafficError> {
        let Watch { lines, mut order, mut window, dropped_before, .. } = watch;
        drop(lines);
        let mut state = lock(&self.shared);
        order.flush(&mut |access| window.access(&access, &mut state.estimates));
        window.finish(&mut state.estimates);
        drop(state);
        let dropped = meter.read(stats, &self.clock, &self.shared)?;
        lock(&self.shared).cost.dropped += dropped.saturating_sub(dropped_before);
        Ok(())
    }

    /// Takes all complete lines from the connection. Returns their number.
    fn take_lines(&self, watch: &mut Watch, state: &mut State) -> Result<u64, TrafficError> {
        let Watch { lines, order, window, threshold, .. } = watch;
        let received = lines.received();
        let Some(end) = received.iter().rposition(|&byte| byte == b'\n') else {
            return match received.len() > LINE_LEN_MAX {
                true => Err(ClientError::LineTooLong(received[..LINE_LEN_MAX].to_vec()).into()),
                false => Ok(0),
            };
        };
        let mut count = 0;
        for line in received[..end].split(|&byte| byte == b'\n') {
            count += 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match line::parse(line) {
                Some(Line::Access(access)) => {
                    let Some(it) = self.sampled(&access, *threshold) else { continue };
                    order.push(access.number, it, &mut |access| {
                        window.access(&access, &mut state.estimates)
                    });
                }
                Some(Line::WithoutSize) => return Err(TrafficError::WithoutSizes),
                Some(Line::Skipped(_) | Line::Other(_)) => {}
                None => return Err(TrafficError::UnexpectedLine(line.to_vec())),
            }
        }
        lines.consume(end + 1);
        Ok(count)
    }

    /// Returns the access with the hash of its key, if the key is sampled.
    fn sampled(&self, access: &line::Access<'_>, threshold: u64) -> Option<KeyAccess> {
        let key = self.hasher.hash(access.key);
        is_sampled(key, threshold).then(|| KeyAccess {
            key,
            kind: access.kind,
            class_number: access.class_number,
            connection: access.connection,
            item_size_bytes: access
                .value_len
                .saturating_add(beside_value_bytes(line::key_len(access.key)) as u32),
        })
    }

    /// True if the window has measured the curves of the important classes far enough.
    fn is_complete(&self, window: &Window, state: &State) -> bool {
        let (mut complete, mut all) = (0.0, 0.0);
        for (number, references) in state.estimates.references() {
            let items = state.counted.classes().get(&number).map_or(0, |class| class.chunks);
            let needed = items as f64 * self.options.range_factor;
            all += references;
            complete += if window.footprint(number) as f64 >= needed { references } else { 0.0 };
        }
        all > 0.0 && complete >= COMPLETE_SHARE * all
    }

    /// Waits for the stop signal.
    fn wait(&self, at_most: Duration) -> Next {
        match self.stop.recv_timeout(at_most) {
            Err(RecvTimeoutError::Timeout) => Next::Continue,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Next::Stop,
        }
    }
}

/// Sends `watch`, without deletions if the server does not know them (memcached before 1.6.20).
fn request_lines(
    lines: &mut Connection,
    read_timeout: Duration,
    clock: &Clock,
) -> Result<(), TrafficError> {
    const COMMANDS: [&str; 2] = ["watch fetchers mutations deletions", "watch fetchers mutations"];
    let mut reply = vec![];
    for command in COMMANDS {
        lines.send_line(command)?;
        reply = first_line(lines, read_timeout, clock)?;
        match &reply[..] {
            b"OK" => return Ok(()),
            b"ERROR" => {}
            _ => break,
        }
    }
    match is_refusal(&reply) || reply.starts_with(b"WATCHER_") {
        true => Err(TrafficError::WatchRefused(reply)),
        false => Err(TrafficError::UnexpectedLine(reply)),
    }
}

/// Reads the reply to `watch`. The connection has a shorter read timeout than the options allow, so several reads may be
/// necessary.
fn first_line(
    lines: &mut Connection,
    read_timeout: Duration,
    clock: &Clock,
) -> Result<Vec<u8>, TrafficError> {
    let start_nanos = clock.nanos();
    loop {
        match lines.line() {
            Ok(line) => return Ok(line.to_vec()),
            Err(ClientError::ReadTimeout)
                if clock.nanos() - start_nanos < read_timeout.as_nanos() as u64 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the counters of the server, and keeps the budget.
struct Meter {
    budget: Budget,
    last: Option<(Duration, u64)>,
}

impl Meter {
    fn new(options: &Options) -> Meter {
        Meter { budget: Budget::new(options.cost_share_max, options.advance), last: None }
    }

    /// Reads the counters. Returns the number of lines that the server has dropped since its start.
    fn read(
        &mut self,
        stats: &mut Connection,
        clock: &Clock,
        shared: &Mutex<State>,
    ) -> Result<u64, TrafficError> {
        let reading = Reading::of(Counters::read(stats)?)?;
        let now_nanos = clock.nanos();
        if let Some((server, nanos)) = self.last {
            let elapsed = Duration::from_nanos(now_nanos - nanos);
            self.budget.earn(reading.server.saturating_sub(server), elapsed);
        }
        self.last = Some((reading.server, now_nanos));
        let dropped = reading.lines.dropped;
        let mut state = lock(shared);
        state.counted.add(reading);
        state.cost.elapsed = Duration::from_nanos(now_nanos);
        Ok(dropped)
    }
}

/// Locks the state. A thread that panicked while it held the lock leaves weights that are at most slightly wrong.
pub fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
