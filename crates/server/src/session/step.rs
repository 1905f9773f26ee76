//! How far a session came.

/// What a call of [`Session::consume`](super::Session::consume) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What the session wants next.
    pub next: Next,
}

/// What a session wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Read,
    /// To be called again, even without new input, once the output has drained and other
    /// connections had their turn.
    Yield,
    /// The connection closed, once the output has drained.
    Close,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Took these bytes; there may be more to do.
    Took(usize),
    /// Took these bytes; nothing more to do for now.
    Pause(usize, Next),
}

impl Step {
    /// The step as it is seen from where this many bytes before it were taken, too.
    #[inline]
    pub(super) fn behind(self, count: usize) -> Step {
        match self {
            Step::Took(more) => Step::Took(count + more),
            Step::Pause(more, next) => Step::Pause(count + more, next),
        }
    }
}
