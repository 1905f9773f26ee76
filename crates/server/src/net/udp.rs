//! UDP: each command in a datagram is answered with a message of one or more datagrams.
//!
//! ```text
//!   socket --recvfrom--> buffer --consume, one command at a time--> session (the datagram's own)
//!      ^                                                              |
//!      '---sendto--- datagrams of at most 1,400 bytes <--- Message <--'
//!
//!   a message:  filled by the session        begin()          send(), resumed where it blocked
//!               [out] [out, if one is full]  -------> total   ---> [header|1392 B] ... [header|rest]
//! ```
//!
//! Every worker has a socket of its own for each address (SO_REUSEPORT), and the kernel distributes datagrams by their
//! sender: only one worker wakes up for a datagram, and one client's datagrams are served in order. If `-l` names
//! several addresses, each is served by one worker, as in memcached.
//!
//! Each datagram states the number of datagrams of its reply, so the whole reply must be known before the first is
//! sent. Large values are not copied meanwhile: an [`Out`] pins them.
//!
//! Invariants:
//! - ONE-DATAGRAM: a session ends with its datagram. An incomplete command at its end is dropped.
//! - MESSAGE-PER-COMMAND: each command's reply is one message, even for a retrieval of many keys. A command without a
//!   reply has no message.
//! - BOUNDED: a socket serves one datagram at a time and holds its buffer and one message, which is at
//!   most two full [`Out`]s; a longer reply is replaced by an error.
//! - A datagram is sent once and in order. If the kernel rejects one, the rest of its message is dropped, because it
//!   is useless to the client.
//! - FAIR-ROUNDS: a round serves at most `-R` commands or datagrams and sends at most 1 MiB, so that datagrams do not
//!   delay connections.
//! - An invalid datagram is not answered, so that forged sender addresses receive as little as possible.
//!
//! Commands that take over a connection or whose output is unbounded (`watch`, the dumps of `lru_crawler`) are refused.
//! memcached does not answer them over UDP at all.

use super::connection::{OutPool, RoundEnd, WorkerCore};
use super::listen::DatagramSocket;
use crate::os::sys;
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

const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// The most bytes that a round sends.
const ROUND_BYTES_MAX: usize = 1 << 20;

/// Distributes the sockets to this number of workers, as evenly as possible.
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

pub(super) struct UdpSocket<'e> {
    pub socket: OwnedFd,
    client: Arc<Client>,
    buffer: Box<[u8]>,
    exchange: Option<Exchange<'e>>,
    /// There may be datagrams that are not received yet.
    readable: bool,
    /// The socket accepts no more for now.
    blocked: bool,
    /// True if the socket is registered for writability.
    pub awaits_writable: bool,
}

struct Exchange<'e> {
    peer: SocketAddr,
    session: Session<'e>,
    /// The part of the buffer with the rest of the datagram.
    unread: Range<usize>,
    speaks_text: bool,
    reply: Message<'e>,
    is_over: bool,
}

/// The result of a receive.
enum Received {
    Request,
    /// An invalid datagram, or an error about one.
    Nothing,
    /// The socket is empty.
    Empty,
}

impl<'e> UdpSocket<'e> {
    pub fn new(socket: OwnedFd, client: Arc<Client>) -> UdpSocket<'e> {
        UdpSocket {
            socket,
            client,
            buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
            exchange: None,
            readable: false,
            blocked: false,
            awaits_writable: false,
        }
    }

    pub fn note(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.blocked &= !writable;
    }

    pub fn has_work(&self) -> bool {
        !self.blocked && (self.readable || self.exchange.is_some())
    }

    pub fn serve_round(&mut self, worker: &mut WorkerCore<'e>) -> RoundEnd {
        let mut commands_left = worker.context.shared.settings.requests_per_turn_max;
        let mut bytes_left = ROUND_BYTES_MAX;
        while commands_left > 0 {
            match &mut self.exchange {
                Some(exchange) if exchange.reply.is_sending() => {
                    let (sending, count) =
                        exchange.reply.send(self.socket.as_fd(), &exchange.peer, bytes_left);
                    worker.context.traffic.add_written(count);
                    bytes_left = bytes_left.saturating_sub(count);
                    match sending {
                        Flush::Drained => {}
                        Flush::Blocked => {
                            self.blocked = true;
                            return RoundEnd::AwaitWritable;
                        }
                        Flush::Paused => return RoundEnd::Again,
                    }
                }
                Some(exchange) if exchange.is_over => {
                    if let Some(exchange) = self.exchange.take() {
                        exchange.reply.release(&mut worker.outs);
                    }
                    self.client.set_state(ClientState::Reading);
                }
                Some(exchange) => {
                    commands_left -= 1;
                    worker.context.descriptor = self.socket.as_raw_fd();
                    exchange.serve(&self.buffer, worker);
                }
                None => match self.receive(worker) {
                    Received::Request => {}
                    Received::Nothing => commands_left -= 1,
                    Received::Empty => return RoundEnd::AwaitReadable,
                },
            }
        }
        RoundEnd::Again
    }

    fn receive(&mut self, worker: &mut WorkerCore<'e>) -> Received {
        let (count, peer) = match sys::receive_datagram(self.socket.as_fd(), &mut self.buffer) {
            Ok((count, Some(peer))) => (count, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Received::Empty;
            }
            // An error is about one datagram; the socket is still usable.
            Ok((_, None)) | Err(_) => return Received::Nothing,
        };
        if count > HEADER_LEN {
            worker.context.traffic.add_read(count);
        }
        let Some((request_id, payload)) = receive(&self.buffer[..count]) else {
            return Received::Nothing;
        };
        let speaks_text = payload[0] != REQUEST_MAGIC;
        self.client.note_active(worker.context.now.seconds);
        self.exchange = Some(Exchange {
            peer,
            session: Session::default(),
            unread: HEADER_LEN..count,
            speaks_text,
            reply: Message::new(request_id, &mut worker.outs),
            is_over: false,
        });
        Received::Request
    }
}

impl<'e> Exchange<'e> {
    /// Serves the next command, or a bounded part of it. Starts to send the reply when the command is complete.
    fn serve(&mut self, buffer: &[u8], worker: &mut WorkerCore<'e>) {
        let input = &buffer[self.unread.clone()];
        if self.session.is_idle() && self.speaks_text && is_for_connections(input) {
            self.reply.out().bytes().extend_from_slice(reply::ERROR);
            return self.end();
        }
        worker.context.requests_left = 1;
        let progress = self.session.consume(&mut worker.context, input, self.reply.out());
        self.unread.start += progress.consumed;
        match progress.next {
            Next::Yield if self.session.is_idle() => self.complete(),
            Next::Yield if self.reply.is_full() => self.refuse(),
            Next::Yield => self.reply.make_room(&mut worker.outs),
            Next::Close => self.end(),
            Next::Read => {
                // ONE-DATAGRAM
                if self.session.is_mid_reply() {
                    self.reply.discard();
                }
                self.end();
            }
        }
    }

    fn complete(&mut self) {
        if self.reply.begin().is_none() {
            self.refuse();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.complete();
    }

    /// Replaces a reply that is too long. Later commands of the datagram are not served.
    fn refuse(&mut self) {
        self.reply.discard();
        if self.speaks_text {
            self.reply.out().bytes().extend_from_slice(reply::UDP_REPLY_TOO_LONG);
        }
        self.is_over = true;
        self.reply.begin().expect("a line fits into a datagram");
    }
}

/// True if a command is served only on connections.
fn is_for_connections(input: &[u8]) -> bool {
    // The forms of stores do not matter here.
    let Parsed::Request { request: Request::Admin(order), .. } = parse(input, CostWire::Off) else {
        return false;
    };
    matches!(
        order,
        Admin::Watch(_)
            | Admin::Crawler(Crawler::Crawl(CrawlKind::Metadump | CrawlKind::Mgdump, _))
    )
}

/// A reply, being filled or being sent.
struct Message<'e> {
    request_id: u16,
    first: Box<Out<'e>>,
    /// The continuation after `first` is full.
    second: Option<Box<Out<'e>>>,
    /// The number of datagrams sent.
    sequence: u16,
    /// The number of datagrams in all; 0 while the message is being filled.
    total: u16,
}

impl<'e> Message<'e> {
    fn new(request_id: u16, outs: &mut OutPool<'e>) -> Message<'e> {
        Message { request_id, first: outs.take(), second: None, sequence: 0, total: 0 }
    }

    fn out(&mut self) -> &mut Out<'e> {
        self.second.as_mut().unwrap_or(&mut self.first)
    }

    /// True if no more of a reply fits.
    fn is_full(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.is_full())
    }

    /// Adds a second buffer if the first is full.
    fn make_room(&mut self, outs: &mut OutPool<'e>) {
        if self.first.is_full() && self.second.is_none() {
            self.second = Some(outs.take());
        }
    }

    fn discard(&mut self) {
        self.second = None;
        self.first.discard();
        self.sequence = 0;
        self.total = 0;
    }

    /// Starts to send a complete reply; an empty one is not sent at all. Returns `None` if the reply needs more
    /// datagrams than can be numbered.
    fn begin(&mut self) -> Option<()> {
        let rest = self.second.as_ref().map_or(0, |second| second.pending_bytes());
        self.total = datagram_count(self.first.pending_bytes() + rest)?;
        Some(())
    }

    fn is_sending(&self) -> bool {
        self.total > 0
    }

    /// Sends datagrams until `bytes_max` bytes are sent, at least one. Returns how the call ended and the number of
    /// bytes sent.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: &SocketAddr,
        bytes_max: usize,
    ) -> (Flush, usize) {
        let mut sent_bytes = 0;
        while self.sequence < self.total {
            let mut datagram = [0; DATAGRAM_LEN_MAX];
            let len = self.compose(&mut datagram);
            match sys::send_datagram(socket, &datagram[..len], peer) {
                Ok(()) => sent_bytes += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (Flush::Blocked, sent_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::debug!("a reply to {peer} is dropped: {error}");
                    break;
                }
            }
            self.advance(len - HEADER_LEN);
            if sent_bytes >= bytes_max && self.sequence < self.total {
                return (Flush::Paused, sent_bytes);
            }
        }
        self.discard();
        (Flush::Drained, sent_bytes)
    }

    /// Writes the next datagram into `datagram`; returns its length.
    fn compose(&self, datagram: &mut [u8; DATAGRAM_LEN_MAX]) -> usize {
        let Message { request_id, sequence, total, .. } = *self;
        let (header, payload) = datagram.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&Header { request_id, sequence, total }.compose());
        let mut len = self.first.copy_next(payload);
        if let Some(second) = &self.second {
            len += second.copy_next(&mut payload[len..]);
        }
        debug_assert!(len == payload.len() || sequence + 1 == total, "only the last is short");
        HEADER_LEN + len
    }

    /// Marks the next datagram, with a payload of this length, as sent.
    fn advance(&mut self, payload_len: usize) {
        let of_first = payload_len.min(self.first.pending_bytes());
        self.first.written(of_first);
        if let Some(second) = &mut self.second {
            second.written(payload_len - of_first);
        }
        self.sequence += 1;
    }

    fn release(mut self, outs: &mut OutPool<'e>) {
        self.discard();
        outs.put_back(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;
    use crate::net::connection::OutPool;
    use crate::out::{Flush, PENDING_BYTES_MAX};
    use slabwise_base::{Clock, Random};
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};
    use slabwise_protocol::udp::{HEADER_LEN, Header, PAYLOAD_LEN_MAX};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.next_u64() as u8).collect()
    }

    /// Sends a message in steps of `bytes_max` bytes and receives it; returns the datagrams.
    fn send(message: &mut Message<'_>, bytes_max: usize) -> Vec<Vec<u8>> {
        let (near, far) = (socket(), socket());
        let peer = far.local_addr().expect("a bound socket");
        let mut datagrams = Vec::new();
        let mut buffer = [0; 2_000];
        loop {
            let (sending, count) = message.send(near.as_fd(), &peer, bytes_max);
            assert!(count < bytes_max + super::DATAGRAM_LEN_MAX);
            let mut received = 0;
            while received < count {
                let len = far.recv(&mut buffer).expect("what was sent arrives");
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
        UdpSocket::bind("127.0.0.1:0").expect("a UDP socket")
    }

    #[test]
    fn a_reply_is_split_into_numbered_datagrams() {
        let engine = Engine::new(EngineConfig::new(64 << 20)).expect("an engine");
        let clock = Clock::manual();
        let mut handle = engine.handle();
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut outs = OutPool::default();
            let mut message = Message::new(seed as u16, &mut outs);
            let mut expected = Vec::new();
            for index in 0..random.below(8) {
                let part = bytes(seed ^ index, 1 + random.below(40_000) as usize);
                if random.below(2) == 0 {
                    message.out().bytes().extend_from_slice(&part);
                } else {
                    let meta = ItemMeta::default();
                    handle.set(b"key", &part, meta, StoreMode::Set, clock.now());
                    let pinned = handle.get(b"key", clock.now(), |item| item.pin());
                    message.out().push_pinned(pinned.expect("it is there").expect("a pin"));
                }
                expected.extend_from_slice(&part);
            }
            message.begin().expect("it is short enough");
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
            assert!(payloads == expected, "seed {seed}: bytes differ");
            assert!(!message.is_sending());
            message.release(&mut outs);
        }
    }

    #[test]
    fn a_full_buffer_is_continued_in_a_second_one() {
        let mut outs = OutPool::default();
        let mut message = Message::new(1, &mut outs);
        let expected = bytes(1, 2 * PENDING_BYTES_MAX + 10);
        let (head, tail) = expected.split_at(PENDING_BYTES_MAX + 5);
        message.out().bytes().extend_from_slice(head);
        assert!(!message.is_full());
        message.make_room(&mut outs);
        message.out().bytes().extend_from_slice(tail);
        assert!(message.is_full());
        message.begin().expect("it is short enough");
        let payloads: Vec<u8> = send(&mut message, 50_000)
            .iter()
            .flat_map(|datagram| datagram[HEADER_LEN..].to_vec())
            .collect();
        assert!(payloads == expected, "bytes differ");
    }

    #[test]
    fn a_message_of_too_many_datagrams_is_not_sent() {
        let mut message = Message::new(1, &mut OutPool::default());
        message.out().bytes().resize(PAYLOAD_LEN_MAX * 65_535 + 1, b'x');
        assert_eq!(message.begin(), None);
        message.discard();
        assert!(!message.is_sending());
    }
}
