//! A server to send packets to, and what it answers.

use std::collections::HashMap;
use std::fmt;

use super::packet::{NOOP, Packet, packet};
use crate::support::{Client, Server, ServerCommand};

/// Marks the no-op that ends a step: whatever comes before its answer answers the step.
const END_OF_STEP: u32 = 0x00e0_0f5e;

/// One reply. Its CAS value is told as its rank: the first that a server gave is 1, and so on.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub opcode: u8,
    pub status: u16,
    pub opaque: u32,
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
            "[{opcode:#04x} status {status:#x} opaque {opaque:#x} cas #{cas_rank} extras {:?} key {} value {} ({} bytes)]",
            self.extras,
            self.key.escape_ascii(),
            value.escape_ascii(),
            self.value.len(),
        )
    }
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub replies: Vec<Reply>,
    /// The server hung up.
    pub closed: bool,
}

/// A server and a connection to it.
pub struct Peer {
    server: Server,
    client: Client,
    /// Ranks of the CAS values that it gave, which are its own.
    ranks: HashMap<u64, usize>,
    /// The CAS value that each step's last reply came with.
    cas_of_steps: Vec<u64>,
}

impl Peer {
    pub fn start(command: &ServerCommand) -> Peer {
        Peer::of(Server::start(command))
    }

    /// A connection to a server that runs.
    pub fn of(server: Server) -> Peer {
        let client = server.connect();
        Peer { server, client, ranks: HashMap::new(), cas_of_steps: Vec::new() }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a request, and a no-op to know when it is answered.
    pub fn step(&mut self, request: &Packet) -> Answered {
        let mut bytes = request.bytes(&|step| self.cas_of_steps[step]);
        bytes.extend(packet(NOOP).opaque(END_OF_STEP).bytes(&|_| 0));
        self.exchange(&bytes)
    }

    /// Sends bytes that end with a no-op of [`END_OF_STEP`], and reads up to its answer.
    fn exchange(&mut self, bytes: &[u8]) -> Answered {
        // A server may close on what it has read so far: what it answered tells whether it should have.
        let _ = self.client.try_send(bytes);
        let mut answered = Answered { replies: Vec::new(), closed: false };
        let mut cas = 0;
        loop {
            match self.reply() {
                None => {
                    answered.closed = true;
                    self.client = self.server.connect();
                    break;
                }
                // One that is refused is part of what the step came to.
                Some((Reply { opcode: NOOP, opaque: END_OF_STEP, status: 0, .. }, _)) => break,
                Some((reply, reply_cas)) => {
                    cas = reply_cas;
                    answered.replies.push(reply);
                }
            }
        }
        self.cas_of_steps.push(cas);
        answered
    }

    /// The next reply and its CAS value; none when the server hung up.
    fn reply(&mut self) -> Option<(Reply, u64)> {
        let head = self.client.try_read_exact(24)?;
        assert_eq!((head[0], head[5]), (0x81, 0), "magic and data type of {head:x?}");
        let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let body = self.client.try_read_exact(body_len).expect("a reply comes whole");
        let (extras, key_and_value) = body.split_at(usize::from(head[4]));
        let (key, value) = key_and_value.split_at(key_len);
        let cas = u64::from_be_bytes(*head[16..].first_chunk().expect("eight bytes are left"));
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

    /// Sends all requests in one write, or byte by byte; what they came to together.
    pub fn batch(&mut self, requests: &[Packet], pace: Pace) -> Answered {
        let mut bytes: Vec<u8> =
            requests.iter().flat_map(|request| request.bytes(&|_| 0)).collect();
        bytes.extend(packet(NOOP).opaque(END_OF_STEP).bytes(&|_| 0));
        match pace {
            Pace::Whole => self.exchange(&bytes),
            Pace::Bytewise => {
                let (last, before) = bytes.split_last().expect("there is a no-op");
                let _ = self.client.try_send_bytewise(before);
                self.exchange(&[*last])
            }
        }
    }
}

/// How a batch is sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    Whole,
    Bytewise,
}
