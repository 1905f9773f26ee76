//! Counts of gaps, and of other numbers, by [steps](slabwise_profile::steps) of less than 1 %, with what a step's numbers sum
//! up to: where all of them are the same, it is exact.

use slabwise_profile::steps::{OCTAVE_STEPS, place};

/// Numbers by steps, all octaves in a row.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<Step>);

#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    pub count: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
}

impl Gaps {
    /// Adds a number so many times.
    pub fn record(&mut self, number: u64, count: u64) {
        let sum = number * count;
        self.add_to(index_of(number), Step { count, sum, least: number, most: number });
    }

    pub fn add(&mut self, other: &Gaps) {
        let steps = other.0.iter().enumerate().filter(|(_, step)| step.count > 0);
        steps.for_each(|(index, step)| self.add_to(index, *step));
    }

    /// All steps up to the greatest number's; those before it may be empty.
    pub fn all_steps(&self) -> &[Step] {
        &self.0
    }

    /// The steps that have numbers, the least first.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(|step| step.count > 0)
    }

    fn add_to(&mut self, index: usize, more: Step) {
        if index >= self.0.len() {
            self.0.resize(index + 1, Step::default());
        }
        let step = &mut self.0[index];
        let least = if step.count == 0 { more.least } else { step.least.min(more.least) };
        *step = Step {
            count: step.count + more.count,
            sum: step.sum + more.sum,
            least,
            most: step.most.max(more.most),
        };
    }
}

/// Where a number's step lies among [all](Gaps::all_steps).
pub fn index_of(number: u64) -> usize {
    let (octave, step) = place::<OCTAVE_STEPS>(number);
    octave * OCTAVE_STEPS + step
}

#[cfg(test)]
mod tests {
    use super::{Gaps, index_of};
    use slabwise_base::Random;

    #[test]
    fn steps_tell_their_numbers() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut one, mut other, mut numbers) = (Gaps::default(), Gaps::default(), Vec::new());
            for _ in 0..2_000 {
                let bound = 1 << random.below(20);
                let number = random.below(bound);
                let half = if random.below(2) == 0 { &mut one } else { &mut other };
                half.record(number, 2);
                numbers.push(number);
            }
            one.add(&other);
            numbers.sort_unstable();
            for group in numbers.chunk_by(|a, b| index_of(*a) == index_of(*b)) {
                let step = one.all_steps()[index_of(group[0])];
                let (least, most) = (group[0], group[group.len() - 1]);
                assert_eq!((step.least, step.most), (least, most), "seed {seed}");
                assert_eq!(step.count, 2 * group.len() as u64, "seed {seed}");
                assert_eq!(step.sum, 2 * group.iter().sum::<u64>(), "seed {seed}");
            }
            let count: u64 = one.steps().map(|step| step.count).sum();
            assert_eq!(count, 4_000, "seed {seed}");
        }
    }
}
