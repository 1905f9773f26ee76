//! Waiting for a condition, never for a time: the only place in the tests that reads a clock.

use std::time::{Duration, Instant};

/// A moment after which a wait has failed.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment this far from now.
    pub fn after(span: Duration) -> Deadline {
        #[expect(clippy::disallowed_methods, reason = "a test waits on a real process")]
        Deadline(Instant::now() + span)
    }

    /// Whether the moment has come.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// What is left until the moment; zero once it has come.
    pub fn left(self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "a test waits on a real process")]
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Asks again and again until `condition` holds; panics with `what` when it does not in time.
pub fn wait_until(what: &str, span: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::after(span);
    while !condition() {
        assert!(!deadline.is_over(), "not within {span:?}: {what}");
        pause();
    }
}

/// Leaves the processor to the server between two looks at it.
pub fn pause() {
    #[expect(clippy::disallowed_methods, reason = "between two polls of a real process")]
    std::thread::sleep(Duration::from_millis(5));
}
