//! Groups of adjacent numbers (*steps*) for histograms in bounded memory. An *octave* is the numbers from a power of
//! two to the next, divided into steps of equal width; octave 0 starts at 0. Near 0 the width is 1. With 128 steps in
//! an octave the width is less than 1 % of the number; with fewer steps it is larger.
//!
//! ```text
//!   octave 0      1            2            3
//!   0 .. 128    128 .. 256   256 .. 512   512 .. 1024      128 steps each, of 1, 1, 2, 4, ...
//! ```

/// The number of steps in an octave of most histograms.
pub const OCTAVE_STEPS: usize = 128;

/// Returns the index of a number's octave, and the index of the number's step within the octave. `STEPS`, the number of
/// steps in an octave, must be a power of two.
#[inline]
pub fn place<const STEPS: usize>(number: u64) -> (usize, usize) {
    const { assert!(STEPS.is_power_of_two()) };
    let steps = STEPS as u64;
    if number < steps {
        return (0, number as usize);
    }
    let octave = number.ilog2() - steps.ilog2() + 1;
    (octave as usize, ((number >> (octave - 1)) - steps) as usize)
}

/// Returns the smallest number of a step, and the smallest number of the next step.
pub fn edges<const STEPS: usize>(octave: usize, step: usize) -> (u64, u64) {
    let (steps, step) = (STEPS as u64, step as u64);
    match octave {
        0 => (step, step + 1),
        _ => ((steps + step) << (octave - 1), (steps + step + 1) << (octave - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::{OCTAVE_STEPS, edges, place};

    fn check_that_steps_cover_all_numbers_and_are_narrow<const STEPS: usize>() {
        let mut expected = 0;
        for octave in 0..40 {
            for step in 0..STEPS {
                let (from, to) = edges::<STEPS>(octave, step);
                assert_eq!(from, expected);
                assert!([from, to - 1].iter().all(|&at| place::<STEPS>(at) == (octave, step)));
                assert!(to - from == 1 || (to - from) * STEPS as u64 <= from);
                expected = to;
            }
        }
    }

    #[test]
    fn octaves_of_any_number_of_steps_cover_all_numbers() {
        check_that_steps_cover_all_numbers_and_are_narrow::<OCTAVE_STEPS>();
        check_that_steps_cover_all_numbers_and_are_narrow::<16>();
        check_that_steps_cover_all_numbers_and_are_narrow::<1>();
    }
}
