//! [`EventLoop`] by io_uring: a worker makes one system call for an iteration of its loop. The call sends the replies of
//! the last iteration, and waits for the input of the next one.
//!
//! ```text
//!   wait:  submissions (sends, receive requests, polls) --io_uring_enter--> completions
//!             ^                                                                |
//!             |                              input: provided buffers, polls <--|--> output: sends that failed
//!             |                                     |  receive                          |
//!             '--- staged <--send-- connection <----'                                  rest
//! ```
//!
//! **Input.** A connection that waits for input has one receive request, which delivers each piece of input in a provided
//! buffer (*multishot*). [`Uring::receive`] copies the bytes into the worker's buffers.
//!
//! - BUFFERS-RETURN: before each wait, all buffers are given back to the kernel. Input that a connection has not received
//!   by then is copied to its *backlog*, which counts as memory of the connection. So a connection that is blocked, or has
//!   more requests than a round serves, takes no buffer from the others.
//! - ONE-RECEIVER: a system call receives from a socket only while it has no receive request. So bytes are in order. This
//!   happens for the rest of a large value, which is received into the memory of the item, and while the budget for pending
//!   replies is short ([`EventLoop::limit_input`]), because a receive request has no limit. A poll then reports input.
//! - STOPPED-INPUT: a connection that cannot go on, because its output is blocked or it waits for memory, has no receive
//!   request. One with a backlog of more than [`BACKLOG_BYTES_MAX`] has none until the backlog is served.
//! - If all buffers are in use, the kernel ends the receive request. A system call then receives the input, and the
//!   connection gets a new request.
//!
//! **Output.** Small outputs are *staged*: they are sent in the next wait, together with those of other connections. They are
//! sent earlier if there are many of them, or if the worker has other work to do ([`EventLoop::submit`]). The system call
//! decides the fate of each (SENT-AT-ONCE in `os::uring`), so the memory of a staged output lives until then, even if
//! its connection is closed. If a socket takes only a part, the *rest* stays here, and the connection is blocked until a
//! poll reports that the socket is writable. Outputs of more than 16 KiB, and values in the memory of items,
//! are sent by a system call, which costs little in comparison and needs no memory to outlive it. So does the last output
//! before a connection is closed.
//!
//! **Order.** A socket has at most one output that is staged or a rest, and a system call sends only when it has none.
//!
//! **Closing.** [`Uring::remove`] ends all requests of the socket. Their completions have the *generation* of the socket,
//! and are ignored when the slot belongs to another socket. The kernel closes the connection when the next wait has
//! removed the socket from the ring's table of files.
//!
//! **Overflow.** If the queue of completions is full, the kernel keeps further completions and ends receive requests.
//! `os::uring` takes them all, and the connections get new requests when they wait for input again.

mod event_loop;
mod key;
mod socket;
mod stage;

use super::contract::{Await, Ready, Socket, Source};
use crate::os::sockets;
use crate::os::uring::{Completion, Done, Ring, Sent, Wait, poll};
use key::{Key, Subject};
use rustix::io::Errno;
use socket::{Receiving, SocketState};
use stage::Stage;
use std::io;
use std::os::fd::AsFd;

/// A connection with a longer backlog has no receive request.
const BACKLOG_BYTES_MAX: usize = 16 << 10;

/// An event loop over io_uring.
pub(in crate::net) struct Uring {
    ring: Ring,
    /// The state of the socket of each slot.
    sockets: Vec<SocketState>,
    /// The slots whose sockets may have provided buffers.
    filled: Vec<usize>,
    /// The completions that the next wait reports.
    done: Done,
    /// The slots of sockets that have not taken an output completely, which the next wait reports.
    unfinished: Vec<usize>,
    stage: Stage,
    /// True if connections receive by system calls, so that they can limit what they receive.
    is_input_limited: bool,
    /// The index of the mailbox's waker in the ring's table of files. UDP sockets follow, and connections precede it: their
    /// indexes are their slots.
    waker_file: u32,
    /// For each UDP socket: true if a poll for output has not completed.
    datagrams_poll_output: Vec<bool>,
}

impl Uring {
    /// Makes an event loop for these maximum numbers of connections and UDP sockets. It works in the thread that starts it.
    pub fn new(connections_max: u32, datagrams_max: u32) -> io::Result<Uring> {
        Ok(Uring {
            ring: Ring::new(connections_max + 1 + datagrams_max)?,
            sockets: Vec::new(),
            filled: Vec::new(),
            done: Done::default(),
            unfinished: Vec::new(),
            stage: Stage::default(),
            is_input_limited: false,
            waker_file: connections_max,
            datagrams_poll_output: Vec::new(),
        })
    }

    fn state(&mut self, socket: &Socket) -> &mut SocketState {
        &mut self.sockets[socket.slot]
    }

    /// Requests what the connection waits for, and ends a receive request that it does not.
    fn request(&mut self, slot: usize) -> io::Result<()> {
        let state = &mut self.sockets[slot];
        let is_direct = self.is_input_limited;
        match (state.awaited, state.receiving) {
            (Await::Input, Receiving::Armed) if !is_direct => Ok(()),
            (Await::Input, Receiving::Unarmed) if !is_direct => {
                if state.input.has_bytes() || state.input.ended.is_some() {
                    return Ok(());
                }
                state.receiving = Receiving::Armed;
                let key = state.key(Subject::Receive, slot);
                self.ring.receive(slot as u32, key)
            }
            (Await::Input | Await::Value, Receiving::Unarmed) => {
                self.poll(slot, Subject::PollInput, poll::IN)
            }
            (Await::Input | Await::Value, _) => self.end_receiving(slot),
            (Await::Writable, _) => {
                self.end_receiving(slot)?;
                self.poll(slot, Subject::PollOutput, poll::OUT)
            }
            (Await::Error, _) => {
                self.end_receiving(slot)?;
                self.poll(slot, Subject::PollError, poll::ERROR)
            }
        }
    }

    /// Ends the receive request of a socket, if it has one.
    fn end_receiving(&mut self, slot: usize) -> io::Result<()> {
        let state = &mut self.sockets[slot];
        if state.receiving != Receiving::Armed {
            return Ok(());
        }
        state.receiving = Receiving::Ending;
        self.ring.cancel(state.key(Subject::Receive, slot))
    }

    /// Polls a socket for a condition, unless a poll for it has not completed.
    fn poll(&mut self, slot: usize, subject: Subject, condition: u32) -> io::Result<()> {
        let state = &mut self.sockets[slot];
        if state.polls & condition != 0 {
            return Ok(());
        }
        state.polls |= condition;
        let key = state.key(subject, slot);
        self.ring.poll(slot as u32, condition, false, key)
    }

    /// Returns the index of a UDP socket in the table of files.
    fn datagram_file(&self, index: usize) -> u32 {
        self.waker_file + 1 + index as u32
    }

    /// Polls the mailbox's waker, or the input of a UDP socket, until the poll ends.
    fn poll_repeatedly(&mut self, subject: Subject, index: usize) -> io::Result<()> {
        let file = match subject {
            Subject::DatagramInput => self.datagram_file(index),
            _ => self.waker_file,
        };
        let key = Key { subject, generation: 0, slot: index };
        self.ring.poll(file, poll::IN, true, key.pack())
    }

    /// Handles the completion of a request.
    fn complete(&mut self, completion: Completion, events: &mut Vec<Ready>) -> io::Result<()> {
        let key = Key::unpack(completion.key);
        let Key { subject, slot, .. } = key;
        match subject {
            Subject::Receive => self.complete_receive(key, completion, events),
            Subject::PollInput => self.complete_poll(key, poll::IN, completion.result, events),
            Subject::PollOutput => self.complete_poll(key, poll::OUT, completion.result, events),
            Subject::PollError => self.complete_poll(key, poll::ERROR, completion.result, events),
            Subject::Send => unreachable!("the ring reports sends as `Sent`"),
            Subject::Mailbox | Subject::DatagramInput => {
                let source = match subject {
                    Subject::Mailbox => Source::Mailbox,
                    _ => Source::Datagram(slot),
                };
                events.push(Ready { is_readable: true, ..Ready::nothing(source) });
                if completion.more { Ok(()) } else { self.poll_repeatedly(subject, slot) }
            }
            Subject::DatagramOutput => {
                self.datagrams_poll_output[slot] = false;
                let source = Source::Datagram(slot);
                events.push(Ready { is_writable: true, ..Ready::nothing(source) });
                Ok(())
            }
        }
    }

    /// Returns the state of the socket for which a request was made, or `None` if the socket was removed.
    fn requester(&mut self, key: Key) -> Option<&mut SocketState> {
        self.sockets.get_mut(key.slot).filter(|state| state.generation == key.generation)
    }

    fn complete_receive(
        &mut self,
        key: Key,
        completion: Completion,
        events: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let Completion { result, received, more, .. } = completion;
        let slot = key.slot;
        let Some(state) = self.requester(key) else {
            received.into_iter().for_each(|received| self.ring.give_back(received));
            return Ok(());
        };
        if !more {
            state.receiving = Receiving::Unarmed;
        }
        match (result, received) {
            (Ok(1..), Some(received)) => {
                event_of(state, slot, events).is_readable = true;
                let is_first = !state.input.has_buffers();
                state.input.push(received);
                if is_first {
                    self.filled.push(slot);
                }
                return Ok(());
            }
            (Ok(_), received) => {
                event_of(state, slot, events).is_readable = true;
                state.input.ended = Some(Ok(()));
                received.into_iter().for_each(|received| self.ring.give_back(received));
            }
            // All buffers are in use: a system call receives the input.
            (Err(Errno::NOBUFS), _) => event_of(state, slot, events).is_readable = true,
            (Err(Errno::CANCELED), _) => return self.request(slot),
            (Err(error), _) => {
                let event = event_of(state, slot, events);
                (event.is_readable, event.is_error) = (true, true);
                state.input.ended = Some(Err(error));
            }
        }
        Ok(())
    }

    fn complete_poll(
        &mut self,
        key: Key,
        condition: u32,
        result: Result<u32, Errno>,
        events: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let Some(state) = self.requester(key) else { return Ok(()) };
        state.polls &= !condition;
        let event = event_of(state, key.slot, events);
        match result {
            Ok(met) => {
                let is_closed = met & (poll::HANG_UP | poll::ERROR) != 0;
                event.is_readable |= met & poll::IN != 0 || is_closed;
                event.is_read_closed |= is_closed;
                event.is_writable |= met & poll::OUT != 0 || is_closed;
                event.is_error |= met & poll::ERROR != 0;
            }
            Err(_) => event.is_error = true,
        }
        Ok(())
    }

    /// Submits everything, and waits for a completion. Then no output is staged.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.stage.clear();
        self.ring.enter(wait, &mut self.done)?;
        let mut sent = std::mem::take(&mut self.done.sent);
        sent.drain(..).for_each(|sent| self.complete_send(sent));
        self.done.sent = sent;
        Ok(())
    }

    /// Sends the staged outputs if there must be no more.
    #[inline]
    fn submit_if_full(&mut self) {
        if self.stage.is_full() {
            // An error means that the ring is out of order. The next wait returns it, too.
            let _ = self.enter(Wait::No);
        }
    }

    /// Handles the outcome of a staged output.
    #[inline]
    fn complete_send(&mut self, sent: Sent) {
        let Sent { key, bytes, taken } = sent;
        let key = Key::unpack(key);
        let slot = key.slot;
        if let Some(state) = self.requester(key) {
            state.output.staged = None;
            match taken {
                Ok(count) if count == bytes.len() => {}
                Ok(count) => {
                    (state.output.rest, state.output.rest_start) = (bytes, count);
                    self.unfinished.push(slot);
                    return;
                }
                Err(error) => {
                    state.output.failed = Some(error);
                    self.unfinished.push(slot);
                }
            }
        }
        self.stage.keep(bytes);
    }

    /// BUFFERS-RETURN: copies the input that is left to the backlogs, and gives all buffers back.
    fn free_buffers(&mut self) -> io::Result<()> {
        while let Some(slot) = self.filled.pop() {
            let state = &mut self.sockets[slot];
            if !state.input.has_buffers() {
                continue;
            }
            if state.input.free_buffers(&mut self.ring) > BACKLOG_BYTES_MAX {
                self.end_receiving(slot)?;
            }
        }
        Ok(())
    }

    /// Sends what the socket has not taken, and the staged output. Returns the error `WouldBlock` if the socket takes only
    /// a part.
    fn send_accepted(&mut self, socket: &Socket) -> io::Result<()> {
        let Uring { ring, sockets, .. } = self;
        let output = &mut sockets[socket.slot].output;
        if let Some(error) = output.failed {
            debug_assert!(output.staged.is_none(), "nothing is staged after an error");
            return Err(error.into());
        }
        if let Some(index) = output.staged.take() {
            // The ring ignores a send without bytes.
            output.rest = std::mem::take(ring.bytes_to_send(index));
            output.rest_start = 0;
        }
        while output.rest_bytes() > 0 {
            match sockets::send(socket.as_fd(), &output.rest[output.rest_start..]) {
                Ok(count) => output.rest_start += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if output.is_blocked() {
            let sent = std::mem::take(&mut output.rest);
            output.rest_start = 0;
            self.stage.keep(sent);
        }
        Ok(())
    }
}

/// Returns the event of a socket, and adds one if there is none.
fn event_of<'a>(state: &mut SocketState, slot: usize, events: &'a mut Vec<Ready>) -> &'a mut Ready {
    let index = *state.event.get_or_insert(events.len());
    if index == events.len() {
        events.push(Ready::nothing(Source::Connection(slot)));
    }
    &mut events[index]
}
