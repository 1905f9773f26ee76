//! Lifetimes as clients send them.

/// When an item ends, before the server's clock gives it a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exptime {
    /// Never.
    #[default]
    Never,
    /// At once.
    Past,
    /// Up to 30 days: so many seconds from now. Beyond: a Unix time. Never 0.
    At(u32),
}

impl Exptime {
    /// What a number of a text protocol means: negative ones are past.
    #[inline]
    pub fn of_signed(number: i32) -> Exptime {
        match number {
            i32::MIN..0 => Exptime::Past,
            _ => Exptime::of_unsigned(number.unsigned_abs()),
        }
    }

    /// What a number of the binary protocol means, where none is negative.
    #[inline]
    pub fn of_unsigned(number: u32) -> Exptime {
        match number {
            0 => Exptime::Never,
            _ => Exptime::At(number),
        }
    }
}
