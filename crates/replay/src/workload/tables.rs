//! Measured tables of key popularity and of value lengths.
//!
//! A popularity table has buckets, hottest first, each with its number of keys and the number of requests for them. A
//! bucket is drawn by its weight, and a key uniformly in the bucket, so requests are independent. Keys are numbered from
//! 0, through all buckets. A table can be scaled to fewer keys: the key counts are divided, and adjacent buckets are
//! merged until each has at least one key. The fraction of a key that is left in a bucket is carried to the next bucket,
//! so the total number of keys is exact.
//!
//! A size table gives each key the length of the row that the hash of the key selects.

use super::request::WorkloadError;
use serde::de::DeserializeOwned;
use slabwise_base::Random;
use slabwise_base::random::{mix, unit};

/// Reads the rows of a table with a header line. Also returns a function that creates errors about the table. `columns`
/// are the expected columns, for errors.
fn read<R: DeserializeOwned>(
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

#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Row {
    keys: u64,
    weight: u64,
}

/// The keys `first_key..first_key + keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    first_key: u64,
    keys: u64,
    /// The sum of the weights of the buckets up to this one.
    weight_end: u64,
}

#[derive(Debug)]
pub struct Popularity {
    buckets: Vec<Bucket>,
    random: Random,
}

impl Popularity {
    /// Reads a table with the columns `keys,weight` and scales its keys by `scale`, which is above 0. `table` is the
    /// name in errors.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        scale: f64,
        random: Random,
    ) -> Result<Popularity, WorkloadError> {
        let (rows, invalid) = read::<Row>(table, text, "keys,weight")?;
        if let Some(number) = rows.iter().position(|row| row.keys == 0 || row.weight == 0) {
            return Err(invalid(&format!("line {}: keys and weight must be above 0", number + 2)));
        }
        if rows.is_empty() {
            return Err(invalid("no rows; expected columns: keys,weight"));
        }
        let sum = |column: fn(&Row) -> u64| {
            rows.iter().try_fold(0u64, |sum, row| sum.checked_add(column(row)))
        };
        let (Some(keys_measured), Some(_)) = (sum(|row| row.keys), sum(|row| row.weight)) else {
            return Err(invalid("the sum of the keys or weights is above 2^64"));
        };
        let keys_wanted = ((keys_measured as f64 * scale).round() as u64).max(1);
        Ok(Popularity { buckets: scaled(&rows, keys_measured, keys_wanted), random })
    }

    #[cfg(test)]
    pub fn keys(&self) -> u64 {
        self.buckets.last().map_or(0, |bucket| bucket.first_key + bucket.keys)
    }

    pub fn next_key(&mut self) -> u64 {
        let weight = self.buckets.last().map_or(1, |bucket| bucket.weight_end);
        let at = self.random.below(weight);
        let bucket = self.buckets[self.buckets.partition_point(|bucket| bucket.weight_end <= at)];
        bucket.first_key + self.random.below(bucket.keys)
    }
}

/// Returns the buckets of a table with `keys_measured` keys, scaled to exactly `keys_wanted` keys, which is above 0.
fn scaled(rows: &[Row], keys_measured: u64, keys_wanted: u64) -> Vec<Bucket> {
    let (measured, wanted) = (u128::from(keys_measured), u128::from(keys_wanted));
    let mut buckets: Vec<Bucket> = Vec::with_capacity(rows.len());
    let (mut first_key, mut weight_end) = (0, 0);
    // The scaled keys that are not in a bucket yet, in units of 1 / `measured`.
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
    assert_eq!((first_key, keys_carried), (keys_wanted, 0), "the total is exact");
    // The last bucket takes the weight of rows after it, which have less than one key.
    if let Some(last) = buckets.last_mut() {
        last.weight_end = weight_end;
    }
    buckets
}

/// A row of a size table: values of `size_lo..=size_hi` bytes, which get the length `size_hi`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct SizeRow {
    size_hi: u32,
    weight: u64,
}

#[derive(Clone, Debug)]
pub struct Sizes {
    /// The sum of the weights up to each row.
    weight_ends: Vec<u64>,
    /// The scaled value length of each row in bytes.
    lens: Vec<u32>,
    salt: u64,
}

impl Sizes {
    /// Reads a table with the columns `size_lo,size_hi,weight` (`size_lo` is optional) and multiplies its lengths by
    /// `factor`. `table` is the name in errors. `seed` determines the row of each key.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        factor: f64,
        seed: u64,
    ) -> Result<Sizes, WorkloadError> {
        let (rows, invalid) = read::<SizeRow>(table, text, "size_lo,size_hi,weight")?;
        let (mut weight_ends, mut weight_end) = (Vec::with_capacity(rows.len()), 0u64);
        for row in &rows {
            let sum = weight_end.checked_add(row.weight);
            weight_end = sum.ok_or_else(|| invalid("the sum of the weights is above 2^64"))?;
            weight_ends.push(weight_end);
        }
        if weight_end == 0 {
            return Err(invalid("no rows with weight; expected columns: size_lo,size_hi,weight"));
        }
        let len = |row: &SizeRow| (f64::from(row.size_hi) * factor).round().max(1.0) as u32;
        Ok(Sizes { weight_ends, lens: rows.iter().map(len).collect(), salt: salt(seed) })
    }

    pub fn of(&self, key: u64) -> u32 {
        let total = self.weight_ends.last().copied().unwrap_or(0);
        let at = (unit(mix(key ^ self.salt)) * total as f64) as u64;
        self.lens[self.weight_ends.partition_point(|&end| end <= at).min(self.lens.len() - 1)]
    }
}

/// Returns a salt for the hash that draws lengths, which makes lengths independent of the draw of keys with the same
/// seed.
pub fn salt(seed: u64) -> u64 {
    const LENGTHS_STREAM: u64 = 0x6c65_6e67_7468_7321;
    mix(seed ^ LENGTHS_STREAM)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Popularity, Row, Sizes, scaled};
    use slabwise_base::Random;

    const ROWS: [Row; 4] = [
        Row { keys: 1, weight: 50 },
        Row { keys: 1, weight: 30 },
        Row { keys: 2, weight: 20 },
        Row { keys: 6, weight: 12 },
    ];

    #[test]
    fn a_table_at_full_scale_is_unchanged() {
        let whole = scaled(&ROWS, 10, 10);
        let ends: Vec<_> = whole.iter().map(|b| (b.first_key, b.keys, b.weight_end)).collect();
        assert_eq!(ends, [(0, 1, 50), (1, 1, 80), (2, 2, 100), (4, 6, 112)]);
    }

    #[test]
    fn scaling_merges_buckets_until_each_has_a_key() {
        // At half scale the first two rows have one key together, the third has one and the last has three.
        let half = scaled(&ROWS, 10, 5);
        assert_eq!(
            half,
            [
                Bucket { first_key: 0, keys: 1, weight_end: 80 },
                Bucket { first_key: 1, keys: 1, weight_end: 100 },
                Bucket { first_key: 2, keys: 3, weight_end: 112 },
            ]
        );
        assert_eq!(scaled(&ROWS, 10, 1), [Bucket { first_key: 0, keys: 1, weight_end: 112 }]);
    }

    #[test]
    fn draws_follow_the_weights() {
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
    fn lengths_follow_the_weights_and_the_factor() {
        let sizes = table("size_lo,size_hi,weight\n0,31,3\n32,63,1\n", 2.0);
        let small = (0..10_000).filter(|&key| sizes.of(key) == 62).count();
        assert!((7_350..7_650).contains(&small), "seed 5: {small} of 10,000");
        assert!((0..10_000).all(|key| [62, 126].contains(&sizes.of(key))));
    }

    #[test]
    fn lengths_are_at_least_one_and_do_not_overflow() {
        assert_eq!(table("size_hi,weight\n0,1\n", 1.0).of(9), 1);
        assert_eq!(table("size_hi,weight\n4000000000,1\n", 100.0).of(9), u32::MAX);
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
