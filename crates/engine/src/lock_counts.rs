//! Counts the locks that a thread takes, by their row in `docs/locking.md`. Only unit tests count them, to check how
//! many locks an operation takes.

/// The locks that an operation takes.
#[derive(Clone, Copy, Debug)]
pub enum Row {
    Stripe,
    Class,
    Pool,
}

/// Counts a lock that this thread is about to take.
#[inline(always)]
pub fn count(row: Row) {
    #[cfg(test)]
    COUNTS.with(|counts| {
        let mut changed = counts.get();
        changed[row as usize] += 1;
        counts.set(changed);
    });
    #[cfg(not(test))]
    let _ = row;
}

#[cfg(test)]
thread_local! {
    static COUNTS: std::cell::Cell<[u64; 3]> = const { std::cell::Cell::new([0; 3]) };
}

/// Returns the number of locks that this thread has taken of each row, in the order of [`Row`].
#[cfg(all(test, not(loom)))]
pub fn counts() -> [u64; 3] {
    COUNTS.with(std::cell::Cell::get)
}
