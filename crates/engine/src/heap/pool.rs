//! The pool: pages that no class owns, under one lock.

use crate::mem::{Memory, UnusedPage};

/// The pages that no class owns, under one lock.
#[derive(Debug)]
pub struct Pool {
    /// Pages returned by classes, their memory still taken.
    free: Vec<UnusedPage>,
    /// Pages whose memory went back to the system.
    released: Vec<UnusedPage>,
    /// Pages ever handed out: the next new one has this number.
    frontier: u32,
    /// Pages that hold memory: free, owned or draining.
    allocated: u32,
    /// How many may hold memory.
    limit: u32,
    /// Of these, how many the index takes the place of.
    charged: u32,
}

impl Pool {
    /// An empty pool under a limit of `limit` pages.
    pub fn new(limit: u32) -> Pool {
        let (free, released) = (Vec::new(), Vec::new());
        Pool { free, released, frontier: 0, allocated: 0, limit, charged: 0 }
    }

    /// A pool whose first `frontier` pages were handed out, and these `returned` since.
    pub fn resumed(limit: u32, frontier: u32, returned: Vec<UnusedPage>) -> Pool {
        let allocated = frontier - returned.len() as u32;
        Pool { free: Vec::new(), released: returned, frontier, allocated, limit, charged: 0 }
    }

    /// Pages that hold memory.
    pub fn allocated(&self) -> u32 {
        self.allocated
    }

    /// Pages that hold memory and belong to no class.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Pages that the limit allows beyond those that hold memory; below 0 after a lowered limit.
    pub fn headroom(&self) -> i64 {
        i64::from(self.limit_for_items()) - i64::from(self.allocated)
    }

    /// Pages that items may take: the limit less what is charged, but at least half of it.
    pub fn limit_for_items(&self) -> u32 {
        self.limit - self.charged.min(self.limit / 2)
    }

    /// Charges memory outside the arena against the limit.
    pub fn set_charged(&mut self, pages: u32) {
        self.charged = pages;
    }

    /// Changes the limit.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// The limit in pages.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// A page for a class: a free one, or new memory while the limit allows it; the first page of a
    /// class may go `beyond_limit`. `None` at the limit, and where the arena ends.
    pub fn take(&mut self, memory: &Memory, beyond_limit: bool) -> Option<UnusedPage> {
        // Above a lowered limit, even a free page is not handed out: it is to be released.
        if self.headroom() < 0 && !beyond_limit {
            return None;
        }
        if let Some(page) = self.free.pop() {
            return Some(page);
        }
        if self.headroom() <= 0 && !beyond_limit {
            return None;
        }
        let page = match self.released.pop() {
            Some(page) => page,
            None => {
                let page = memory.next_new_page()?;
                self.frontier += 1;
                page
            }
        };
        self.allocated += 1;
        Some(page)
    }

    /// Takes a page back from a class.
    pub fn put(&mut self, page: UnusedPage) {
        self.free.push(page);
    }

    /// While more memory is held than the limit allows: a free page whose memory must be released,
    /// which [`Pool::put_released`] ends.
    pub fn take_for_release(&mut self) -> Option<UnusedPage> {
        if self.headroom() < 0 { self.free.pop() } else { None }
    }

    /// Takes a page back whose memory went to the system.
    pub fn put_released(&mut self, page: UnusedPage) {
        self.allocated -= 1;
        self.released.push(page);
    }

    /// Pages that were ever handed out.
    pub fn frontier(&self) -> u32 {
        self.frontier
    }
}
