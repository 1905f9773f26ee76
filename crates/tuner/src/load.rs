//! Whether clients are being served, by the bytes that they send.

use slabwise_base::Moment;

/// Whether clients are being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// They ask for little or nothing.
    Idle,
    /// They ask for so much that a core that is taken from them is missed.
    Serving,
}

/// Classifies the load by the rate at which bytes arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadClassifier {
    looked_nanos: u64,
    bytes_read: u64,
    is_serving: bool,
}

impl LoadClassifier {
    /// Between two looks, at least: long beside a request.
    const LOOK_NANOS: u64 = 10_000_000;
    /// From this rate on clients are being served: some ten thousand requests a second.
    const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

    /// The load now, when clients have sent this many bytes since the start; [`Load::Idle`] before the first look.
    pub fn load(&mut self, bytes_read: u64, at: Moment) -> Load {
        let nanos = at.nanos.saturating_sub(self.looked_nanos);
        if nanos >= LoadClassifier::LOOK_NANOS {
            let bytes = u128::from(bytes_read.saturating_sub(self.bytes_read));
            let bytes_per_second = bytes * 1_000_000_000 / u128::from(nanos);
            self.is_serving = bytes_per_second >= u128::from(Self::BYTES_PER_SECOND_MIN);
            (self.looked_nanos, self.bytes_read) = (at.nanos, bytes_read);
        }
        if self.is_serving { Load::Serving } else { Load::Idle }
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, LoadClassifier};
    use slabwise_base::Moment;

    #[test]
    fn clients_that_send_a_mebibyte_a_second_are_served_until_a_look_finds_less() {
        let mut classifier = LoadClassifier::default();
        let mut load =
            |bytes, millis: u64| classifier.load(bytes, Moment::from_nanos(millis * 1_000_000));
        assert_eq!(load(1 << 20, 9), Load::Idle, "it has not looked yet");
        assert_eq!(load(1 << 20, 10), Load::Serving);
        assert_eq!(load(1 << 20, 19), Load::Serving, "looks are 10 ms apart");
        assert_eq!(load((1 << 20) + 10_485, 20), Load::Idle, "a byte too few");
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_020), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_021), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_030), Load::Idle);
    }
}
