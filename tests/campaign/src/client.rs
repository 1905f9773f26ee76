//! A client that behaves well: it sends batches of random requests, and the checker judges every reply.

use crate::batch::{Batch, Pace, SeenCas};
use crate::channel::{Channel, ChannelError};
use crate::excuse::{Link, Start};
use crate::kinds::Kind;
use crate::operation::{Operation, Place, Verb};
use crate::protocol::Protocol;
use crate::report;
use crate::world::{World, sleep};
use slabwise_base::Random;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Draws a verb for a key of this kind.
fn draw_verb(kind: Kind, random: &mut Random) -> Verb {
    match (random.below(100), kind) {
        (0..40, _) => Verb::Get,
        (40..50, _) => Verb::Gets,
        (50..53, _) => Verb::Gat,
        (53..55, _) => Verb::Touch,
        (55..59, _) => Verb::Delete,
        (59..63, _) => Verb::Add,
        (63..67, _) => Verb::Replace,
        (67..74, Kind::Whole) => Verb::Cas,
        (67..74, _) => Verb::Set,
        (_, Kind::Whole) => Verb::Set,
        (74..87, Kind::Parts) => Verb::Append,
        (_, Kind::Parts) => Verb::Prepend,
        (74..90, _) => Verb::Step,
        _ => Verb::StepOrCreate,
    }
}

/// Draws a request. `seen` returns a CAS value for a cas.
pub fn draw_operation(
    world: &World,
    protocol: Protocol,
    random: &mut Random,
    seen: impl FnOnce() -> Option<SeenCas>,
) -> Operation {
    let mut key = world.keys.draw(random);
    let mut verb = draw_verb(Kind::of(key), random);
    if !protocol.has(verb) {
        verb = Verb::Step;
    }
    let mut cas = (0, 0);
    if verb == Verb::Cas {
        match seen() {
            Some(seen) => (key, cas) = (seen.key, (seen.cas, seen.version)),
            None => verb = Verb::Gets,
        }
    }
    let has_value = verb.stores() || verb.adds_part();
    let len = if has_value { world.lengths.draw(random) } else { 0 };
    let expires = verb.touches() || verb.stores() && random.below(8) == 0;
    let ttl_seconds = match random.below(4) {
        0 if expires => 1 + random.below(3) as u32,
        1 if expires => 1 + random.below(60) as u32,
        _ => 0,
    };
    let quiet = protocol.can_be_quiet(verb) && random.below(4) == 0;
    let opaque = random.next_u64() as u32;
    let place = Place::Alone;
    Operation { verb, key, version: 0, len, flags: 0, ttl_seconds, cas, quiet, opaque, place }
}

/// The number of CAS values that a client remembers.
const CAS_VALUES_KEPT: usize = 64;
/// The number of batches after which a client may open a new connection.
const BATCHES_PER_CONNECTION: u64 = 2000;
/// The bytes of values in one batch above which no further request is added.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A client.
pub struct Client<'a> {
    world: &'a World,
    slot: usize,
    random: Random,
    protocol: Protocol,
    channel: Option<Channel>,
    link: Link,
    /// The address of the client in its connection, as `stats conns` shows it.
    local: Option<SocketAddr>,
    opaque: u32,
    /// The verb and the number of the keys that the current line of several keys still needs.
    line: Option<(Verb, u64)>,
    /// CAS values that replies contained.
    cas_values: VecDeque<SeenCas>,
    batch: Option<Batch<'a>>,
}

impl<'a> Client<'a> {
    /// Returns a client that is not connected.
    pub fn new(world: &'a World, slot: usize, seed: u64) -> Client<'a> {
        Client {
            world,
            slot,
            random: Random::new(seed),
            protocol: Protocol::ALL[slot % Protocol::ALL.len()],
            channel: None,
            local: None,
            link: Link::new(world),
            opaque: 0,
            line: None,
            cas_values: VecDeque::new(),
            batch: None,
        }
    }

    /// Sends batches until the campaign ends.
    pub fn run(mut self) {
        self.world.gate.enter();
        while !self.world.gate.has_ended() {
            if self.world.gate.is_closed() {
                self.channel = None;
                self.world.gate.pass();
                continue;
            }
            if self.channel.is_none() && !self.connect() {
                sleep(Duration::from_millis(5));
                continue;
            }
            self.send_batch();
            if self.random.below(BATCHES_PER_CONNECTION) == 0 {
                self.channel = None;
            }
        }
        self.world.gate.leave();
    }

    /// Connects to the server, with a new protocol. Returns false if this was not possible.
    fn connect(&mut self) -> bool {
        let endpoint = self.world.endpoint();
        let Some(address) = endpoint.address else { return false };
        self.link = Link::new(self.world);
        // Another server process may use the same CAS values for other versions.
        self.cas_values.clear();
        self.protocol = Protocol::ALL[self.random.below(Protocol::ALL.len() as u64) as usize];
        let connected = match (endpoint.tls, &self.world.tls) {
            (Some(address), Some(tls)) if self.random.below(3) == 0 => {
                Channel::connect_tls(address, tls)
            }
            _ => Channel::connect(address),
        };
        match connected {
            Ok(channel) => {
                self.local = channel.socket().local_addr().ok();
                self.channel = Some(channel);
            }
            Err(error) if !self.link.may_fail_to_open(self.world) => {
                self.world.fail(format!("a client cannot connect to the server: {error}"));
            }
            Err(_) => {}
        }
        self.channel.is_some()
    }

    /// Draws a request. The last one of a batch is not quiet.
    fn draw(&mut self, is_last: bool) -> Operation {
        let seen = &mut self.cas_values;
        let mut operation =
            draw_operation(self.world, self.protocol, &mut self.random, || seen.pop_back());
        operation.quiet &= !is_last;
        self.place_in_line(&mut operation, is_last);
        self.opaque = self.opaque.wrapping_add(1);
        operation.opaque = self.opaque;
        operation
    }

    /// Continues a line of several keys, or begins one with some gets of the text protocol.
    fn place_in_line(&mut self, operation: &mut Operation, is_last: bool) {
        match self.line.take() {
            Some((verb, left)) => {
                let key = self.world.keys.draw(&mut self.random);
                let ends = is_last || left == 1;
                self.line = (!ends).then(|| (verb, left - 1));
                let place = if ends { Place::Last } else { Place::Middle };
                let (len, ttl_seconds, cas, quiet) = (0, 0, (0, 0), false);
                *operation =
                    Operation { verb, key, place, len, ttl_seconds, cas, quiet, ..*operation };
            }
            None if self.protocol == Protocol::Text
                && matches!(operation.verb, Verb::Get | Verb::Gets)
                && !is_last
                && self.random.below(4) == 0 =>
            {
                operation.place = Place::First;
                self.line = Some((operation.verb, 1 + self.random.below(20)));
            }
            None => {}
        }
    }

    /// Sends a batch of requests, and judges the replies.
    fn send_batch(&mut self) {
        let count = match self.random.below(4) {
            0 | 1 => 1,
            2 => 1 + self.random.below(8),
            _ => 1 + self.random.below(48),
        };
        let mut batch =
            self.batch.take().unwrap_or_else(|| Batch::new(self.world, self.slot, Pace::Fast));
        let (mut left, mut is_last) = (count, false);
        let refusals_epoch = self.link.refusals_epoch();
        batch.fill(self.protocol, refusals_epoch, |bytes| {
            if is_last {
                return None;
            }
            left -= 1;
            is_last = left == 0 || bytes > BATCH_BYTES_MAX;
            Some(self.draw(is_last))
        });
        self.exchange(&mut batch);
        batch.close();
        self.batch = Some(batch);
    }

    /// Sends the batch, and judges the replies.
    fn exchange(&mut self, batch: &mut Batch<'a>) {
        let Some(mut channel) = self.channel.take() else { return };
        let world = self.world;
        let bytes = std::mem::take(&mut batch.bytes);
        let start = Start::now(world);
        let result =
            channel.exchange(&bytes, &world.clock, world.reply_timeout, |it| batch.receive(it));
        batch.bytes = bytes;
        match result {
            Ok(()) if batch.open().is_empty() => {
                start.complete(&mut self.link);
                self.channel = Some(channel);
            }
            Ok(()) => {}
            Err(error) => {
                let has_part = !channel.received().is_empty();
                match start.excuse(world, &self.link, &error, has_part) {
                    Some(excuse) => world.counts.excuse(excuse),
                    None => self.report_missing(batch.open(), &error, channel.received()),
                }
            }
        }
        batch.lose_rest();
        for seen in batch.seen.drain(..) {
            if self.cas_values.len() == CAS_VALUES_KEPT {
                self.cas_values.pop_front();
            }
            self.cas_values.push_back(seen);
        }
    }

    /// Records that replies are missing although no fault explains this.
    fn report_missing(&self, missing: &[Operation], error: &ChannelError, received: &[u8]) {
        if let (ChannelError::Timeout, Some(local)) = (error, self.local) {
            report::print_connection(self.world, local);
        }
        let what = match error {
            ChannelError::Closed(error) => format!("the server closed the connection ({error})"),
            ChannelError::Timeout => {
                format!("the server sent and received nothing for {:?}", self.world.reply_timeout)
            }
        };
        let start = &received[..received.len().min(200)];
        let local = self.local.map(|address| address.to_string()).unwrap_or_default();
        self.world.fail(format!(
            "{what} of the {} client {local} that behaved well; {} replies are missing, the first one of {:?}; received bytes: {}",
            self.protocol.name(),
            missing.len(),
            missing.first(),
            start.escape_ascii()
        ));
    }
}
