//! The keys of a profiler. Each key is in one stack: the stack of its class, or the stack of *absent* keys, which were
//! requested but never stored, or were deleted. A *slot* is a position in a stack.
//!
//! Invariant: each key is in the stack and on the slot that its record names, and in no other stack.

use crate::class_keys::ClassKeys;
use crate::key_table::{KeyTable, NO_SLOT, Place, Record};
use crate::stack::Stack;
use slabwise_base::ClassId;
use slabwise_base::sampling::is_sampled;

/// The maximum number of absent keys is the maximum number of all keys divided by this number.
const ABSENT_SHARE: usize = 8;
/// The minimum of the maximum number of absent keys.
const ABSENT_KEYS_MIN: usize = 8;

#[derive(Debug)]
pub struct Stacks {
    pub keys: KeyTable,
    /// The data of each class, by the number of the class; `None` for a class without keys or counts.
    classes: Vec<Option<Box<ClassKeys>>>,
    /// The keys that are in no stack of a class, in order of their last get or delete.
    absent: Stack,
    /// The maximum number of absent keys.
    absent_max: usize,
}

impl Stacks {
    /// Creates empty stacks for at most this many keys.
    pub fn new(keys_max: usize) -> Stacks {
        Stacks {
            keys: KeyTable::new(keys_max),
            classes: Vec::new(),
            absent: Stack::default(),
            absent_max: (keys_max / ABSENT_SHARE).max(ABSENT_KEYS_MIN),
        }
    }

    pub fn size_bytes(&self) -> usize {
        let classes: usize = self.classes().map(|(_, class)| class.size_bytes()).sum();
        let list = self.classes.capacity() * size_of::<Option<Box<ClassKeys>>>();
        self.keys.size_bytes() + self.absent.size_bytes() + list + classes
    }

    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &ClassKeys)> {
        let classes = self.classes.iter().enumerate();
        classes.filter_map(|(index, class)| Some((ClassId(index as u8), &**class.as_ref()?)))
    }

    pub fn classes_mut(&mut self) -> impl Iterator<Item = &mut ClassKeys> {
        self.classes.iter_mut().flatten().map(|class| &mut **class)
    }

    pub fn class(&self, class: ClassId) -> Option<&ClassKeys> {
        self.classes.get(class.index())?.as_deref()
    }

    /// Returns the data of a class; creates them if there are none.
    pub fn class_mut(&mut self, class: ClassId) -> &mut ClassKeys {
        if class.index() >= self.classes.len() {
            self.classes.resize_with(class.index() + 1, || None);
        }
        self.classes[class.index()].get_or_insert_with(|| Box::new(ClassKeys::unlimited()))
    }

    /// Sets the data of a class that has none. The class has no keys yet.
    pub fn set_class(&mut self, class: ClassId, keys: ClassKeys) {
        *self.class_mut(class) = keys;
    }

    /// Returns the class in whose stack a key is; `None` if the key is absent.
    pub fn class_of(&self, number: u32) -> Option<ClassId> {
        match self.keys.get(number).place() {
            Place::Stacked(class) => Some(class),
            Place::NeverStored | Place::Deleted(_) => None,
        }
    }

    /// Puts a key on top of the stack of `place` and removes it from its old stack.
    pub fn put(&mut self, number: u32, place: Place) {
        self.remove_from_stack(number);
        if let Place::Stacked(class) = place {
            self.class_mut(class);
        }
        let Stacks { keys, classes, absent, .. } = self;
        let stack = match place {
            Place::Stacked(class) => match &mut classes[class.index()] {
                Some(class) => &mut class.stack,
                None => unreachable!("class_mut has created the class"),
            },
            Place::NeverStored | Place::Deleted(_) => absent,
        };
        let slot = stack.push(number, |number, slot| keys.get_mut(number).slot = slot);
        let record = keys.get_mut(number);
        record.set_place(place);
        record.slot = slot;
    }

    fn remove_from_stack(&mut self, number: u32) {
        let record = *self.keys.get(number);
        if record.slot != NO_SLOT {
            self.stack_mut(record.place()).remove(record.slot);
            self.keys.get_mut(number).slot = NO_SLOT;
        }
    }

    pub fn forget(&mut self, number: u32) {
        self.remove_from_stack(number);
        self.keys.remove(number);
    }

    pub fn forget_where(&mut self, holds: impl Fn(&Record) -> bool) {
        self.keys.numbers_where(holds).into_iter().for_each(|number| self.forget(number));
    }

    /// Removes the data of a class and returns them. Their keys keep their place, but are on no slot, until the caller
    /// puts them into another stack.
    pub fn take_class(&mut self, class: ClassId) -> Option<Box<ClassKeys>> {
        let taken = self.classes.get_mut(class.index())?.take()?;
        taken.stack.keys().for_each(|number| self.keys.get_mut(number).slot = NO_SLOT);
        Some(taken)
    }

    /// Forgets the least recently used keys of a stack that has too many.
    pub fn limit(&mut self, place: Place) {
        let keys_max = match place {
            Place::Stacked(class) => self.class_mut(class).keys_max,
            Place::NeverStored | Place::Deleted(_) => self.absent_max,
        };
        while self.stack_mut(place).count() > keys_max {
            let oldest = self.stack_mut(place).oldest();
            self.forget(oldest.expect("a stack with keys has an oldest key"));
        }
    }

    /// Forgets the least recently used keys of all stacks that have too many.
    pub fn limit_all(&mut self) {
        for index in 0..self.classes.len() {
            if self.classes[index].is_some() {
                self.limit(Place::Stacked(ClassId(index as u8)));
            }
        }
        self.limit(Place::NeverStored);
    }

    /// Frees the memory of stacks that have many more slots than keys.
    pub fn shrink(&mut self) {
        let Stacks { keys, classes, absent, .. } = self;
        let stacks = classes.iter_mut().flatten().map(|class| &mut class.stack);
        for stack in stacks.chain([absent]) {
            stack.shrink(|number, slot| keys.get_mut(number).slot = slot);
        }
    }

    fn stack_mut(&mut self, place: Place) -> &mut Stack {
        match place {
            Place::Stacked(class) => &mut self.class_mut(class).stack,
            Place::NeverStored | Place::Deleted(_) => &mut self.absent,
        }
    }

    /// Checks that every key is in the stack and on the slot that its record names, and that every key is sampled with
    /// this threshold.
    ///
    /// # Panics
    /// Panics if one of these conditions does not hold.
    pub fn check(&self, threshold: u64) {
        let stacked: usize = self.classes().map(|(_, class)| class.stack.count()).sum();
        let keys = self.keys.count();
        let absent = self.absent.count();
        assert!(
            stacked + absent == keys,
            "each of {keys} keys is in one stack, but {stacked} are in classes and {absent} absent"
        );
        for number in self.keys.numbers_where(|_| true) {
            let record = *self.keys.get(number);
            let Record { hash, slot, .. } = record;
            assert!(
                is_sampled(hash, threshold),
                "key {hash:x} is below the threshold {threshold:x}"
            );
            let stack = match record.place() {
                Place::Stacked(class) => {
                    &self.class(class).expect("the class of a stacked key has data").stack
                }
                Place::NeverStored | Place::Deleted(_) => &self.absent,
            };
            assert!(stack.key_on(slot) == Some(number), "key {hash:x} is on slot {slot}");
        }
    }
}
