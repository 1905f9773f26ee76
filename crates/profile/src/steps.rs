//! Steps that group numbers in bounded memory: steps of 1 near 0, and of less than 1 % of the number above; wider ones
//! if octaves have fewer steps.
//!
//! ```text
//!   octave 0      1            2            3
//!   0 .. 128    128 .. 256   256 .. 512   512 .. 1024      128 steps each, of 1, 1, 2, 4, ...
//! ```

/// The default number of steps in an octave.
pub const OCTAVE_STEPS: usize = 128;

/// The octave and step of a number, with this many steps in an octave, a power of two.
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

/// The smallest number of a step, and that of the next step.
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

    fn steps_cover_all_numbers_and_are_narrow<const STEPS: usize>() {
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
        steps_cover_all_numbers_and_are_narrow::<OCTAVE_STEPS>();
        steps_cover_all_numbers_and_are_narrow::<16>();
        steps_cover_all_numbers_and_are_narrow::<1>();
    }
}
