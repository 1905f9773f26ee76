//! The connections that a worker checks from time to time: those that wait for memory or for other clients, and clients that
//! do not read.

use super::{MEMORY_CHECK_NANOS, SLOW_CHECK_NANOS, Worker};
use crate::net::connection::Connection;
use crate::net::event_loop::EventLoop;
use crate::shared::CloseReason;
use std::io;
use std::time::Duration;

impl<'e, L: EventLoop> Worker<'e, L> {
    /// Returns the timeout of the next wait while connections must be checked.
    #[cold]
    pub(super) fn check_timeout(&self) -> Duration {
        Duration::from_nanos(if self.awaits_memory {
            MEMORY_CHECK_NANOS
        } else if self.shared.replies.needs_memory() {
            SLOW_CHECK_NANOS
        } else {
            1_000_000_000
        })
    }

    /// Adds a connection to those that the worker checks.
    pub(super) fn check_later(&mut self, slot: usize) {
        let is_listed = &mut self.connections[slot].is_listed;
        if !std::mem::replace(is_listed, true) {
            self.checked.push(slot);
            self.must_check = true;
        }
    }

    /// Serves the gets and uploads that wait for memory and may go on, and the uploads that are refused because they were
    /// silent. Closes slow readers. Does nothing if the last check was a short time ago, unless another thread has woken
    /// this one.
    #[cold]
    pub(super) fn check_waiting(&mut self, is_only_ready: bool) -> io::Result<()> {
        self.set_limits();
        let now_nanos = self.shared.clock.nanos();
        if now_nanos < self.checked_at_nanos + MEMORY_CHECK_NANOS {
            return Ok(());
        }
        self.checked_at_nanos = now_nanos;
        self.core.event_loop.submit()?;
        if self.shared.replies.needs_memory()
            && now_nanos >= self.readers_checked_at_nanos + SLOW_CHECK_NANOS
        {
            self.readers_checked_at_nanos = now_nanos;
            self.close_slow_readers(now_nanos);
        }
        if self.awaits_memory {
            self.shared.admit_uploads(now_nanos, self.core.context.index);
        }
        self.awaits_memory = false;
        self.checked.retain(|&slot| {
            let connection = &mut self.connections[slot];
            connection.is_listed = connection.must_be_checked();
            connection.is_listed
        });
        for slot in self.checking_order() {
            // Another round of this loop may have closed the connection.
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.waiting_ticket().is_some() && !self.shared.replies.may_pin() {
                self.awaits_memory = true;
                continue;
            }
            if connection.check(&mut self.core) && !connection.queued {
                self.serve_connection(slot, is_only_ready);
            }
        }
        // The worker refuses the marked uploads in its next check, when it has received what arrived until then.
        if self.awaits_memory {
            self.shared.mark_silent_uploads(now_nanos);
        }
        Ok(())
    }

    /// Returns the slots of `checked` in the order in which they are served: first gets that wait, in the order of their
    /// tickets. Then uploads, the newest ones first, because older ones may all be silent.
    pub(super) fn checking_order(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.checked.iter().rev().copied().collect();
        slots.sort_by_key(|&slot| self.connections[slot].waiting_ticket().unwrap_or(u64::MAX));
        slots
    }

    /// Closes the connections of clients that hold memory that others need, and make no progress.
    pub(super) fn close_slow_readers(&mut self, now_nanos: u64) {
        let slow = |(slot, connection): (usize, &Connection<'e>)| {
            connection.is_slow_reader(&self.core, now_nanos).then_some(slot)
        };
        for slot in self.connections.iter().filter_map(slow).collect::<Vec<usize>>() {
            // The event loop reports a writable socket late, so the client may have read since.
            self.serve_connection(slot, false);
            let is_slow = self
                .connections
                .get(slot)
                .is_some_and(|connection| connection.is_slow_reader(&self.core, now_nanos));
            if is_slow {
                self.shared.replies.count_disconnected();
                self.close(slot, CloseReason::SlowReader);
            }
        }
    }
}
