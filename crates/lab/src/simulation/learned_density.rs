//! Evicts the item with the least expected hits per tick and byte, as learned from a sample of the keys.
//!
//! The rank of an item is its density, which [`Hazards`] learns, divided by its size.

use super::hazards::Hazards;
use super::pool::Item;
use super::sampled::{Ranking, Stamp};
use super::uses::Uses;

#[derive(Debug)]
pub struct LearnedDensity {
    hazards: Hazards,
}

impl LearnedDensity {
    pub fn new(key_count: usize) -> LearnedDensity {
        LearnedDensity { hazards: Hazards::new(key_count) }
    }
}

impl Ranking for LearnedDensity {
    fn rank(&self, item: &Item<Stamp>, now: u32) -> f64 {
        let density = self.hazards.density(item.state.uses, now - item.state.tick);
        density / f64::from(item.size_bytes.max(1))
    }

    fn requested(&mut self, key: u32, uses: Uses, now: u32) {
        self.hazards.requested(key, uses, now);
    }

    fn evicted(&mut self, _rank: f64) {}

    fn deleted(&mut self, key: u32) {
        self.hazards.deleted(key);
    }
}

#[cfg(test)]
mod tests {
    use super::LearnedDensity;
    use crate::simulation::pool::Item;
    use crate::simulation::sampled::{Ranking, Stamp};
    use crate::simulation::uses::Uses;

    #[test]
    fn before_anything_is_learned_old_and_large_items_have_low_ranks() {
        let density = LearnedDensity::new(1);
        let item = |size_bytes, tick| Item {
            key: 0,
            size_bytes,
            state: Stamp { uses: Uses::FIRST, tick },
        };
        assert_eq!(density.rank(&item(50, 5), 5), 1.0 / 50.0);
        assert_eq!(density.rank(&item(50, 2), 5), 1.0 / 4.0 / 50.0);
        assert_eq!(density.rank(&item(100, 2), 5), 1.0 / 4.0 / 100.0);
    }
}
