//! Value lengths by a measured size table: each key has the length of the row that its own hash
//! falls on, so lengths are stable and independent of popularity.

use super::error::WorkloadError;
use slabwise_base::random::{mix, unit};

/// One row of a size table: values of `size_lo..=size_hi` bytes, counted as `size_hi`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Row {
    size_hi: u32,
    weight: u64,
}

/// A distribution of value lengths over keys.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Sum of the weights up to and with each row.
    weight_ends: Vec<u64>,
    /// The length of each row's values in bytes, already multiplied.
    lens: Vec<u32>,
    salt: u64,
}

impl Sizes {
    /// Reads a table (`size_lo,size_hi,weight`, a header line first; `size_lo` may be absent) and
    /// multiplies its lengths by `factor`. `table` names it in errors; `seed` moves every key to
    /// another row.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        factor: f64,
        seed: u64,
    ) -> Result<Sizes, WorkloadError> {
        let refuse = |reason: String| WorkloadError::Table { table: table.to_owned(), reason };
        let (mut weight_ends, mut lens) = (Vec::new(), Vec::new());
        let mut weight_end = 0u64;
        for row in csv::Reader::from_reader(text).deserialize() {
            let row: Row = row.map_err(|error| {
                refuse(format!("{error}; expected columns: size_lo,size_hi,weight (whole numbers)"))
            })?;
            weight_end = weight_end
                .checked_add(row.weight)
                .ok_or_else(|| refuse("the weights add up to more than 2^64".to_owned()))?;
            weight_ends.push(weight_end);
            lens.push((f64::from(row.size_hi) * factor).round().max(1.0) as u32);
        }
        if weight_end == 0 {
            return Err(refuse("no rows with weight; expected size_lo,size_hi,weight".to_owned()));
        }
        Ok(Sizes { weight_ends, lens, salt: salt(seed) })
    }

    /// The length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        let total = self.weight_ends.last().copied().unwrap_or(0);
        let at = (unit(mix(key ^ self.salt)) * total as f64) as u64;
        self.lens[self.weight_ends.partition_point(|&end| end <= at).min(self.lens.len() - 1)]
    }
}

/// What is mixed into a key before its length is drawn, so that lengths share nothing with the draw
/// of keys from the same seed.
pub(super) fn salt(seed: u64) -> u64 {
    const LENGTHS_STREAM: u64 = 0x6c65_6e67_7468_7321;
    mix(seed ^ LENGTHS_STREAM)
}

#[cfg(test)]
mod tests {
    use super::Sizes;

    fn table(text: &str, factor: f64) -> Sizes {
        Sizes::from_csv("t", text.as_bytes(), factor, 5).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn lengths_follow_the_weights_and_the_factor() {
        let sizes = table("size_lo,size_hi,weight\n0,31,3\n32,63,1\n", 2.0);
        let small = (0..10_000).filter(|&key| sizes.of(key) == 62).count();
        assert!((7_350..7_650).contains(&small), "seed 5: {small} of 10,000");
        assert!((0..10_000).all(|key| [62, 126].contains(&sizes.of(key))));
    }

    #[test]
    fn no_value_is_empty_and_none_wraps() {
        assert_eq!(table("size_hi,weight\n0,1\n", 1.0).of(9), 1);
        assert_eq!(table("size_hi,weight\n4000000000,1\n", 100.0).of(9), u32::MAX);
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let refused = |text: &str| Sizes::from_csv("t", text.as_bytes(), 1.0, 5).is_err();
        assert!(refused("size_lo,size_hi,weight\n"));
        assert!(refused("size_lo,size_hi,weight\n0,31,0\n"));
        assert!(refused("size_lo,size_hi,weight\n0,-1,4\n"));
        assert!(refused("size,weight\n31,4\n"));
    }
}
