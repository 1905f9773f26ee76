//! How numbers are told apart in bounded memory: by steps of 1 near 0, and of less than 1 % beyond, or of more where
//! octaves have fewer steps.
//!
//! ```text
//!   octave 0      1            2            3
//!   0 .. 128    128 .. 256   256 .. 512   512 .. 1024      128 steps each, of 1, 1, 2, 4, ...
//! ```

/// Steps of an octave, as a rule.
pub const OCTAVE_STEPS: usize = 128;

/// Octave and step of a number, where octaves have so many steps: a power of two.
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

/// The least number of a step, and that of the step behind it.
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

    fn steps_tile_the_numbers_and_are_narrow<const STEPS: usize>() {
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
    fn steps_of_any_number_an_octave_tile_the_numbers() {
        steps_tile_the_numbers_and_are_narrow::<OCTAVE_STEPS>();
        steps_tile_the_numbers_and_are_narrow::<16>();
        steps_tile_the_numbers_and_are_narrow::<1>();
    }
}
