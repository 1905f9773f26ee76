//! UDP: a client sends commands in a datagram, and the server sends the reply to each command as a *message*, which
//! consists of one or more datagrams.
//!
//! ```text
//!   socket --recvfrom--> buffer --consume, one command at a time--> session of this datagram
//!      ^                                                                  |
//!      '---sendto--- datagrams of at most 1,400 bytes <--- ReplyMessage <-'
//!
//!   a message:  filled by the session           start_sending()    send(), continued after the socket blocked
//!               [Out] [second Out, if needed]  -------> total ---> [header|1392 B] ... [header|rest]
//! ```
//!
//! If `-l` names at most one address, every worker has its own socket for this address (SO_REUSEPORT). The kernel
//! selects the socket for a datagram by the sender's address. So a datagram wakes only one worker, and the datagrams of
//! one client are served in order. If `-l` names several addresses, each address has one socket, which one worker
//! serves, as in memcached.
//!
//! The header of each datagram states the number of datagrams of the message, so the session must complete the reply
//! before the first datagram is sent. Large values are not copied for this: an [`Out`] pins them.
//!
//! Invariants:
//! - ONE-DATAGRAM: every datagram has its own session. An incomplete command at the end of a datagram is dropped.
//! - MESSAGE-PER-COMMAND: the reply to a command is one message, even if the command retrieves many keys. A command
//!   without a reply has no message.
//! - BOUNDED: a socket serves one datagram at a time. It owns the buffer of the datagram and one message, which
//!   consists of at most two full [`Out`]s. In place of a longer reply the server sends an error or, in the binary
//!   protocol, nothing.
//! - The datagrams of a message are sent once and in order. If the kernel rejects a datagram, the server drops the rest
//!   of the message, because the client cannot use an incomplete message.
//! - FAIR-ROUNDS: a round serves at most `-R` commands or datagrams and sends about 1 MiB at most, so that datagrams do
//!   not delay connections.
//! - The server does not answer an invalid datagram, so that it sends as little as possible to forged addresses.
//!
//! The server refuses commands that keep a connection open or have unlimited output: `watch` and the dumps of
//! `lru_crawler`. memcached sends no reply to them over UDP.

use super::listen::DatagramSocket;
use super::round::{AfterRound, OutPool, WorkerCore};
use crate::os::sockets;
use crate::out::{Flush, Out};
use crate::session::{Next, Session};
use crate::shared::{Client, ClientState};
use slabwise_protocol::binary::REQUEST_MAGIC;
use slabwise_protocol::text::{CostWire, parse, reply};
use slabwise_protocol::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header, datagram_count, receive};
use slabwise_protocol::{Admin, CrawlKind, Crawler, Parsed, Request};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The size of the buffer for a received datagram: the maximum size of a UDP datagram.
const RECEIVE_BUFFER_BYTES: usize = 64 << 10;
/// The number of sent bytes after which a round ends.
const ROUND_SENT_BYTES_MAX: usize = 1 << 20;

/// Distributes the sockets of all addresses to this number of workers. Returns one list of sockets per worker.
pub(super) fn distribute(
    all: Vec<Vec<DatagramSocket>>,
    workers: usize,
) -> Vec<Vec<DatagramSocket>> {
    let mut by_worker: Vec<Vec<DatagramSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, socket) in all.into_iter().flatten().enumerate() {
        by_worker[index % workers].push(socket);
    }
    by_worker
}

/// A UDP socket of a worker.
pub(super) struct UdpSocket<'e> {
    pub socket: OwnedFd,
    /// The socket's entry in the connection table.
    client: Arc<Client>,
    /// The datagram that is being served.
    buffer: Box<[u8]>,
    /// The state of serving the datagram in `buffer`; `None` if there is no such datagram.
    served: Option<ServedDatagram<'e>>,
    /// True if the socket may have datagrams that are not received yet.
    readable: bool,
    /// True if the socket accepts no datagram until the event loop reports that it is writable.
    blocked: bool,
    /// True if the event loop also reports when the socket is writable.
    pub awaits_writable: bool,
}

/// The state of serving one received datagram.
struct ServedDatagram<'e> {
    /// The sender of the datagram.
    peer: SocketAddr,
    session: Session<'e>,
    /// The range of the buffer with the commands that the session has not consumed.
    unread: Range<usize>,
    /// True if the datagram contains text commands; false for the binary protocol.
    is_text: bool,
    reply: ReplyMessage<'e>,
    /// True if the session serves no further command of the datagram after the current reply.
    is_last_reply: bool,
}

/// The result of receiving from a UDP socket.
enum ReceiveEnd {
    /// A datagram with a valid header arrived.
    Valid,
    /// An invalid datagram arrived, or the socket returned an error about an earlier datagram.
    Invalid,
    /// The socket has no datagram.
    Empty,
}

impl<'e> UdpSocket<'e> {
    pub fn new(socket: OwnedFd, client: Arc<Client>) -> UdpSocket<'e> {
        UdpSocket {
            socket,
            client,
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into(),
            served: None,
            readable: false,
            blocked: false,
            awaits_writable: false,
        }
    }

    /// Records that the event loop reported the socket as readable or writable.
    pub fn note_readiness(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.blocked &= !writable;
    }

    /// True if a round can receive or send a datagram.
    pub fn has_work(&self) -> bool {
        !self.blocked && (self.readable || self.served.is_some())
    }

    /// Serves one round, and returns the worker's next action for the socket.
    pub fn serve_round<L>(&mut self, worker: &mut WorkerCore<'e, L>) -> AfterRound {
        let mut commands_left = worker.context.shared.settings.requests_per_round_max;
        let mut bytes_left = ROUND_SENT_BYTES_MAX;
        while commands_left > 0 {
            match &mut self.served {
                Some(served) if served.reply.is_sending() => {
                    let (sending, count) =
                        served.reply.send(self.socket.as_fd(), &served.peer, bytes_left);
                    worker.context.traffic.add_written(count);
                    bytes_left = bytes_left.saturating_sub(count);
                    match sending {
                        Flush::Drained => {}
                        Flush::Blocked => {
                            self.blocked = true;
                            return AfterRound::AwaitWritable;
                        }
                        Flush::Paused => return AfterRound::NextRound,
                    }
                }
                Some(served) if served.is_last_reply => {
                    if let Some(served) = self.served.take() {
                        served.reply.return_buffers(&mut worker.out_pool);
                    }
                    self.client.set_state(ClientState::Reading);
                }
                Some(served) => {
                    commands_left -= 1;
                    worker.context.descriptor = self.socket.as_raw_fd();
                    served.serve(&self.buffer, worker);
                }
                None => match self.receive(worker) {
                    ReceiveEnd::Valid => {}
                    ReceiveEnd::Invalid => commands_left -= 1,
                    ReceiveEnd::Empty => return AfterRound::AwaitReadable,
                },
            }
        }
        AfterRound::NextRound
    }

    /// Receives a datagram and makes a session for it.
    fn receive<L>(&mut self, worker: &mut WorkerCore<'e, L>) -> ReceiveEnd {
        let (count, peer) = match sockets::receive_datagram(self.socket.as_fd(), &mut self.buffer) {
            Ok((count, Some(peer))) => (count, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return ReceiveEnd::Empty;
            }
            // The error concerns one datagram. The socket can still receive others.
            Ok((_, None)) | Err(_) => return ReceiveEnd::Invalid,
        };
        if count > HEADER_LEN {
            worker.context.traffic.add_read(count);
        }
        let Some((request_id, payload)) = receive(&self.buffer[..count]) else {
            return ReceiveEnd::Invalid;
        };
        let is_text = payload[0] != REQUEST_MAGIC;
        self.client.note_active(worker.context.now.seconds);
        self.served = Some(ServedDatagram {
            peer,
            session: Session::default(),
            unread: HEADER_LEN..count,
            is_text,
            reply: ReplyMessage::new(request_id, &mut worker.out_pool),
            is_last_reply: false,
        });
        ReceiveEnd::Valid
    }
}

impl<'e> ServedDatagram<'e> {
    /// Serves the next command, or a bounded part of a long command. When the reply is complete, prepares to send it.
    fn serve<L>(&mut self, buffer: &[u8], worker: &mut WorkerCore<'e, L>) {
        let input = &buffer[self.unread.clone()];
        if self.session.is_idle() && self.is_text && needs_a_connection(input) {
            // The reply is an error, and the session does not consume the command.
            self.reply.out().bytes().extend_from_slice(reply::ERROR);
            return self.send_last_reply();
        }
        worker.context.requests_left = 1;
        worker.context.large_values_wait = false;
        let progress = self.session.consume(&mut worker.context, input, self.reply.out());
        self.unread.start += progress.consumed;
        match progress.next {
            Next::Yield if self.session.is_idle() => self.send_reply(),
            Next::Yield if self.reply.is_full() => self.replace_by_error(),
            Next::Yield => self.reply.make_room(&mut worker.out_pool),
            Next::Close => self.send_last_reply(),
            Next::Read | Next::AwaitMemory | Next::AwaitReplies => {
                // ONE-DATAGRAM: the rest of an incomplete command does not follow, so its partial reply is dropped.
                if self.session.has_partial_reply() {
                    self.reply.clear();
                }
                self.send_last_reply();
            }
        }
    }

    /// Prepares to send the reply, or an error if the reply is too long.
    fn send_reply(&mut self) {
        if self.reply.start_sending().is_none() {
            self.replace_by_error();
        }
    }

    /// Prepares to send the reply. The session serves no further command of the datagram.
    fn send_last_reply(&mut self) {
        self.is_last_reply = true;
        self.send_reply();
    }

    /// Replaces a reply that is too long by an error line; in the binary protocol, by nothing. Later commands of the
    /// datagram are not served.
    fn replace_by_error(&mut self) {
        self.reply.clear();
        if self.is_text {
            self.reply.out().bytes().extend_from_slice(reply::UDP_REPLY_TOO_LONG);
        }
        self.is_last_reply = true;
        self.reply.start_sending().expect("an error line fits into one datagram");
    }
}

/// True if the first command of `input` is served only on connections.
fn needs_a_connection(input: &[u8]) -> bool {
    // `CostWire` only affects the syntax of store commands, which are not tested here.
    let Parsed::Request { request: Request::Admin(admin), .. } = parse(input, CostWire::Off) else {
        return false;
    };
    matches!(
        admin,
        Admin::Watch(_)
            | Admin::Crawler(Crawler::Crawl(CrawlKind::Metadump | CrawlKind::Mgdump, _))
    )
}

/// The reply to one command. First the session fills the message, then its datagrams are sent.
struct ReplyMessage<'e> {
    /// The request id that the client chose. The header of every datagram contains it.
    request_id: u16,
    /// The first bytes of the reply.
    first: Box<Out<'e>>,
    /// The bytes of the reply that follow `first`; `None` until `first` is full.
    second: Option<Box<Out<'e>>>,
    /// The sequence number of the next datagram, counted from 0: the number of datagrams that are sent.
    next_sequence: u16,
    /// The number of datagrams of the complete message; 0 while the session fills the message.
    total: u16,
}

impl<'e> ReplyMessage<'e> {
    fn new(request_id: u16, out_pool: &mut OutPool<'e>) -> ReplyMessage<'e> {
        ReplyMessage {
            request_id,
            first: out_pool.take(),
            second: None,
            next_sequence: 0,
            total: 0,
        }
    }

    /// Returns the output to which the session appends.
    fn out(&mut self) -> &mut Out<'e> {
        self.second.as_mut().unwrap_or(&mut self.first)
    }

    /// True if both outputs are full.
    fn is_full(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.is_full())
    }

    /// Adds the second output if the first is full.
    fn make_room(&mut self, out_pool: &mut OutPool<'e>) {
        if self.first.is_full() && self.second.is_none() {
            self.second = Some(out_pool.take());
        }
    }

    /// Removes the reply, so that the session can fill the message again.
    fn clear(&mut self) {
        self.second = None;
        self.first.discard_all();
        self.next_sequence = 0;
        self.total = 0;
    }

    /// Computes the number of datagrams of the complete reply: 0 for an empty reply, which is not sent. Returns `None`
    /// if the reply needs more datagrams than a sequence number of 16 bits can count.
    fn start_sending(&mut self) -> Option<()> {
        let rest = self.second.as_ref().map_or(0, |second| second.pending_bytes());
        self.total = datagram_count(self.first.pending_bytes() + rest)?;
        Some(())
    }

    /// True if datagrams of the message remain to be sent.
    fn is_sending(&self) -> bool {
        self.total > 0
    }

    /// Sends at least one datagram, and further datagrams until `bytes_max` bytes are sent. Returns how the call ended
    /// and the number of sent bytes.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: &SocketAddr,
        bytes_max: usize,
    ) -> (Flush, usize) {
        let mut sent_bytes = 0;
        while self.next_sequence < self.total {
            let mut datagram = [0; DATAGRAM_LEN_MAX];
            let len = self.compose(&mut datagram);
            match sockets::send_datagram(socket, &datagram[..len], peer) {
                Ok(()) => sent_bytes += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (Flush::Blocked, sent_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::debug!("the rest of a reply to {peer} is dropped: {error}");
                    break;
                }
            }
            self.mark_sent(len - HEADER_LEN);
            if sent_bytes >= bytes_max && self.next_sequence < self.total {
                return (Flush::Paused, sent_bytes);
            }
        }
        self.clear();
        (Flush::Drained, sent_bytes)
    }

    /// Writes the header and the payload of the next datagram into `datagram`. Returns the length of the datagram.
    fn compose(&self, datagram: &mut [u8; DATAGRAM_LEN_MAX]) -> usize {
        let ReplyMessage { request_id, next_sequence, total, .. } = *self;
        let (header, payload) = datagram.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&Header { request_id, sequence: next_sequence, total }.compose());
        let mut len = self.first.copy_next(payload);
        if let Some(second) = &self.second {
            len += second.copy_next(&mut payload[len..]);
        }
        debug_assert!(
            len == payload.len() || next_sequence + 1 == total,
            "every datagram except the last has the maximum length"
        );
        HEADER_LEN + len
    }

    /// Marks the next datagram, whose payload has this length, as sent.
    fn mark_sent(&mut self, payload_len: usize) {
        let first_len = payload_len.min(self.first.pending_bytes());
        self.first.mark_written(first_len);
        if let Some(second) = &mut self.second {
            second.mark_written(payload_len - first_len);
        }
        self.next_sequence += 1;
    }

    /// Returns the first output to the pool, and frees the second output, if any.
    fn return_buffers(mut self, out_pool: &mut OutPool<'e>) {
        self.clear();
        out_pool.put_back(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::ReplyMessage;
    use crate::net::round::OutPool;
    use crate::out::{Flush, PENDING_BYTES_MAX};
    use slabwise_base::{Clock, Random};
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};
    use slabwise_protocol::udp::{HEADER_LEN, Header, PAYLOAD_LEN_MAX};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.next_u64() as u8).collect()
    }

    /// Sends a message by calls that send about `bytes_max` bytes each, and returns the received datagrams.
    fn send(message: &mut ReplyMessage<'_>, bytes_max: usize) -> Vec<Vec<u8>> {
        let (sender, receiver) = (socket(), socket());
        let peer = receiver.local_addr().expect("the socket is bound");
        let mut datagrams = Vec::new();
        let mut buffer = [0; 2_000];
        loop {
            let (sending, count) = message.send(sender.as_fd(), &peer, bytes_max);
            assert!(count < bytes_max + super::DATAGRAM_LEN_MAX);
            let mut received = 0;
            while received < count {
                let len = receiver.recv(&mut buffer).expect("a sent datagram arrives");
                received += len;
                datagrams.push(buffer[..len].to_vec());
            }
            match sending {
                Flush::Drained => return datagrams,
                Flush::Paused => assert!(count >= bytes_max),
                Flush::Blocked => {}
            }
        }
    }

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a UDP socket can be bound to any free port")
    }

    #[test]
    fn a_reply_is_split_into_numbered_datagrams() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("64 MiB can be reserved");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut out_pool = OutPool::default();
            let mut message = ReplyMessage::new(seed as u16, &mut out_pool);
            let mut expected = Vec::new();
            for index in 0..random.below(8) {
                let part = random_bytes(seed ^ index, 1 + random.below(40_000) as usize);
                if random.below(2) == 0 {
                    message.out().bytes().extend_from_slice(&part);
                } else {
                    let meta = ItemMeta::default();
                    handle.set(b"key", &part, meta, StoreMode::Set, clock.now());
                    let pinned = handle.get(b"key", clock.now(), |item| item.pin());
                    let pinned = pinned.expect("a get of a stored item hits");
                    let pin = pinned.expect("the item has fewer than the maximum number of pins");
                    message.out().push_pinned(pin);
                }
                expected.extend_from_slice(&part);
            }
            message.start_sending().expect("the reply needs at most 65,535 datagrams");
            assert_eq!(message.is_sending(), !expected.is_empty(), "seed {seed}");
            let datagrams = send(&mut message, 10_000);
            let total = expected.len().div_ceil(PAYLOAD_LEN_MAX) as u16;
            assert_eq!(datagrams.len(), usize::from(total), "seed {seed}");
            for (datagram, sequence) in datagrams.iter().zip(0..) {
                let header = Header { request_id: seed as u16, sequence, total };
                assert_eq!(Header::parse(datagram), Some(header), "seed {seed}");
            }
            let payloads: Vec<u8> =
                datagrams.iter().flat_map(|datagram| &datagram[HEADER_LEN..]).copied().collect();
            assert!(payloads == expected, "seed {seed}: the client received other bytes");
            assert!(!message.is_sending());
            message.return_buffers(&mut out_pool);
        }
    }

    #[test]
    fn a_reply_that_fills_the_first_output_continues_in_the_second() {
        let mut out_pool = OutPool::default();
        let mut message = ReplyMessage::new(1, &mut out_pool);
        let expected = random_bytes(1, 2 * PENDING_BYTES_MAX + 10);
        let (head, tail) = expected.split_at(PENDING_BYTES_MAX + 5);
        message.out().bytes().extend_from_slice(head);
        assert!(!message.is_full());
        message.make_room(&mut out_pool);
        message.out().bytes().extend_from_slice(tail);
        assert!(message.is_full());
        message.start_sending().expect("the reply needs at most 65,535 datagrams");
        let payloads: Vec<u8> = send(&mut message, 50_000)
            .iter()
            .flat_map(|datagram| datagram[HEADER_LEN..].to_vec())
            .collect();
        assert!(payloads == expected, "the client received other bytes");
    }

    #[test]
    fn a_reply_of_more_than_65535_datagrams_is_not_sent() {
        let mut message = ReplyMessage::new(1, &mut OutPool::default());
        message.out().bytes().resize(PAYLOAD_LEN_MAX * 65_535 + 1, b'x');
        assert_eq!(message.start_sending(), None);
        message.clear();
        assert!(!message.is_sending());
    }
}
