//! Drawing one of many things that are only counted.

use slabwise_base::Random;

/// Takes one of the things, each as likely as any other, and tells among which it was counted; `None` when
/// there are no more.
pub(crate) fn draw(counts: &mut [u64], random: &mut Random) -> Option<usize> {
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return None;
    }
    let mut place = random.below(all);
    for (index, count) in counts.iter_mut().enumerate() {
        if place < *count {
            *count -= 1;
            return Some(index);
        }
        place -= *count;
    }
    unreachable!("the place is below the sum of the counts");
}

#[cfg(test)]
mod tests {
    use super::draw;
    use slabwise_base::Random;

    #[test]
    fn each_thing_is_drawn_once_and_at_first_as_often_as_it_is_counted() {
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
