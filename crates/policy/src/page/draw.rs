//! Draws one of many things of which only counts are kept.

use slabwise_base::Random;

/// Draws one thing at random, all equally likely, removes it, and returns the index of its count; `None` if no things
/// are left.
pub(crate) fn draw(counts: &mut [u64], random: &mut Random) -> Option<usize> {
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return None;
    }
    let mut rest = random.below(all);
    for (index, count) in counts.iter_mut().enumerate() {
        if rest < *count {
            *count -= 1;
            return Some(index);
        }
        rest -= *count;
    }
    unreachable!("the number drawn is below the sum of the counts");
}

#[cfg(test)]
mod tests {
    use super::draw;
    use slabwise_base::Random;

    #[test]
    fn draws_each_thing_once_with_probability_by_its_count() {
        let (seed, counts) = (21, [3, 0, 1]);
        let mut random = Random::new(seed);
        let mut first = [0; 3];
        for _ in 0..4_000 {
            let mut left = counts;
            let drawn: Vec<usize> = std::iter::from_fn(|| draw(&mut left, &mut random)).collect();
            assert_eq!(drawn.iter().filter(|&&index| index == 0).count(), 3, "seed {seed}");
            assert_eq!(drawn.len(), 4, "seed {seed}");
            first[drawn[0]] += 1;
        }
        assert!((2_850..3_150).contains(&first[0]) && first[1] == 0, "seed {seed}: {first:?}");
    }
}
