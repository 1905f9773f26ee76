//! The background threads, each of which runs bounded steps. The engine and the tuner decide what a step does, and
//! the paces of `slabwise_tuner` decide how long to wait before the next one.
//!
//! Invariant: a driver never sleeps. It waits on [`Shared::notifier`], which wakes it when the server stops and when
//! a command has work for it.

use crate::os::sys;
use crate::shared::{CrawlStep, Driver, Shared, WakeReason, WatchEvent};
use slabwise_base::{Clock, Moment};
use slabwise_tuner::{
    Backoff, CRAWLER_CHUNKS_PER_STEP, CrawlCounts, CrawlPeriod, HitTime, Load, LoadClassifier,
    MAINTAINER_ITEMS_PER_STEP, Profiling, RequestedPolicy, Tuner, TunerPace, TunerStep,
};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Makes the tuner that options and commands request. Call it once, before any request is served.
pub fn tuner(shared: &Shared<'_>, clock: &Arc<Clock>) -> Tuner {
    let settings = shared.settings;
    let policy = requested_policy(shared).policy(shared.tunables().automove);
    let mut tuner = Tuner::new(policy, settings.move_budget, settings.engine.hash_seed)
        .with_status(Arc::clone(&shared.tuner_status));
    let now = clock.now();
    if let Some(options) = settings.profiling {
        let profiling = Profiling::start(shared.engine, options, Arc::clone(clock), now);
        let notifier = Arc::clone(&shared.notifier);
        tuner = tuner
            .with_profiling(profiling.with_waker(Box::new(move || notifier.wake(Driver::Tuner))));
    }
    follow_learning(shared, &mut tuner);
    tuner.observe(shared.engine, now);
    tuner
}

/// Turns the learning of the class table on or off, as options and commands request.
pub fn follow_learning(shared: &Shared<'_>, tuner: &mut Tuner) {
    tuner.learn_classes(shared.tunables().learn_classes);
}

fn requested_policy(shared: &Shared<'_>) -> RequestedPolicy {
    let settings = shared.settings;
    RequestedPolicy::new(settings.reassign_enabled.then(|| settings.page_policy.clone()))
}

/// Starts the drivers in `scope`; they end when the server stops.
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
    // Even if the crawler is off, because `lru_crawler enable` can turn it on later.
    named("lru-crawler").spawn_scoped(scope, || crawl(shared))?;
    Ok(())
}

fn maintain(shared: &Shared<'_>) {
    let mut backoff = Backoff::default();
    while shared.notifier.wait(Driver::Maintainer, backoff.wait()) != WakeReason::Shutdown {
        let moved = shared.engine.maintain_step(MAINTAINER_ITEMS_PER_STEP, shared.clock.now());
        shared.counters.maintainer_steps.fetch_add(1, Relaxed);
        backoff.step(moved > 0);
    }
}

/// Lets the active policy plan page moves, and carries out those and the ones that commands request. Also feeds the
/// sampled accesses to the profiler.
fn tune(shared: &Shared<'_>, mut tuner: Tuner) {
    let mut requested = requested_policy(shared);
    let mut pace = TunerPace::default();
    let mut classifier = LoadClassifier::default();
    let mut hit_time = HitTime::default();
    while shared.notifier.wait(Driver::Tuner, pace.wait()) != WakeReason::Shutdown {
        if let Some(policy) = requested.change(shared.tunables().automove) {
            tuner.set_policy(policy);
        }
        follow_learning(shared, &mut tuner);
        let at = shared.clock.moment();
        let load = classifier.load(shared.traffic_counts().bytes_read, at);
        let step = tuner_step(shared, &mut tuner, load, at, &mut hit_time);
        if let TunerStep::Requested { page_move, outcome } = &step {
            shared.watch.write(&WatchEvent::PageMove {
                victim: page_move.victim,
                receiver: page_move.receiver,
                is_begun: outcome.is_ok(),
            });
        }
        // A move may evict items, which watchers see.
        shared.deliver_watched();
        pace.step(&step, shared.traffic_counts().bytes_read);
    }
}

/// Runs one step, and adds its processor time to that of the profiler or, if pages moved, to that of the mover.
fn tuner_step(
    shared: &Shared<'_>,
    tuner: &mut Tuner,
    load: Load,
    at: Moment,
    hit_time: &mut HitTime,
) -> TunerStep {
    let start = sys::thread_processor_time();
    if let Some(profiling) = tuner.profiling_mut() {
        let traffic = shared.traffic_counts();
        if let Some(hit_time_us) = hit_time.update((traffic.timed_shares, traffic.timed_nanos)) {
            profiling.set_hit_time_us(hit_time_us);
        }
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
        // No page moved, so the time was spent on the policy's curves.
        TunerStep::Idle { .. } => add(&shared.counters.profile_cpu_nanos, acted),
        _ => add(&shared.counters.mover_cpu_nanos, acted),
    }
    step
}

/// Runs the crawls that commands request, and periodically an automatic one over all classes.
fn crawl(shared: &Shared<'_>) {
    let mut period = CrawlPeriod::default();
    loop {
        let woken = shared.notifier.wait(Driver::Crawler, period.get());
        let (before, start) = (crawl_counts(shared), shared.clock.now());
        let tunables = shared.tunables();
        if woken == WakeReason::Timeout && tunables.crawler_enabled {
            shared.crawls.expire_automatically(shared.engine.class_ids(), tunables.crawler_tocrawl);
        }
        if woken == WakeReason::Shutdown || finish_crawl(shared).is_break() {
            return;
        }
        if woken == WakeReason::Notified {
            continue;
        }
        let crawl = crawl_counts(shared).since(&before);
        period.step(crawl);
        if tunables.crawler_enabled {
            shared.watch.write(&WatchEvent::Crawl {
                elapsed_seconds: shared.clock.now().seconds.0 - start.seconds.0,
                next_seconds: period.get().as_secs(),
                examined: crawl.checked,
                reclaimed: crawl.reclaimed,
            });
            shared.deliver_watched();
        }
    }
}

/// Steps until the running crawl, if any, is over. Breaks when the server stops.
fn finish_crawl(shared: &Shared<'_>) -> ControlFlow<()> {
    let step = || shared.crawls.step(shared.engine, CRAWLER_CHUNKS_PER_STEP, shared.clock.now());
    while step() == CrawlStep::Working {
        let rest = Duration::from_micros(shared.tunables().crawler_sleep_us.into());
        if shared.notifier.wait(Driver::Crawler, rest) == WakeReason::Shutdown {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

fn crawl_counts(shared: &Shared<'_>) -> CrawlCounts {
    let counters = shared.engine.stats(shared.clock.now()).total.counters;
    CrawlCounts { checked: counters.crawler_items_checked, reclaimed: counters.crawler_reclaimed }
}

#[cfg(test)]
mod tests {
    use super::requested_policy;
    use crate::config::{self, Request};
    use crate::session::testing::Fixture;
    use slabwise_base::sync::lock;

    /// Returns the automover's window and ratio after these options and, if given, a command that sets the ratio.
    fn automover(options: &str, ratio: Option<f64>) -> [String; 2] {
        let args = ["-o", options].map(Into::into);
        let Ok(Request::Serve { settings, .. }) = config::parse(args) else {
            panic!("{options} are options");
        };
        let fixture = Fixture { settings: *settings, ..Fixture::new() };
        let shared = fixture.shared();
        if let Some(ratio) = ratio {
            lock(&shared.tunables).automove.age_ratio = ratio;
        }
        let policy = requested_policy(&shared).policy(shared.tunables().automove);
        assert_eq!(policy.name(), "automove", "{options}");
        ["window_len", "age_ratio"].map(|option| policy.value(option).expect("it has both"))
    }

    #[test]
    fn a_command_changes_only_its_own_automover_option() {
        let given = "page_policy=automove:window_len=30";
        assert_eq!(automover(given, None), ["30", "0.8"]);
        assert_eq!(automover(given, Some(0.5)), ["30", "0.5"]);
        let both = "slab_automove_window=40,slab_automove_ratio=0.6,page_policy=automove";
        assert_eq!(automover(both, None), ["40", "0.6"]);
        assert_eq!(automover(&format!("{both}:age_ratio=0.7"), None), ["40", "0.7"]);
        assert_eq!(automover("preset=memcached", Some(0.9)), ["10", "0.9"]);
    }
}
