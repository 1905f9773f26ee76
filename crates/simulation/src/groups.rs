//! The groups of [`super::gl_cache`]: a chain of groups of items, and the place of each key's item.

/// Number of items of a group.
pub const GROUP_ITEMS: usize = 100;
/// The end of the chain, and the place of a key without an item.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub struct GroupItem {
    pub key: u32,
    pub size_bytes: u32,
    /// Time of the last request.
    pub used: u64,
    /// True if the item was requested since it came into the group.
    pub is_active: bool,
    /// True if the item was requested since the group was sampled.
    pub is_seen: bool,
}

#[derive(Debug)]
pub struct Group {
    pub items: Vec<GroupItem>,
    /// The sum of the sizes of the items.
    pub bytes: u64,
    /// Time at which the group was created.
    pub created: u64,
    /// Miss ratio of the cache at this time.
    pub miss_ratio: f64,
    /// Number of requests of the items of the group.
    pub hits: u32,
    /// Number of items that were requested.
    pub active: u32,
    /// The learner's sample of this group.
    pub sample: Option<usize>,
    previous: u32,
    next: u32,
    identity: u64,
}

impl Group {
    pub fn new(created: u64, miss_ratio: f64) -> Group {
        Group {
            items: Vec::with_capacity(GROUP_ITEMS),
            bytes: 0,
            created,
            miss_ratio,
            hits: 0,
            active: 0,
            sample: None,
            previous: NONE,
            next: NONE,
            identity: 0,
        }
    }
}

/// A chain of groups. A group keeps its number until it is removed. Then another group may receive the number, but never
/// the identity.
#[derive(Debug)]
pub struct Groups {
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    /// The group and the index in the group, by the number of the key.
    places: Vec<(u32, u32)>,
    held_bytes: u64,
    next_identity: u64,
}

impl Groups {
    pub fn new(key_count: usize) -> Groups {
        Groups {
            groups: Vec::new(),
            free: Vec::new(),
            first: NONE,
            last: NONE,
            places: vec![(NONE, 0); key_count],
            held_bytes: 0,
            next_identity: 0,
        }
    }

    /// Returns the sum of the sizes of all items.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns the group with this number.
    ///
    /// # Panics
    /// If there is none.
    pub fn group(&self, group: u32) -> &Group {
        self.groups[group as usize].as_ref().expect("the group is in the chain")
    }

    /// Returns the group with this number.
    ///
    /// # Panics
    /// If there is none.
    pub fn group_mut(&mut self, group: u32) -> &mut Group {
        self.groups[group as usize].as_mut().expect("the group is in the chain")
    }

    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub fn last(&self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    pub fn next(&self, group: u32) -> Option<u32> {
        Some(self.group(group).next).filter(|&next| next != NONE)
    }

    pub fn previous(&self, group: u32) -> Option<u32> {
        Some(self.group(group).previous).filter(|&previous| previous != NONE)
    }

    /// Returns the identity of the group with this number, if there is a group.
    pub fn identity(&self, group: u32) -> Option<u64> {
        self.groups[group as usize].as_ref().map(|group| group.identity)
    }

    /// True if the group has a successor that is not the last group of the chain.
    pub fn can_be_merged(&self, group: u32) -> bool {
        let Some(Some(group)) = self.groups.get(group as usize) else { return false };
        group.next != NONE && group.next != self.last
    }

    /// Returns all groups but the last one, in the order of the chain.
    pub fn closed(&self) -> Vec<u32> {
        let chain = std::iter::successors(self.first(), |&group| self.next(group));
        chain.filter(|&group| group != self.last).collect()
    }

    pub fn set_sample(&mut self, group: u32, sample: Option<usize>) {
        let group = self.group_mut(group);
        group.sample = sample;
        group.items.iter_mut().for_each(|item| item.is_seen = false);
    }

    /// Adds a group at the end of the chain.
    pub fn append(&mut self, group: Group) -> u32 {
        self.insert(self.last(), group)
    }

    /// Inserts an empty group after `previous`, or as the first of the chain. Returns its number.
    pub fn insert(&mut self, previous: Option<u32>, group: Group) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() as u32 - 1
        });
        let next = match previous {
            Some(previous) => std::mem::replace(&mut self.group_mut(previous).next, number),
            None => std::mem::replace(&mut self.first, number),
        };
        match next {
            NONE => self.last = number,
            next => self.group_mut(next).previous = number,
        }
        let (previous, identity) = (previous.unwrap_or(NONE), self.next_identity);
        self.next_identity += 1;
        self.groups[number as usize] = Some(Group { previous, next, identity, ..group });
        number
    }

    /// Removes a group and its items.
    ///
    /// # Panics
    /// If there is no group with this number.
    pub fn remove(&mut self, number: u32) -> Group {
        let group = self.groups[number as usize].take().expect("the group is in the chain");
        match group.previous {
            NONE => self.first = group.next,
            previous => self.group_mut(previous).next = group.next,
        }
        match group.next {
            NONE => self.last = group.previous,
            next => self.group_mut(next).previous = group.previous,
        }
        for item in &group.items {
            self.places[item.key as usize] = (NONE, 0);
        }
        self.held_bytes -= group.bytes;
        self.free.push(number);
        group
    }

    /// Adds an item to the group.
    pub fn add(&mut self, number: u32, item: GroupItem) {
        let group = self.group_mut(number);
        group.bytes += u64::from(item.size_bytes);
        group.items.push(item);
        let index = group.items.len() as u32 - 1;
        self.places[item.key as usize] = (number, index);
        self.held_bytes += u64::from(item.size_bytes);
    }

    /// Returns the group and the index of a key's item.
    pub fn place(&self, key: u32) -> Option<(u32, usize)> {
        let (group, index) = self.places[key as usize];
        (group != NONE).then_some((group, index as usize))
    }

    pub fn item(&self, key: u32) -> Option<&GroupItem> {
        let (group, index) = self.place(key)?;
        Some(&self.group(group).items[index])
    }

    /// Removes the item of a key, if any.
    pub fn remove_key(&mut self, key: u32) {
        let Some((number, index)) = self.place(key) else { return };
        let group = self.group_mut(number);
        let item = group.items.swap_remove(index);
        group.bytes -= u64::from(item.size_bytes);
        let moved = group.items.get(index).map(|moved| moved.key);
        if let Some(moved) = moved {
            self.places[moved as usize].1 = index as u32;
        }
        self.places[key as usize] = (NONE, 0);
        self.held_bytes -= u64::from(item.size_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, GroupItem, Groups};

    fn item(key: u32) -> GroupItem {
        GroupItem { key, size_bytes: 10, used: 0, is_active: false, is_seen: false }
    }

    #[test]
    fn a_group_takes_the_place_of_removed_groups_with_another_identity() {
        let mut groups = Groups::new(3);
        let chain: Vec<u32> = (0..3).map(|_| groups.append(Group::new(0, 0.0))).collect();
        assert!(groups.can_be_merged(chain[0]) && !groups.can_be_merged(chain[1]));
        for (key, &group) in (0..).zip(&chain) {
            groups.add(group, item(key));
        }
        let identity = groups.identity(chain[1]);
        groups.remove(chain[1]);
        assert_eq!((groups.held_bytes(), groups.place(1)), (20, None));
        let inserted = groups.insert(Some(chain[0]), Group::new(0, 0.0));
        assert_eq!(inserted, chain[1], "the number is used again");
        assert_ne!(groups.identity(inserted), identity);
        assert_eq!(groups.closed(), [chain[0], inserted]);
        groups.remove(chain[0]);
        assert_eq!((groups.first(), groups.last()), (Some(inserted), Some(chain[2])));
    }

    #[test]
    fn a_removed_key_leaves_the_places_of_the_other_items_valid() {
        let mut groups = Groups::new(3);
        let group = groups.append(Group::new(0, 0.0));
        (0..3).for_each(|key| groups.add(group, item(key)));
        groups.remove_key(0);
        groups.remove_key(0);
        let keys = [0, 1, 2].map(|key| groups.item(key).map(|item| item.key));
        assert_eq!((keys, groups.held_bytes()), ([None, Some(1), Some(2)], 20));
    }
}
