//! A stack of keys with the most recently used key at the top.
//!
//! ```text
//!   slots, in order of time:   . 7 . . 4 9 . 2 | next
//!                                ^             each key is on the slot of its last use;
//!                                '- the distance of key 7 is the number of keys on later slots: 3
//! ```
//!
//! The owner of the stack records the slot of each key. The stack reports each key that it moves to another slot. When
//! all slots are used, the stack moves the keys to the first slots. The use of a key takes O(log n) on average, for n
//! keys.
//!
//! Invariants: a slot is marked if and only if a key is on it; no key is on a slot before `oldest`, or on `next` or a
//! later slot.

/// The initial and minimum number of slots.
const SLOTS_MIN: usize = 512;
/// [`Stack::shrink`] frees memory if there are more than this number of slots per key.
const SLOTS_PER_KEY_MAX: usize = 4;

/// Keys in order of their last use.
#[derive(Debug)]
pub struct Stack<K = u32> {
    marks: Marks,
    /// The key on each slot; any value if the slot is not marked.
    keys: Vec<K>,
    /// The number of keys.
    count: usize,
    /// The first slot that can have a key. All slots before it are free.
    oldest: usize,
    /// The slot for the next key.
    next: usize,
}

impl<K: Copy + Default> Default for Stack<K> {
    fn default() -> Stack<K> {
        Stack {
            marks: Marks::new(SLOTS_MIN, 0),
            keys: vec![K::default(); SLOTS_MIN],
            count: 0,
            oldest: 0,
            next: 0,
        }
    }
}

impl<K: Copy + Default> Stack<K> {
    pub fn count(&self) -> usize {
        self.count
    }

    /// Puts a key on top and returns its slot. Calls `moved` for every other key that moves, with the key's new slot.
    pub fn push(&mut self, key: K, moved: impl FnMut(K, u32)) -> u32 {
        if self.next == self.marks.slots() {
            self.compact(moved);
        }
        let slot = self.next;
        self.marks.mark(slot);
        self.keys[slot] = key;
        self.count += 1;
        self.next += 1;
        slot as u32
    }

    /// Returns the distance of the key on this slot: the number of keys that were used later.
    pub fn distance(&self, slot: u32) -> u64 {
        (self.count - 1 - self.marks.before(slot as usize)) as u64
    }

    /// Removes the key on this slot.
    pub fn remove(&mut self, slot: u32) {
        self.marks.unmark(slot as usize);
        self.count -= 1;
    }

    /// Returns the key on this slot; `None` if no key is on the slot.
    pub fn key_on(&self, slot: u32) -> Option<K> {
        let slot = slot as usize;
        (slot < self.next && self.marks.is_marked(slot)).then(|| self.keys[slot])
    }

    /// Returns the least recently used key; `None` if there are no keys.
    pub fn oldest(&mut self) -> Option<K> {
        while self.oldest < self.next && !self.marks.is_marked(self.oldest) {
            self.oldest += 1;
        }
        (self.oldest < self.next).then(|| self.keys[self.oldest])
    }

    /// Returns the keys, the most recently used first.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        let slots = (self.oldest..self.next).rev().filter(|&slot| self.marks.is_marked(slot));
        slots.map(|slot| self.keys[slot])
    }

    pub fn size_bytes(&self) -> usize {
        self.marks.size_bytes() + self.keys.capacity() * size_of::<K>()
    }

    /// Frees memory if there are many more slots than keys. Calls `moved` for every key that moves, with its new slot.
    pub fn shrink(&mut self, moved: impl FnMut(K, u32)) {
        if self.marks.slots() > (SLOTS_PER_KEY_MAX * self.count).max(SLOTS_MIN) {
            self.compact(moved);
        }
    }

    /// Moves the keys to the first slots in their order. Afterwards, at least half of the slots are free.
    fn compact(&mut self, mut moved: impl FnMut(K, u32)) {
        let mut rank = 0;
        for slot in self.oldest..self.next {
            if self.marks.is_marked(slot) {
                self.keys[rank] = self.keys[slot];
                moved(self.keys[rank], rank as u32);
                rank += 1;
            }
        }
        assert!(
            rank == self.count,
            "{} keys are on the same number of slots, not {rank}",
            self.count
        );
        self.marks = Marks::new((2 * rank).max(SLOTS_MIN), rank);
        let slots = self.marks.slots();
        assert!(
            slots <= u32::MAX as usize,
            "a stack has fewer than 2^32 slots; {rank} keys need {slots}"
        );
        self.keys.truncate(rank);
        self.keys.shrink_to(slots);
        self.keys.reserve_exact(slots - rank);
        self.keys.resize(slots, K::default());
        (self.oldest, self.next) = (0, rank);
    }
}

/// The number of slots in a word.
const WORD_SLOTS: usize = 64;
/// The number of words in a block. A block is as large as a cache line.
const BLOCK_WORDS: usize = 8;
/// The number of slots in a block.
const BLOCK_SLOTS: usize = WORD_SLOTS * BLOCK_WORDS;

/// A bit for each slot that says whether the slot is marked. The number of marked slots before a slot is found fast.
///
/// ```text
///   tree    Fenwick tree of the marks in blocks (P. Fenwick, "A New Data Structure for Cumulative
///             |                                  Frequency Tables", 1994)
///   words   |64 slots|64|64|64|64|64|64|64|     a block is a cache line of words, which are counted directly
/// ```
///
/// To mark a slot, or to count the marked slots before a slot, takes O(log(slots / 512)) steps.
#[derive(Debug)]
struct Marks {
    /// The bits of all slots.
    words: Vec<u64>,
    /// Element `i` is the number of marks in the blocks `i - (i & -i) .. i`. Element 0 is unused.
    tree: Vec<u32>,
}

impl Marks {
    /// Creates at least `slots` slots, of which the first `marked` are marked.
    fn new(slots: usize, marked: usize) -> Marks {
        assert!(marked <= slots, "at most {slots} slots can be marked, not {marked}");
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

    fn slots(&self) -> usize {
        self.words.len() * WORD_SLOTS
    }

    fn is_marked(&self, slot: usize) -> bool {
        self.words[slot / WORD_SLOTS] & bit(slot) != 0
    }

    fn size_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.tree)
    }

    fn mark(&mut self, slot: usize) {
        debug_assert!(!self.is_marked(slot), "slot {slot} is not marked before it is marked");
        self.words[slot / WORD_SLOTS] |= bit(slot);
        self.add(slot, 1);
    }

    fn unmark(&mut self, slot: usize) {
        debug_assert!(self.is_marked(slot), "slot {slot} is marked before its mark is removed");
        self.words[slot / WORD_SLOTS] &= !bit(slot);
        self.add(slot, u32::MAX);
    }

    /// Returns the number of marked slots before this slot.
    fn before(&self, slot: usize) -> usize {
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

    /// Adds `change`, modulo 2^32, to every element of the tree that counts the slot.
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

/// Returns a word with only the bit of this slot.
fn bit(slot: usize) -> u64 {
    1 << (slot % WORD_SLOTS)
}

/// Returns a word with the bits of the slots before this slot in the slot's word.
fn below(slot: usize) -> u64 {
    bit(slot) - 1
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_SLOTS, Marks, SLOTS_MIN, Stack};
    use slabwise_base::Random;

    /// A stack, and a list of the same keys with which it is compared.
    #[derive(Default)]
    struct Pair {
        stack: Stack,
        /// The slot of each key in the stack.
        slots: Vec<u32>,
        /// The keys, the most recently used last.
        list: Vec<u32>,
    }

    impl Pair {
        fn push(&mut self, key: u32) {
            let slots = &mut self.slots;
            let slot = self.stack.push(key, |moved, slot| slots[moved as usize] = slot);
            self.slots[key as usize] = slot;
            self.list.push(key);
        }

        /// Removes a key. Returns its distance in the stack and its distance in the list.
        fn take(&mut self, key: u32) -> (u64, u64) {
            let index =
                self.list.iter().position(|&other| other == key).expect("the key is in the list");
            self.list.remove(index);
            let slot = self.slots[key as usize];
            let distance = self.stack.distance(slot);
            self.stack.remove(slot);
            (distance, (self.list.len() - index) as u64)
        }
    }

    #[test]
    fn distances_and_the_oldest_key_equal_those_of_a_list() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let keys = 1 + random.below(2 * SLOTS_MIN as u64) as u32;
            let mut pair = Pair { slots: vec![0; keys as usize], ..Pair::default() };
            for at in 0..8 * SLOTS_MIN {
                let key = random.below(u64::from(keys)) as u32;
                if pair.list.contains(&key) {
                    let (found, expected) = pair.take(key);
                    assert_eq!(found, expected, "seed {seed}, step {at}: distance of key {key}");
                }
                if random.below(8) > 0 {
                    pair.push(key);
                }
                assert_eq!(
                    pair.stack.oldest(),
                    pair.list.first().copied(),
                    "seed {seed}: oldest key"
                );
                assert_eq!(pair.stack.count(), pair.list.len(), "seed {seed}: number of keys");
                assert!(pair.stack.keys().eq(pair.list.iter().rev().copied()), "seed {seed}: keys");
            }
        }
    }

    #[test]
    fn memory_decreases_with_the_number_of_keys() {
        let mut pair = Pair { slots: vec![0; 100_000], ..Pair::default() };
        (0..100_000).for_each(|key| pair.push(key));
        let large = pair.stack.size_bytes();
        assert!(
            large < 100_000 * 16,
            "100,000 keys take less than 16 bytes each, not {large} in all"
        );
        (0..100_000).rev().take(99_900).for_each(|key| pair.stack.remove(pair.slots[key]));
        for _ in 0..200_000 {
            pair.stack.remove(pair.slots[0]);
            let slots = &mut pair.slots;
            pair.slots[0] = pair.stack.push(0, |moved, slot| slots[moved as usize] = slot);
        }
        assert!(pair.stack.size_bytes() < 8 * SLOTS_MIN, "{} bytes", pair.stack.size_bytes());
    }

    #[test]
    fn memory_is_freed_without_further_pushes() {
        let mut pair = Pair { slots: vec![0; 100_000], ..Pair::default() };
        (0..100_000).for_each(|key| pair.push(key));
        (0..99_900).for_each(|key| {
            pair.take(key);
        });
        let Pair { stack, slots, list } = &mut pair;
        stack.shrink(|moved, slot| slots[moved as usize] = slot);
        assert!(stack.size_bytes() < 8 * SLOTS_MIN, "{} bytes", stack.size_bytes());
        let kept: Vec<_> = list.iter().map(|&key| stack.key_on(slots[key as usize])).collect();
        assert!(
            kept.iter().flatten().eq(list.iter()),
            "the remaining keys are on the reported slots"
        );
        stack.shrink(|_, _| panic!("no key moves, because the stack is small already"));
    }

    #[test]
    fn counts_of_marks_equal_those_of_a_list() {
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
                let at = random.below(slots as u64) as usize;
                let expected = plain[..at].iter().filter(|&&marked| marked).count();
                assert_eq!(
                    marks.before(at),
                    expected,
                    "seed {seed}: marks before slot {at} of {slots}"
                );
            }
        }
    }
}
