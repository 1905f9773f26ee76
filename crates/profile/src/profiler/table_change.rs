//! A change of the class table: keys and references follow their items into the new classes.
//!
//! ```text
//!   old classes     | 64 |      100      | 128 |           sizes of items in bytes, and old chunk sizes
//!   new classes     | 64 |   80   |     128    |           each key moves to the class for the size of its item
//!
//!   stack of 100:   used last   a b c d e f g             a, c, d, f: items of up to 80 bytes
//!   stack of 128:                x   y    z
//!   new stack of 128:            b x y e g z              in the order of the keys' last use
//!
//!   a reference of class 100 at distance 4 (that of key e) --a share--> class 80, at distance 3 (keys a, c and d)
//!                                                          --a share--> class 128, at distance 3 (keys b, x and y)
//! ```
//!
//! Each sampled key has the size of its item and the time of its last use. So the new stacks are those that a profiler
//! with the new table would have. A recorded reference has a distance but no size, and changes in two ways:
//!
//! - *Distance.* The key at the reference's distance in the old stack was last used at some time. The new distance is
//!   the number of keys of the new class that were used since. It is exact for keys that are referenced now, and an
//!   estimate for earlier references.
//! - *Class.* If the keys of an old class move to several classes, the reference is divided among them, as the recent
//!   references at the nearest distances are ([`RecentReferences`](crate::recent_references)), whose sizes are known.
//!
//! Counts of a removed class since the start are dropped, and pointers of cliffs in a new class start at its size.
//! Reuse times move only if all keys of the old class, and no others, are those of the new class. A key whose size is
//! unknown is forgotten with its class.
//!
//! A change visits all keys and sorts the keys of the classes that change. It takes some milliseconds.

use super::{Profiler, SizeClasses};
use crate::class_keys::ClassKeys;
use crate::class_size::ClassSize;
use crate::key_table::{Place, Record};
use crate::recent_references::DistanceCode;
use slabwise_base::ClassId;

/// References at a distance are divided as this number of recent references are, half of them at the next smaller
/// distances.
const RECENT_COMPARED: usize = 64;
/// The references of a step of the histogram are placed at this number of distances within the step.
const PARTS_OF_STEP: u64 = 4;

/// An old class whose keys or references move.
struct Source {
    class: ClassId,
    keys: Box<ClassKeys>,
    /// The numbers of the keys in the stack, the most recently used first, and the time since each was used, in sampled
    /// accesses.
    by_age: Vec<(u32, u32)>,
    /// The new classes of the keys, and the number of keys that move to each.
    targets: Vec<(ClassId, usize)>,
    /// The distances of recent references and the indexes of their targets, in ascending order.
    recent: Vec<(DistanceCode, usize)>,
}

/// A class of the new table that receives keys.
struct Target {
    class: ClassId,
    keys: ClassKeys,
    /// The time since each key was used, and the numbers of the keys, the most recently used first.
    by_age: Vec<(u32, u32)>,
}

impl Profiler {
    /// Moves the keys and references to the classes of a new table.
    pub(super) fn change_table(&mut self, sizes: &[ClassSize]) {
        let remains = |class: ClassId, keys: &ClassKeys| {
            let same = |size: &&ClassSize| match &keys.size {
                Some(known) => known.is_of_same_class(size),
                None => size.class == class,
            };
            sizes.iter().any(|size| same(&size))
        };
        let classes = SizeClasses::new(sizes);
        let known = self.stacks.classes();
        let remaining: Vec<ClassId> =
            known.filter(|(class, keys)| remains(*class, keys)).map(|(class, _)| class).collect();
        let class_for = |record: &Record, class: ClassId| {
            let same = remaining.contains(&class).then_some(class);
            classes.class_for(record.bucket()).or(same)
        };
        self.forget_keys_without_class(class_for);
        let sources = self.take_sources(&remaining, class_for, &classes);
        let mut targets = self.targets(&sources, &remaining, class_for);
        let scale = self.scale;
        sources.iter().for_each(|source| source.divide(&mut targets, scale));
        self.move_recent(&sources, &targets, &classes);
        self.move_reuses(&sources, &targets);
        for target in targets {
            self.stacks.set_class(target.class, target.keys);
            for &(_, number) in target.by_age.iter().rev() {
                self.stacks.put(number, Place::Stacked(target.class));
            }
        }
        self.classes = classes;
    }

    /// Forgets the keys that belong to no class of the new table, and moves deleted keys to their new classes.
    fn forget_keys_without_class(
        &mut self,
        class_for: impl Fn(&Record, ClassId) -> Option<ClassId>,
    ) {
        self.stacks.forget_where(|record| match record.place() {
            Place::Stacked(class) | Place::Deleted(class) => class_for(record, class).is_none(),
            Place::NeverStored => false,
        });
        let is_deleted = |record: &Record| matches!(record.place(), Place::Deleted(_));
        for number in self.stacks.keys.numbers_where(is_deleted) {
            let record = self.stacks.keys.get_mut(number);
            let Place::Deleted(class) = record.place() else { continue };
            let class = class_for(record, class).expect("keys without a class were forgotten");
            record.set_place(Place::Deleted(class));
        }
    }

    /// Takes the data of the classes that do not remain, that lose keys, or that receive keys.
    fn take_sources(
        &mut self,
        remaining: &[ClassId],
        class_for: impl Fn(&Record, ClassId) -> Option<ClassId>,
        classes: &SizeClasses,
    ) -> Vec<Source> {
        let mut changes = [false; 1 + u8::MAX as usize];
        for (class, keys) in self.stacks.classes() {
            changes[class.index()] |= !remaining.contains(&class);
            for number in keys.stack.keys() {
                let to = class_for(self.stacks.keys.get(number), class);
                let to = to.expect("keys without a class were forgotten");
                if to != class {
                    (changes[class.index()], changes[to.index()]) = (true, true);
                }
            }
        }
        let changed = (0..=u8::MAX).map(ClassId).filter(|class| changes[class.index()]);
        let mut sources = Vec::new();
        for class in changed {
            let Some(keys) = self.stacks.take_class(class) else { continue };
            let by_age = self.by_age(&keys);
            let mut targets: Vec<(ClassId, usize)> = Vec::new();
            for &(_, number) in &by_age {
                let to = class_for(self.stacks.keys.get(number), class);
                let to = to.expect("keys without a class were forgotten");
                match targets.iter_mut().find(|(target, _)| *target == to) {
                    Some((_, count)) => *count += 1,
                    None => targets.push((to, 1)),
                }
            }
            let of_class =
                self.recent.iter().filter(|it| self.classes.class_for(it.bucket) == Some(class));
            let recent = of_class.filter_map(|it| {
                let to = classes.class_for(it.bucket);
                let index = targets.iter().position(|&(target, _)| Some(target) == to)?;
                Some((it.distance, index))
            });
            let mut recent: Vec<_> = recent.collect();
            recent.sort_unstable();
            sources.push(Source { class, keys, by_age, targets, recent });
        }
        sources
    }

    /// Returns the time since each key of a class was used, and the number of the key, the most recently used first.
    fn by_age(&self, keys: &ClassKeys) -> Vec<(u32, u32)> {
        let mut age = 0;
        let aged = keys.stack.keys().map(|number| {
            let record = self.stacks.keys.get(number);
            // The last use of a key that has missed is unknown, but it was before that of the previous key.
            if record.misses == 0 {
                age = age.max(self.accesses.wrapping_sub(record.at));
            }
            (age, number)
        });
        aged.collect()
    }

    /// Returns the classes that receive keys, with these keys and no references, and all sources that remain.
    fn targets(
        &self,
        sources: &[Source],
        remaining: &[ClassId],
        class_for: impl Fn(&Record, ClassId) -> Option<ClassId>,
    ) -> Vec<Target> {
        let remaining = sources.iter().filter(|source| remaining.contains(&source.class));
        let target = |source: &Source| Target {
            class: source.class,
            keys: source.keys.without_references(),
            by_age: Vec::new(),
        };
        let mut targets: Vec<Target> = remaining.map(target).collect();
        for source in sources {
            for &(age, number) in &source.by_age {
                let to = class_for(self.stacks.keys.get(number), source.class);
                let class = to.expect("keys without a class were forgotten");
                let index = targets.iter().position(|target| target.class == class);
                let index = index.unwrap_or_else(|| {
                    let keys = ClassKeys::unlimited();
                    targets.push(Target { class, keys, by_age: Vec::new() });
                    targets.len() - 1
                });
                targets[index].by_age.push((age, number));
            }
        }
        targets.iter_mut().for_each(|target| target.by_age.sort_by_key(|&(age, _)| age));
        targets
    }

    /// Changes the distances of recent references to those in the new classes.
    fn move_recent(&mut self, sources: &[Source], targets: &[Target], classes: &SizeClasses) {
        let (before, scale) = (&self.classes, self.scale);
        for reference in self.recent.iter_mut() {
            let (from, to) =
                (before.class_for(reference.bucket), classes.class_for(reference.bucket));
            let source = sources.iter().find(|source| Some(source.class) == from);
            let target = targets.iter().find(|target| Some(target.class) == to);
            if let (Some(source), Some(target), Some(distance)) =
                (source, target, reference.distance.distance())
            {
                let moved = source.distance_in(target, distance as f64 / scale) * scale;
                reference.distance = DistanceCode::new(Some(moved as u64));
            }
        }
    }

    /// Moves the reuse times of each source that has one target, if the target has no other source. The reuse times of
    /// all other sources are dropped, and the keys of their targets count as last used now.
    fn move_reuses(&mut self, sources: &[Source], targets: &[Target]) {
        let Some(reuses) = &mut self.reuses else { return };
        let mut taken: Vec<_> = sources.iter().map(|source| reuses.take(source.class)).collect();
        for target in targets {
            let moves_here =
                |source: &Source| source.targets.iter().any(|&(to, _)| to == target.class);
            let from: Vec<usize> =
                (0..sources.len()).filter(|&index| moves_here(&sources[index])).collect();
            match from[..] {
                [index] if sources[index].targets.len() == 1 => {
                    if let Some(moved) = taken[index].take() {
                        reuses.give(target.class, moved);
                    }
                }
                _ => {
                    for &(_, number) in &target.by_age {
                        self.stacks.keys.get_mut(number).used_at = 0;
                    }
                }
            }
        }
    }
}

impl Source {
    /// Divides the references among the targets. A sampled key represents `scale` keys.
    fn divide(&self, targets: &mut [Target], scale: f64) {
        let mut moved = vec![0.0; self.targets.len()];
        let indexes = self.targets.iter().map(|&(class, _)| {
            let index = targets.iter().position(|target| target.class == class);
            index.expect("a class that receives keys is a target")
        });
        let indexes: Vec<usize> = indexes.collect();
        let infinite = [(None, self.keys.infinite_weight())];
        let finite = self.keys.reference_steps().flat_map(|(from, to, weight)| {
            let parts = PARTS_OF_STEP.min(to - from);
            let distance = move |part| from + (to - from) * (2 * part + 1) / (2 * parts);
            (0..parts).map(move |part| (Some(distance(part)), weight / parts as f64))
        });
        for (distance, weight) in infinite.into_iter().chain(finite) {
            for (at, share) in self.shares(distance).into_iter().enumerate() {
                let target = &mut targets[indexes[at]];
                let keys = distance.map(|distance| distance as f64 / scale);
                let moved_to = keys.map(|keys| (self.distance_in(target, keys) * scale) as u64);
                if share > 0.0 {
                    target.keys.add_references(moved_to, weight * share, scale);
                    moved[at] += weight * share;
                }
            }
        }
        let all: f64 = moved.iter().sum();
        for (&index, weight) in indexes.iter().zip(moved) {
            if all > 0.0 {
                targets[index].keys.add_share(&self.keys, weight / all);
            }
        }
    }

    /// Returns the share of each target in the references at this distance; `None` is an infinite distance.
    fn shares(&self, distance: Option<u64>) -> Vec<f64> {
        let first_infinite = self.recent.partition_point(|&(it, _)| it.distance().is_some());
        let compared = match distance {
            None => &self.recent[first_infinite..],
            Some(_) => {
                let code = DistanceCode::new(distance);
                let at = self.recent.partition_point(|&(it, _)| it < code);
                let from = at.saturating_sub(RECENT_COMPARED / 2);
                &self.recent[from..first_infinite.min(at + RECENT_COMPARED / 2)]
            }
        };
        let mut shares = vec![0.0; self.targets.len()];
        compared.iter().for_each(|&(_, target)| shares[target] += 1.0);
        if compared.is_empty() {
            shares = self.targets.iter().map(|&(_, keys)| keys as f64).collect();
        }
        let all: f64 = shares.iter().sum();
        shares.iter().map(|share| share / all).collect()
    }

    /// Returns the distance in the target of a reference that has this distance here. Both are numbers of sampled keys.
    fn distance_in(&self, target: &Target, distance: f64) -> f64 {
        let used_since = |index: usize| {
            let age = self.by_age[index].0;
            target.by_age.partition_point(|&(other, _)| other < age) as f64
        };
        let (index, keys) = (distance as usize, self.by_age.len());
        if index + 1 < keys {
            let (here, next) = (used_since(index), used_since(index + 1));
            return here + (next - here) * distance.fract();
        }
        // Few references are beyond the oldest key. Their distances grow like those of the oldest key.
        match keys {
            0 => distance,
            _ => (used_since(keys - 1) + 1.0) * distance / keys as f64,
        }
    }
}
