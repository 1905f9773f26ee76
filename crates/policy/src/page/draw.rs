//! A random draw from groups of objects of which only the numbers are known.

use slabwise_base::Random;

/// Draws one object at random from groups of these sizes; all objects are equally likely. Decrements the size of the
/// object's group and returns the index of the group; `None` if all groups are empty.
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
    unreachable!("the random number is below the sum of the group sizes");
}

#[cfg(test)]
mod tests {
    use super::draw;
    use slabwise_base::Random;

    #[test]
    fn every_object_is_drawn_once_and_all_are_equally_likely() {
        let (seed, counts) = (21, [3, 0, 1]);
        let mut random = Random::new(seed);
        let mut first = [0; 3];
        for _ in 0..4_000 {
            let mut left = counts;
            let drawn: Vec<usize> = std::iter::from_fn(|| draw(&mut left, &mut random)).collect();
            assert_eq!(
                drawn.iter().filter(|&&index| index == 0).count(),
                3,
                "seed {seed}: group 0 has 3 objects"
            );
            assert_eq!(drawn.len(), 4, "seed {seed}: there are 4 objects");
            first[drawn[0]] += 1;
        }
        assert!(
            (2_850..3_150).contains(&first[0]) && first[1] == 0,
            "seed {seed}: of 4,000 first objects about 3,000 are of group 0 and none of group 1: {first:?}"
        );
    }
}
