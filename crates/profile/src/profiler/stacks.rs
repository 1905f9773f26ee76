//! The keys of a profiler. Each is on one stack: that of its class, or that of the absent keys.
//!
//! Invariant: a key is only on the stack and the slot that its record says.

use crate::class_keys::ClassKeys;
use crate::key_table::{KeyTable, OUT, Place, Record};
use crate::stack::Stack;
use slabwise_base::ClassId;
use slabwise_base::sampling::is_sampled;

/// One of this many keys may be absent.
const ABSENT_SHARE: usize = 8;
/// The number of keys that may always be absent.
const ABSENT_KEYS_MIN: usize = 8;

#[derive(Debug)]
pub struct Stacks {
    pub keys: KeyTable,
    /// By class number; `None` for a class without keys or counts.
    classes: Vec<Option<Box<ClassKeys>>>,
    /// Keys that are in no class's stack, in order of their last get or delete.
    absent: Stack,
    absent_max: usize,
}

impl Stacks {
    /// Empty stacks for at most this many keys.
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

    pub fn class_mut(&mut self, class: ClassId) -> &mut ClassKeys {
        if class.index() >= self.classes.len() {
            self.classes.resize_with(class.index() + 1, || None);
        }
        self.classes[class.index()].get_or_insert_with(|| Box::new(ClassKeys::unlimited()))
    }

    pub fn class_of(&self, number: u32) -> Option<ClassId> {
        match self.keys.get(number).place {
            Place::Stacked(class) => Some(class),
            Place::Nowhere | Place::Deleted(_) => None,
        }
    }

    /// Puts a key on top of the stack of `place`, and removes it from its old stack.
    pub fn put(&mut self, number: u32, place: Place) {
        self.take_out(number);
        if let Place::Stacked(class) = place {
            self.class_mut(class);
        }
        let Stacks { keys, classes, absent, .. } = self;
        let stack = match place {
            Place::Stacked(class) => match &mut classes[class.index()] {
                Some(class) => &mut class.stack,
                None => unreachable!("the class was created"),
            },
            Place::Nowhere | Place::Deleted(_) => absent,
        };
        let slot = stack.push(number, |number, slot| keys.get_mut(number).slot = slot);
        let record = keys.get_mut(number);
        (record.place, record.slot) = (place, slot);
    }

    fn take_out(&mut self, number: u32) {
        let Record { place, slot, .. } = *self.keys.get(number);
        if slot != OUT {
            self.stack_mut(place).remove(slot);
            self.keys.get_mut(number).slot = OUT;
        }
    }

    pub fn forget(&mut self, number: u32) {
        self.take_out(number);
        self.keys.remove(number);
    }

    pub fn forget_where(&mut self, holds: impl Fn(&Record) -> bool) {
        self.keys.numbers_where(holds).into_iter().for_each(|number| self.forget(number));
    }

    pub fn forget_class(&mut self, class: ClassId) {
        self.forget_where(|record| match record.place {
            Place::Stacked(place) | Place::Deleted(place) => place == class,
            Place::Nowhere => false,
        });
        self.classes[class.index()] = None;
    }

    /// Forgets the least recently used keys of a stack that has too many.
    pub fn limit(&mut self, place: Place) {
        let keys_max = match place {
            Place::Stacked(class) => self.class_mut(class).keys_max,
            Place::Nowhere | Place::Deleted(_) => self.absent_max,
        };
        while self.stack_mut(place).count() > keys_max {
            let oldest = self.stack_mut(place).oldest();
            self.forget(oldest.expect("a stack of several keys has an oldest"));
        }
    }

    pub fn limit_all(&mut self) {
        for index in 0..self.classes.len() {
            if self.classes[index].is_some() {
                self.limit(Place::Stacked(ClassId(index as u8)));
            }
        }
        self.limit(Place::Nowhere);
    }

    /// Frees memory of classes whose keys have moved to other classes.
    pub fn fit(&mut self) {
        let Stacks { keys, classes, absent, .. } = self;
        let stacks = classes.iter_mut().flatten().map(|class| &mut class.stack);
        for stack in stacks.chain([absent]) {
            stack.fit(|number, slot| keys.get_mut(number).slot = slot);
        }
    }

    fn stack_mut(&mut self, place: Place) -> &mut Stack {
        match place {
            Place::Stacked(class) => &mut self.class_mut(class).stack,
            Place::Nowhere | Place::Deleted(_) => &mut self.absent,
        }
    }

    /// Checks the place of every key, and that all are in the sample below this threshold.
    ///
    /// # Panics
    /// If a key is not where its record says.
    pub fn check(&self, threshold: u64) {
        let stacked: usize = self.classes().map(|(_, class)| class.stack.count()).sum();
        let keys = self.keys.count();
        assert!(stacked + self.absent.count() == keys, "{keys} keys are in {stacked} places");
        for number in self.keys.numbers_where(|_| true) {
            let Record { hash, slot, place, .. } = *self.keys.get(number);
            assert!(is_sampled(hash, threshold), "key {hash:x} is not in the sample");
            let stack = match place {
                Place::Stacked(class) => &self.class(class).expect("known").stack,
                Place::Nowhere | Place::Deleted(_) => &self.absent,
            };
            assert!(stack.key_on(slot) == Some(number), "key {hash:x} is not on slot {slot}");
        }
    }
}
