//! The kinds of keys. The number of a key determines its kind.

/// What the values of a key are, and which requests change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that describes itself.
    Whole,
    /// A number that only increases. It starts at the number of its version times [`STEPS`].
    Up,
    /// A number that only decreases. It starts at the number of its version times [`STEPS`], plus half of [`STEPS`].
    Down,
    /// Parts that describe themselves: one of a store, and one of each append and prepend.
    Parts,
}

/// The difference of the numbers of two successive versions of a counter.
pub const STEPS: u64 = 1 << 24;

impl Kind {
    /// Returns the kind of a key. Of sixteen keys, two are counters and two have values with parts.
    pub fn of(key: u32) -> Kind {
        match key % 16 {
            3 => Kind::Up,
            5 => Kind::Down,
            8 | 11 => Kind::Parts,
            _ => Kind::Whole,
        }
    }

    /// True if the value is a number.
    pub fn is_number(self) -> bool {
        matches!(self, Kind::Up | Kind::Down)
    }

    /// Returns the number that a store of this version stores.
    pub fn number(self, version: u32) -> u64 {
        let base = u64::from(version) * STEPS;
        if self == Kind::Down { base + STEPS / 2 } else { base }
    }

    /// Returns the version of a number, and how often it was changed by one. `None` if no version has the number.
    pub fn read_number(self, number: u64) -> Option<(u32, u64)> {
        let version = u32::try_from(number / STEPS).ok()?;
        let steps = match self {
            Kind::Down => self.number(version).checked_sub(number)?,
            _ => number - self.number(version),
        };
        Some((version, steps))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, STEPS};

    #[test]
    fn a_number_names_its_version_and_the_number_of_its_steps() {
        assert_eq!(Kind::Up.read_number(7 * STEPS), Some((7, 0)));
        assert_eq!(Kind::Up.read_number(Kind::Up.number(7) + 5), Some((7, 5)));
        assert_eq!(Kind::Down.read_number(Kind::Down.number(7)), Some((7, 0)));
        assert_eq!(Kind::Down.read_number(Kind::Down.number(7) - 5), Some((7, 5)));
        assert_eq!(Kind::Down.read_number(Kind::Down.number(7) + 1), None);
        assert_eq!(Kind::Up.read_number(u64::MAX), None);
    }
}
