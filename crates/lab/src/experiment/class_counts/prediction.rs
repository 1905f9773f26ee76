//! What a table will miss, before any run: the whole cache's curve, at what the table and its classes leave of the
//! memory.
//!
//! ```text
//!   bytes of items = (pages - price * classes) * page size * items / (items + loss)
//!   misses         = the whole cache's, in so many bytes
//! ```
//!
//! Law: of two tables that lose alike, the one of fewer classes is not predicted to miss more, whatever the price.

use slabwise_policy::sizes::{ChunkLayout, Demand, Loss, SizesError, loss};
use slabwise_profile::Mrc;

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    /// For how many classes it was made; none for one that knows nothing of the items.
    pub class_count: Option<usize>,
    /// Its chunk sizes in bytes, ascending.
    pub sizes: Vec<usize>,
    pub classes_used: usize,
    pub loss: Loss,
    pub item_bytes: f64,
}

#[derive(Clone, Debug)]
pub struct Whole {
    /// Misses by bytes of items.
    pub curve: Mrc,
    pub pages: f64,
    pub page_size_bytes: f64,
}

impl Table {
    pub fn new(
        name: String,
        class_count: Option<usize>,
        sizes: Vec<usize>,
        demands: &[Demand],
        layout: &ChunkLayout,
    ) -> Result<Table, SizesError> {
        let loss = loss(demands, &sizes, layout)?;
        let mut used = vec![false; sizes.len()];
        let mut item_bytes = 0.0;
        for demand in demands {
            used[sizes.partition_point(|&size| size < demand.size_bytes)] = true;
            item_bytes += (demand.size_bytes as u64 * demand.items) as f64;
        }
        let classes_used = used.into_iter().filter(|&is_used| is_used).count();
        Ok(Table { name, class_count, sizes, classes_used, loss, item_bytes })
    }

    /// What all items take for each byte of theirs.
    fn taken_share(&self) -> f64 {
        1.0 + self.loss.total_bytes() / self.item_bytes
    }
}

impl Whole {
    /// Bytes of items in the cache, where a class costs so many pages.
    pub fn item_bytes(&self, table: &Table, class_price_pages: f64) -> f64 {
        let pages = self.pages - class_price_pages * table.classes_used as f64;
        pages.max(0.0) * self.page_size_bytes / table.taken_share()
    }

    pub fn miss_ratio(&self, table: &Table, class_price_pages: f64) -> f64 {
        self.curve.miss_ratio(self.item_bytes(table, class_price_pages) as u64)
    }

    /// Pages that are missing: how much less memory this table would have if it missed what it did, beside what it
    /// loses. Below 0 where it misses less than the whole cache would.
    pub fn pages_missing(&self, table: &Table, miss_ratio: f64) -> f64 {
        let enough = |bytes: u64| self.curve.miss_ratio(bytes) <= miss_ratio;
        let (mut from, mut to) = (0, self.curve.points().last().map_or(0, |last| last.chunks));
        while from < to {
            let middle = from.midpoint(to);
            if enough(middle) { to = middle } else { from = middle + 1 }
        }
        self.pages - from as f64 * table.taken_share() / self.page_size_bytes
    }
}

/// The slope of the line that lies nearest to these points by least squares; `None` for fewer than two places.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let along: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let with: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (along > 0.0).then(|| with / along)
}

#[cfg(test)]
mod tests {
    use super::{Table, Whole, slope};
    use slabwise_base::Random;
    use slabwise_policy::sizes::{ChunkLayout, Demand, exact};
    use slabwise_profile::{Mrc, Point};

    const LAYOUT: ChunkLayout = ChunkLayout {
        page_size_bytes: Some(16 << 10),
        chunk_size_bytes_min: 32,
        chunk_size_bytes_max: 8 << 10,
        chunk_align_bytes: 8,
        chaining: None,
    };

    fn whole() -> Whole {
        let points = (0..=1_000).map(|at| Point { chunks: at << 12, misses: (1_000 - at) as f64 });
        let pages = 64.0;
        Whole { curve: Mrc::new(points.collect()), pages, page_size_bytes: 16384.0 }
    }

    fn demands(random: &mut Random) -> Vec<Demand> {
        let demand = |_| Demand {
            size_bytes: 60 + random.below(3_000) as usize,
            items: 1 + random.below(20),
            byte_value: 1.0,
        };
        (0..200).map(demand).collect()
    }

    fn tables(random: &mut Random) -> Vec<Table> {
        let demands = demands(random);
        let best = exact(&demands, &LAYOUT, 63).expect("sound");
        let table = |count| {
            let sizes = best.table_of(count).to_vec();
            Table::new(String::new(), Some(count), sizes, &demands, &LAYOUT).expect("sound")
        };
        (1..=63).map(table).collect()
    }

    #[test]
    fn without_a_price_more_classes_miss_no_more_and_a_high_price_makes_them_miss_more() {
        for seed in 0..20 {
            let (tables, whole) = (tables(&mut Random::new(seed)), whole());
            let ratio = |table: &Table, price| whole.miss_ratio(table, price);
            for pair in tables.windows(2) {
                let (few, many) = (&pair[0], &pair[1]);
                assert!(ratio(many, 0.0) <= ratio(few, 0.0) + 1e-9, "seed {seed}: {many:?}");
                if many.classes_used > few.classes_used {
                    assert!(ratio(many, 0.9) > ratio(many, 0.1), "seed {seed}: {many:?}");
                }
            }
            let (few, last) = (&tables[7], &tables[62]);
            assert!(ratio(last, 0.0) < ratio(few, 0.0), "seed {seed}");
            assert!(ratio(last, 0.9) > ratio(few, 0.9), "seed {seed}");
        }
    }

    #[test]
    fn pages_that_were_taken_away_are_found_missing() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (tables, whole) = (tables(&mut random), whole());
            let price = random.below(8) as f64 / 10.0;
            let missing = tables.iter().map(|table| {
                let ratio = whole.miss_ratio(table, price);
                (table.classes_used as f64, whole.pages_missing(table, ratio))
            });
            let missing: Vec<(f64, f64)> = missing.collect();
            for (classes, pages) in &missing {
                assert!((pages - price * classes).abs() < 0.01, "seed {seed}: {missing:?}");
            }
            let found = slope(&missing).expect("several places");
            assert!((found - price).abs() < 0.01, "seed {seed}: {found}, not {price}");
        }
        assert_eq!(slope(&[(3.0, 1.0), (3.0, 2.0)]), None);
    }
}
