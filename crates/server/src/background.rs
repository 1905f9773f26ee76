//! The threads that drive the engine's bounded steps. What a step does is the engine's business; how
//! often it is taken is decided here.
//!
//! Laws: a driver never sleeps but waits at the bell, which rings when the server stops, so stopping
//! is immediate; a step that found much to do shortens the next wait, one that found nothing lengthens
//! it.

use crate::settings::Settings;
use slabwise_base::Clock;
use slabwise_engine::{Engine, MoverStep};
use std::io;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Items that one step of the LRU maintainer may move.
const MAINTAIN_BUDGET: usize = 1_000;
const MAINTAIN_WAIT_MIN: Duration = Duration::from_millis(1);
const MAINTAIN_WAIT_MAX: Duration = Duration::from_millis(100);
/// Chunks that one step of the page mover may look at.
const MOVE_BUDGET_CHUNKS: usize = 1_024;
/// How soon a page move begins after it was asked for.
const MOVE_WAIT: Duration = Duration::from_millis(10);
/// The period of the page policy.
const POLICY_PERIOD: Duration = Duration::from_secs(1);

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
    engine: &'e Engine,
    clock: &'e Clock,
    settings: &'e Settings,
    bell: &'e Bell,
) -> io::Result<()> {
    let named = |name: &str| Builder::new().name(name.to_owned());
    if settings.lru_maintainer {
        named("lru-maintainer").spawn_scoped(scope, || maintain(engine, clock, bell))?;
    }
    if settings.slab_reassign {
        named("page-mover").spawn_scoped(scope, || move_pages(engine, clock, bell))?;
        named("page-policy").spawn_scoped(scope, || tick_policy(bell))?;
    }
    Ok(())
}

fn maintain(engine: &Engine, clock: &Clock, bell: &Bell) {
    let mut wait = MAINTAIN_WAIT_MIN;
    while bell.wait(wait).is_continue() {
        let moved = engine.maintain_step(MAINTAIN_BUDGET, clock.now());
        wait = next_wait(wait, moved);
    }
}

/// memcached's rule: twice as long when there was nothing to do, half when there was.
fn next_wait(wait: Duration, moved: usize) -> Duration {
    let next = if moved == 0 { wait * 2 } else { wait / 2 };
    next.clamp(MAINTAIN_WAIT_MIN, MAINTAIN_WAIT_MAX)
}

fn move_pages(engine: &Engine, clock: &Clock, bell: &Bell) {
    let mut wait = MOVE_WAIT;
    while bell.wait(wait).is_continue() {
        wait = match engine.mover_step(MOVE_BUDGET_CHUNKS, clock.now()) {
            MoverStep::Idle => MOVE_WAIT,
            MoverStep::Working | MoverStep::Done => Duration::ZERO,
        };
    }
}

/// The page policy's tick: the place where the tuner is driven.
fn tick_policy(bell: &Bell) {
    while bell.wait(POLICY_PERIOD).is_continue() {}
}

#[cfg(test)]
mod tests {
    use super::{Bell, MAINTAIN_WAIT_MAX, MAINTAIN_WAIT_MIN, next_wait};
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
        let mut wait = MAINTAIN_WAIT_MIN;
        for _ in 0..20 {
            wait = next_wait(wait, 0);
        }
        assert_eq!(wait, MAINTAIN_WAIT_MAX);
        assert_eq!(next_wait(wait, 1), MAINTAIN_WAIT_MAX / 2);
        for _ in 0..20 {
            wait = next_wait(wait, 1);
        }
        assert_eq!(wait, MAINTAIN_WAIT_MIN);
    }
}
