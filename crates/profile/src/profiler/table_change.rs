//! A change of the class table: keys and references follow their items into the new classes.
//!
//! ```text
//!   old classes     | 64 |      100      | 128 |           sizes of items in bytes, and old chunk sizes
//!   new classes     | 64 |   80   |     128    |           each key moves to the class for the size of its item
//!
//!   stack of 100:   used last   a  b  c  d  e  f  g       a, c, d, f: items of up to 80 bytes
//!   stack of 128:                    x  y        z        x was used just before b, and z just before f
//!   new stack of 128:              b  x  y  e  z  g       in the order of the keys' last use
//!
//!   a reference of class 100 at distance 4 (that of key e) --a share--> class 80, at distance 3 (keys a, c and d)
//!                                                          --a share--> class 128, at distance 3 (keys b, x and y)
//! ```
//!
//! Each sampled key has the size of its item and the time of its last use. So the new stacks are those that a profiler
//! with the new table would have. A recorded reference has a distance but no size, and changes in two ways:
//!
//! - *Class.* If the keys of an old class move to several classes, the reference is divided among them as the recent
//!   references at the nearest distances are ([`recent_references`](crate::recent_references)), whose sizes are known.
//! - *Distance.* The keys at smaller distances in the old stack that move to the new class count, as they are now. Keys
//!   from other old classes count if they were used in the reuse time of the recent references at this distance.
//!
//! Reuse times change in a similar way (`reuse_change.rs`). Counts of a removed class since the start are dropped, and
//! pointers of cliffs in a new class start at its size. A key whose size is unknown is forgotten with its class.
//!
//! A change visits all keys and sorts the keys of the classes that change. With 25,000 keys it takes about 10 ms, and with
//! 250,000 keys about 80 ms.

use super::{Profiler, SizeClasses};
use crate::class_keys::ClassKeys;
use crate::class_size::ClassSize;
use crate::key_table::{Place, Record};
use crate::recent_references::DistanceCode;
use slabwise_base::ClassId;

/// A reference is divided as this number of recent references are, half of them at smaller distances.
pub(super) const RECENT_COMPARED: usize = 64;
/// The references of a step of the histogram are placed at this number of distances within the step.
const PARTS_OF_STEP: u64 = 4;

/// An old class whose keys or references move.
pub(super) struct Source {
    pub class: ClassId,
    pub keys: Box<ClassKeys>,
    /// The numbers of the keys in the stack, the most recently used first, and the time since each was used, in sampled
    /// accesses.
    pub by_age: Vec<(u32, u32)>,
    pub routes: Vec<Route>,
    /// The recent references in ascending order of distances.
    pub recent: Vec<Recent>,
}

/// The keys that move from one class to another.
pub(super) struct Route {
    pub to: ClassId,
    /// The distance of each key in the source, in ascending order, and the time since it was used.
    pub keys: Vec<(u32, u32)>,
}

/// A recent reference of a source.
pub(super) struct Recent {
    pub distance: DistanceCode,
    pub reuse_time: DistanceCode,
    /// The index of the reference's route.
    pub route: usize,
}

/// A class of the new table that receives keys.
pub(super) struct Target {
    pub class: ClassId,
    pub keys: ClassKeys,
    /// The time since each key was used, and the numbers of the keys, the most recently used first.
    pub by_age: Vec<(u32, u32)>,
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
            let remains = remaining.contains(&class);
            if remains && classes.may_hold(class, record.bucket()) {
                return Some(class);
            }
            classes.class_for_bucket(record.bucket()).or(remains.then_some(class))
        };
        self.forget_keys_without_class(class_for);
        let sources = self.take_sources(&remaining, class_for, &classes);
        let mut targets = self.targets(&sources, &remaining, class_for);
        let scale = self.scale;
        let divide = |source: &Source| source.divide(&mut targets, scale);
        let flows: Vec<Vec<f64>> = sources.iter().map(divide).collect();
        self.move_recent(&sources, &targets, &classes);
        self.move_reuses(&sources, &targets, &flows);
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
            let mut routes: Vec<Route> = Vec::new();
            for (rank, &(age, number)) in by_age.iter().enumerate() {
                let to = class_for(self.stacks.keys.get(number), class);
                let to = to.expect("keys without a class were forgotten");
                let key = (rank as u32, age);
                match routes.iter_mut().find(|route| route.to == to) {
                    Some(route) => route.keys.push(key),
                    None => routes.push(Route { to, keys: vec![key] }),
                }
            }
            let of_class = self
                .recent
                .iter()
                .filter(|it| self.classes.class_for_bucket(it.bucket) == Some(class));
            let recent = of_class.filter_map(|it| {
                let to = classes.class_for_bucket(it.bucket);
                let route = routes.iter().position(|route| Some(route.to) == to)?;
                Some(Recent { distance: it.distance, reuse_time: it.reuse_time, route })
            });
            let mut recent: Vec<Recent> = recent.collect();
            recent.sort_unstable_by_key(|it| it.distance);
            sources.push(Source { class, keys, by_age, routes, recent });
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
        for it in self.recent.iter_mut().filter(|it| it.distance < DistanceCode::INFINITE) {
            let (from, to) =
                (before.class_for_bucket(it.bucket), classes.class_for_bucket(it.bucket));
            let source = sources.iter().find(|source| Some(source.class) == from);
            let target = targets.iter().find(|target| Some(target.class) == to);
            let (Some(source), Some(target)) = (source, target) else { continue };
            let route = source.routes.iter().position(|route| route.to == target.class);
            let Some(route) = route else { continue };
            let distance = it.distance.value() / scale;
            let own = source.own_before(&source.routes[route], distance);
            let others = source.others_since(target, route, it.reuse_time.value());
            it.distance = DistanceCode::new(Some(((own + others) * scale) as u64));
        }
    }
}

impl Source {
    /// Divides the references among the targets. A sampled key represents `scale` keys. Returns the weight of the
    /// references that each route has moved.
    fn divide(&self, targets: &mut [Target], scale: f64) -> Vec<f64> {
        let indexes = self.routes.iter().map(|route| {
            let index = targets.iter().position(|target| target.class == route.to);
            index.expect("a class that receives keys is a target")
        });
        let indexes: Vec<usize> = indexes.collect();
        let mut parts = Vec::new();
        for (from, to, weight) in self.keys.reference_steps() {
            let count = PARTS_OF_STEP.min(to - from);
            for part in 0..count {
                let middle = from + (to - from) * (2 * part + 1) / (2 * count);
                let divided = self.parts(middle as f64 / scale, scale, |route, time| {
                    self.others_since(&targets[indexes[route]], route, time)
                });
                let scaled = divided.into_iter().map(|(route, keys, share)| {
                    (route, Some((keys * scale) as u64), weight / count as f64 * share)
                });
                parts.extend(scaled);
            }
        }
        let infinite = self.keys.infinite_weight();
        let divided = self.shares(&self.recent[self.first_infinite()..]).into_iter().enumerate();
        parts.extend(divided.map(|(route, share)| (route, None, infinite * share)));
        let mut moved = vec![0.0; indexes.len()];
        for (route, distance, weight) in parts.into_iter().filter(|part| part.2 > 0.0) {
            moved[route] += weight;
            targets[indexes[route]].keys.add_references(distance, weight, scale);
        }
        let all: f64 = moved.iter().sum();
        for (&index, &weight) in indexes.iter().zip(&moved).filter(|(_, weight)| **weight > 0.0) {
            targets[index].keys.add_share(&self.keys, weight / all);
        }
        moved
    }

    /// Divides a reference at this distance, in sampled keys: returns routes, distances in the targets (in sampled
    /// keys), and shares. `others_since` returns the number of keys that a route's target has from other sources, and
    /// that were used in a time.
    fn parts(
        &self,
        distance: f64,
        scale: f64,
        others_since: impl Fn(usize, f64) -> f64,
    ) -> Vec<(usize, f64, f64)> {
        let moved = |route: usize, time| {
            let own = self.own_before(&self.routes[route], distance);
            own + others_since(route, time)
        };
        let code = DistanceCode::new(Some((distance * scale) as u64));
        let at = self.recent.partition_point(|it| it.distance < code);
        let from = at.saturating_sub(RECENT_COMPARED / 2);
        let compared = &self.recent[from..self.first_infinite().min(at + RECENT_COMPARED / 2)];
        if compared.is_empty() {
            let oldest = self.by_age.len().saturating_sub(1);
            let time = self.by_age.get(oldest.min(distance as usize)).map_or(0, |&(age, _)| age);
            let shares = self.shares(compared).into_iter().enumerate();
            return shares
                .map(|(route, share)| (route, moved(route, time.into()), share))
                .collect();
        }
        let part = |it: &Recent| {
            // The recent reference has nearly this distance. A longer distance takes more time.
            let longer = (distance + 0.5) / (it.distance.value() / scale + 0.5);
            (it.route, moved(it.route, it.reuse_time.value() * longer), 1.0 / compared.len() as f64)
        };
        compared.iter().map(part).collect()
    }

    /// Returns the index of the first recent reference with an infinite distance.
    pub fn first_infinite(&self) -> usize {
        self.recent.partition_point(|it| it.distance < DistanceCode::INFINITE)
    }

    /// Returns the share of each route in these recent references. Without references, it is the share of the keys.
    pub fn shares(&self, references: &[Recent]) -> Vec<f64> {
        let mut shares = vec![0.0; self.routes.len()];
        references.iter().for_each(|it| shares[it.route] += 1.0);
        if references.is_empty() {
            shares = self.routes.iter().map(|route| route.keys.len() as f64).collect();
        }
        let all: f64 = shares.iter().sum();
        shares.iter().map(|share| share / all).collect()
    }

    /// Returns the number of keys of a route at smaller distances than this distance, in sampled keys.
    fn own_before(&self, route: &Route, distance: f64) -> f64 {
        let all = self.by_age.len();
        if distance >= all as f64 {
            // Few references are beyond the oldest key. Their distances grow in proportion.
            return route.keys.len() as f64 * distance / all as f64;
        }
        let whole = distance as u32;
        let before = route.keys.partition_point(|&(rank, _)| rank < whole);
        let is_own = route.keys.get(before).is_some_and(|&(rank, _)| rank == whole);
        before as f64 + if is_own { distance.fract() } else { 0.0 }
    }

    /// Returns the number of keys that the target has from other sources, and that were used between two accesses which
    /// are this number of sampled accesses apart.
    fn others_since(&self, target: &Target, route: usize, time: f64) -> f64 {
        let own = &self.routes[route].keys;
        if own.len() == target.by_age.len() {
            return 0.0;
        }
        let all = target.by_age.partition_point(|&(age, _)| f64::from(age) + 1.0 < time);
        all as f64 - own.partition_point(|&(_, age)| f64::from(age) + 1.0 < time) as f64
    }
}
