//! A queue of keys from which any can be taken.

const NONE: u32 = u32::MAX;

/// Keys from head to tail, and the bytes of their items.
#[derive(Debug)]
pub struct List {
    towards_head: Vec<u32>,
    towards_tail: Vec<u32>,
    sizes_bytes: Vec<u32>,
    is_in: Vec<bool>,
    head: u32,
    tail: u32,
    bytes: u64,
}

impl List {
    /// An empty one for keys below `key_count`.
    pub fn new(key_count: usize) -> List {
        List {
            towards_head: vec![NONE; key_count],
            towards_tail: vec![NONE; key_count],
            sizes_bytes: vec![0; key_count],
            is_in: vec![false; key_count],
            head: NONE,
            tail: NONE,
            bytes: 0,
        }
    }

    /// The bytes of all that is in.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a key is in.
    pub fn has(&self, key: u32) -> bool {
        self.is_in[key as usize]
    }

    /// What is at the tail.
    pub fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// Puts a key that is not in at the head.
    pub fn push_head(&mut self, key: u32, size_bytes: u32) {
        assert!(!self.has(key), "key {key} is in already");
        let place = key as usize;
        self.is_in[place] = true;
        self.sizes_bytes[place] = size_bytes;
        self.towards_head[place] = NONE;
        self.towards_tail[place] = self.head;
        match self.head {
            NONE => self.tail = key,
            head => self.towards_head[head as usize] = key,
        }
        self.head = key;
        self.bytes += u64::from(size_bytes);
    }

    /// Takes a key out that is in; gives its item's bytes.
    pub fn remove(&mut self, key: u32) -> u32 {
        assert!(self.has(key), "key {key} is not in");
        let place = key as usize;
        let (before, after) = (self.towards_head[place], self.towards_tail[place]);
        match before {
            NONE => self.head = after,
            before => self.towards_tail[before as usize] = after,
        }
        match after {
            NONE => self.tail = before,
            after => self.towards_head[after as usize] = before,
        }
        self.is_in[place] = false;
        self.bytes -= u64::from(self.sizes_bytes[place]);
        self.sizes_bytes[place]
    }

    /// Changes the bytes of a key's item that is in; it stays in its place.
    pub fn resize(&mut self, key: u32, size_bytes: u32) {
        assert!(self.has(key), "key {key} is not in");
        let before = std::mem::replace(&mut self.sizes_bytes[key as usize], size_bytes);
        self.bytes = self.bytes - u64::from(before) + u64::from(size_bytes);
    }

    /// Takes out what is at the tail.
    pub fn pop_tail(&mut self) -> Option<(u32, u32)> {
        let key = self.tail()?;
        Some((key, self.remove(key)))
    }
}
