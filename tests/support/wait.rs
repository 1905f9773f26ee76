//! Waiting for conditions instead of fixed times. No other test code reads a clock.

use std::time::{Duration, Instant};

/// The time by which a wait must have succeeded.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline this far from now.
    pub fn after(span: Duration) -> Deadline {
        #[expect(clippy::disallowed_methods, reason = "the test waits for a real process")]
        Deadline(Instant::now() + span)
    }

    /// True if the deadline has passed.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time left until the deadline, zero after it.
    pub fn left(self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "the test waits for a real process")]
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Polls until `condition` holds; panics with `what` after `span`.
pub fn wait_until(what: &str, span: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::after(span);
    while !condition() {
        assert!(!deadline.is_over(), "not within {span:?}: {what}");
        pause();
    }
}

/// Sleeps briefly between two polls, so that the server gets the processor.
pub fn pause() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test sleeps between two polls of a real process"
    )]
    std::thread::sleep(Duration::from_millis(5));
}
