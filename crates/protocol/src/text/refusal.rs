//! Why a line cannot be acted on.

/// A line that cannot be acted on: the reply, and the length of the data that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reply: &'static [u8],
    pub(super) skip_len: usize,
    /// Whether the client is answered even if it wants no answer.
    pub(super) is_aloud: bool,
}

impl Refusal {
    pub(super) fn new(reply: &'static [u8]) -> Refusal {
        Refusal { reply, skip_len: 0, is_aloud: false }
    }

    pub(super) fn aloud(reply: &'static [u8]) -> Refusal {
        Refusal { is_aloud: true, ..Refusal::new(reply) }
    }
}
