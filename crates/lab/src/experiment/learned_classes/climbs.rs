//! Many climbs over one distribution.

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_policy::sizes::{ChunkLayout, Demand, HillClimbOptions, SizesError, hill_climb};

#[derive(Clone, Debug)]
pub struct Climbs {
    /// The bytes that each wastes, the least first.
    pub wastes: Vec<f64>,
    pub mean_iterations: f64,
}

/// Climbs from a table, or from one each; the seed tells where they go.
pub fn climbs(
    demands: &[Demand],
    layout: &ChunkLayout,
    start: impl Fn(&mut Random) -> Vec<usize> + Sync,
    (count, seed): (u64, u64),
) -> Result<Climbs, SizesError> {
    let options = HillClimbOptions::default();
    let climb = |at: u64| {
        let mut random = Random::new(mix(seed ^ mix(at + 1)));
        let start = start(&mut random);
        hill_climb(demands, &start, layout, &options, &mut random)
    };
    let found: Result<Vec<_>, SizesError> = (0..count).into_par_iter().map(climb).collect();
    let found = found?;
    let iterations: u64 = found.iter().map(|climb| climb.iterations).sum();
    let mut wastes: Vec<f64> = found.iter().map(|climb| climb.loss.total_bytes()).collect();
    wastes.sort_by(f64::total_cmp);
    Ok(Climbs { mean_iterations: iterations as f64 / wastes.len() as f64, wastes })
}

impl Climbs {
    pub fn median(&self) -> f64 {
        self.wastes[self.wastes.len() / 2]
    }

    pub fn best(&self) -> f64 {
        self.wastes[0]
    }

    pub fn worst(&self) -> f64 {
        self.wastes[self.wastes.len() - 1]
    }

    pub fn within(&self, waste: f64) -> usize {
        self.wastes.partition_point(|&it| it <= waste)
    }

    pub fn ends(&self) -> usize {
        let mut ends = self.wastes.clone();
        ends.dedup();
        ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::climbs;
    use slabwise_base::Random;
    use slabwise_policy::sizes::{ChunkLayout, Demand};

    #[test]
    fn climbs_are_in_order_and_follow_from_their_seed() {
        let demand = |step: usize| Demand {
            size_bytes: 100 + step,
            items: (1 + step * 7919 % 13) as u64,
            byte_value: 1.0,
        };
        let demands: Vec<Demand> = (0..100).map(demand).collect();
        let layout = ChunkLayout::published(1_000);
        let run = |seed| {
            let start = |_: &mut Random| vec![120, 150, 300, 1_000];
            climbs(&demands, &layout, start, (9, seed)).expect("sound")
        };
        let found = run(1);
        assert_eq!(found.wastes.len(), 9);
        assert!(found.wastes.is_sorted());
        assert!(found.best() <= found.median() && found.median() <= found.worst());
        assert_eq!((found.within(found.worst()), found.within(found.best() - 1.0)), (9, 0));
        assert!((1..=9).contains(&found.ends()));
        assert_eq!(found.wastes, run(1).wastes);
    }
}
