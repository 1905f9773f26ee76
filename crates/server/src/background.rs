//! The threads that drive the engine's bounded steps. What a step does is the engine's business; how
//! often it is taken is decided here.
//!
//! Laws: a driver never sleeps but waits at the [`Bell`](crate::shared::Bell), which rings when the
//! server stops and calls when a command has work for it; a step that found much to do shortens the
//! next wait, one that found nothing lengthens it, so that an idle server wakes a few times a second.

use crate::shared::{CrawlStep, Driver, Shared, WatchEvent, Woken};
use crate::sys;
use slabwise_base::{Clock, Moment, Ticks};
use slabwise_policy::sizes::LearnerOptions;
use slabwise_policy::{Automove, AutomoveOptions, Eager, PagePolicy};
use slabwise_tuner::{Learning, Load, Profiling, Tuner, TunerStep};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Items that one step of the LRU maintainer may move.
const MAINTAIN_BUDGET: usize = 1_000;
/// Chunks that one step of a crawl may look at: after so many memcached's crawler rests, too.
const CRAWL_BUDGET_CHUNKS: usize = 1_024;
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Between two crawls that nobody asked for; memcached's limits.
const CRAWL_PERIOD_MIN: Duration = Duration::from_secs(60);
const CRAWL_PERIOD_MAX: Duration = Duration::from_secs(3600);
/// A crawl that finds at least one ended item among so many is worth to be repeated soon.
const ITEMS_PER_RECLAIM_MAX: u64 = 100;
/// A tick of the policies' time.
const TICK: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// The tuner that options and commands ask for, shown on the board. Once, before anything is served.
pub fn tuner(shared: &Shared<'_>, clock: &Arc<Clock>) -> Tuner {
    let settings = shared.settings;
    let policy = PolicyWish::of(shared).policy(shared);
    let mut tuner = Tuner::new(policy, settings.move_budget, settings.engine.hash_seed)
        .shown_on(Arc::clone(&shared.board));
    let now = clock.now();
    if let Some(options) = settings.profiling {
        let profiling = Profiling::start(shared.engine, options, Arc::clone(clock), now);
        let bell = Arc::clone(&shared.bell);
        tuner = tuner.with_profiling(profiling.calling(Box::new(move || bell.call(Driver::Tuner))));
    }
    follow_learning(shared, &mut tuner);
    tuner.observe(shared.engine, now);
    tuner
}

/// Lets the class table be learned, or stay, as options and commands ask.
pub fn follow_learning(shared: &Shared<'_>, tuner: &mut Tuner) {
    let learns = shared.tunables.learn_classes.load(Relaxed);
    if learns != tuner.learning().is_some() {
        tuner.set_learning(learns.then(|| Learning::new(LearnerOptions::default())));
    }
}

/// Starts the drivers in `scope`; they end when the bell rings.
pub fn start<'scope, 'e: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'e Shared<'e>,
    tuner: Tuner,
) -> io::Result<()> {
    let settings = shared.settings;
    let named = |name: &str| Builder::new().name(name.to_owned());
    if settings.lru_maintainer {
        named("lru-maintainer").spawn_scoped(scope, || maintain(shared))?;
    }
    if settings.reassign_enabled || settings.profiling.is_some() {
        named("tuner").spawn_scoped(scope, || tune(shared, tuner))?;
    }
    // Also where it is off: `lru_crawler enable` may come.
    named("lru-crawler").spawn_scoped(scope, || crawl(shared))?;
    Ok(())
}

fn maintain(shared: &Shared<'_>) {
    let mut wait = WAIT_MIN;
    while shared.bell.wait(Driver::Maintainer, wait) != Woken::ByRing {
        let moved = shared.engine.maintain_step(MAINTAIN_BUDGET, shared.clock.now());
        shared.counters.maintainer_steps.fetch_add(1, Relaxed);
        wait = next_wait(wait, moved > 0);
    }
}

/// memcached's rule: twice as long when there was nothing to do, half when there was.
fn next_wait(wait: Duration, was_busy: bool) -> Duration {
    let next = if was_busy { wait / 2 } else { wait * 2 };
    next.clamp(WAIT_MIN, WAIT_MAX)
}

/// Lets the policy in force plan page moves, and carries out those and the ones that commands ask
/// for: without a pause while there are any. Takes in what is to be profiled.
fn tune(shared: &Shared<'_>, mut tuner: Tuner) {
    let mut wish = PolicyWish::of(shared);
    tuner.set_policy(wish.policy(shared));
    let mut wait = WAIT_MIN;
    let mut traffic = Traffic::default();
    let mut hit_time = HitTime::default();
    let mut bytes_read = 0;
    let mut has_worked = false;
    while shared.bell.wait(Driver::Tuner, wait) != Woken::ByRing {
        let present = PolicyWish::of(shared);
        if present != wish {
            wish = present;
            tuner.set_policy(wish.policy(shared));
        }
        follow_learning(shared, &mut tuner);
        let at = shared.clock.moment();
        let load = traffic.load(shared.bytes_read(), at);
        let step = tuner_step(shared, &mut tuner, load, at, &mut hit_time);
        if let TunerStep::Asked { page_move, outcome } = &step {
            shared.watch.write(&WatchEvent::PageMove {
                victim: page_move.victim,
                receiver: page_move.receiver,
                is_begun: outcome.is_ok(),
            });
        }
        // Room for a move is made by evictions.
        shared.deliver_watched();
        wait = match step {
            TunerStep::Working | TunerStep::Asked { .. } => {
                has_worked = true;
                Duration::ZERO
            }
            TunerStep::Rest(rest) => {
                has_worked = true;
                rest
            }
            TunerStep::Idle { ticks } => {
                let due = ticks.map_or(WAIT_MAX, |ticks| TICK * ticks);
                let bytes_seen = std::mem::replace(&mut bytes_read, shared.bytes_read());
                // Without traffic, and with no move behind it, no policy learns anything. But never for
                // ever: a store that needs a page may leave a move half done.
                if bytes_seen == bytes_read && !std::mem::take(&mut has_worked) {
                    next_wait(wait.max(due), false)
                } else {
                    due.min(WAIT_MAX)
                }
            }
        };
    }
}

/// One step, and the processor time that it takes: profiling's where it takes in or makes curves, the mover's
/// where it moves.
fn tuner_step(
    shared: &Shared<'_>,
    tuner: &mut Tuner,
    load: Load,
    at: Moment,
    hit_time: &mut HitTime,
) -> TunerStep {
    let start = sys::thread_processor_time();
    if let Some(profiling) = tuner.profiling_mut()
        && let Some(hit_time_us) = hit_time.look(shared.timed_turns())
    {
        profiling.set_hit_time_us(hit_time_us);
    }
    tuner.observe(shared.engine, at.now);
    let observed = sys::thread_processor_time();
    let step = tuner.act(shared.engine, load, at);
    let add = |counter: &AtomicU64, time: Duration| {
        counter.fetch_add(time.as_nanos() as u64, Relaxed);
    };
    let acted = sys::thread_processor_time() - observed;
    add(&shared.counters.profile_cpu_nanos, observed - start);
    match &step {
        // Nothing moved: what took time was to make curves for the policy, and to read them.
        TunerStep::Idle { .. } => add(&shared.counters.profile_cpu_nanos, acted),
        _ => add(&shared.counters.mover_cpu_nanos, acted),
    }
    step
}

/// How long gets take lately, from receiving to sending: what a hit does.
#[derive(Default)]
struct HitTime {
    shares: u64,
    nanos: u64,
    mean_us: Option<f64>,
}

impl HitTime {
    /// A mean of fewer says little.
    const SHARES_MIN: u64 = 1_000;
    /// What the newest mean counts beside those before it.
    const WEIGHT_NEW: f64 = 0.2;

    /// The mean, when there is a new one; given are the shares of all timed turns, and their nanoseconds, so far.
    fn look(&mut self, (shares, nanos): (u64, u64)) -> Option<f64> {
        let new_shares = shares - self.shares;
        if new_shares < HitTime::SHARES_MIN {
            return None;
        }
        let new_us = (nanos.saturating_sub(self.nanos)) as f64 / 1e3 / new_shares as f64;
        (self.shares, self.nanos) = (shares, nanos);
        let before = self.mean_us.unwrap_or(new_us);
        self.mean_us = Some(before + (new_us - before) * HitTime::WEIGHT_NEW);
        self.mean_us
    }
}

/// Looks now and then how much clients send.
#[derive(Default)]
struct Traffic {
    looked_nanos: u64,
    bytes_read: u64,
    is_serving: bool,
}

impl Traffic {
    /// Between two looks, at least: long beside a request.
    const LOOK_NANOS: u64 = 10_000_000;
    /// From here on they are served: some ten thousand requests a second.
    const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

    fn load(&mut self, bytes_read: u64, at: Moment) -> Load {
        let nanos = at.nanos.saturating_sub(self.looked_nanos);
        if nanos >= Traffic::LOOK_NANOS {
            let bytes = u128::from(bytes_read.saturating_sub(self.bytes_read));
            let bytes_per_second = bytes * 1_000_000_000 / u128::from(nanos);
            self.is_serving = bytes_per_second >= u128::from(Traffic::BYTES_PER_SECOND_MIN);
            (self.looked_nanos, self.bytes_read) = (at.nanos, bytes_read);
        }
        if self.is_serving { Load::Serving } else { Load::Idle }
    }
}

/// What commands and options ask of the page policy.
#[derive(Clone, Copy, PartialEq)]
struct PolicyWish {
    automove_level: u32,
    /// What options and commands say of memcached's automover, where it runs.
    automove: Option<AutomoveOptions>,
}

impl PolicyWish {
    fn of(shared: &Shared<'_>) -> PolicyWish {
        let tunables = &shared.tunables;
        let runs = matches!(shared.settings.page_policy, PagePolicy::Automove(_));
        PolicyWish {
            automove_level: tunables.automove_level.load(Relaxed),
            automove: runs.then(|| AutomoveOptions {
                window_len: tunables.automove_window.load(Relaxed) as usize,
                age_ratio: tunables.automove_ratio.load(),
            }),
        }
    }

    fn policy(self, shared: &Shared<'_>) -> PagePolicy {
        let settings = shared.settings;
        match self.automove_level {
            _ if !settings.reassign_enabled => PagePolicy::None,
            0 => PagePolicy::None,
            1 => match self.automove {
                Some(options) => PagePolicy::Automove(Automove::new(options)),
                None => settings.page_policy.clone(),
            },
            _ => PagePolicy::Eager(Eager::default()),
        }
    }
}

/// Carries out the crawls that commands leave, and from time to time one that nobody asked for.
fn crawl(shared: &Shared<'_>) {
    let mut period = CRAWL_PERIOD_MIN;
    loop {
        let outcome = match shared.bell.wait(Driver::Crawler, period) {
            Woken::ByRing => return,
            Woken::ByCall => finish_crawl(shared),
            Woken::ByTime => {
                let (before, start) = (crawl_counts(shared), shared.clock.now());
                begin_crawl(shared);
                let outcome = finish_crawl(shared);
                let after = crawl_counts(shared);
                period = next_period(period, before, after);
                if shared.tunables.crawler_enabled.load(Relaxed) {
                    shared.watch.write(&WatchEvent::Crawl {
                        elapsed_seconds: shared.clock.now().seconds.0 - start.seconds.0,
                        next_seconds: period.as_secs(),
                        examined: after.checked - before.checked,
                        reclaimed: after.reclaimed - before.reclaimed,
                    });
                    shared.deliver_watched();
                }
                outcome
            }
        };
        if outcome.is_break() {
            return;
        }
    }
}

/// Begins a crawl over everything, unless crawls are off or one that expires is under way.
fn begin_crawl(shared: &Shared<'_>) {
    let tunables = &shared.tunables;
    if tunables.crawler_enabled.load(Relaxed) {
        let classes = shared.engine.class_ids();
        shared.crawls.expire_unasked(classes, tunables.crawler_tocrawl.load(Relaxed));
    }
}

/// Steps until the crawl under way, if any, is over; breaks when the bell rings.
fn finish_crawl(shared: &Shared<'_>) -> ControlFlow<()> {
    let step = || shared.crawls.step(shared.engine, CRAWL_BUDGET_CHUNKS, shared.clock.now());
    while step() == CrawlStep::Working {
        let rest = Duration::from_micros(shared.tunables.crawler_sleep_us.load(Relaxed).into());
        if shared.bell.wait(Driver::Crawler, rest) == Woken::ByRing {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

/// What crawls did so far.
#[derive(Clone, Copy)]
struct CrawlCounts {
    checked: u64,
    reclaimed: u64,
}

fn crawl_counts(shared: &Shared<'_>) -> CrawlCounts {
    let counters = shared.engine.stats(shared.clock.now()).total.counters_ever;
    CrawlCounts { checked: counters.crawler_items_checked, reclaimed: counters.crawler_reclaimed }
}

/// Sooner again where the last crawl was worth it, later where it was not.
fn next_period(period: Duration, before: CrawlCounts, after: CrawlCounts) -> Duration {
    let checked = after.checked - before.checked;
    let reclaimed = after.reclaimed - before.reclaimed;
    let was_worth_it = reclaimed > 0 && reclaimed >= checked / ITEMS_PER_RECLAIM_MAX;
    let next = if was_worth_it { period / 2 } else { period * 2 };
    next.clamp(CRAWL_PERIOD_MIN, CRAWL_PERIOD_MAX)
}

#[cfg(test)]
mod tests {
    use super::{
        CRAWL_PERIOD_MAX, CRAWL_PERIOD_MIN, CrawlCounts, PolicyWish, WAIT_MAX, WAIT_MIN,
        next_period, next_wait,
    };
    use crate::options::{self, Request};
    use crate::session::testing::Fixture;
    use slabwise_policy::{AutomoveOptions, PagePolicy};
    use std::time::Duration;

    /// The automover that options ask for, and then a command.
    fn automover(options: &str, ratio: Option<f64>) -> AutomoveOptions {
        let args = ["-o", options].map(Into::into);
        let Ok(Request::Serve { settings, .. }) = options::parse(args) else {
            panic!("{options} are options");
        };
        let fixture = Fixture { settings: *settings, ..Fixture::new() };
        let shared = fixture.shared();
        if let Some(ratio) = ratio {
            shared.tunables.automove_ratio.store(ratio);
        }
        match PolicyWish::of(&shared).policy(&shared) {
            PagePolicy::Automove(automove) => automove.options(),
            other => panic!("{options}: {other:?}"),
        }
    }

    #[test]
    fn commands_change_of_the_automover_what_they_name_and_nothing_else() {
        let of = |window_len, age_ratio| AutomoveOptions { window_len, age_ratio };
        let given = "page_policy=automove:window_len=30";
        assert_eq!(automover(given, None), of(30, 0.8));
        assert_eq!(automover(given, Some(0.5)), of(30, 0.5));
        let both = "slab_automove_window=40,slab_automove_ratio=0.6,page_policy=automove";
        assert_eq!(automover(both, None), of(40, 0.6));
        assert_eq!(automover(&format!("{both}:age_ratio=0.7"), None), of(40, 0.7));
        assert_eq!(automover("preset=memcached", Some(0.9)), of(10, 0.9));
    }

    #[test]
    fn waits_adapt_between_their_bounds() {
        let mut wait = WAIT_MIN;
        for _ in 0..20 {
            wait = next_wait(wait, false);
        }
        assert_eq!(wait, WAIT_MAX);
        assert_eq!(next_wait(wait, true), WAIT_MAX / 2);
        for _ in 0..20 {
            wait = next_wait(wait, true);
        }
        assert_eq!(wait, WAIT_MIN);
        // From no wait at all, after much work, the next is the least, not none for ever.
        assert_eq!(next_wait(Duration::ZERO, false), WAIT_MIN);
    }

    #[test]
    fn crawls_come_as_often_as_they_are_worth_it() {
        let counts = |checked, reclaimed| CrawlCounts { checked, reclaimed };
        let (start, useful, useless) = (counts(5, 1), counts(1005, 11), counts(1005, 10));
        assert_eq!(next_period(CRAWL_PERIOD_MIN, start, useless), CRAWL_PERIOD_MIN * 2);
        assert_eq!(next_period(CRAWL_PERIOD_MIN * 2, start, useful), CRAWL_PERIOD_MIN);
        assert_eq!(next_period(CRAWL_PERIOD_MIN, start, useful), CRAWL_PERIOD_MIN);
        assert_eq!(next_period(CRAWL_PERIOD_MAX, start, useless), CRAWL_PERIOD_MAX);
        assert_eq!(next_period(CRAWL_PERIOD_MIN, start, start), CRAWL_PERIOD_MIN * 2);
    }
}
