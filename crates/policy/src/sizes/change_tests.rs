//! Comparison with every possible table, at all kinds of prices.

use super::super::testing::{
    chunks_of, demands, every_table, is_near, layout, loss_by_simulation, table,
};
use super::{Change, ChangePrices, exact_change};
use crate::sizes::error::BadArgument;
use crate::sizes::{ChunkLayout, Demand, exact};
use slabwise_base::Random;

const COUNT_MAX: usize = 6;

struct Problem {
    layout: ChunkLayout,
    demands: Vec<Demand>,
    present: Vec<usize>,
}

impl Problem {
    fn any(random: &mut Random) -> Problem {
        let layout = layout(random, 9);
        let demands = demands(random, &layout, 12);
        let present = table(random, &layout, COUNT_MAX);
        Problem { layout, demands, present }
    }

    fn change(&self, prices: ChangePrices) -> Change {
        exact_change(&self.demands, &self.layout, COUNT_MAX, &self.present, &prices).expect("valid")
    }

    /// The cost of a table and the bytes that move, item by item.
    fn cost(&self, table: &[usize], prices: ChangePrices) -> (f64, f64) {
        let loss = loss_by_simulation(&self.demands, table, &self.layout).total_bytes();
        let mut cost = loss + prices.class_bytes * table.len() as f64;
        let mut bytes = 0.0;
        for demand in &self.demands {
            let now = chunks_of(demand.size_bytes, &self.present, &self.layout);
            let then = chunks_of(demand.size_bytes, table, &self.layout);
            for (index, (now, then)) in now.iter().zip(&then).enumerate() {
                if now.0 != then.0 {
                    let header = match self.layout.chaining {
                        Some(chaining) if then.1 < demand.size_bytes && index == 0 => {
                            chaining.link_size_bytes
                        }
                        Some(chaining) if then.1 < demand.size_bytes => {
                            chaining.body_header_size_bytes
                        }
                        _ => 0,
                    };
                    let moved = demand.items as f64 * (then.1 + header) as f64;
                    bytes += moved;
                    cost += prices.moved_byte * demand.byte_value * moved;
                }
            }
        }
        (cost, bytes)
    }
}

fn prices(random: &mut Random) -> ChangePrices {
    let moved_byte = [0.0, 0.02, 0.1, 2.0, random.unit()][random.below(5) as usize];
    let class_bytes = [0.0, 1.0, 10.0, 100.0][random.below(4) as usize];
    ChangePrices { moved_byte, class_bytes }
}

#[test]
fn finds_the_best_table_to_change_to() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        let prices = prices(&mut random);
        let change = problem.change(prices);
        let (cost, bytes) = problem.cost(&change.table, prices);
        assert!(is_near(change.moved_bytes, bytes), "seed {seed}: {change:?} moves {bytes}");
        let tables = every_table(&problem.layout, &[], COUNT_MAX);
        let costs = tables.iter().map(|table| problem.cost(table, prices).0);
        let least = costs.fold(f64::INFINITY, f64::min);
        assert!(is_near(cost, least), "seed {seed}: {change:?} costs {cost}, not {least}");
        let loss = |table: &[usize]| loss_by_simulation(&problem.demands, table, &problem.layout);
        let (now, then) = (loss(&problem.present), loss(&change.table));
        assert!(is_near(change.loss_now.total_bytes(), now.total_bytes()), "seed {seed}");
        assert!(is_near(change.loss_then.total_bytes(), then.total_bytes()), "seed {seed}");
    }
}

#[test]
fn without_a_price_for_moves_it_is_the_best_exact_table() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        let prices = ChangePrices { moved_byte: 0.0, ..prices(&mut random) };
        let tables = exact(&problem.demands, &problem.layout, &[], COUNT_MAX).expect("valid");
        let cost = |table: &[usize], lost: f64| lost + prices.class_bytes * table.len() as f64;
        let costs = tables
            .class_counts()
            .map(|count| cost(&tables.of(count).sizes, tables.of(count).loss.total_bytes()));
        let least = costs.fold(f64::INFINITY, f64::min);
        let change = problem.change(prices);
        let found = cost(&change.table, change.loss_then.total_bytes());
        assert!(is_near(found, least), "seed {seed}: {found}, not {least}");
    }
}

#[test]
fn without_gain_the_current_table_stays() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        // Only a class of items with a byte value of 0 may be removed, because moving them costs nothing.
        let expensive = ChangePrices { moved_byte: 1e9, class_bytes: 0.0 };
        let change = problem.change(expensive);
        assert_eq!(change.table, problem.present, "seed {seed}");
        assert_eq!((change.loss_now, change.moved_bytes), (change.loss_then, 0.0), "seed {seed}");
        // A table that was the best one to change to is the best one to keep.
        let prices = prices(&mut random);
        let changed = Problem { present: problem.change(prices).table, ..problem };
        assert_eq!(changed.change(prices).table, changed.present, "seed {seed}");
    }
}

#[test]
fn invalid_prices_are_rejected() {
    let problem = Problem::any(&mut Random::new(1));
    for price in [-0.5, f64::INFINITY] {
        for prices in [
            ChangePrices { moved_byte: price, class_bytes: 0.0 },
            ChangePrices { moved_byte: 0.0, class_bytes: price },
        ] {
            let Problem { layout, demands, present } = &problem;
            let refused = exact_change(demands, layout, COUNT_MAX, present, &prices);
            assert_eq!(refused, Err(BadArgument::Price { price }.into()));
            assert!(refused.unwrap_err().to_string().contains("at least 0"));
        }
    }
}
