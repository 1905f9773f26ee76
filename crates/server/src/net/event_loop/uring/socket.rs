//! The state of one socket in a ring: what is requested from the kernel, and the bytes on their way in and out.

use super::key::{Key, Subject};
use crate::net::event_loop::contract::Await;
use crate::os::uring::{Received, Ring};
use rustix::io::Errno;
use std::collections::VecDeque;

/// The receive request of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    /// There is no request, so that system calls may receive.
    #[default]
    Unarmed,
    /// The kernel receives into provided buffers.
    Armed,
    /// The request is about to end. Its last completion has not arrived.
    Ending,
}

/// The state of one socket.
pub(super) struct SocketState {
    /// Distinguishes the completions of this socket from those of earlier sockets with the same slot.
    pub generation: u32,
    pub receiving: Receiving,
    /// The conditions of the polls that have not completed.
    pub polls: u32,
    /// What the connection waits for.
    pub awaited: Await,
    /// The index of the socket's event in the list of the last wait.
    pub event: Option<usize>,
    pub input: Input,
    pub output: Output,
}

/// Bytes that the connection has not received.
#[derive(Default)]
pub(super) struct Input {
    /// Bytes that are copied from provided buffers. They precede those of `received`.
    backlog: Vec<u8>,
    /// The number of bytes at the start of `backlog` that the connection has received.
    backlog_start: usize,
    /// Provided buffers, which are empty outside of an iteration of the worker's loop.
    received: VecDeque<Received>,
    /// The number of bytes of the first buffer that the connection has received.
    received_start: usize,
    /// The end of the input: `Ok` if the client has closed its sending side.
    pub ended: Option<Result<(), Errno>>,
}

/// Bytes that the connection has sent.
#[derive(Default)]
pub(super) struct Output {
    /// The index of the socket's send, if the ring has one that is not submitted.
    pub staged: Option<usize>,
    /// Bytes of which the socket has taken only a part.
    pub rest: Vec<u8>,
    /// The number of bytes at the start of `rest` that the socket has taken.
    pub rest_start: usize,
    /// The error with which the last send has failed.
    pub failed: Option<Errno>,
}

impl Default for SocketState {
    fn default() -> SocketState {
        SocketState {
            generation: 0,
            receiving: Receiving::Unarmed,
            polls: 0,
            awaited: Await::Input,
            event: None,
            input: Input::default(),
            output: Output::default(),
        }
    }
}

impl SocketState {
    /// Returns the key of a request for this socket, whose connection has this slot.
    pub fn key(&self, subject: Subject, slot: usize) -> u64 {
        Key { subject, generation: self.generation, slot }.pack()
    }
}

impl Input {
    /// True if there are bytes to receive.
    pub fn has_bytes(&self) -> bool {
        !self.received.is_empty() || !self.backlog.is_empty()
    }

    /// True if there are provided buffers.
    pub fn has_buffers(&self) -> bool {
        !self.received.is_empty()
    }

    /// Returns the size of the buffers that are not provided ones.
    pub fn held_bytes(&self) -> usize {
        self.backlog.capacity()
    }

    /// Adds a buffer after all others.
    pub fn push(&mut self, received: Received) {
        self.received.push_back(received);
    }

    /// Moves bytes to the slices, and gives empty buffers back. Returns the number of bytes.
    pub fn take(&mut self, ring: &mut Ring, targets: [&mut [u8]; 2]) -> usize {
        let mut filled = 0;
        for target in targets {
            filled += self.take_into(ring, target);
        }
        filled
    }

    fn take_into(&mut self, ring: &mut Ring, target: &mut [u8]) -> usize {
        let mut filled = self.take_backlog(target);
        while filled < target.len()
            && let Some(first) = self.received.front()
        {
            let bytes = &ring.bytes(first)[self.received_start..];
            let count = bytes.len().min(target.len() - filled);
            target[filled..][..count].copy_from_slice(&bytes[..count]);
            filled += count;
            if count < bytes.len() {
                self.received_start += count;
                break;
            }
            self.drop_first(ring);
        }
        filled
    }

    fn take_backlog(&mut self, target: &mut [u8]) -> usize {
        let bytes = &self.backlog[self.backlog_start..];
        let count = bytes.len().min(target.len());
        target[..count].copy_from_slice(&bytes[..count]);
        self.backlog_start += count;
        if self.backlog_start == self.backlog.len() {
            self.backlog = Vec::new();
            self.backlog_start = 0;
        }
        count
    }

    /// Gives the first buffer back.
    fn drop_first(&mut self, ring: &mut Ring) {
        self.received_start = 0;
        if let Some(first) = self.received.pop_front() {
            ring.give_back(first);
        }
    }

    /// Copies the bytes of all buffers to the backlog, and gives the buffers back. Returns the length of the backlog.
    pub fn free_buffers(&mut self, ring: &mut Ring) -> usize {
        if self.backlog_start > 0 {
            self.backlog.drain(..std::mem::take(&mut self.backlog_start));
        }
        while let Some(first) = self.received.front() {
            self.backlog.extend_from_slice(&ring.bytes(first)[self.received_start..]);
            self.drop_first(ring);
        }
        self.backlog.len()
    }

    /// Gives all buffers back, and forgets all bytes.
    pub fn clear(&mut self, ring: &mut Ring) {
        while !self.received.is_empty() {
            self.drop_first(ring);
        }
        *self = Input::default();
    }
}

impl Output {
    /// True if more output can be sent in the next wait.
    pub fn can_stage(&self) -> bool {
        self.failed.is_none() && !self.is_blocked()
    }

    /// True if the socket has not taken an earlier send completely.
    pub fn is_blocked(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Returns the number of bytes that the socket has not taken.
    pub fn rest_bytes(&self) -> usize {
        self.rest.len() - self.rest_start
    }
}
