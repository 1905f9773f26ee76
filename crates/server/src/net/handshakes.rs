//! The connections of a worker whose TLS handshakes may not be complete. A client that stalls in its handshake is
//! disconnected after `-o ssl_handshake_timeout`, however often it sends a byte.

use super::connection::Connection;
use slab::Slab;
use slabwise_base::Seconds;

/// The connections of a worker whose handshakes may not be complete.
pub(super) struct Handshakes {
    /// `-o ssl_handshake_timeout`; `None` for never.
    timeout_seconds: Option<u32>,
    /// The slots of the connections. The list may also have slots that are unused or have other connections. It is empty
    /// without a timeout.
    slots: Vec<usize>,
}

impl Handshakes {
    /// Makes an empty list.
    pub fn new(timeout_seconds: Option<u32>) -> Handshakes {
        Handshakes { timeout_seconds, slots: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a new connection.
    pub fn add(&mut self, slot: usize) {
        if self.timeout_seconds.is_some() {
            self.slots.push(slot);
        }
    }

    /// Returns the connections whose handshake takes longer than the timeout. Removes them, and the connections whose
    /// handshake is complete. The caller closes the returned connections. The worker calls this function once a second,
    /// so the list has few slots that are not needed.
    pub fn overdue(&mut self, connections: &Slab<Connection<'_>>, now: Seconds) -> Vec<usize> {
        let Some(timeout) = self.timeout_seconds else { return Vec::new() };
        let since = Seconds(now.0.saturating_sub(timeout));
        // A slot is in the list twice if its connection was closed and another one opened since the last call.
        self.slots.sort_unstable();
        self.slots.dedup();
        let is_overdue = |slot: &usize| connections[*slot].is_handshaking_since(since);
        self.slots.retain(|&slot| {
            connections.get(slot).is_some_and(|connection| connection.stream.is_handshaking())
        });
        let overdue = self.slots.extract_if(.., |slot| is_overdue(slot)).collect();
        if self.slots.is_empty() {
            self.slots = Vec::new();
        }
        overdue
    }

    /// Returns the reason why an overdue connection is closed.
    pub fn reason(&self) -> String {
        let seconds = self.timeout_seconds.unwrap_or_default();
        format!("the handshake is not complete after {seconds} s (-o ssl_handshake_timeout)")
    }
}
