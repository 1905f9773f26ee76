//! The cost of recomputing an item, in two bytes.
//!
//! Clients choose the unit of costs, for example microseconds; the engine only compares and adds them. A cost is
//! stored as a short unsigned floating-point number:
//!
//! ```text
//!  15        11 10            0
//! +------------+---------------+     e = 0: m              (0 to 2,047)
//! | exponent e |  mantissa m   |     e > 0: (2,048 + m) << (e - 1)
//! +------------+---------------+
//! ```
//!
//! Invariants: costs below 4,096 are exact; larger costs are stored with an error of at most 1/4,096; a higher code
//! is a higher cost.

const MANTISSA_BITS: u32 = 11;
const IMPLICIT: u64 = 1 << MANTISSA_BITS;

/// The cost of recomputing an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u16);

impl Cost {
    /// The largest number of units of a cost.
    pub const UNITS_MAX: u32 = u32::MAX;

    /// Returns the storable cost nearest to `units`.
    pub fn from_units(units: u32) -> Cost {
        let units = u64::from(units);
        if units < 2 * IMPLICIT {
            return Cost(units as u16);
        }
        let shift = units.ilog2() - MANTISSA_BITS;
        // Rounds to nearest. A carry out of the mantissa yields the next power of two, which has the next code.
        let mantissa = (units + (1 << (shift - 1))) >> shift;
        let code = u64::from(shift) * IMPLICIT + mantissa;
        Cost(code.min(u64::from(Cost::CODE_MAX)) as u16)
    }

    /// The code of the highest cost below 2^32.
    const CODE_MAX: u16 = ((32 - MANTISSA_BITS as u16) << MANTISSA_BITS) | (IMPLICIT as u16 - 1);

    /// Returns the number of units.
    pub fn units(self) -> u32 {
        let code = u64::from(self.0);
        match code >> MANTISSA_BITS {
            0 => code as u32,
            exponent => ((IMPLICIT + (code & (IMPLICIT - 1))) << (exponent - 1)) as u32,
        }
    }

    /// Returns the code that an item stores.
    pub fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns the cost with this code. A code beyond the largest one yields the highest cost.
    pub fn from_bits(bits: u16) -> Cost {
        Cost(bits.min(Cost::CODE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;
    use crate::Random;

    #[test]
    fn small_costs_are_exact_and_the_largest_is_close() {
        for units in 0..4_096 {
            assert_eq!(Cost::from_units(units).units(), units);
        }
        let most = Cost::from_units(u32::MAX);
        assert_eq!(most, Cost::from_bits(u16::MAX));
        assert!(u32::MAX - most.units() <= u32::MAX / 4_096);
    }

    #[test]
    fn stored_costs_keep_their_order_and_a_precision_of_1_in_4096() {
        let mut random = Random::new(7);
        let mut any = || (random.below(1 << 32) as u32) >> random.below(32);
        for _ in 0..100_000 {
            let (a, b) = (any(), any());
            let (low, high) = (Cost::from_units(a.min(b)), Cost::from_units(a.max(b)));
            assert!(low <= high, "{a} and {b}");
            let kept = Cost::from_units(a);
            assert!(u64::from(kept.units().abs_diff(a)) * 4_096 <= u64::from(a), "{a}: {kept:?}");
            assert_eq!(Cost::from_bits(kept.to_bits()), kept);
            assert_eq!(Cost::from_units(kept.units()), kept);
        }
    }
}
