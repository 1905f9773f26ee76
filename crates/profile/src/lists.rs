//! Lists of keys through nodes of one pool: O(1) to add, to move and to take out.

/// What stands for no node.
const NONE: u32 = u32::MAX;

/// Nodes, each with a key and what its owner keeps of it; on one list or on none.
#[derive(Clone, Debug)]
pub struct Nodes<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Node<T> {
    key: u64,
    next: u32,
    prev: u32,
    kept: T,
}

impl<T> Default for Nodes<T> {
    fn default() -> Nodes<T> {
        Nodes { nodes: Vec::new(), free: Vec::new() }
    }
}

impl<T> Nodes<T> {
    /// A node for a key, on no list.
    pub fn add(&mut self, key: u64, kept: T) -> u32 {
        let node = Node { key, next: NONE, prev: NONE, kept };
        if let Some(number) = self.free.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        let count = self.nodes.len();
        assert!(count < NONE as usize, "{count} keys are more than can be numbered");
        self.nodes.push(node);
        count as u32
    }

    /// Gives a node back that is on no list; returns its key.
    pub fn free(&mut self, number: u32) -> u64 {
        self.free.push(number);
        self.nodes[number as usize].key
    }

    /// What its owner keeps of a node's key.
    pub fn kept(&self, number: u32) -> &T {
        &self.nodes[number as usize].kept
    }

    /// The same, to be changed.
    pub fn kept_mut(&mut self, number: u32) -> &mut T {
        &mut self.nodes[number as usize].kept
    }
}

/// A doubly linked list of nodes, newest at the head. Law: `count` nodes are linked from head to tail, and
/// back the same way.
#[derive(Clone, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    count: usize,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, count: 0 }
    }
}

impl List {
    /// How many nodes it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The oldest node.
    pub fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// Adds a node that is on no list as the newest.
    pub fn push_head<T>(&mut self, nodes: &mut Nodes<T>, number: u32) {
        let node = &mut nodes.nodes[number as usize];
        (node.prev, node.next) = (NONE, self.head);
        match self.head {
            NONE => self.tail = number,
            head => nodes.nodes[head as usize].prev = number,
        }
        self.head = number;
        self.count += 1;
    }

    /// Takes a node of this list out.
    pub fn remove<T>(&mut self, nodes: &mut Nodes<T>, number: u32) {
        let Node { prev, next, .. } = nodes.nodes[number as usize];
        match prev {
            NONE => self.head = next,
            prev => nodes.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => nodes.nodes[next as usize].prev = prev,
        }
        self.count -= 1;
    }
}
