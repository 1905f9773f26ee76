//! How fast a class fills its memory with new items.

use crate::ClassSnapshot;

/// The chunks that new items of a class take between two steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// The number of chunks in use at the last step.
    used_chunks: u64,
    /// The number of evictions since the start, at the last step.
    evicted: u64,
    /// The number of allocations since the start that found no free chunk, at the last step.
    shortages: u64,
    /// The number of chunks that new items took between the last two steps: those of evicted items, and free ones.
    taken_chunks: u64,
    /// The number of free chunks that items took between the last two steps.
    filled_chunks: u64,
    /// True if an allocation found no free chunk between the last two steps.
    pub had_shortage: bool,
    /// The number of steps since the last one after which `had_shortage` was true.
    steps_since_shortage: u32,
}

/// A class lacks memory for this number of steps after a shortage, if it fills its free chunks until the next step. The
/// pages that it received after the shortage may last for a step.
const LACKING_STEPS: u32 = 4;

impl Filling {
    pub fn new(class: &ClassSnapshot) -> Filling {
        Filling {
            used_chunks: class.used_chunks,
            evicted: class.evicted,
            shortages: class.shortages(),
            taken_chunks: 0,
            filled_chunks: 0,
            had_shortage: false,
            steps_since_shortage: u32::MAX,
        }
    }

    /// Counts the chunks that new items took since the last step.
    pub fn update(&mut self, class: &ClassSnapshot) {
        let evicted = class.evicted.saturating_sub(self.evicted);
        let filled_chunks = class.used_chunks.saturating_sub(self.used_chunks);
        let had_shortage = class.shortages() > self.shortages;
        *self = Filling {
            taken_chunks: evicted + filled_chunks,
            filled_chunks,
            had_shortage,
            steps_since_shortage: match had_shortage {
                true => 0,
                false => self.steps_since_shortage.saturating_add(1),
            },
            ..Filling::new(class)
        };
    }

    /// Returns the number of new pages that the class would begin to fill until the next step, after its free chunks.
    pub fn fillable_pages(&self, class: &ClassSnapshot) -> u64 {
        let lacking = self.taken_chunks.saturating_sub(class.free_chunks);
        let lacks_any = self.had_shortage && class.free_chunks == 0;
        lacking.max(u64::from(lacks_any)).div_ceil(class.chunks_per_page as u64)
    }

    /// Returns true if the class had a shortage since the last step, or a few steps ago, and would fill its free chunks until
    /// the next step.
    pub fn lacks_memory(&self, class: &ClassSnapshot) -> bool {
        self.had_shortage
            || self.steps_since_shortage < LACKING_STEPS && self.taken_chunks > class.free_chunks
    }

    /// Returns true if the class would fill its free chunks within this number of steps.
    pub fn fills_within(&self, steps: u64, class: &ClassSnapshot) -> bool {
        self.filled_chunks > 0 && self.filled_chunks * steps >= class.free_chunks
    }
}

#[cfg(test)]
mod tests {
    use super::Filling;
    use crate::ClassSnapshot;
    use slabwise_base::ClassId;

    fn class() -> ClassSnapshot {
        ClassSnapshot::empty(ClassId(0), 100, 10)
    }

    #[test]
    fn a_class_can_fill_the_chunks_that_it_took_in_a_step_less_its_free_chunks() {
        let fillable = |evicted, used_chunks, free_chunks| {
            let mut filling = Filling::new(&ClassSnapshot { used_chunks: 20, ..class() });
            let now = ClassSnapshot { evicted, used_chunks, free_chunks, ..class() };
            filling.update(&now);
            filling.fillable_pages(&now)
        };
        assert_eq!(fillable(0, 20, 0), 0, "no item was stored");
        assert_eq!(fillable(1, 20, 0), 1);
        assert_eq!(fillable(25, 25, 0), 3, "30 chunks");
        assert_eq!(fillable(25, 25, 20), 1, "30 chunks, of which 20 are free");
        assert_eq!(fillable(25, 25, 30), 0);
    }

    #[test]
    fn a_class_lacks_memory_for_some_steps_after_a_shortage_while_it_fills_its_chunks() {
        let mut filling = Filling::new(&ClassSnapshot { used_chunks: 20, ..class() });
        // Returns whether the class lacks memory after a step in which it took 10 chunks, and has this number of free ones.
        let mut lacks_after = |step: u64, evicted, free_chunks| {
            let used_chunks = 20 + 10 * step;
            let now = ClassSnapshot { evicted, used_chunks, free_chunks, ..class() };
            filling.update(&now);
            filling.lacks_memory(&now)
        };
        assert!(!lacks_after(1, 0, 5), "it never had a shortage");
        assert!(lacks_after(2, 1, 50));
        assert!(lacks_after(3, 1, 9) && lacks_after(4, 1, 9));
        assert!(!lacks_after(5, 1, 10), "the free chunks last until the next step");
        assert!(!lacks_after(6, 1, 9), "the shortage was too long ago");
    }

    #[test]
    fn a_class_without_chunks_can_fill_a_page_after_a_shortage() {
        let mut filling = Filling::new(&class());
        let now = ClassSnapshot { out_of_memory: 1, ..class() };
        filling.update(&now);
        assert_eq!((filling.had_shortage, filling.fillable_pages(&now)), (true, 1));
    }
}
