//! Tests of the best change: it is compared with every possible table, at random prices.

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
    current: Vec<usize>,
}

impl Problem {
    fn any(random: &mut Random) -> Problem {
        let layout = layout(random, 9);
        let demands = demands(random, &layout, 12);
        let current = table(random, &layout, COUNT_MAX);
        Problem { layout, demands, current }
    }

    fn change(&self, prices: ChangePrices) -> Change {
        exact_change(&self.demands, &self.layout, COUNT_MAX, &self.current, &prices)
            .expect("the arguments are valid")
    }

    /// Computes the cost of a table and the bytes that move, item by item.
    fn cost(&self, table: &[usize], prices: ChangePrices) -> (f64, f64) {
        let loss = loss_by_simulation(&self.demands, table, &self.layout).total_bytes();
        let mut cost = loss + prices.class_price_bytes * table.len() as f64;
        let mut bytes = 0.0;
        for demand in &self.demands {
            let now = chunks_of(demand.size_bytes, &self.current, &self.layout);
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
                    cost += prices.moved_byte_price * demand.byte_value * moved;
                }
            }
        }
        (cost, bytes)
    }
}

fn prices(random: &mut Random) -> ChangePrices {
    let moved_byte_price = [0.0, 0.02, 0.1, 2.0, random.unit()][random.below(5) as usize];
    let class_price_bytes = [0.0, 1.0, 10.0, 100.0][random.below(4) as usize];
    ChangePrices { moved_byte_price, class_price_bytes }
}

#[test]
fn the_change_has_the_least_cost_of_all_tables() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        let prices = prices(&mut random);
        let change = problem.change(prices);
        let (cost, bytes) = problem.cost(&change.table, prices);
        assert!(is_near(change.moved_bytes, bytes), "seed {seed}: {bytes} bytes move: {change:?}");
        let tables = every_table(&problem.layout, &[], COUNT_MAX);
        let costs = tables.iter().map(|table| problem.cost(table, prices).0);
        let least = costs.fold(f64::INFINITY, f64::min);
        assert!(is_near(cost, least), "seed {seed}: {change:?} costs {cost}, not {least}");
        let loss = |table: &[usize]| loss_by_simulation(&problem.demands, table, &problem.layout);
        let (now, then) = (loss(&problem.current), loss(&change.table));
        assert!(
            is_near(change.current_loss.total_bytes(), now.total_bytes()),
            "seed {seed}: loss of the current table"
        );
        assert!(
            is_near(change.new_loss.total_bytes(), then.total_bytes()),
            "seed {seed}: loss of the new table"
        );
    }
}

#[test]
fn without_a_price_for_moved_bytes_the_change_is_as_good_as_the_exact_table() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        let prices = ChangePrices { moved_byte_price: 0.0, ..prices(&mut random) };
        let tables = exact(&problem.demands, &problem.layout, &[], COUNT_MAX)
            .expect("the arguments are valid");
        let cost =
            |table: &[usize], lost: f64| lost + prices.class_price_bytes * table.len() as f64;
        let costs = tables
            .class_counts()
            .map(|count| cost(&tables.of(count).sizes, tables.of(count).loss.total_bytes()));
        let least = costs.fold(f64::INFINITY, f64::min);
        let change = problem.change(prices);
        let found = cost(&change.table, change.new_loss.total_bytes());
        assert!(is_near(found, least), "seed {seed}: the least cost is {least}, not {found}");
    }
}

#[test]
fn without_gain_the_table_does_not_change() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let problem = Problem::any(&mut random);
        // A moved byte costs more than any table saves. Classes are free, so no class is removed.
        let expensive = ChangePrices { moved_byte_price: 1e9, class_price_bytes: 0.0 };
        let change = problem.change(expensive);
        assert_eq!(change.table, problem.current, "seed {seed}: the table does not change");
        assert_eq!(
            (change.current_loss, change.moved_bytes),
            (change.new_loss, 0.0),
            "seed {seed}: no bytes move"
        );
        // After the change, the new table is the best table.
        let prices = prices(&mut random);
        let changed = Problem { current: problem.change(prices).table, ..problem };
        assert_eq!(
            changed.change(prices).table,
            changed.current,
            "seed {seed}: the best table does not change"
        );
    }
}

#[test]
fn invalid_prices_are_rejected() {
    let problem = Problem::any(&mut Random::new(1));
    for price in [-0.5, f64::INFINITY] {
        for prices in [
            ChangePrices { moved_byte_price: price, class_price_bytes: 0.0 },
            ChangePrices { moved_byte_price: 0.0, class_price_bytes: price },
        ] {
            let Problem { layout, demands, current } = &problem;
            let refused = exact_change(demands, layout, COUNT_MAX, current, &prices);
            assert_eq!(refused, Err(BadArgument::Price { price }.into()));
            assert!(refused.unwrap_err().to_string().contains("at least 0"));
        }
    }
}
