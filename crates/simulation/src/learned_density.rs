//! Evicts the item with the least expected hits per tick and byte, as `eviction=density` in a server does.
//!
//! The rank of an item is its density, which [`Hazards`] learns, divided by its size.

use super::pool::Item;
use super::sampled::{Ranking, Stamp};
use slabwise_base::density::Densities;
use slabwise_base::random::mix;
use slabwise_base::{Uses, WorkTime};
use slabwise_profile::{AccessKind, Hazards, UseOfKey};

/// The number of keys from which the densities are learned, as in a server.
const KEYS_MAX: usize = 16 << 10;

#[derive(Debug)]
pub struct LearnedDensity {
    hazards: Hazards,
    densities: Densities,
}

impl LearnedDensity {
    pub fn new() -> LearnedDensity {
        LearnedDensity { hazards: Hazards::new(KEYS_MAX), densities: Densities::default() }
    }

    fn note(&mut self, key: u32, kind: AccessKind, uses: Uses, now: u32) {
        let (hash, work_time) = (mix(u64::from(key)), WorkTime(now));
        self.hazards.access(&UseOfKey { hash, kind, uses, work_time });
    }
}

impl Ranking for LearnedDensity {
    fn rank(&self, item: &Item<Stamp>, now: u32) -> f64 {
        let log = self.densities.log(item.state.uses, now - item.state.tick);
        log.number() / f64::from(item.size_bytes.max(1))
    }

    fn requested(&mut self, key: u32, uses: Uses, now: u32) {
        self.note(key, AccessKind::Hit, uses, now);
        if let Some(densities) = self.hazards.densities(WorkTime(now)) {
            self.densities = densities;
        }
    }

    fn evicted(&mut self, _rank: f64) {}

    fn deleted(&mut self, key: u32) {
        self.note(key, AccessKind::Delete, Uses::FIRST, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::LearnedDensity;
    use crate::pool::Item;
    use crate::sampled::{Ranking, Stamp};
    use slabwise_base::Uses;

    #[test]
    fn before_anything_is_learned_old_and_large_items_have_low_ranks() {
        let density = LearnedDensity::new();
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
