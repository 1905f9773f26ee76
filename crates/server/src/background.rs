//! The background threads. Each thread alternates between a bounded step of work and a wait. The engine and the tuner
//! do the work of a step, and the types [`MaintainerPace`], [`TunerPace`] and [`CrawlPeriod`] of the tuner's crate
//! compute the duration of a wait.
//!
//! Invariant: a background thread waits only on [`Shared::notifier`] and never calls `sleep`. The notifier ends the
//! wait when the server stops, and when a command has work for the thread.

use crate::os::sys;
use crate::shared::{BackgroundThread, CrawlStep, Shared, WakeReason, WatchEvent};
use slabwise_base::{Clock, Moment};
use slabwise_engine as engine;
use slabwise_policy::sizes::LearnerOptions;
use slabwise_tuner::{
    CRAWLER_CHUNKS_PER_STEP, CrawlCounts, CrawlPeriod, HitTime, MAINTAINER_ROUNDS_PER_STEP,
    MaintainerPace, Profiling, RequestedPolicy, StepTime, Tuner, TunerPace, TunerStep,
};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

/// The pause between two steps of the sweep.
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

/// Makes the tuner with the page policy, the profiling and the learning of class tables that the options select. The
/// caller calls this function once, before the server serves requests.
pub fn tuner(shared: &Shared<'_>, clock: &Arc<Clock>) -> Tuner {
    let settings = shared.settings;
    let policy = requested_policy(shared).policy(shared.tunables().automove);
    let mut tuner = Tuner::new(policy, settings.move_budget, settings.engine.hash_seed)
        .with_status(Arc::clone(&shared.tuner_status));
    let now = clock.now();
    if let Some(options) = settings.profiling {
        let profiling = Profiling::start(shared.engine, options, Arc::clone(clock), now);
        let notifier = Arc::clone(&shared.notifier);
        tuner = tuner.with_profiling(
            profiling.with_waker(Box::new(move || notifier.wake(BackgroundThread::Tuner))),
        );
    }
    follow_learning(shared, &mut tuner);
    tuner.observe(shared.engine, now);
    tuner
}

/// Turns the learning of the class table on or off in the tuner, according to the tunable `set_learns_classes`. The
/// option `-o classes` and the command `slabs classes` set this tunable.
pub fn follow_learning(shared: &Shared<'_>, tuner: &mut Tuner) {
    let method = shared.settings.classes_method;
    let options = || LearnerOptions { method, ..LearnerOptions::default() };
    tuner.set_learns_classes(shared.tunables().set_learns_classes.then(options));
}

/// Returns the page policy of the options, or no policy if page moves are disabled.
fn requested_policy(shared: &Shared<'_>) -> RequestedPolicy {
    let settings = shared.settings;
    RequestedPolicy::new(settings.reassign_enabled.then(|| settings.page_policy.clone()))
}

/// Starts the background threads in `scope`, and returns their handles. The threads end when the server stops.
pub fn start<'scope, 'e: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'e Shared<'e>,
    tuner: Tuner,
) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
    let settings = shared.settings;
    let named = |name: &str| Builder::new().name(name.to_owned());
    let mut threads = Vec::new();
    if settings.lru_maintainer {
        threads.push(named("lru-maintainer").spawn_scoped(scope, || run_maintainer(shared))?);
    }
    if settings.runs_tuner() {
        threads.push(named("tuner").spawn_scoped(scope, || run_tuner(shared, tuner))?);
    }
    // The thread runs even if the crawler is disabled, because the command `lru_crawler enable` can enable it later.
    threads.push(named("lru-crawler").spawn_scoped(scope, || run_crawler(shared))?);
    Ok(threads)
}

/// Runs the LRU maintainer: moves items between the queues of their classes until the server stops.
fn run_maintainer(shared: &Shared<'_>) {
    let mut pace = MaintainerPace::default();
    while shared.notifier.wait(BackgroundThread::Maintainer, pace.wait()) != WakeReason::Shutdown {
        let _step = shared.background_step();
        let moved = shared.engine.maintain_step(MAINTAINER_ROUNDS_PER_STEP, shared.clock.now());
        shared.counters.maintainer_steps.fetch_add(1, Relaxed);
        pace.step(moved, shared.engine.work_time());
    }
}

/// Runs the tuner until the server stops. In each step the tuner passes the sampled accesses to the profiler, the page
/// policy plans page moves, and the mover carries out planned moves and moves that commands request.
fn run_tuner(shared: &Shared<'_>, mut tuner: Tuner) {
    let mut requested = requested_policy(shared);
    let mut pace = TunerPace::default();
    let mut hit_time = HitTime::default();
    while shared.notifier.wait(BackgroundThread::Tuner, pace.wait()) != WakeReason::Shutdown {
        // A command may have changed the automover's settings.
        if let Some(policy) = requested.change(shared.tunables().automove) {
            tuner.set_policy(policy);
        }
        follow_learning(shared, &mut tuner);
        let at = shared.clock.moment();
        let step = {
            let _step = shared.background_step();
            tuner_step(shared, &mut tuner, at, &mut hit_time)
        };
        shared.counters.tuner_steps.fetch_add(1, Relaxed);
        for (planned, outcome) in tuner.take_begun_moves() {
            shared.watch.write(&WatchEvent::PageMove {
                victim: planned.victim,
                receiver: planned.receiver,
                is_begun: outcome.is_ok(),
            });
        }
        // A page move may have evicted items. Their events must reach the watchers before this thread waits.
        shared.deliver_watched();
        pace.step(&step, shared.traffic_counts().bytes_read);
    }
}

/// Runs one step of the tuner. Adds the processor time of [`Tuner::observe`] to the profiler's counter. Adds the
/// processor time of [`Tuner::act`] to the mover's counter, or to the profiler's counter if the mover did nothing.
fn tuner_step(
    shared: &Shared<'_>,
    tuner: &mut Tuner,
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
    let (observed, begun_nanos) = (sys::thread_processor_time(), shared.clock.nanos());
    let step = tuner.act(shared.engine, shared.worker_time(), at);
    let add = |counter: &AtomicU64, time: Duration| {
        counter.fetch_add(time.as_nanos() as u64, Relaxed);
    };
    let action_time = sys::thread_processor_time() - observed;
    add(&shared.counters.profile_cpu_nanos, observed - start);
    let elapsed = Duration::from_nanos(shared.clock.nanos().saturating_sub(begun_nanos));
    let used_by_mover = tuner.charge(StepTime { processor: action_time, elapsed });
    let counters = &shared.counters;
    add(
        if used_by_mover { &counters.mover_cpu_nanos } else { &counters.profile_cpu_nanos },
        action_time,
    );
    step
}

/// Runs the crawler until the server stops: the crawls that commands request and, while the crawler is enabled, a
/// periodic automatic crawl over all classes.
fn run_crawler(shared: &Shared<'_>) {
    let mut period = CrawlPeriod::default();
    loop {
        let woken = shared.notifier.wait(BackgroundThread::Crawler, period.get());
        let (before, start) = (crawl_counts(shared), shared.clock.now());
        let tunables = shared.tunables();
        if woken == WakeReason::Timeout && tunables.crawler_enabled {
            shared.crawls.expire_automatically(shared.engine.class_ids(), tunables.crawler_tocrawl);
        }
        if woken == WakeReason::Shutdown || finish_crawl(shared).is_break() {
            return;
        }
        if finish_sweep(shared).is_break() {
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

/// Runs steps of the crawl that removes expired items, with a wait after each step, until the crawl is done. Returns
/// `Break` if the server stops during a wait.
fn finish_crawl(shared: &Shared<'_>) -> ControlFlow<()> {
    let step = || {
        let _step = shared.background_step();
        shared.crawls.step(shared.engine, CRAWLER_CHUNKS_PER_STEP, shared.clock.now())
    };
    let pause = || Duration::from_micros(shared.tunables().crawler_sleep_us.into());
    finish(shared, || step() == CrawlStep::Working, pause)
}

/// Runs steps of the sweep, with a wait after each step, until no sweep is in progress. Returns `Break` if the server
/// stops during a wait.
fn finish_sweep(shared: &Shared<'_>) -> ControlFlow<()> {
    let step = || {
        let _step = shared.background_step();
        shared.engine.sweep_step(CRAWLER_CHUNKS_PER_STEP, shared.clock.now())
    };
    finish(shared, || step() == engine::CrawlStep::More, || SWEEP_PAUSE)
}

/// Repeats a step of the crawler's thread, with a wait after each step, until it returns that there is no more work.
/// Returns `Break` if the server stops during a wait.
fn finish(
    shared: &Shared<'_>,
    step_has_more: impl Fn() -> bool,
    pause: impl Fn() -> Duration,
) -> ControlFlow<()> {
    while step_has_more() {
        if shared.notifier.wait(BackgroundThread::Crawler, pause()) == WakeReason::Shutdown {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

/// Returns the numbers of items that all crawls have checked and reclaimed since the start of the server.
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

    /// Returns the options `window_len` and `age_ratio` of the automover in a server with these options of `-o`. If
    /// `ratio` is not `None`, a command first sets the ratio to this value.
    fn automover_options(options: &str, ratio: Option<f64>) -> [String; 2] {
        let args = ["-o", options].map(Into::into);
        let Ok(Request::Serve { settings, .. }) = config::parse(args, 4) else {
            panic!("the options {options} must be accepted");
        };
        let fixture = Fixture { settings: *settings, ..Fixture::new() };
        let shared = fixture.shared();
        if let Some(ratio) = ratio {
            lock(&shared.tunables).automove.age_ratio = ratio;
        }
        let policy = requested_policy(&shared).policy(shared.tunables().automove);
        assert_eq!(policy.name(), "automove", "the policy with -o {options}");
        ["window_len", "age_ratio"]
            .map(|option| policy.value(option).expect("the automover has both options"))
    }

    #[test]
    fn a_command_that_sets_the_ratio_keeps_the_window_of_the_automover() {
        let given = "page_policy=automove:window_len=30";
        assert_eq!(automover_options(given, None), ["30", "0.8"]);
        assert_eq!(automover_options(given, Some(0.5)), ["30", "0.5"]);
        let both = "slab_automove_window=40,slab_automove_ratio=0.6,page_policy=automove";
        assert_eq!(automover_options(both, None), ["40", "0.6"]);
        assert_eq!(automover_options(&format!("{both}:age_ratio=0.7"), None), ["40", "0.7"]);
        assert_eq!(automover_options("preset=memcached", Some(0.9)), ["10", "0.9"]);
    }
}
