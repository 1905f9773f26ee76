//! Clients that send slowly, or stop to send.

use super::{FaultError, Scene};
use crate::channel::Channel;
use crate::checker::history::Begin;
use crate::operation::{Operation, Outcome, Verb};
use crate::protocol::{Decoded, Protocol};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

/// A store that a client sends slowly.
struct SlowStore {
    operation: Operation,
    begin: Begin,
    protocol: Protocol,
    channel: Channel,
    bytes: Vec<u8>,
}

impl SlowStore {
    /// Connects, and begins a store of a random length up to `len_max`.
    fn begin(scene: &mut Scene<'_>, len_max: u32) -> Result<SlowStore, FaultError> {
        let world = scene.world;
        let address = world.endpoint().address.ok_or(FaultError::Down)?;
        let channel = Channel::connect(address)?;
        let protocol = Protocol::ALL[scene.random.below(3) as usize];
        // The slot protects the time until the store is in the history. Afterwards, the checker may forget versions
        // that only this request could still replace.
        let begin = world.begin_at(world.stamps.open(scene.slot));
        let mut operation = Operation {
            verb: Verb::Set,
            key: world.keys.draw(&mut scene.random),
            version: 0,
            len: scene.random.below(u64::from(len_max) + 1) as u32,
            flags: 0,
            ttl_seconds: 0,
            cas: (0, 0),
            quiet: false,
            opaque: scene.random.next_u64() as u32,
        };
        world.checker.begin(&mut operation, begin, world.stamps.oldest());
        world.stamps.close(scene.slot);
        let mut bytes = Vec::new();
        let name = world.keys.name(operation.key);
        protocol.encode(&operation, name, world.checker.values(), &mut bytes);
        Ok(SlowStore { operation, begin, protocol, channel, bytes })
    }

    /// Judges the outcome.
    fn end(self, scene: &Scene<'_>, outcome: Outcome<'_>) -> Result<(), FaultError> {
        let world = scene.world;
        world.stamps.open(scene.slot);
        let end = world.end();
        let verdict = world.checker.end(&self.operation, outcome, self.begin, end);
        world.counts.request(self.protocol, self.operation.verb, &outcome);
        world.stamps.close(scene.slot);
        verdict.map(drop).map_err(|violation| FaultError::Wrong(violation.text))
    }

    /// Sends the rest from this offset on, and judges the reply.
    fn finish(mut self, scene: &Scene<'_>, sent: usize) -> Result<(), FaultError> {
        let world = scene.world;
        let operation = self.operation;
        let name = world.keys.name(operation.key);
        let mut outcome = Err("the connection was closed".to_owned());
        let mut text = Vec::new();
        let result = self.channel.exchange(
            &self.bytes[sent..],
            &world.clock,
            world.reply_timeout,
            |bytes| match self.protocol.decode(&operation, name, bytes) {
                Decoded::Incomplete(_) => (0, ControlFlow::Continue(())),
                Decoded::Reply(Outcome::Refused(refusal), len) => {
                    text = refusal.to_vec();
                    outcome = Ok(Outcome::Miss);
                    (len, ControlFlow::Break(()))
                }
                Decoded::Reply(Outcome::Stored(cas), len) => {
                    outcome = Ok(Outcome::Stored(cas));
                    (len, ControlFlow::Break(()))
                }
                other => {
                    outcome = Err(format!("{other:?}"));
                    (0, ControlFlow::Break(()))
                }
            },
        );
        match (result, outcome) {
            (Err(error), _) => {
                self.end(scene, Outcome::Lost)?;
                Err(FaultError::Channel(error))
            }
            (Ok(()), Ok(Outcome::Miss)) => self.end(scene, Outcome::Refused(&text)),
            (Ok(()), Ok(outcome)) => self.end(scene, outcome),
            (Ok(()), Err(problem)) => {
                self.end(scene, Outcome::Lost)?;
                Err(FaultError::Wrong(problem))
            }
        }
    }
}

/// Sends a store one byte, or a few bytes, at a time.
pub(super) fn upload(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let len_max = 300;
    let store = SlowStore::begin(scene, len_max)?;
    let mut sent = 0;
    while sent < store.bytes.len() - 1 && !scene.world.gate.is_closed() {
        if let Err(error) = store.channel.socket().write(&store.bytes[sent..=sent]) {
            store.end(scene, Outcome::Lost)?;
            return Err(error.into());
        }
        sent += 1;
        scene.wait(Duration::from_millis(1));
    }
    scene.count();
    store.finish(scene, sent)
}

/// Sends a part of a store, and nothing for some time. Then sends the rest, or closes the connection.
pub(super) fn stalled_upload(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let len_max = scene.world.lengths.len_max;
    let store = SlowStore::begin(scene, len_max)?;
    let part = scene.random.below(store.bytes.len() as u64) as usize;
    let sent = match store.channel.socket().write(&store.bytes[..part]) {
        Ok(sent) => sent,
        Err(error) => {
            store.end(scene, Outcome::Lost)?;
            return Err(error.into());
        }
    };
    let millis = 200 + scene.random.below(3000);
    scene.wait(Duration::from_millis(millis));
    scene.count();
    match scene.random.below(2) {
        0 => store.finish(scene, sent),
        _ => store.end(scene, Outcome::Lost),
    }
}
