//! Tests of the contract of [`EventLoop`], for each implementation.

use super::{Await, Epoll, EventLoop, Ready, Socket, Source, Uring};
use crate::os::sockets::ReceiveOutcome;
use crate::os::{sys, uring};
use slabwise_base::Random;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The maximum time for which a test waits for an event that must follow.
const DEADLINE: Option<Duration> = Some(Duration::from_secs(20));
const NOW: Option<Duration> = Some(Duration::ZERO);

/// An event loop with its waker, and the events of the last wait.
struct Tested<L: EventLoop> {
    event_loop: L,
    events: L::Events,
    waker: OwnedFd,
}

/// A socket of the event loop, and its client.
struct Pair {
    socket: Socket,
    client: UnixStream,
}

impl<L: EventLoop> Tested<L> {
    fn new(mut event_loop: L) -> Tested<L> {
        let waker = sys::event_counter().expect("an event counter can be made");
        event_loop.start(waker.as_fd()).expect("the event loop starts");
        Tested { event_loop, events: L::events(), waker }
    }

    /// Adds a socket that waits for input.
    fn open(&mut self, slot: usize) -> Pair {
        let (server, client) = UnixStream::pair().expect("a socket pair can be opened");
        server.set_nonblocking(true).expect("a socket can be made non-blocking");
        client.set_nonblocking(true).expect("a socket can be made non-blocking");
        let socket = Socket::new(server.into(), slot);
        self.event_loop.add(&socket).expect("the socket can be added");
        Pair { socket, client }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Vec<Ready> {
        self.event_loop.wait(&mut self.events, timeout).expect("the event loop can wait");
        L::ready(&self.events).collect()
    }

    /// Waits until there is an event of this source that meets the condition.
    fn wait_for(&mut self, source: Source, condition: impl Fn(&Ready) -> bool) {
        while !self.wait(DEADLINE).iter().any(|event| event.source == source && condition(event)) {}
    }

    /// Receives until there is no more input, with slices of random lengths. Returns the bytes, and true if the client has
    /// closed its sending side.
    fn receive(&mut self, socket: &Socket, random: &mut Random) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        loop {
            let mut first = vec![0; random.below(3_000) as usize];
            let mut second = vec![0; 1 + random.below(3_000) as usize];
            let targets = [first.as_mut_slice(), second.as_mut_slice()];
            match self.event_loop.receive(socket, targets).expect("the client is connected") {
                ReceiveOutcome::Bytes { count, more } => {
                    first.append(&mut second);
                    bytes.extend_from_slice(&first[..count]);
                    if !more {
                        return (bytes, false);
                    }
                }
                ReceiveOutcome::WouldBlock => return (bytes, false),
                ReceiveOutcome::PeerClosed => return (bytes, true),
            }
        }
    }

    /// Sends bytes in parts of random lengths and in all ways, as a connection does. Returns what the client received.
    fn send(&mut self, pair: &mut Pair, bytes: &[u8], random: &mut Random) -> Vec<u8> {
        let mut received = Vec::new();
        let mut sent = 0;
        let mut is_blocked = false;
        while received.len() < bytes.len() {
            while sent < bytes.len() && !is_blocked {
                let len = (1 + random.below(40_000) as usize).min(bytes.len() - sent);
                let mut part = bytes[sent..][..len].to_vec();
                let accepted = match random.below(4) {
                    0 if self.event_loop.send_buffer(&pair.socket, &mut part) => Ok(len),
                    1 => self.event_loop.flush(&pair.socket).map(|()| 0),
                    _ => self.event_loop.send(&pair.socket, &part),
                };
                match accepted {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        is_blocked = true;
                    }
                }
                if random.below(3) == 0 {
                    break;
                }
            }
            let awaited = if is_blocked { Await::Writable } else { Await::Input };
            self.event_loop.await_next(&mut pair.socket, awaited).expect("the socket can wait");
            for event in self.wait(NOW) {
                is_blocked = event.is_blocked || is_blocked && !event.is_writable;
            }
            if is_blocked || sent == bytes.len() || random.below(2) == 0 {
                let mut part = vec![0; 1 + random.below(200_000) as usize];
                if let Ok(count) = pair.client.read(&mut part) {
                    received.extend_from_slice(&part[..count]);
                }
            }
            if !is_blocked && sent == bytes.len() {
                is_blocked = self.event_loop.flush(&pair.socket).is_err();
            }
        }
        received
    }
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn epoll() -> Tested<Epoll> {
    Tested::new(Epoll::new().expect("an event loop can be made"))
}

/// Returns an event loop over io_uring, or `None` with a message if the kernel refuses io_uring.
fn uring() -> Option<Tested<Uring>> {
    match uring::check() {
        Ok(()) => Some(Tested::new(Uring::new(8, 1).expect("an event loop can be made"))),
        Err(error) => {
            eprintln!("not tested: the kernel refuses io_uring: {error}");
            None
        }
    }
}

/// Makes a test of each implementation of a check.
macro_rules! for_each_event_loop {
    ($($name:ident),* $(,)?) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name(super::epoll()); })*
        }
        mod over_uring {
            $(#[test] fn $name() { super::uring().map(super::$name); })*
        }
    };
}

for_each_event_loop!(
    input_arrives_once_and_in_order,
    output_arrives_once_and_in_order,
    the_end_of_the_input_follows_all_bytes,
    a_wake_ends_each_wait,
    a_socket_that_waits_for_an_error_reports_no_input,
    a_removed_socket_causes_no_event_and_its_slot_can_be_used_again,
    accepted_output_arrives_although_the_socket_is_removed,
    with_limited_input_nothing_is_received_in_advance,
    a_send_to_a_client_that_has_disconnected_fails,
    input_of_many_sockets_arrives_although_some_do_not_receive,
);

fn input_arrives_once_and_in_order<L: EventLoop>(mut tested: Tested<L>) {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut pair = tested.open(0);
        let bytes = random_bytes(&mut random, 400_000);
        let (mut written, mut received) = (0, Vec::new());
        while received.len() < bytes.len() {
            let len = (1 + random.below(60_000) as usize).min(bytes.len() - written);
            if let Ok(count) = pair.client.write(&bytes[written..][..len]) {
                written += count;
            }
            let awaited = if random.below(2) == 0 { Await::Input } else { Await::Value };
            tested.event_loop.await_next(&mut pair.socket, awaited).expect("the socket can wait");
            if tested.wait(NOW).iter().any(|event| event.is_readable) {
                received.append(&mut tested.receive(&pair.socket, &mut random).0);
            }
        }
        assert!(received == bytes, "seed {seed}: the server received other bytes");
        tested.event_loop.remove(&pair.socket);
    }
}

fn output_arrives_once_and_in_order<L: EventLoop>(mut tested: Tested<L>) {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut pair = tested.open(0);
        let bytes = random_bytes(&mut random, 1_000_000);
        let received = tested.send(&mut pair, &bytes, &mut random);
        assert!(received == bytes, "seed {seed}: the client received other bytes");
        tested.event_loop.remove(&pair.socket);
    }
}

fn the_end_of_the_input_follows_all_bytes<L: EventLoop>(mut tested: Tested<L>) {
    let mut random = Random::new(1);
    let mut pair = tested.open(0);
    let bytes = random_bytes(&mut random, 50_000);
    pair.client.write_all(&bytes).expect("the socket takes the bytes");
    pair.client.shutdown(std::net::Shutdown::Write).expect("the socket is open");
    let (mut received, mut is_ended) = (Vec::new(), false);
    while !is_ended {
        tested.wait(NOW);
        let (mut part, end) = tested.receive(&pair.socket, &mut random);
        received.append(&mut part);
        is_ended = end;
        tested.event_loop.await_next(&mut pair.socket, Await::Input).expect("the socket can wait");
    }
    assert!(received == bytes);
}

fn a_wake_ends_each_wait<L: EventLoop>(mut tested: Tested<L>) {
    for _ in 0..3 {
        assert!(tested.wait(NOW).is_empty());
        sys::increment(tested.waker.as_fd());
        tested.wait_for(Source::Mailbox, |_| true);
    }
}

fn a_socket_that_waits_for_an_error_reports_no_input<L: EventLoop>(mut tested: Tested<L>) {
    let mut random = Random::new(1);
    let mut pair = tested.open(0);
    tested.event_loop.await_next(&mut pair.socket, Await::Error).expect("the socket can wait");
    pair.client.write_all(b"input").expect("the socket takes the bytes");
    // Edge-triggered epoll reports the input here, and the worker ignores it.
    tested.wait(NOW);
    tested.event_loop.await_next(&mut pair.socket, Await::Input).expect("the socket can wait");
    tested.wait(NOW);
    assert_eq!(tested.receive(&pair.socket, &mut random).0, b"input");
}

fn a_removed_socket_causes_no_event_and_its_slot_can_be_used_again<L: EventLoop>(
    mut tested: Tested<L>,
) {
    let mut random = Random::new(1);
    for round in 0..5 {
        let mut old = tested.open(3);
        old.client.write_all(b"old").expect("the socket takes the bytes");
        if round % 2 == 0 {
            tested.wait(NOW);
        }
        tested.event_loop.remove(&old.socket);
        drop(old.socket);
        let mut new = tested.open(3);
        assert!(tested.wait(NOW).is_empty(), "round {round}: the new socket has no input");
        let end = old.client.read(&mut [0; 10]).map(|count| assert_eq!(count, 0));
        let is_closed =
            end.is_ok() || end.is_err_and(|error| error.kind() != ErrorKind::WouldBlock);
        assert!(is_closed, "round {round}: the kernel has closed the old socket");
        new.client.write_all(b"new").expect("the socket takes the bytes");
        tested.wait_for(Source::Connection(3), |event| event.is_readable);
        assert_eq!(tested.receive(&new.socket, &mut random).0, b"new");
        tested.event_loop.remove(&new.socket);
    }
}

fn accepted_output_arrives_although_the_socket_is_removed<L: EventLoop>(mut tested: Tested<L>) {
    let mut pair = tested.open(0);
    assert_eq!(tested.event_loop.send(&pair.socket, b"first ").ok(), Some(6));
    assert_eq!(tested.event_loop.send(&pair.socket, b"second").ok(), Some(6));
    tested.event_loop.remove(&pair.socket);
    drop(pair.socket);
    // The next socket of the slot does not get the output.
    let mut next = tested.open(0);
    tested.wait(NOW);
    let mut received = Vec::new();
    pair.client.read_to_end(&mut received).expect("the server has closed the connection");
    assert_eq!(received, b"first second");
    assert!(
        next.client.read(&mut [0; 10]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    );
}

fn with_limited_input_nothing_is_received_in_advance<L: EventLoop>(mut tested: Tested<L>) {
    let mut random = Random::new(1);
    let mut pair = tested.open(0);
    tested.wait(NOW);
    tested.event_loop.limit_input(true);
    tested.wait(NOW);
    let bytes = random_bytes(&mut random, 100_000);
    pair.client.write_all(&bytes).expect("the socket takes the bytes");
    tested.wait_for(Source::Connection(0), |event| event.is_readable);
    assert_eq!(tested.event_loop.held_bytes(&pair.socket), 0);
    let mut part = [0; 10];
    let outcome = tested.event_loop.receive(&pair.socket, [&mut [], &mut part]).ok();
    assert_eq!(outcome, Some(ReceiveOutcome::Bytes { count: 10, more: true }));
    tested.event_loop.limit_input(false);
    let mut received = part.to_vec();
    while received.len() < bytes.len() {
        received.append(&mut tested.receive(&pair.socket, &mut random).0);
        tested.event_loop.await_next(&mut pair.socket, Await::Input).expect("the socket can wait");
        tested.wait(NOW);
    }
    assert!(received == bytes);
}

fn a_send_to_a_client_that_has_disconnected_fails<L: EventLoop>(mut tested: Tested<L>) {
    let pair = tested.open(0);
    drop(pair.client);
    let mut errors = 0;
    for _ in 0..3 {
        errors += usize::from(tested.event_loop.send(&pair.socket, b"reply").is_err());
        tested.wait(NOW);
    }
    assert!(errors >= 2);
}

fn input_of_many_sockets_arrives_although_some_do_not_receive<L: EventLoop>(mut tested: Tested<L>) {
    let mut random = Random::new(1);
    let mut pairs: Vec<Pair> = (0..8).map(|slot| tested.open(slot)).collect();
    let bytes = random_bytes(&mut random, 150_000);
    let mut received = vec![Vec::new(); pairs.len()];
    // Together the input takes more than all provided buffers, and only every other connection receives at first.
    let mut written = vec![0; pairs.len()];
    for round in 0.. {
        for (pair, written) in pairs.iter_mut().zip(&mut written) {
            while let Ok(count) = pair.client.write(&bytes[*written..])
                && count > 0
            {
                *written += count;
            }
        }
        tested.wait(NOW);
        for (slot, pair) in pairs.iter_mut().enumerate() {
            if round > 10 || slot % 2 == 0 {
                received[slot].append(&mut tested.receive(&pair.socket, &mut random).0);
                let awaited = tested.event_loop.await_next(&mut pair.socket, Await::Input);
                awaited.expect("the socket can wait");
            }
        }
        if received.iter().all(|all| all.len() == bytes.len()) {
            break;
        }
    }
    assert!(received.iter().all(|all| *all == bytes));
}
