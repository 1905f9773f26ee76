//! Draws keys and value lengths from measured tables.
//!
//! Each row of a popularity table describes a bucket of keys: the number of keys, and the number of requests for them,
//! which is the weight of the bucket. The bucket with the most popular keys is first. The keys are numbered from 0 in
//! the order of the buckets. For each request, a bucket is drawn by its weight, and then a key of the bucket is drawn
//! uniformly. Requests are therefore independent.
//!
//! A table can be scaled to another number of keys: the number of keys of each bucket is multiplied by a factor. If the
//! result is not a whole number, the fraction is added to the next bucket, so the total number of keys is exact. A
//! bucket with less than one key is merged with the next bucket.
//!
//! Each row of a size table has a length and a weight. The hash of a key selects a row, with a probability in
//! proportion to the weight of the row, and the key has the length of this row.

use super::request::WorkloadError;
use serde::de::DeserializeOwned;
use slabwise_base::Random;
use slabwise_base::random::{mix, unit};

/// Reads the rows of a table that has a header line. Also returns a function that makes an error of a reason. `table`
/// and `columns` are the name of the table and the expected columns, for errors.
fn read_rows<R: DeserializeOwned>(
    table: &str,
    text: impl std::io::Read,
    columns: &str,
) -> Result<(Vec<R>, impl Fn(&str) -> WorkloadError), WorkloadError> {
    let invalid =
        |reason: &str| WorkloadError::Table { table: table.to_owned(), reason: reason.to_owned() };
    let rows = csv::Reader::from_reader(text).into_deserialize().collect::<Result<_, _>>();
    let rows = rows.map_err(|error| {
        invalid(&format!("{error}; expected columns: {columns} (whole numbers)"))
    })?;
    Ok((rows, invalid))
}

/// A row of a popularity table.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct PopularityRow {
    keys: u64,
    weight: u64,
}

/// A bucket of the scaled table. Its keys are `first_key..first_key + keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    first_key: u64,
    keys: u64,
    /// The sum of the weights of this bucket and all buckets before it.
    weight_end: u64,
}

/// A stream of keys that are drawn with the popularities of a table.
#[derive(Debug)]
pub struct Popularity {
    buckets: Vec<Bucket>,
    random: Random,
}

impl Popularity {
    /// Reads a table with the columns `keys,weight`, and multiplies its number of keys by `scale`, which must be above
    /// 0. `table` is the name of the table for errors.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        scale: f64,
        random: Random,
    ) -> Result<Popularity, WorkloadError> {
        let (rows, invalid) = read_rows::<PopularityRow>(table, text, "keys,weight")?;
        if let Some(number) = rows.iter().position(|row| row.keys == 0 || row.weight == 0) {
            return Err(invalid(&format!("line {}: keys and weight must be above 0", number + 2)));
        }
        if rows.is_empty() {
            return Err(invalid("no rows; expected a row with the columns keys,weight"));
        }
        let sum = |column: fn(&PopularityRow) -> u64| {
            rows.iter().try_fold(0u64, |sum, row| sum.checked_add(column(row)))
        };
        let (Some(keys_measured), Some(_)) = (sum(|row| row.keys), sum(|row| row.weight)) else {
            return Err(invalid("the sum of the keys or weights is above 2^64"));
        };
        let keys_wanted = ((keys_measured as f64 * scale).round() as u64).max(1);
        Ok(Popularity { buckets: scale_rows(&rows, keys_measured, keys_wanted), random })
    }

    #[cfg(test)]
    pub fn keys(&self) -> u64 {
        self.buckets.last().map_or(0, |bucket| bucket.first_key + bucket.keys)
    }

    /// Returns the next key.
    pub fn next_key(&mut self) -> u64 {
        let weight = self.buckets.last().map_or(1, |bucket| bucket.weight_end);
        let at = self.random.below(weight);
        let bucket = self.buckets[self.buckets.partition_point(|bucket| bucket.weight_end <= at)];
        bucket.first_key + self.random.below(bucket.keys)
    }
}

/// Scales the rows of a table with `keys_measured` keys to exactly `keys_wanted` keys, and returns the buckets.
/// `keys_wanted` must be above 0.
fn scale_rows(rows: &[PopularityRow], keys_measured: u64, keys_wanted: u64) -> Vec<Bucket> {
    let (measured, wanted) = (u128::from(keys_measured), u128::from(keys_wanted));
    let mut buckets: Vec<Bucket> = Vec::with_capacity(rows.len());
    let (mut first_key, mut weight_end) = (0, 0);
    // The number of scaled keys that are not in a bucket yet, multiplied by `measured` to be a whole number.
    let mut keys_carried = 0u128;
    for row in rows {
        weight_end += row.weight;
        keys_carried += u128::from(row.keys) * wanted;
        let keys = (keys_carried / measured) as u64;
        keys_carried %= measured;
        if keys > 0 {
            buckets.push(Bucket { first_key, keys, weight_end });
            first_key += keys;
        }
    }
    assert_eq!(
        (first_key, keys_carried),
        (keys_wanted, 0),
        "the buckets have exactly the scaled number of keys"
    );
    // Rows after the last bucket have less than one key together. Their weights are added to the last bucket.
    if let Some(last) = buckets.last_mut() {
        last.weight_end = weight_end;
    }
    buckets
}

/// A row of a size table: describes values of `size_lo` to `size_hi` bytes. All of them have the length `size_hi` here.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct SizeRow {
    size_hi: u32,
    weight: u64,
}

/// The value lengths of a size table.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// One entry per row: the sum of the weights of the row and all rows before it.
    weight_ends: Vec<u64>,
    /// One entry per row: the value length in bytes, multiplied by the factor.
    lens: Vec<u32>,
    /// A number that is hashed with each key to select its row.
    salt: u64,
}

impl Sizes {
    /// Reads a table with the columns `size_lo,size_hi,weight`, of which `size_lo` is optional. Multiplies the lengths
    /// by `factor`. `table` is the name of the table for errors. `seed` determines the row that each key selects.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        factor: f64,
        seed: u64,
    ) -> Result<Sizes, WorkloadError> {
        let (rows, invalid) = read_rows::<SizeRow>(table, text, "size_lo,size_hi,weight")?;
        let (mut weight_ends, mut weight_end) = (Vec::with_capacity(rows.len()), 0u64);
        for row in &rows {
            let sum = weight_end.checked_add(row.weight);
            weight_end = sum.ok_or_else(|| invalid("the sum of the weights is above 2^64"))?;
            weight_ends.push(weight_end);
        }
        if weight_end == 0 {
            return Err(invalid(
                "no rows with a weight above 0; expected a row with the columns size_lo,size_hi,weight",
            ));
        }
        let len = |row: &SizeRow| (f64::from(row.size_hi) * factor).round().max(1.0) as u32;
        Ok(Sizes { weight_ends, lens: rows.iter().map(len).collect(), salt: salt(seed) })
    }

    /// Returns the value length of a key in bytes.
    pub fn value_len(&self, key: u64) -> u32 {
        let total = self.weight_ends.last().copied().unwrap_or(0);
        let at = (unit(mix(key ^ self.salt)) * total as f64) as u64;
        self.lens[self.weight_ends.partition_point(|&end| end <= at).min(self.lens.len() - 1)]
    }
}

/// Returns a number that is hashed with a key to draw its length. The keys are drawn with the same seed but without
/// this number, so the lengths do not depend on the popularity of the keys.
pub fn salt(seed: u64) -> u64 {
    const LENGTHS_STREAM: u64 = 0x6c65_6e67_7468_7321;
    mix(seed ^ LENGTHS_STREAM)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Popularity, PopularityRow, Sizes, scale_rows};
    use slabwise_base::Random;

    const ROWS: [PopularityRow; 4] = [
        PopularityRow { keys: 1, weight: 50 },
        PopularityRow { keys: 1, weight: 30 },
        PopularityRow { keys: 2, weight: 20 },
        PopularityRow { keys: 6, weight: 12 },
    ];

    #[test]
    fn a_table_at_full_scale_is_unchanged() {
        let whole = scale_rows(&ROWS, 10, 10);
        let ends: Vec<_> = whole.iter().map(|b| (b.first_key, b.keys, b.weight_end)).collect();
        assert_eq!(ends, [(0, 1, 50), (1, 1, 80), (2, 2, 100), (4, 6, 112)]);
    }

    #[test]
    fn scaling_merges_buckets_until_each_has_a_key() {
        // With half of the keys, the first two rows have one key together, the third row has one, and the last has
        // three.
        let half = scale_rows(&ROWS, 10, 5);
        assert_eq!(
            half,
            [
                Bucket { first_key: 0, keys: 1, weight_end: 80 },
                Bucket { first_key: 1, keys: 1, weight_end: 100 },
                Bucket { first_key: 2, keys: 3, weight_end: 112 },
            ]
        );
        assert_eq!(scale_rows(&ROWS, 10, 1), [Bucket { first_key: 0, keys: 1, weight_end: 112 }]);
    }

    #[test]
    fn keys_are_drawn_with_the_weights_of_their_buckets() {
        let text = "keys,weight\n1,50\n9,50\n";
        let mut keys = Popularity::from_csv("t", text.as_bytes(), 1.0, Random::new(3))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(keys.keys(), 10);
        let hot = (0..10_000).filter(|_| keys.next_key() == 0).count();
        assert!((4_800..5_200).contains(&hot), "seed 3: {hot} of 10,000");
    }

    #[test]
    fn an_invalid_popularity_table_is_an_error_with_its_line() {
        let error_of = |text: &str| {
            let result = Popularity::from_csv("p.csv", text.as_bytes(), 1.0, Random::new(1));
            result.err().map_or_else(String::new, |error| error.to_string())
        };
        assert!(
            error_of("keys,weight\n1,x\n").contains("line: 2"),
            "{}",
            error_of("keys,weight\n1,x\n")
        );
        assert!(error_of("keys,weight\n1,5\n0,5\n").contains("line 3"));
        assert!(error_of("a,b\n1,2\n").contains("keys"));
        assert!(error_of("keys,weight\n").contains("no rows"));
        let huge = format!("keys,weight\n{0},1\n{0},1\n", u64::MAX);
        assert!(error_of(&huge).contains("2^64"));
    }

    fn table(text: &str, factor: f64) -> Sizes {
        Sizes::from_csv("t", text.as_bytes(), factor, 5).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn lengths_have_the_shares_of_their_weights_and_are_multiplied_by_the_factor() {
        let sizes = table("size_lo,size_hi,weight\n0,31,3\n32,63,1\n", 2.0);
        let small = (0..10_000).filter(|&key| sizes.value_len(key) == 62).count();
        assert!((7_350..7_650).contains(&small), "seed 5: {small} of 10,000");
        assert!((0..10_000).all(|key| [62, 126].contains(&sizes.value_len(key))));
    }

    #[test]
    fn lengths_are_from_1_byte_to_the_largest_32_bit_number() {
        assert_eq!(table("size_hi,weight\n0,1\n", 1.0).value_len(9), 1);
        assert_eq!(table("size_hi,weight\n4000000000,1\n", 100.0).value_len(9), u32::MAX);
    }

    #[test]
    fn an_invalid_size_table_is_an_error() {
        let is_error = |text: &str| Sizes::from_csv("t", text.as_bytes(), 1.0, 5).is_err();
        assert!(is_error("size_lo,size_hi,weight\n"));
        assert!(is_error("size_lo,size_hi,weight\n0,31,0\n"));
        assert!(is_error("size_lo,size_hi,weight\n0,-1,4\n"));
        assert!(is_error("size,weight\n31,4\n"));
    }
}
