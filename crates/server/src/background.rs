//! The threads that drive the engine's bounded steps. What a step does is the engine's business; how
//! often it is taken is decided here.
//!
//! Laws: a driver never sleeps but waits at the bell, which rings when the server stops, so stopping
//! is immediate; a step that found much to do shortens the next wait, one that found nothing lengthens
//! it.

use crate::settings;
use crate::shared::{CrawlStep, Shared};
use slabwise_base::Ticks;
use slabwise_policy::{
    Automove, AutomoveOptions, Eager, PagePolicy, TailAge, TailAgeOptions, Worth,
};
use slabwise_tuner::{Tuner, TunerStep};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Items that one step of the LRU maintainer may move.
const MAINTAIN_BUDGET: usize = 1_000;
/// Chunks that one step of a crawl may look at.
const BUDGET_CHUNKS: usize = 1_024;
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(100);
/// A tick of the policies' time.
const TICK: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// What the drivers wait at.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Ends all waiting, now and later.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `period`; breaks when the bell rings.
    pub fn wait(&self, period: Duration) -> ControlFlow<()> {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (rung, _) = self
            .changed
            .wait_timeout_while(rung, period, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        if *rung { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Starts the drivers in `scope`; they end when `bell` rings.
pub fn start<'scope, 'e: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'e Shared<'e>,
    bell: &'e Bell,
) -> io::Result<()> {
    let settings = shared.settings;
    let named = |name: &str| Builder::new().name(name.to_owned());
    if settings.lru_maintainer {
        named("lru-maintainer").spawn_scoped(scope, || maintain(shared, bell))?;
    }
    if settings.reassign_enabled {
        named("tuner").spawn_scoped(scope, || tune(shared, bell))?;
    }
    if settings.crawler_enabled {
        named("lru-crawler").spawn_scoped(scope, || crawl(shared, bell))?;
    }
    Ok(())
}

fn maintain(shared: &Shared<'_>, bell: &Bell) {
    let mut wait = WAIT_MIN;
    while bell.wait(wait).is_continue() {
        let moved = shared.engine.maintain_step(MAINTAIN_BUDGET, shared.clock.now());
        wait = next_wait(wait, moved > 0);
    }
}

/// memcached's rule: twice as long when there was nothing to do, half when there was.
fn next_wait(wait: Duration, was_busy: bool) -> Duration {
    let next = if was_busy { wait / 2 } else { wait * 2 };
    next.clamp(WAIT_MIN, WAIT_MAX)
}

/// Lets the policy in force plan page moves, and carries out those and the ones that commands ask
/// for: without a pause while there are any.
fn tune(shared: &Shared<'_>, bell: &Bell) {
    let mut wish = PolicyWish::of(shared);
    let mut tuner = Tuner::new(wish.policy(shared), shared.settings.engine.hash_seed);
    let mut wait = WAIT_MIN;
    while bell.wait(wait).is_continue() {
        let present = PolicyWish::of(shared);
        if present != wish {
            wish = present;
            tuner.set_policy(wish.policy(shared));
        }
        wait = match tuner.step(shared.engine, shared.clock.now()) {
            TunerStep::Working => Duration::ZERO,
            TunerStep::Idle { ticks } => {
                let due = ticks.map_or(WAIT_MAX, |ticks| TICK * ticks);
                next_wait(wait, false).min(due.max(WAIT_MIN))
            }
        };
    }
}

/// What commands and options ask of the page policy.
#[derive(Clone, Copy, PartialEq)]
struct PolicyWish {
    automove_level: u32,
    window_seconds: u32,
    age_ratio: f64,
}

impl PolicyWish {
    fn of(shared: &Shared<'_>) -> PolicyWish {
        let tunables = &shared.tunables;
        PolicyWish {
            automove_level: tunables.automove_level.load(Relaxed),
            window_seconds: tunables.automove_window.load(Relaxed),
            age_ratio: tunables.automove_ratio.load(),
        }
    }

    fn policy(self, shared: &Shared<'_>) -> PagePolicy {
        match (self.automove_level, shared.settings.page_policy) {
            (0, _) | (1, settings::PagePolicy::None) => PagePolicy::None,
            (1, settings::PagePolicy::Automove) => {
                PagePolicy::Automove(Automove::new(AutomoveOptions {
                    window_len: self.window_seconds.max(1) as usize,
                    age_ratio: self.age_ratio,
                }))
            }
            (1, settings::PagePolicy::TailAge) => {
                PagePolicy::TailAge(TailAge::new(TailAgeOptions::default()))
            }
            (1, settings::PagePolicy::SpaceTime) => {
                PagePolicy::TailAge(TailAge::new(TailAgeOptions {
                    worth: Worth::SpaceTime,
                    ..TailAgeOptions::default()
                }))
            }
            _ => PagePolicy::Eager(Eager::default()),
        }
    }
}

/// Carries on the crawl that a command left here.
fn crawl(shared: &Shared<'_>, bell: &Bell) {
    let mut wait = WAIT_MIN;
    while bell.wait(wait).is_continue() {
        let pause = Duration::from_micros(shared.tunables.crawler_sleep_us.load(Relaxed).into());
        wait = match shared.crawls.step(shared.engine, BUDGET_CHUNKS, shared.clock.now()) {
            CrawlStep::Idle => next_wait(wait, false),
            CrawlStep::Working | CrawlStep::Done => pause,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Bell, WAIT_MAX, WAIT_MIN, next_wait};
    use std::time::Duration;

    #[test]
    fn the_bell_ends_a_wait_at_once() {
        let bell = Bell::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| bell.wait(Duration::from_secs(3600)));
            bell.ring();
            assert!(waiter.join().expect("the waiter ends").is_break());
        });
        assert!(bell.wait(Duration::from_secs(3600)).is_break(), "it stays rung");
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
}
