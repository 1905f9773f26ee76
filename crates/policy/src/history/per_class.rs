//! The state that a policy keeps for each class.
//!
//! The class table may change between two steps. The state of a removed class is dropped. A new class starts with new
//! state, even if a removed class had its number: a class is identified by its number and its chunk size.

use crate::{ClassSnapshot, Snapshot};
use slabwise_base::ClassId;
use std::slice::{Iter, IterMut};

/// One state per class, in the order of the classes in the last snapshot.
#[derive(Clone, Debug)]
pub(crate) struct PerClass<T> {
    /// The number and the chunk size (in bytes) of each class.
    keys: Vec<(ClassId, usize)>,
    states: Vec<T>,
}

impl<T> Default for PerClass<T> {
    fn default() -> PerClass<T> {
        PerClass { keys: Vec::new(), states: Vec::new() }
    }
}

impl<T> PerClass<T> {
    /// Adapts the states to the classes of this snapshot and their order. `new_state` creates the state of a class that
    /// was not in the last snapshot.
    pub fn follow(&mut self, snapshot: &Snapshot, mut new_state: impl FnMut(&ClassSnapshot) -> T) {
        let key = |class: &ClassSnapshot| (class.class, class.chunk_size_bytes);
        if snapshot.classes.iter().map(key).eq(self.keys.iter().copied()) {
            return;
        }
        let keys = std::mem::take(&mut self.keys).into_iter();
        let mut before: Vec<_> = keys.zip(self.states.drain(..)).collect();
        for class in &snapshot.classes {
            let known = before.iter().position(|&(known, _)| known == key(class));
            self.keys.push(key(class));
            self.states.push(match known {
                Some(index) => before.swap_remove(index).1,
                None => new_state(class),
            });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.states.iter()
    }

    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.states.iter_mut()
    }

    /// Returns the state of this class. Panics if the class is not in the last snapshot.
    pub fn of(&mut self, class: ClassId) -> &mut T {
        let index = self.keys.iter().position(|&(id, _)| id == class);
        &mut self.states[index.expect("the class is in the snapshot")]
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
    fn only_classes_that_remain_keep_their_state() {
        let mut states = PerClass::default();
        states.follow(&snapshot(&[(0, 64), (1, 96), (2, 512)]), |class| class.chunk_size_bytes);
        *states.of(ClassId(1)) = 7;
        // The class of 96 bytes remains. Number 0 now has another size. The class of 512 bytes is removed.
        states.follow(&snapshot(&[(3, 80), (1, 96), (0, 128)]), |class| class.chunk_size_bytes);
        assert_eq!(states.iter().copied().collect::<Vec<_>>(), [80, 7, 128]);
        assert_eq!(*states.of(ClassId(0)), 128);
    }
}
