//! Tests wait until a condition holds, not for a fixed time. Only this file reads the clock and sleeps.

use std::time::{Duration, Instant};

/// The time by which a wait must have succeeded.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline that is `span` after now.
    pub fn after(span: Duration) -> Deadline {
        #[expect(clippy::disallowed_methods, reason = "the test waits for a real process")]
        Deadline(Instant::now() + span)
    }

    /// True if the deadline has passed.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time until the deadline, or zero if the deadline has passed.
    pub fn left(self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "the test waits for a real process")]
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Waits until `condition` holds. Panics after `span`, with `expectation`, which says in words what should happen.
pub fn wait_until(expectation: &str, span: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::after(span);
    while !condition() {
        assert!(!deadline.is_over(), "within {span:?} this should happen: {expectation}");
        pause();
    }
}

/// Sleeps for 5 ms between two checks of a condition, so that the server can use the processor.
pub fn pause() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test sleeps between two polls of a real process"
    )]
    std::thread::sleep(Duration::from_millis(5));
}
