//! A server with a connection that sends requests and reads the replies.

use std::collections::HashMap;
use std::fmt;

use super::packet::{NOOP, Packet, packet};
use crate::support::{Client, Server, ServerCommand};

/// The opaque number of the no-op that ends a step. All replies before the reply to this no-op belong to the step.
const END_OF_STEP: u32 = 0x00e0_0f5e;

/// One reply. CAS values differ between servers, so a reply contains only the rank of its CAS value: 1 for the first
/// different CAS value in the server's replies, 2 for the next.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub opcode: u8,
    pub status: u16,
    pub opaque: u32,
    /// The position of the CAS value in the order in which different CAS values first appeared in replies of the
    /// server: 1 for the first CAS value. 0 if the CAS value is 0.
    pub cas_rank: usize,
    pub extras: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reply { opcode, status, opaque, cas_rank, .. } = self;
        let value = &self.value[..self.value.len().min(60)];
        write!(
            f,
            "[{opcode:#04x} status {status:#x} opaque {opaque:#x} cas #{cas_rank} extras {:?} key {} \
             value {} ({} bytes)]",
            self.extras,
            self.key.escape_ascii(),
            value.escape_ascii(),
            self.value.len(),
        )
    }
}

/// The replies to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepResult {
    pub replies: Vec<Reply>,
    /// True if the server closed the connection.
    pub closed: bool,
}

/// A server and a connection to it.
pub struct ConnectedServer {
    server: Server,
    client: Client,
    /// The rank of each CAS value, in the order in which the CAS values first appeared in replies.
    ranks: HashMap<u64, usize>,
    /// The CAS value of the last reply to each step.
    cas_of_steps: Vec<u64>,
}

impl ConnectedServer {
    /// Starts a server and connects to it.
    pub fn start(command: &ServerCommand) -> ConnectedServer {
        ConnectedServer::of(Server::start(command))
    }

    /// Connects to a running server.
    pub fn of(server: Server) -> ConnectedServer {
        let client = server.connect();
        ConnectedServer { server, client, ranks: HashMap::new(), cas_of_steps: Vec::new() }
    }

    pub fn process(&self) -> &Server {
        &self.server
    }

    /// Sends a request, then a no-op whose reply marks the end of the step.
    pub fn step(&mut self, request: &Packet) -> StepResult {
        let mut bytes = request.bytes(&|step| self.cas_of_steps[step]);
        bytes.extend(packet(NOOP).opaque(END_OF_STEP).bytes(&|_| 0));
        self.exchange(&bytes)
    }

    /// Sends bytes that end with the no-op [`END_OF_STEP`], and returns the replies before the reply to this no-op.
    fn exchange(&mut self, bytes: &[u8]) -> StepResult {
        // The send fails if the server has closed the connection. The result then has `closed: true`.
        let _ = self.client.try_send(bytes);
        let mut result = StepResult { replies: Vec::new(), closed: false };
        let mut cas = 0;
        loop {
            match self.read_reply() {
                None => {
                    result.closed = true;
                    self.client = self.server.connect();
                    break;
                }
                // If the server refuses the no-op, the error is one of the replies to the step.
                Some((Reply { opcode: NOOP, opaque: END_OF_STEP, status: 0, .. }, _)) => break,
                Some((reply, reply_cas)) => {
                    cas = reply_cas;
                    result.replies.push(reply);
                }
            }
        }
        self.cas_of_steps.push(cas);
        result
    }

    /// Returns the next reply and its CAS value, or `None` if the server closed the connection.
    fn read_reply(&mut self) -> Option<(Reply, u64)> {
        let head = self.client.try_read_exact(24)?;
        assert_eq!(
            (head[0], head[5]),
            (0x81, 0),
            "the magic byte and the data type in the header {head:x?}"
        );
        let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let body =
            self.client.try_read_exact(body_len).expect("a body follows the header of a reply");
        let (extras, key_and_value) = body.split_at(usize::from(head[4]));
        let (key, value) = key_and_value.split_at(key_len);
        let cas = u64::from_be_bytes(
            *head[16..].first_chunk().expect("eight bytes of the header are the CAS value"),
        );
        let next_rank = self.ranks.len() + 1;
        let cas_rank = if cas == 0 { 0 } else { *self.ranks.entry(cas).or_insert(next_rank) };
        let reply = Reply {
            opcode: head[1],
            status: u16::from_be_bytes([head[6], head[7]]),
            opaque: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            cas_rank,
            extras: extras.to_vec(),
            key: key.to_vec(),
            value: value.to_vec(),
        };
        Some((reply, cas))
    }

    /// Sends all requests without waiting for replies, and then returns all replies.
    pub fn pipeline(&mut self, requests: &[Packet], pace: Pace) -> StepResult {
        let mut bytes: Vec<u8> =
            requests.iter().flat_map(|request| request.bytes(&|_| 0)).collect();
        bytes.extend(packet(NOOP).opaque(END_OF_STEP).bytes(&|_| 0));
        match pace {
            Pace::Whole => self.exchange(&bytes),
            Pace::Bytewise => {
                let (last, before) = bytes.split_last().expect("the bytes end with a no-op");
                let _ = self.client.try_send_bytewise(before);
                self.exchange(&[*last])
            }
        }
    }
}

/// The way in which requests are written to the socket.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// All bytes in one write.
    Whole,
    /// Each byte in its own write.
    Bytewise,
}
