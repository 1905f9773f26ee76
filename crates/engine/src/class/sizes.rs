//! How many items of which size a class has in its queues, kept under its lock.
//!
//! Invariant: the counts are those of a walk over the queues.

use slabwise_base::SizeHistogram;
use slabwise_base::size_histogram::bucket_of;

/// Items by bucket of [`slabwise_base::size_histogram`]. Those of a class lie close together, just below its chunk
/// size, so what is counted of all of them takes little more than one histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSizes {
    /// The bucket that `items` begins with.
    first: usize,
    items: Vec<u64>,
}

impl ItemSizes {
    /// Counts an item that enters the queues.
    #[inline]
    pub fn add(&mut self, size_bytes: u64) {
        let bucket = bucket_of(size_bytes as usize);
        match self.items.get_mut(bucket.wrapping_sub(self.first)) {
            Some(items) => *items += 1,
            None => *self.grown(bucket) += 1,
        }
    }

    /// Counts one that leaves them, of the same size as it came with.
    #[inline]
    pub fn remove(&mut self, size_bytes: u64) {
        self.items[bucket_of(size_bytes as usize) - self.first] -= 1;
    }

    #[cold]
    fn grown(&mut self, bucket: usize) -> &mut u64 {
        if self.items.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let before = std::iter::repeat_n(0, self.first - bucket);
            self.items.splice(..0, before);
            self.first = bucket;
        }
        let index = bucket - self.first;
        if index >= self.items.len() {
            self.items.resize(index + 1, 0);
        }
        &mut self.items[index]
    }

    /// Adds them to those of other classes.
    pub fn add_to(&self, histogram: &mut SizeHistogram) {
        for (index, &items) in self.items.iter().enumerate() {
            histogram.add_to_bucket(self.first + index, items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ItemSizes;
    use slabwise_base::{Random, SizeHistogram};

    #[test]
    fn it_counts_as_a_histogram_does() {
        let seed = 7;
        let mut random = Random::new(seed);
        let (mut sizes, mut present, mut expected) =
            (ItemSizes::default(), Vec::new(), SizeHistogram::default());
        for _ in 0..10_000 {
            let size_bytes = 100 + random.below(10_000);
            sizes.add(size_bytes);
            present.push(size_bytes);
            if random.below(3) == 0 {
                let gone = present.swap_remove(random.below(present.len() as u64) as usize);
                sizes.remove(gone);
            }
        }
        present.iter().for_each(|&size_bytes| expected.add(size_bytes as usize, 1));
        let mut found = SizeHistogram::default();
        sizes.add_to(&mut found);
        assert!(found.bars().eq(expected.bars()), "seed {seed}");
    }
}
