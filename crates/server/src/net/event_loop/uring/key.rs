//! The key of a request, which its completions have: what the request is about, and for which socket.
//!
//! ```text
//!   bit 61       56             32          0
//!     | subject  |  generation  |  slot     |
//! ```

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Receive,
    Send,
    PollInput,
    PollOutput,
    PollError,
    Mailbox,
    DatagramInput,
    DatagramOutput,
}

const SUBJECTS: [Subject; 8] = [
    Subject::Receive,
    Subject::Send,
    Subject::PollInput,
    Subject::PollOutput,
    Subject::PollError,
    Subject::Mailbox,
    Subject::DatagramInput,
    Subject::DatagramOutput,
];
const SUBJECT_SHIFT: u32 = 56;
const GENERATION_SHIFT: u32 = 32;
/// The number of generations, after which they begin again with 0.
const GENERATIONS: u32 = 1 << (SUBJECT_SHIFT - GENERATION_SHIFT);

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub subject: Subject,
    /// The generation of the socket, 0 for a source that is never removed.
    pub generation: u32,
    /// The slot of the connection, or the index of the UDP socket.
    pub slot: usize,
}

impl Key {
    pub fn pack(self) -> u64 {
        let Key { subject, generation, slot } = self;
        debug_assert!(slot <= u32::MAX as usize, "a slot has 32 bits");
        (subject as u64) << SUBJECT_SHIFT | u64::from(generation) << GENERATION_SHIFT | slot as u64
    }

    pub fn unpack(packed: u64) -> Key {
        Key {
            subject: SUBJECTS[(packed >> SUBJECT_SHIFT) as usize],
            generation: (packed >> GENERATION_SHIFT) as u32 % GENERATIONS,
            slot: (packed & u64::from(u32::MAX)) as usize,
        }
    }
}

/// Returns the generation after this one.
pub(super) fn next_generation(generation: u32) -> u32 {
    (generation + 1) % GENERATIONS
}

#[cfg(test)]
mod tests {
    use super::{GENERATIONS, Key, SUBJECTS, next_generation};

    #[test]
    fn a_key_contains_its_parts() {
        for (index, subject) in SUBJECTS.into_iter().enumerate() {
            assert_eq!(subject as usize, index);
            for (generation, slot) in [(0, 0), (1, 2), (GENERATIONS - 1, u32::MAX as usize)] {
                let key = Key { subject, generation, slot };
                assert_eq!(Key::unpack(key.pack()), key);
                assert!(key.pack() < 1 << 62, "two bits are left");
            }
        }
        assert_eq!(next_generation(GENERATIONS - 1), 0);
    }
}
