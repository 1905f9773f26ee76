//! State that a policy keeps for each class.
//!
//! The class table may change between two steps. The state of a removed class is dropped. A new class starts with new
//! state, even if it has the number of an old one.

use crate::{ClassSnapshot, Snapshot};
use slabwise_base::ClassId;
use std::slice::{Iter, IterMut};

/// One state per class, in the order of the last snapshot.
#[derive(Clone, Debug)]
pub(crate) struct PerClass<T> {
    keys: Vec<(ClassId, usize)>,
    memories: Vec<T>,
}

impl<T> Default for PerClass<T> {
    fn default() -> PerClass<T> {
        PerClass { keys: Vec::new(), memories: Vec::new() }
    }
}

impl<T> PerClass<T> {
    /// Changes to the classes of this snapshot; `begin` creates the state of a new class.
    pub fn follow(&mut self, snapshot: &Snapshot, mut begin: impl FnMut(&ClassSnapshot) -> T) {
        let key = |class: &ClassSnapshot| (class.class, class.chunk_size_bytes);
        if snapshot.classes.iter().map(key).eq(self.keys.iter().copied()) {
            return;
        }
        let keys = std::mem::take(&mut self.keys).into_iter();
        let mut before: Vec<_> = keys.zip(self.memories.drain(..)).collect();
        for class in &snapshot.classes {
            let known = before.iter().position(|&(known, _)| known == key(class));
            self.keys.push(key(class));
            self.memories.push(match known {
                Some(index) => before.swap_remove(index).1,
                None => begin(class),
            });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.memories.iter()
    }

    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.memories.iter_mut()
    }

    pub fn of(&mut self, class: ClassId) -> &mut T {
        let index = self.keys.iter().position(|&(id, _)| id == class);
        &mut self.memories[index.expect("the class is in the snapshot")]
    }
}

#[cfg(test)]
mod tests {
    use super::PerClass;
    use crate::{ClassSnapshot, Snapshot};
    use slabwise_base::ClassId;

    fn snapshot(classes: &[(u8, usize)]) -> Snapshot {
        let class = |&(id, size)| ClassSnapshot::empty(ClassId(id), size, 10);
        Snapshot { classes: classes.iter().map(class).collect(), ..Snapshot::default() }
    }

    #[test]
    fn keeps_the_state_of_remaining_classes_only() {
        let mut memory = PerClass::default();
        memory.follow(&snapshot(&[(0, 64), (1, 96), (2, 512)]), |class| class.chunk_size_bytes);
        *memory.of(ClassId(1)) = 7;
        // 96 stays; number 0 now has another size; 512 is removed.
        memory.follow(&snapshot(&[(3, 80), (1, 96), (0, 128)]), |class| class.chunk_size_bytes);
        assert_eq!(memory.iter().copied().collect::<Vec<_>>(), [80, 7, 128]);
        assert_eq!(*memory.of(ClassId(0)), 128);
    }
}
