//! A line of slots, some of them marked, that tells how many marks lie before a slot.
//!
//! ```text
//!   tree    Fenwick tree: marks in blocks       (P. Fenwick, "A New Data Structure for Cumulative
//!             |                                  Frequency Tables", 1994)
//!   words   |64 slots|64|64|64|64|64|64|64|     a block is a cache line of words, counted directly
//! ```
//!
//! Marking and counting take O(log(slots / 512)) steps.

/// Slots in one word.
const WORD_SLOTS: usize = 64;
/// Words in one block: a cache line.
const BLOCK_WORDS: usize = 8;
const BLOCK_SLOTS: usize = WORD_SLOTS * BLOCK_WORDS;

#[derive(Debug)]
pub struct Marks {
    words: Vec<u64>,
    /// Element `i` counts the marks of the blocks `i - (i & -i) .. i`; element 0 is not used.
    tree: Vec<u32>,
}

impl Marks {
    /// At least `slots` slots, the first `marked` of them marked.
    pub fn new(slots: usize, marked: usize) -> Marks {
        assert!(marked <= slots, "{marked} marks do not fit {slots} slots");
        let blocks = slots.div_ceil(BLOCK_SLOTS).max(1);
        let mut words = vec![0; blocks * BLOCK_WORDS];
        words[..marked / WORD_SLOTS].fill(u64::MAX);
        if !marked.is_multiple_of(WORD_SLOTS) {
            words[marked / WORD_SLOTS] = below(marked);
        }
        let mut tree = vec![0; blocks + 1];
        for block in 1..=blocks {
            let own = &words[(block - 1) * BLOCK_WORDS..block * BLOCK_WORDS];
            tree[block] += count(own);
            let parent = block + lowest_bit(block);
            if parent <= blocks {
                tree[parent] += tree[block];
            }
        }
        Marks { words, tree }
    }

    pub fn slots(&self) -> usize {
        self.words.len() * WORD_SLOTS
    }

    pub fn is_marked(&self, slot: usize) -> bool {
        self.words[slot / WORD_SLOTS] & bit(slot) != 0
    }

    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.tree)
    }

    pub fn mark(&mut self, slot: usize) {
        debug_assert!(!self.is_marked(slot), "slot {slot} is marked");
        self.words[slot / WORD_SLOTS] |= bit(slot);
        self.add(slot, 1);
    }

    pub fn unmark(&mut self, slot: usize) {
        debug_assert!(self.is_marked(slot), "slot {slot} has no mark");
        self.words[slot / WORD_SLOTS] &= !bit(slot);
        self.add(slot, u32::MAX);
    }

    pub fn before(&self, slot: usize) -> usize {
        let mut sum = 0;
        let mut block = slot / BLOCK_SLOTS;
        let words = &self.words[block * BLOCK_WORDS..slot / WORD_SLOTS];
        while block > 0 {
            sum += self.tree[block];
            block -= lowest_bit(block);
        }
        let within = self.words[slot / WORD_SLOTS] & below(slot);
        (sum + count(words) + within.count_ones()) as usize
    }

    /// Adds `change`, modulo 2^32, to every count that the slot is part of.
    fn add(&mut self, slot: usize, change: u32) {
        let mut block = slot / BLOCK_SLOTS + 1;
        while block < self.tree.len() {
            self.tree[block] = self.tree[block].wrapping_add(change);
            block += lowest_bit(block);
        }
    }
}

fn count(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

fn bit(slot: usize) -> u64 {
    1 << (slot % WORD_SLOTS)
}

fn below(slot: usize) -> u64 {
    bit(slot) - 1
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_SLOTS, Marks};
    use slabwise_base::Random;

    #[test]
    fn counts_are_those_of_a_plain_list() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let slots = 1 + random.below(5 * BLOCK_SLOTS as u64) as usize;
            let marked = random.below(slots as u64 + 1) as usize;
            let mut marks = Marks::new(slots, marked);
            let mut plain = vec![false; marks.slots()];
            plain[..marked].fill(true);
            for _ in 0..500 {
                let slot = random.below(slots as u64) as usize;
                match plain[slot] {
                    true => marks.unmark(slot),
                    false => marks.mark(slot),
                }
                plain[slot] = !plain[slot];
                let asked = random.below(slots as u64) as usize;
                let expected = plain[..asked].iter().filter(|&&marked| marked).count();
                assert_eq!(marks.before(asked), expected, "seed {seed}, slot {asked} of {slots}");
            }
        }
    }
}
