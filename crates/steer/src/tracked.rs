//! A state for each class of the server, which follows the classes from one reading to the next.
//!
//! Invariants: there is one state for each class of the last reading, in its order; a class with another chunk size is
//! another class.

use slabwise_base::ClassId;
use slabwise_policy::ClassSnapshot;
use std::slice::{Iter, IterMut};

/// One state per class.
#[derive(Debug)]
pub struct Tracked<T> {
    /// The number and the chunk size in bytes of each class.
    keys: Vec<(ClassId, usize)>,
    states: Vec<T>,
}

impl<T> Default for Tracked<T> {
    fn default() -> Tracked<T> {
        Tracked { keys: Vec::new(), states: Vec::new() }
    }
}

impl<T> Tracked<T> {
    /// Drops the states of classes that are gone, and creates the states of new classes.
    pub fn follow<C>(
        &mut self,
        classes: &[C],
        shown: impl Fn(&C) -> ClassSnapshot,
        new_state: impl Fn(&C) -> T,
    ) {
        let mut before: Vec<_> =
            std::mem::take(&mut self.keys).into_iter().zip(self.states.drain(..)).collect();
        for class in classes {
            let ClassSnapshot { class: id, chunk_size_bytes, .. } = shown(class);
            let key = (id, chunk_size_bytes);
            let known = before.iter().position(|(known, _)| *known == key);
            self.keys.push(key);
            self.states.push(match known {
                Some(index) => before.swap_remove(index).1,
                None => new_state(class),
            });
        }
    }

    /// Returns the states.
    pub fn iter(&self) -> Iter<'_, T> {
        self.states.iter()
    }

    /// Returns the states.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.states.iter_mut()
    }
}
