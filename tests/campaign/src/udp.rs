//! A client that sends each request in a datagram. A reply that does not arrive is lost, as UDP allows.

use crate::batch::{Batch, Pace};
use crate::client::draw_operation;
use crate::operation::Operation;
use crate::protocol::Protocol;
use crate::world::{World, sleep};
use slabwise_base::Random;
use slabwise_protocol::udp::{HEADER_LEN, Header};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The name of the count of requests, and that of those that had a reply.
pub const SENT: &str = "requests by UDP";
pub const ANSWERED: &str = "replies by UDP";
/// The time for which the client waits for a datagram.
const TIMEOUT: Duration = Duration::from_millis(300);
/// The length of the longest value that the client stores.
const LEN_MAX: u32 = 1000;
/// The pause after each request. A few clients of UDP are enough.
const PAUSE: Duration = Duration::from_millis(1);

/// A client of UDP.
pub struct UdpClient<'a> {
    world: &'a World,
    slot: usize,
    random: Random,
    next_id: u16,
}

impl<'a> UdpClient<'a> {
    /// Returns a client.
    pub fn new(world: &'a World, slot: usize, seed: u64) -> UdpClient<'a> {
        UdpClient { world, slot, random: Random::new(seed), next_id: 0 }
    }

    /// Sends requests until the campaign ends.
    pub fn run(mut self) {
        self.world.gate.enter();
        let mut connected = None;
        while !self.world.gate.has_ended() {
            self.world.gate.pass();
            let address = self.world.endpoint().udp;
            if connected.as_ref().map(|&(address, _)| address) != address {
                connected = address.and_then(|address| Some((address, connect(address).ok()?)));
            }
            match &connected {
                Some((_, socket)) => self.send_request(socket),
                None => sleep(Duration::from_millis(20)),
            }
            sleep(PAUSE);
        }
        self.world.gate.leave();
    }

    /// Sends a request, and judges its reply.
    fn send_request(&mut self, socket: &UdpSocket) {
        // After a binary request, memcached may give the item of a text request an old CAS value.
        let is_text = self.world.is_memcached || self.random.below(2) == 0;
        let protocol = if is_text { Protocol::Text } else { Protocol::Binary };
        let mut batch = Batch::new(self.world, self.slot, Pace::Slow);
        let mut is_drawn = false;
        let random = &mut self.random;
        batch.fill(protocol, None, |_| {
            let operation = draw_operation(self.world, protocol, random, || None);
            let request = Operation { len: operation.len.min(LEN_MAX), quiet: false, ..operation };
            (!std::mem::replace(&mut is_drawn, true)).then_some(request)
        });
        self.next_id = self.next_id.wrapping_add(1);
        let header = Header { request_id: self.next_id, sequence: 0, total: 1 };
        let mut datagram = header.compose().to_vec();
        datagram.extend_from_slice(&batch.bytes);
        let is_sent = socket.send(&datagram).is_ok();
        if is_sent {
            self.world.counts.fault(SENT);
        }
        if is_sent && let Some(reply) = receive(socket, self.next_id) {
            let (used, flow) = batch.receive(&reply);
            if flow.is_continue() {
                self.world.fail(format!(
                    "a message of {} bytes by UDP ends within a reply; {used} bytes are complete replies",
                    reply.len()
                ));
            }
            self.world.counts.fault(ANSWERED);
        }
        batch.lose_rest();
    }
}

fn connect(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address.ip(), 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

/// Receives all datagrams of the reply with this id, and returns their payload. Returns `None` if one is missing.
fn receive(socket: &UdpSocket, id: u16) -> Option<Vec<u8>> {
    let mut datagrams: Vec<Option<Vec<u8>>> = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let len = socket.recv(&mut buffer).ok()?;
        let header = Header::parse(&buffer[..len])?;
        // A reply to an earlier request has arrived late.
        if header.request_id != id {
            continue;
        }
        datagrams.resize(header.total.into(), None);
        *datagrams.get_mut(usize::from(header.sequence))? = Some(buffer[HEADER_LEN..len].to_vec());
        if datagrams.iter().all(Option::is_some) {
            return Some(datagrams.into_iter().flatten().flatten().collect());
        }
    }
}
