//! The pause of all threads that serve clients, while another process takes the cache over.
//!
//! ```text
//!   control thread:  begin ----------> wait_for(acceptor) -> include_workers -> wait_for(all) ... end, or the process ends
//!   acceptor:           is_requested -> wait_until_over -----------------------------------------> accepts again
//!   worker:                                                  is_requested -> hands over, wait_until_over -> serves again
//! ```
//!
//! Invariants: the acceptor pauses before the workers, so a worker that pauses has received every accepted connection. A
//! paused thread uses no item. A thread that learns of the end of a pause only after the next one has begun pauses again, and
//! hands over again. If the server stops, every wait ends.

use crate::os::channel::Channel;
use slabwise_base::sync::lock;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

const NOBODY: u8 = 0;
const ACCEPTOR: u8 = 1;
const EVERYONE: u8 = 2;

/// The state of a pause.
#[derive(Debug, Default)]
pub struct Pause {
    /// The threads that must pause.
    who: AtomicU8,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The connection to the other process during a pause.
    channel: Option<Arc<Channel>>,
    /// The number of pauses that have begun.
    number: u64,
    /// The number of threads that wait for the end of this pause.
    waiting: usize,
    /// The number of connections that the workers have handed over.
    moved: u64,
    /// The error of a worker that could not hand over its connections.
    error: Option<io::Error>,
    is_shut_down: bool,
}

impl Pause {
    /// True if the acceptor must pause.
    pub fn includes_acceptor(&self) -> bool {
        self.who.load(Ordering::Acquire) >= ACCEPTOR
    }

    /// True if the workers must pause.
    #[inline]
    pub fn includes_workers(&self) -> bool {
        self.who.load(Ordering::Acquire) >= EVERYONE
    }

    /// Begins a pause of the acceptor. The caller wakes it.
    pub fn begin(&self, channel: Arc<Channel>) {
        let mut state = lock(&self.state);
        let number = state.number + 1;
        *state = State {
            channel: Some(channel),
            number,
            is_shut_down: state.is_shut_down,
            ..State::default()
        };
        self.who.store(ACCEPTOR, Ordering::Release);
    }

    /// Extends the pause to the workers. The caller wakes them.
    pub fn include_workers(&self) {
        self.who.store(EVERYONE, Ordering::Release);
    }

    /// Waits until this number of threads pause. Returns false if they do not pause within `timeout`, or the server stops.
    pub fn wait_for(&self, threads: usize, timeout: Duration) -> bool {
        let waits = |state: &mut State| state.waiting < threads && !state.is_shut_down;
        let waited = self.changed.wait_timeout_while(lock(&self.state), timeout, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting >= threads && !state.is_shut_down
    }

    /// Returns the number of connections that the workers have handed over. The caller has waited for all workers.
    pub fn moved(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.error.take().map_or(Ok(state.moved), Err)
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.who.store(NOBODY, Ordering::Release);
        lock(&self.state).channel = None;
        self.changed.notify_all();
    }

    /// Returns the connection to the other process, or `None` if the pause is over.
    pub fn channel(&self) -> Option<Arc<Channel>> {
        lock(&self.state).channel.clone()
    }

    /// Pauses the calling thread until the pause is over or the server stops. `moved` is the number of connections that it
    /// has handed over.
    pub fn wait_until_over(&self, moved: io::Result<u64>) {
        let mut state = lock(&self.state);
        match moved {
            Ok(moved) => state.moved += moved,
            Err(error) => state.error = Some(error),
        }
        state.waiting += 1;
        self.changed.notify_all();
        let number = state.number;
        let waits = |state: &mut State| {
            state.number == number && state.channel.is_some() && !state.is_shut_down
        };
        let waited = self.changed.wait_while(state, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.number == number {
            state.waiting -= 1;
        }
    }

    /// Ends all waits, and makes every later wait return at once.
    pub fn shut_down(&self) {
        lock(&self.state).is_shut_down = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Pause;
    use crate::os::channel::{Channel, listen};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn a_thread_that_misses_the_end_of_a_pause_hands_over_again_in_the_next_one() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let path = folder.path().join("control");
        let _listener = listen(&path).expect("the folder is writable");
        let connect = || Arc::new(Channel::connect(&path).expect("the socket listens"));
        let pause = Pause::default();
        let (passed, next) = channel();
        std::thread::scope(|scope| {
            pause.begin(connect());
            pause.include_workers();
            scope.spawn(|| {
                for _ in 0..2 {
                    // Between two pauses, no pause includes the workers.
                    while !pause.includes_workers() {
                        std::thread::yield_now();
                    }
                    pause.wait_until_over(Ok(1));
                    passed.send(()).expect("the test waits");
                }
            });
            assert!(pause.wait_for(1, TIMEOUT));
            // In most runs, the thread has no time to notice the end of the pause.
            let second = connect();
            pause.end();
            pause.begin(second);
            pause.include_workers();
            next.recv_timeout(TIMEOUT).expect("the first wait has ended");
            assert!(pause.wait_for(1, TIMEOUT));
            assert_eq!(pause.moved().expect("no worker has failed"), 1);
            pause.end();
            next.recv_timeout(TIMEOUT).expect("the second wait has ended");
        });
    }
}
