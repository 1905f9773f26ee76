//! The cost of recomputing an item's value, in two bytes.
//!
//! Clients choose the unit of costs, for example microseconds. The engine only compares and adds costs. An item stores
//! its cost as an unsigned floating-point number of 16 bits, the *code* of the cost:
//!
//! ```text
//!  15        11 10            0
//! +------------+---------------+     e = 0: m              (0 to 2,047)
//! | exponent e |  mantissa m   |     e > 0: (2,048 + m) << (e - 1)
//! +------------+---------------+
//! ```
//!
//! Invariants: costs below 4,096 are stored exactly. The relative error of a larger cost is at most 1/4,096. A higher
//! code represents a higher cost.

/// The number of low bits of a code that hold the mantissa.
const MANTISSA_BITS: u32 = 11;
/// The leading 1 of a number with an exponent above 0. A code does not store this bit.
const IMPLICIT: u64 = 1 << MANTISSA_BITS;

/// The cost of recomputing an item's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u16);

impl Cost {
    /// The highest number of units that a client can supply.
    pub const UNITS_MAX: u32 = u32::MAX;

    /// Returns the cost with a code that is nearest to `units`.
    pub fn from_units(units: u32) -> Cost {
        let units = u64::from(units);
        if units < 2 * IMPLICIT {
            return Cost(units as u16);
        }
        let shift = units.ilog2() - MANTISSA_BITS;
        // Adding half of the last place rounds to the nearest mantissa. If the mantissa overflows, the sum below is the
        // code of the next power of two, which is the correct result.
        let mantissa = (units + (1 << (shift - 1))) >> shift;
        let code = u64::from(shift) * IMPLICIT + mantissa;
        Cost(code.min(u64::from(Cost::CODE_MAX)) as u16)
    }

    /// The highest valid code: that of the highest cost below 2^32.
    const CODE_MAX: u16 = ((32 - MANTISSA_BITS as u16) << MANTISSA_BITS) | (IMPLICIT as u16 - 1);

    /// Returns the number of units that this cost represents.
    pub fn units(self) -> u32 {
        let code = u64::from(self.0);
        match code >> MANTISSA_BITS {
            0 => code as u32,
            exponent => ((IMPLICIT + (code & (IMPLICIT - 1))) << (exponent - 1)) as u32,
        }
    }

    /// Returns the 16-bit code of this cost, which an item stores.
    pub fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns the cost with this code, or the highest cost if the code is above the highest valid code.
    pub fn from_bits(bits: u16) -> Cost {
        Cost(bits.min(Cost::CODE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;
    use crate::Random;

    #[test]
    fn costs_below_4096_are_exact_and_the_error_of_the_highest_is_bounded() {
        for units in 0..4_096 {
            assert_eq!(Cost::from_units(units).units(), units);
        }
        let highest = Cost::from_units(u32::MAX);
        assert_eq!(highest, Cost::from_bits(u16::MAX));
        assert!(u32::MAX - highest.units() <= u32::MAX / 4_096);
    }

    #[test]
    fn codes_ascend_with_costs_and_have_a_relative_error_of_at_most_1_in_4096() {
        let mut random = Random::new(7);
        let mut any_units = || (random.below(1 << 32) as u32) >> random.below(32);
        for _ in 0..100_000 {
            let (a, b) = (any_units(), any_units());
            let (low, high) = (Cost::from_units(a.min(b)), Cost::from_units(a.max(b)));
            assert!(low <= high, "the codes of {a} and {b} units have the order of the units");
            let cost = Cost::from_units(a);
            let error_units = u64::from(cost.units().abs_diff(a));
            assert!(
                error_units * 4_096 <= u64::from(a),
                "the code of {a} units has an error of {error_units} units, above 1/4,096"
            );
            assert_eq!(Cost::from_bits(cost.to_bits()), cost);
            assert_eq!(Cost::from_units(cost.units()), cost);
        }
    }
}
