//! What workers call: [`EventLoop`] for [`Uring`].

use super::key::{Key, Subject, next_generation};
use super::socket::{Receiving, SocketState};
use super::{Uring, event_of};
use crate::net::event_loop::contract::{Await, EventLoop, Ready, Socket, Source};
use crate::os::sockets::{self, ReceiveOutcome};
use crate::os::uring::{Wait, poll};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

impl EventLoop for Uring {
    type Events = Vec<Ready>;

    fn events() -> Vec<Ready> {
        Vec::new()
    }

    fn start(&mut self, waker: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.enable()?;
        self.ring.set_file(self.waker_file, Some(waker))?;
        self.poll_repeatedly(Subject::Mailbox, 0)
    }

    fn wait(&mut self, events: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        self.free_buffers()?;
        for event in events.drain(..) {
            if let Source::Connection(slot) = event.source {
                self.sockets[slot].event = None;
            }
        }
        self.enter(if self.done.completions.is_empty() && self.unfinished.is_empty() {
            timeout.map_or(Wait::Forever, Wait::For)
        } else {
            Wait::For(Duration::ZERO)
        })?;
        while let Some(slot) = self.unfinished.pop() {
            let state = &mut self.sockets[slot];
            let (is_error, is_blocked) = (state.output.failed.is_some(), state.output.is_blocked());
            // Another socket may have the slot now.
            if is_error || is_blocked {
                let event = event_of(state, slot, events);
                event.is_readable |= is_error;
                event.is_error |= is_error;
                event.is_blocked |= is_blocked;
            }
        }
        let mut completions = std::mem::take(&mut self.done.completions);
        for completion in completions.drain(..) {
            self.complete(completion, events)?;
        }
        self.done.completions = completions;
        Ok(())
    }

    #[inline]
    fn ready(events: &Vec<Ready>) -> impl Iterator<Item = Ready> {
        events.iter().copied()
    }

    fn ready_count(events: &Vec<Ready>) -> usize {
        events.iter().filter(|event| event.source != Source::Mailbox).count()
    }

    fn add_datagram(&mut self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()> {
        self.ring.set_file(self.datagram_file(index), Some(socket))?;
        self.datagrams_poll_output.push(false);
        self.poll_repeatedly(Subject::DatagramInput, index)
    }

    fn await_writable_datagram(
        &mut self,
        _socket: BorrowedFd<'_>,
        index: usize,
        now: &mut bool,
        wanted: bool,
    ) -> io::Result<()> {
        *now = wanted;
        if !wanted || std::mem::replace(&mut self.datagrams_poll_output[index], true) {
            return Ok(());
        }
        let key = Key { subject: Subject::DatagramOutput, generation: 0, slot: index };
        self.ring.poll(self.datagram_file(index), poll::OUT, false, key.pack())
    }

    fn add(&mut self, socket: &Socket) -> io::Result<()> {
        let slot = socket.slot;
        if slot >= self.sockets.len() {
            self.sockets.resize_with(slot + 1, SocketState::default);
        }
        self.ring.set_file(slot as u32, Some(socket.as_fd()))?;
        self.request(slot)
    }

    fn remove(&mut self, socket: &Socket) {
        // An error is ignored, because the connection is closed in any case.
        let _ = self.send_accepted(socket);
        let slot = socket.slot;
        let state = &mut self.sockets[slot];
        let has_requests = state.receiving != Receiving::Unarmed || state.polls != 0;
        state.input.clear(&mut self.ring);
        let generation = next_generation(state.generation);
        *state = SocketState { generation, ..SocketState::default() };
        // An error means that the ring is out of order. The next wait returns it, too.
        if has_requests {
            let _ = self.ring.cancel_all(slot as u32);
        }
        let _ = self.ring.set_file(slot as u32, None);
    }

    #[inline]
    fn await_next(&mut self, socket: &mut Socket, awaited: Await) -> io::Result<()> {
        let is_limited = self.is_input_limited;
        let state = self.state(socket);
        state.awaited = awaited;
        if awaited == Await::Input && state.receiving == Receiving::Armed && !is_limited {
            return Ok(());
        }
        self.request(socket.slot)
    }

    fn limit_input(&mut self, is_limited: bool) {
        if std::mem::replace(&mut self.is_input_limited, is_limited) == is_limited || !is_limited {
            return;
        }
        for slot in 0..self.sockets.len() {
            if self.sockets[slot].receiving == Receiving::Armed {
                // An error means that the ring is out of order. The next wait returns it, too.
                let _ = self.request(slot);
            }
        }
    }

    #[inline]
    fn receive(
        &mut self,
        socket: &Socket,
        [first, second]: [&mut [u8]; 2],
    ) -> io::Result<ReceiveOutcome> {
        let Uring { ring, sockets, .. } = self;
        let SocketState { input, output, receiving, .. } = &mut sockets[socket.slot];
        if let Some(error) = output.failed {
            return Err(error.into());
        }
        if input.has_bytes() {
            let count = input.take(ring, [first, second]);
            return Ok(ReceiveOutcome::Bytes {
                count,
                more: input.has_bytes() || input.ended.is_some(),
            });
        }
        match input.ended {
            Some(Ok(())) => Ok(ReceiveOutcome::PeerClosed),
            Some(Err(error)) => Err(error.into()),
            // ONE-RECEIVER: the receive request receives the next bytes.
            None if *receiving != Receiving::Unarmed => Ok(ReceiveOutcome::WouldBlock),
            None if first.is_empty() => sockets::receive(socket.as_fd(), second),
            None => sockets::receive_into_two(socket.as_fd(), first, second),
        }
    }

    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.send_vectored(socket, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Uring { ring, sockets, stage, .. } = self;
        let state = &mut sockets[socket.slot];
        if state.output.can_stage() {
            let len = slices.iter().map(|slice| slice.len()).sum();
            let request = (socket.slot as u32, state.key(Subject::Send, socket.slot));
            let staged = state.output.staged;
            if let Some(index) = stage.append(ring, staged, request, slices, len) {
                state.output.staged = Some(index);
                self.submit_if_full();
                return Ok(len);
            }
        }
        self.send_accepted(socket)?;
        sockets::send_vectored(socket.as_fd(), slices)
    }

    #[inline]
    fn send_buffer(&mut self, socket: &Socket, buffer: &mut Vec<u8>) -> bool {
        let Uring { ring, sockets, stage, .. } = self;
        let state = &mut sockets[socket.slot];
        if !state.output.can_stage() || state.output.staged.is_some() {
            return false;
        }
        let key = state.key(Subject::Send, socket.slot);
        state.output.staged = stage.add_buffer(ring, socket.slot as u32, key, buffer);
        let is_staged = state.output.staged.is_some();
        self.submit_if_full();
        is_staged
    }

    fn submit(&mut self) -> io::Result<()> {
        if self.stage.is_empty() { Ok(()) } else { self.enter(Wait::No) }
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        self.send_accepted(socket)
    }

    fn is_detached(&self, socket: &Socket) -> bool {
        let state = &self.sockets[socket.slot];
        state.receiving == Receiving::Unarmed
            && state.awaited == Await::Error
            && !state.input.has_bytes()
            && state.input.ended.is_none()
            && state.output.staged.is_none()
            && state.output.can_stage()
    }

    fn held_bytes(&self, socket: &Socket) -> usize {
        let SocketState { input, output, .. } = &self.sockets[socket.slot];
        input.held_bytes() + output.rest.capacity()
    }

    fn unsent_bytes(&self, socket: &Socket) -> usize {
        self.sockets[socket.slot].output.rest_bytes()
    }
}
