//! Measured tables: keys by their popularity, and value lengths.
//!
//! A popularity table has buckets, hottest first, each with a number of keys and the requests that went to all of them
//! together. A bucket is drawn by its weight and a key uniformly in it, so requests are independent. Keys are numbered
//! through the buckets from 0. A table may be scaled to fewer keys: key counts are divided, and neighbouring buckets
//! pooled until each has at least one key. What is left of a bucket after whole keys are taken is carried into the next,
//! so the number of keys comes out exactly.
//!
//! A size table gives each key the length of the row that its own hash falls on.

use super::request::WorkloadError;
use serde::de::DeserializeOwned;
use slabwise_base::Random;
use slabwise_base::random::{mix, unit};

/// The rows of a table with a header line, and what refuses one with a reason; `columns` are named where there are others.
fn read<R: DeserializeOwned>(
    table: &str,
    text: impl std::io::Read,
    columns: &str,
) -> Result<(Vec<R>, impl Fn(&str) -> WorkloadError), WorkloadError> {
    let refuse =
        |reason: &str| WorkloadError::Table { table: table.to_owned(), reason: reason.to_owned() };
    let rows = csv::Reader::from_reader(text).into_deserialize().collect::<Result<_, _>>();
    let rows = rows.map_err(|error| {
        refuse(&format!("{error}; expected columns: {columns} (whole numbers)"))
    })?;
    Ok((rows, refuse))
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Row {
    keys: u64,
    weight: u64,
}

/// Keys `first_key..first_key + keys`, drawn with the weight up to `weight_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    first_key: u64,
    keys: u64,
    /// Sum of the weights of all buckets up to and with this one.
    weight_end: u64,
}

#[derive(Debug)]
pub struct Popularity {
    buckets: Vec<Bucket>,
    random: Random,
}

impl Popularity {
    /// Reads a table (`keys,weight`, a header line first) and scales its keys by `scale`, which is
    /// above 0. `table` names it in errors.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        scale: f64,
        random: Random,
    ) -> Result<Popularity, WorkloadError> {
        let (rows, refuse) = read::<Row>(table, text, "keys,weight")?;
        if let Some(number) = rows.iter().position(|row| row.keys == 0 || row.weight == 0) {
            return Err(refuse(&format!("line {}: keys and weight must be above 0", number + 2)));
        }
        if rows.is_empty() {
            return Err(refuse("no rows; expected columns: keys,weight"));
        }
        let sum = |column: fn(&Row) -> u64| {
            rows.iter().try_fold(0u64, |sum, row| sum.checked_add(column(row)))
        };
        let (Some(keys_measured), Some(_)) = (sum(|row| row.keys), sum(|row| row.weight)) else {
            return Err(refuse("the keys or weights add up to more than 2^64"));
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

/// The buckets of a table of `keys_measured` keys, scaled to exactly `keys_wanted`, which is above 0.
fn scaled(rows: &[Row], keys_measured: u64, keys_wanted: u64) -> Vec<Bucket> {
    let (measured, wanted) = (u128::from(keys_measured), u128::from(keys_wanted));
    let mut buckets: Vec<Bucket> = Vec::with_capacity(rows.len());
    let (mut first_key, mut weight_end) = (0, 0);
    // Scaled keys that belong to no bucket yet, in units of 1 / measured key.
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
    assert_eq!((first_key, keys_carried), (keys_wanted, 0), "scaling keeps every key");
    // A last bucket of less than one key has given its keys to the total already: its weight, too.
    if let Some(last) = buckets.last_mut() {
        last.weight_end = weight_end;
    }
    buckets
}

/// One row of a size table: values of `size_lo..=size_hi` bytes, counted as `size_hi`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct SizeRow {
    size_hi: u32,
    weight: u64,
}

#[derive(Clone, Debug)]
pub struct Sizes {
    /// Sum of the weights up to and with each row.
    weight_ends: Vec<u64>,
    /// The length of each row's values in bytes, already multiplied.
    lens: Vec<u32>,
    salt: u64,
}

impl Sizes {
    /// Reads a table (`size_lo,size_hi,weight`; `size_lo` may be absent) and multiplies its lengths by `factor`. `table`
    /// names it in errors; `seed` moves every key to another row.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        factor: f64,
        seed: u64,
    ) -> Result<Sizes, WorkloadError> {
        let (rows, refuse) = read::<SizeRow>(table, text, "size_lo,size_hi,weight")?;
        let (mut weight_ends, mut weight_end) = (Vec::with_capacity(rows.len()), 0u64);
        for row in &rows {
            let sum = weight_end.checked_add(row.weight);
            weight_end = sum.ok_or_else(|| refuse("the weights add up to more than 2^64"))?;
            weight_ends.push(weight_end);
        }
        if weight_end == 0 {
            return Err(refuse("no rows with weight; expected size_lo,size_hi,weight"));
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

/// What is mixed into a key before its length is drawn, so that lengths share nothing with the draw of keys from the same
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
    fn a_table_at_full_scale_is_itself() {
        let whole = scaled(&ROWS, 10, 10);
        let ends: Vec<_> = whole.iter().map(|b| (b.first_key, b.keys, b.weight_end)).collect();
        assert_eq!(ends, [(0, 1, 50), (1, 1, 80), (2, 2, 100), (4, 6, 112)]);
    }

    #[test]
    fn scaling_pools_neighbours_until_each_bucket_has_a_key() {
        // Halved: the two first rows make one key, the third one, the last three.
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
    fn a_wrong_table_is_refused_with_its_line() {
        let refusal = |text: &str| {
            let result = Popularity::from_csv("p.csv", text.as_bytes(), 1.0, Random::new(1));
            result.err().map_or_else(String::new, |error| error.to_string())
        };
        assert!(
            refusal("keys,weight\n1,x\n").contains("line: 2"),
            "{}",
            refusal("keys,weight\n1,x\n")
        );
        assert!(refusal("keys,weight\n1,5\n0,5\n").contains("line 3"));
        assert!(refusal("a,b\n1,2\n").contains("keys"));
        assert!(refusal("keys,weight\n").contains("no rows"));
        let huge = format!("keys,weight\n{0},1\n{0},1\n", u64::MAX);
        assert!(refusal(&huge).contains("2^64"));
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
