//! Hit densities: how many hits per tick an item in the cache is expected to have, by its [`Uses`] and its age.
//!
//! A tick is the time in which the cache stores 1/1,024 of its memory. The age of an item is the time since its last
//! request.

use crate::Uses;

/// The number of levels of the age. Four levels double the age.
pub const AGE_LEVELS: usize = 52;

/// A value for each level of the age.
pub type ByAge = [f64; AGE_LEVELS];

/// Returns the level of an age in ticks.
#[inline]
pub fn age_level(age_ticks: u32) -> usize {
    if age_ticks < 4 {
        return age_ticks as usize;
    }
    let power = age_ticks.ilog2();
    let quarter = (age_ticks >> (power - 2)) & 3;
    (((power - 1) * 4 + quarter) as usize).min(AGE_LEVELS - 1)
}

/// Returns the lowest age of a level, in ticks.
pub fn age_from(level: usize) -> f64 {
    match level {
        0..4 => level as f64,
        _ => (4 + level % 4) as f64 * ((level / 4 - 1) as f64).exp2(),
    }
}

/// The binary logarithm of a positive number, in steps of 1/1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Log2(pub i32);

impl Log2 {
    /// The number of steps for a factor of two, as a power of two.
    const STEP_BITS: u32 = 10;
    const STEPS: f64 = (1 << Log2::STEP_BITS) as f64;

    /// A number below the logarithm of every density.
    pub const MIN: Log2 = Log2(i32::MIN / 4);
    /// A number above the logarithm of every density.
    pub const MAX: Log2 = Log2(i32::MAX / 4);

    /// Returns the logarithm of a positive number.
    pub fn of(number: f64) -> Log2 {
        Log2((number.log2() * Log2::STEPS).round() as i32)
    }

    /// Returns the logarithm of an integer above 0, with an error of at most 0.09. This takes much less time than
    /// [`Log2::of`].
    #[inline]
    pub fn of_integer(number: u64) -> Log2 {
        let power = number.ilog2();
        // The bits after the highest one, as a fraction. Between two powers of two, the function is a straight line.
        let fraction = (number << (u64::BITS - 1 - power) << 1) >> (u64::BITS - Log2::STEP_BITS);
        Log2(((power << Log2::STEP_BITS) + fraction as u32) as i32)
    }

    /// Returns the logarithm itself.
    #[inline]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / Log2::STEPS
    }

    /// Returns the number of which this is the logarithm.
    pub fn number(self) -> f64 {
        self.as_f64().exp2()
    }
}

impl std::ops::Add for Log2 {
    type Output = Log2;

    #[inline]
    fn add(self, other: Log2) -> Log2 {
        Log2(self.0 + other.0)
    }
}

impl std::ops::Sub for Log2 {
    type Output = Log2;

    #[inline]
    fn sub(self, other: Log2) -> Log2 {
        Log2(self.0 - other.0)
    }
}

/// The logarithms of the densities of all items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Densities {
    /// One entry for each value of [`Uses::to_bits`], with an entry for each level of the age.
    logs: Box<[[i16; AGE_LEVELS]; Uses::BITS_COUNT]>,
}

impl Densities {
    /// Returns the densities with the values in hits per tick that `of` returns for each value of [`Uses`].
    pub fn new(of: impl Fn(Uses) -> ByAge) -> Densities {
        let by_bits = |bits| {
            of(Uses::from_bits(bits as u8))
                .map(|density| Log2::of(density).0.clamp(i16::MIN.into(), i16::MAX.into()) as i16)
        };
        Densities { logs: Box::new(std::array::from_fn(by_bits)) }
    }

    /// Returns the logarithm of the density of an item with these uses and this age.
    #[inline]
    pub fn log(&self, uses: Uses, age_ticks: u32) -> Log2 {
        Log2(i32::from(self.logs[usize::from(uses.to_bits())][age_level(age_ticks)]))
    }
}

impl Default for Densities {
    /// Returns densities that depend only on the age: the order of an LRU.
    fn default() -> Densities {
        let by_age = std::array::from_fn(|level| 1.0 / (age_from(level) + 1.0));
        Densities::new(|_| by_age)
    }
}

#[cfg(test)]
mod tests {
    use super::{AGE_LEVELS, Densities, Log2, age_from, age_level};
    use crate::Uses;

    #[test]
    fn every_age_is_in_its_level() {
        for age in (0..5_000).chain([1 << 14, (1 << 14) - 1]) {
            let level = age_level(age);
            let is_inside = age_from(level) <= f64::from(age)
                && (level == AGE_LEVELS - 1 || f64::from(age) < age_from(level + 1));
            assert!(is_inside, "age {age}, level {level}");
        }
        assert_eq!(age_level(u32::MAX), AGE_LEVELS - 1);
    }

    #[test]
    fn the_default_densities_fall_with_the_age() {
        let densities = Densities::default();
        let logs: Vec<Log2> =
            [0, 1, 3, 7, 100, 100_000].map(|age| densities.log(Uses::FIRST, age)).into();
        assert_eq!(logs[..3], [Log2::of(1.0), Log2::of(0.5), Log2::of(0.25)]);
        assert!(logs.is_sorted_by(|younger, older| younger > older), "{logs:?}");
    }

    #[test]
    fn a_logarithm_has_a_relative_error_below_a_thousandth() {
        for number in [1e-6, 0.01, 0.7, 1.0, 3.0, 1e6] {
            let error = Log2::of(number).number() / number - 1.0;
            assert!(error.abs() < 0.001, "{number}: {error}");
        }
    }

    #[test]
    fn the_logarithm_of_an_integer_is_exact_for_powers_of_two_and_ascends() {
        assert_eq!(
            [1, 2, 1 << 40].map(|number| Log2::of_integer(number).as_f64()),
            [0.0, 1.0, 40.0]
        );
        for number in 1..10_000 {
            let log = Log2::of_integer(number);
            let error = (number as f64).log2() - log.as_f64();
            assert!((0.0..0.09).contains(&error), "{number}: {error}");
            assert!(Log2::of_integer(number + 1) >= log);
        }
    }
}
