//! A reply on its way to a client in numbered datagrams.
//!
//! ```text
//!   filled by the session        begin()          send(), again where it blocked
//!   [out] [out, if one is full]  -------> total   ---> [header|1392 B] [header|1392 B] ... [header|rest]
//! ```
//!
//! How many datagrams there are stands in each of them, so that the whole reply must be known before the
//! first is sent. Large values stay where they are meanwhile: an [`Out`] pins them.
//!
//! Law: a datagram is sent once and in order; one that the kernel refuses for good takes the rest of its
//! message with it, since the client could do nothing with that.

use crate::net::connection::OutPool;
use crate::os::sys;
use crate::out::Out;
use slabwise_protocol::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header, datagram_count};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A reply, being filled or being sent.
pub(super) struct Message<'e> {
    request_id: u16,
    first: Box<Out<'e>>,
    /// What comes after it, once it was full.
    second: Option<Box<Out<'e>>>,
    /// How many datagrams are sent.
    sequence: u16,
    /// How many there are; 0 while the message is being filled.
    total: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Done,
    /// The network takes no more for now.
    Blocked,
    /// As much is sent as this call may.
    Paused,
}

/// The message has more datagrams than can be numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl<'e> Message<'e> {
    pub fn new(request_id: u16, outs: &mut OutPool<'e>) -> Message<'e> {
        Message { request_id, first: outs.take(), second: None, sequence: 0, total: 0 }
    }

    pub fn out(&mut self) -> &mut Out<'e> {
        self.second.as_mut().unwrap_or(&mut self.first)
    }

    /// Whether no more of a reply fits in.
    pub fn is_full(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.is_full())
    }

    /// Takes a second buffer if the first is full.
    pub fn make_room(&mut self, outs: &mut OutPool<'e>) {
        if self.first.is_full() && self.second.is_none() {
            self.second = Some(outs.take());
        }
    }

    pub fn discard(&mut self) {
        self.second = None;
        self.first.discard();
        self.sequence = 0;
        self.total = 0;
    }

    /// Counts the datagrams; the reply is complete. An empty one is not sent at all.
    pub fn begin(&mut self) -> Result<(), TooLong> {
        let rest = self.second.as_ref().map_or(0, |second| second.pending_bytes());
        self.total = datagram_count(self.first.pending_bytes() + rest).ok_or(TooLong)?;
        Ok(())
    }

    pub fn is_under_way(&self) -> bool {
        self.total > 0
    }

    /// Sends datagrams up to `bytes_max` bytes, and one at least; returns how far it came and how many
    /// bytes went out.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: &SocketAddr,
        bytes_max: usize,
    ) -> (Sending, usize) {
        let mut sent_bytes = 0;
        while self.sequence < self.total {
            let mut datagram = [0; DATAGRAM_LEN_MAX];
            let len = self.compose(&mut datagram);
            match sys::send_datagram(socket, &datagram[..len], peer) {
                Ok(()) => sent_bytes += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (Sending::Blocked, sent_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::debug!("a reply to {peer} is dropped: {error}");
                    break;
                }
            }
            self.advance(len - HEADER_LEN);
            if sent_bytes >= bytes_max && self.sequence < self.total {
                return (Sending::Paused, sent_bytes);
            }
        }
        self.discard();
        (Sending::Done, sent_bytes)
    }

    /// The next datagram; returns its length.
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

    /// Notes that the next datagram, with so much payload, is sent.
    fn advance(&mut self, payload_len: usize) {
        let of_first = payload_len.min(self.first.pending_bytes());
        self.first.written(of_first);
        if let Some(second) = &mut self.second {
            second.written(payload_len - of_first);
        }
        self.sequence += 1;
    }

    pub fn give_back(mut self, outs: &mut OutPool<'e>) {
        self.discard();
        outs.put_back(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Sending, TooLong};
    use crate::net::connection::OutPool;
    use crate::out::PENDING_BYTES_MAX;
    use slabwise_base::{Clock, Random};
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};
    use slabwise_protocol::udp::{HEADER_LEN, Header, PAYLOAD_LEN_MAX};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Bytes that tell where they stand.
    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len).map(|_| random.next_u64() as u8).collect()
    }

    /// Sends all, a little at a time, and receives it; returns the datagrams.
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
                Sending::Done => return datagrams,
                Sending::Paused => assert!(count >= bytes_max),
                Sending::Blocked => {}
            }
        }
    }

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a UDP socket")
    }

    #[test]
    fn a_reply_is_cut_into_numbered_datagrams_and_loses_nothing() {
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
            assert_eq!(message.is_under_way(), !expected.is_empty(), "seed {seed}");
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
            assert!(!message.is_under_way());
            message.give_back(&mut outs);
        }
    }

    #[test]
    fn a_full_buffer_is_followed_by_one_more() {
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
    fn more_datagrams_than_can_be_numbered_are_not_begun() {
        let mut message = Message::new(1, &mut OutPool::default());
        message.out().bytes().resize(PAYLOAD_LEN_MAX * 65_535 + 1, b'x');
        assert_eq!(message.begin(), Err(TooLong));
        message.discard();
        assert!(!message.is_under_way());
    }
}
