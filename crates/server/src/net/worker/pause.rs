//! The pause of a worker, while another process takes the cache over (`handover`).
//!
//! A worker first completes the requests that have begun. Then it detaches the sockets of all connections from its event
//! loop, so that no request to the kernel receives a byte of a connection that another process will serve, and sends them to
//! the other process. If the other process gives up, the worker serves on with its own descriptors.

use super::{REQUEST_END_NANOS_MAX, Worker};
use crate::config::Protocol;
use crate::handover::send_connections;
use crate::net::event_loop::{Await, EventLoop, Source};
use crate::shared::CloseReason;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

impl<'e, L: EventLoop> Worker<'e, L> {
    /// Completes the requests that have begun, hands over the connections that another process can serve, and pauses until
    /// the server serves on. If the other process takes over, this function does not return.
    #[cold]
    pub(super) fn pause(&mut self, events: &mut L::Events) -> io::Result<()> {
        self.take_new_connections();
        self.complete_requests(events)?;
        let moved = self.hand_over();
        self.shared.pause.wait_until_over(moved);
        self.core.context.now = self.shared.clock.now();
        // The events of the pause are not known, so every connection and socket may have input or be closed by its client.
        self.queue.clear();
        for (slot, connection) in &mut self.connections {
            connection.note_readable(true);
            connection.queued = !connection.is_waiting();
            if connection.queued {
                self.queue.push_back(slot);
            }
        }
        self.udp.iter_mut().for_each(|socket| socket.note_readiness(true, true));
        Ok(())
    }

    /// Serves the connections that are within a request, until there is none or the time is over.
    pub(super) fn complete_requests(&mut self, events: &mut L::Events) -> io::Result<()> {
        let end_nanos = self.shared.clock.nanos() + REQUEST_END_NANOS_MAX;
        loop {
            let within = self.detach();
            if within.is_empty() || self.shared.clock.nanos() >= end_nanos {
                return Ok(());
            }
            self.core.event_loop.wait(events, Some(Duration::from_millis(1)))?;
            self.core.context.now = self.shared.clock.now();
            for event in L::ready(events) {
                match event.source {
                    Source::Connection(slot) if within.binary_search(&slot).is_ok() => {
                        self.on_event(slot, event, true);
                    }
                    Source::Connection(_) | Source::Mailbox => {}
                    Source::Datagram(index) => {
                        self.udp[index].note_readiness(event.is_readable, event.is_writable);
                    }
                }
            }
            for slot in within {
                let connection = self.connections.get_mut(slot);
                if connection.is_some_and(|it| std::mem::take(&mut it.queued)) {
                    self.serve_connection(slot, true);
                }
            }
            self.queue.retain(|&slot| self.connections.get(slot).is_some_and(|it| it.queued));
        }
    }

    /// Requests that the event loop receives no more for the connections that are between two requests. Returns the slots of
    /// those that are within a request, or for which the event loop may still receive, in ascending order.
    fn detach(&mut self) -> Vec<usize> {
        let event_loop = &mut self.core.event_loop;
        let (mut within, mut broken) = (Vec::new(), Vec::new());
        for (slot, connection) in &mut self.connections {
            let is_between = connection.is_between_requests(event_loop);
            if is_between && connection.is_detached(event_loop) || connection.is_watching() {
                continue;
            }
            within.push(slot);
            let socket = connection.stream.socket_mut();
            if is_between && event_loop.await_next(socket, Await::Error).is_err() {
                broken.push(slot);
            }
        }
        within.retain(|slot| !broken.contains(slot));
        broken.into_iter().for_each(|slot| self.close(slot, CloseReason::Error));
        within
    }

    /// Sends the sockets of the connections that another process can serve. They stay open here. Returns their number.
    pub(super) fn hand_over(&self) -> io::Result<u64> {
        let Some(channel) = self.shared.pause.channel() else { return Ok(0) };
        let mut moved = 0;
        let event_loop = &self.core.event_loop;
        for protocol in [Protocol::Auto, Protocol::Ascii, Protocol::Binary] {
            for has_logged_in in [false, true] {
                let movable = self.connections.iter().filter(|(_, connection)| {
                    connection.protocol == protocol
                        && connection.is_movable(event_loop)
                        && connection.has_logged_in(self.shared) == has_logged_in
                });
                let sockets: Vec<_> =
                    movable.map(|(_, connection)| connection.stream.socket().as_fd()).collect();
                moved += send_connections(&channel, (protocol, has_logged_in), &sockets)?;
            }
        }
        Ok(moved)
    }
}
