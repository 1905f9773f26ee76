//! UDP: a datagram of commands comes, and for each command a message of datagrams goes back.
//!
//! ```text
//!   socket --recvfrom--> buffer --consume, one command at a time--> session (the datagram's own)
//!      ^                                                              |
//!      '---sendto--- datagrams of at most 1,400 bytes <--- Message <--'
//! ```
//!
//! Every worker has a socket of its own for each address (SO_REUSEPORT), and the kernel deals datagrams out
//! by their sender: no two workers wake up for the same datagram, and one client's are served in order.
//! Where `-l` names several addresses, each is served by one worker, as in memcached.
//!
//! Laws:
//! - ONE-DATAGRAM: a session lives as long as its datagram. What is cut off at its end is dropped.
//! - MESSAGE-A-COMMAND: each command's reply is a message, also a retrieval of many keys; a command
//!   without a reply has none.
//! - BOUNDED: a socket serves one datagram at a time and holds its buffer and one message, which is at
//!   most two full [`Out`](crate::out::Out)s; a longer reply is replaced by an error.
//! - FAIR-TURNS: a turn serves at most `-R` commands or datagrams and sends at most 1 MiB. However many
//!   datagrams come, every connection has its turn in between.
//! - A datagram that is no request gets no answer, so that forged senders are sent as little as can be.
//!
//! Commands that take a connection over, or list without a bound (`watch`, the dumps of `lru_crawler`),
//! are refused: memcached answers them on no socket at all.

mod message;

use super::connection::OutPool;
use super::listen::DatagramSockets;
use crate::context::WorkerContext;
use crate::os::sys;
use crate::session::{Next, Session};
use crate::shared::{Client, ClientState};
use message::{Message, Sending};
use slabwise_protocol::text::{CostWire, parse, reply};
use slabwise_protocol::udp::{HEADER_LEN, Received, receive};
use slabwise_protocol::{Admin, CrawlKind, Crawler, Parsed, Request};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// What one datagram can bring.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// What a turn sends at most.
const TURN_BYTES_MAX: usize = 1 << 20;

pub(super) struct NewSocket {
    pub socket: OwnedFd,
    pub address: SocketAddr,
}

/// Deals the sockets out to so many workers, as evenly as it goes.
pub(super) fn deal_out(all: Vec<DatagramSockets>, workers: usize) -> Vec<Vec<NewSocket>> {
    let mut dealt: Vec<Vec<NewSocket>> = (0..workers).map(|_| Vec::new()).collect();
    let sockets = all.into_iter().flat_map(|DatagramSockets { sockets, address }| {
        sockets.into_iter().map(move |socket| NewSocket { socket, address })
    });
    for (index, socket) in sockets.enumerate() {
        dealt[index % workers].push(socket);
    }
    dealt
}

/// What a worker lends to the socket whose turn it is.
pub(super) struct Lent<'w, 'e> {
    pub context: &'w mut WorkerContext<'e>,
    pub outs: &'w mut OutPool<'e>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    AwaitReadable,
    AwaitWritable,
    /// Another turn, once others had theirs.
    Again,
}

pub(super) struct UdpSocket<'e> {
    socket: OwnedFd,
    client: Arc<Client>,
    buffer: Box<[u8]>,
    exchange: Option<Exchange<'e>>,
    /// There may be datagrams that are not received yet.
    readable: bool,
    /// The network card takes no more for now.
    blocked: bool,
    /// Whether the event loop was asked to tell when the socket is writable.
    pub awaits_writable: bool,
}

struct Exchange<'e> {
    peer: SocketAddr,
    session: Session<'e>,
    /// Where the rest of the datagram lies in the buffer.
    unread: Range<usize>,
    speaks_text: bool,
    reply: Message<'e>,
    is_over: bool,
}

/// What a receive brought.
enum Brought {
    Request,
    /// A datagram that is no request, or an error that concerns one.
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

    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn note(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.blocked &= !writable;
    }

    pub fn wants_turn(&self) -> bool {
        !self.blocked && (self.readable || self.exchange.is_some())
    }

    pub fn turn(&mut self, lent: &mut Lent<'_, 'e>) -> Turn {
        let mut commands_left = lent.context.shared.settings.requests_per_turn_max;
        let mut bytes_left = TURN_BYTES_MAX;
        while commands_left > 0 {
            match &mut self.exchange {
                Some(exchange) if exchange.reply.is_under_way() => {
                    let (sending, count) =
                        exchange.reply.send(self.socket.as_fd(), &exchange.peer, bytes_left);
                    lent.context.traffic.add_written(count);
                    bytes_left = bytes_left.saturating_sub(count);
                    match sending {
                        Sending::Done => {}
                        Sending::Blocked => {
                            self.blocked = true;
                            return Turn::AwaitWritable;
                        }
                        Sending::Paused => return Turn::Again,
                    }
                }
                Some(exchange) if exchange.is_over => {
                    if let Some(exchange) = self.exchange.take() {
                        exchange.reply.give_back(lent.outs);
                    }
                    self.client.set_state(ClientState::Reading);
                }
                Some(exchange) => {
                    commands_left -= 1;
                    lent.context.descriptor = self.socket.as_raw_fd();
                    exchange.serve(&self.buffer, lent);
                }
                None => match self.receive(lent) {
                    Brought::Request => {}
                    Brought::Nothing => commands_left -= 1,
                    Brought::Empty => return Turn::AwaitReadable,
                },
            }
        }
        Turn::Again
    }

    fn receive(&mut self, lent: &mut Lent<'_, 'e>) -> Brought {
        let (count, peer) = match sys::receive_datagram(self.socket.as_fd(), &mut self.buffer) {
            Ok((count, Some(peer))) => (count, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Brought::Empty;
            }
            // An error tells of a datagram that came or went; the socket is as good as before.
            Ok((_, None)) | Err(_) => return Brought::Nothing,
        };
        if count > HEADER_LEN {
            lent.context.traffic.add_read(count);
        }
        let Received::Request { request_id, payload } = receive(&self.buffer[..count]) else {
            return Brought::Nothing;
        };
        let speaks_text = payload[0] != BINARY_REQUEST_MAGIC;
        self.client.note_active(lent.context.now.seconds);
        self.exchange = Some(Exchange {
            peer,
            session: Session::new(),
            unread: HEADER_LEN..count,
            speaks_text,
            reply: Message::new(request_id, lent.outs),
            is_over: false,
        });
        Brought::Request
    }
}

/// What a request of the binary protocol begins with.
const BINARY_REQUEST_MAGIC: u8 = 0x80;

impl<'e> Exchange<'e> {
    /// Serves the next command, or a bounded part of it; its reply is under way when it is complete.
    fn serve(&mut self, buffer: &[u8], lent: &mut Lent<'_, 'e>) {
        let input = &buffer[self.unread.clone()];
        if self.session.is_idle() && self.speaks_text && is_for_connections(input) {
            self.reply.out().bytes().extend_from_slice(reply::ERROR);
            return self.end();
        }
        lent.context.requests_left = 1;
        let progress = self.session.consume(lent.context, input, self.reply.out());
        self.unread.start += progress.consumed;
        match progress.next {
            Next::Yield if self.session.is_idle() => self.complete(),
            Next::Yield => {
                if self.reply.is_full() {
                    self.refuse();
                } else {
                    self.reply.make_room(lent.outs);
                }
            }
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
        if self.reply.begin().is_err() {
            self.refuse();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.complete();
    }

    /// Replaces a reply that is too long. What the datagram holds beyond its command goes unserved.
    fn refuse(&mut self) {
        self.reply.discard();
        if self.speaks_text {
            self.reply.out().bytes().extend_from_slice(reply::UDP_REPLY_TOO_LONG);
        }
        self.is_over = true;
        self.reply.begin().expect("a line fits into a datagram");
    }
}

/// Whether a command line asks for what only a connection can be given.
fn is_for_connections(input: &[u8]) -> bool {
    // Costs are no matter: they stand in no order's line.
    let Parsed::Request { request: Request::Admin(order), .. } = parse(input, CostWire::Off) else {
        return false;
    };
    matches!(
        order,
        Admin::Watch(_)
            | Admin::Crawler(Crawler::Crawl(CrawlKind::Metadump | CrawlKind::Mgdump, _))
    )
}
