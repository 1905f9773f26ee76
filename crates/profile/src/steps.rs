//! How numbers are told apart in bounded memory: by steps of 1 near 0, and of less than 1 % beyond.
//!
//! ```text
//!   octave 0      1            2            3
//!   0 .. 128    128 .. 256   256 .. 512   512 .. 1024      128 steps each, of 1, 1, 2, 4, ...
//! ```

/// Steps of one octave.
pub const OCTAVE_STEPS: usize = 128;
const STEPS: u64 = OCTAVE_STEPS as u64;

/// Octave and step of a number.
#[inline]
pub fn place(number: u64) -> (usize, usize) {
    if number < STEPS {
        return (0, number as usize);
    }
    let octave = number.ilog2() - STEPS.ilog2() + 1;
    (octave as usize, ((number >> (octave - 1)) - STEPS) as usize)
}

/// The least number of a step, and that of the step behind it.
pub fn edges(octave: usize, step: usize) -> (u64, u64) {
    let step = step as u64;
    match octave {
        0 => (step, step + 1),
        _ => ((STEPS + step) << (octave - 1), (STEPS + step + 1) << (octave - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::{OCTAVE_STEPS, STEPS, edges, place};

    #[test]
    fn steps_tile_the_numbers_and_are_narrow() {
        let mut expected = 0;
        for octave in 0..40 {
            for step in 0..OCTAVE_STEPS {
                let (from, to) = edges(octave, step);
                assert_eq!(from, expected);
                assert!(place(from) == (octave, step) && place(to - 1) == (octave, step));
                assert!(to - from == 1 || (to - from) * STEPS <= from);
                expected = to;
            }
        }
    }
}
