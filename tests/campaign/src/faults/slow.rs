//! Clients that send slowly, stop to send, or read slowly. Their requests are judged like all others.

use super::{FaultError, Scene};
use crate::batch::{Batch, Pace};
use crate::channel::Channel;
use crate::excuse::{Link, Start};
use crate::operation::{Operation, Place, Verb};
use crate::protocol::Protocol;
use std::io::Write;
use std::time::Duration;

/// A connection with a batch of requests that are sent slowly.
pub(super) struct Slow<'a> {
    pub batch: Batch<'a>,
    pub channel: Channel,
    link: Link,
    sent: usize,
}

impl<'a> Slow<'a> {
    /// Connects, and fills a batch with requests.
    pub fn begin(
        scene: &mut Scene<'a>,
        count: u64,
        draw: impl Fn(&mut Scene<'a>) -> Operation,
    ) -> Result<Slow<'a>, FaultError> {
        let link = Link::new(scene.world);
        let channel = Channel::connect(scene.address()?)?;
        let protocol = Protocol::ALL[scene.random.below(3) as usize];
        let mut batch = Batch::new(scene.world, scene.slot, Pace::Slow);
        let mut left = count;
        batch.fill(protocol, link.refusals_epoch(), |_| {
            left = left.checked_sub(1)?;
            Some(draw(scene))
        });
        Ok(Slow { batch, channel, link, sent: 0 })
    }

    /// True if all requests were sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.batch.bytes.len()
    }

    /// Sends up to this number of bytes.
    pub fn send(&mut self, len: usize) -> Result<(), FaultError> {
        let end = self.sent.saturating_add(len).min(self.batch.bytes.len());
        match self.channel.socket().write(&self.batch.bytes[self.sent..end]) {
            Ok(len) => self.sent += len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.batch.lose_rest();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Sends the rest, and judges the replies.
    pub fn finish(mut self, scene: &Scene<'_>) -> Result<(), FaultError> {
        let world = scene.world;
        let bytes = std::mem::take(&mut self.batch.bytes);
        let start = Start::now(world);
        let result = self.channel.exchange(
            &bytes[self.sent..],
            &world.clock,
            world.reply_timeout,
            |bytes| self.batch.receive(bytes),
        );
        self.batch.lose_rest();
        let Err(error) = result else { return Ok(()) };
        let has_part = !self.channel.received().is_empty();
        match start.excuse(world, &self.link, &error, has_part) {
            Some(excuse) => world.counts.excuse(excuse),
            None => return Err(FaultError::Wrong(format!("replies are missing: {error:?}"))),
        }
        Ok(())
    }
}

/// Returns a request for a random key.
pub(super) fn request(scene: &mut Scene<'_>, verb: Verb, len_max: u32) -> Operation {
    Operation {
        verb,
        key: scene.world.keys.draw(&mut scene.random),
        version: 0,
        len: if verb.stores() { scene.random.below(u64::from(len_max) + 1) as u32 } else { 0 },
        flags: 0,
        ttl_seconds: 0,
        cas: (0, 0),
        quiet: false,
        opaque: scene.random.next_u64() as u32,
        place: Place::Alone,
    }
}

/// Sends requests one byte at a time.
pub(super) fn send_bytewise(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let count = 1 + scene.random.below(3);
    let mut slow = Slow::begin(scene, count, |scene| {
        let verb = [Verb::Set, Verb::Gets, Verb::Delete, Verb::Add][scene.random.below(4) as usize];
        request(scene, verb, 200)
    })?;
    while slow.sent + 1 < slow.batch.bytes.len() && !scene.world.gate.is_closed() {
        slow.send(1)?;
        scene.wait(Duration::from_millis(1));
    }
    scene.count();
    slow.finish(scene)
}

/// Sends a part of a store, and nothing for some time. Then sends the rest, or closes the connection.
pub(super) fn stall_upload(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let len_max = scene.world.lengths.len_max;
    let mut slow = Slow::begin(scene, 1, |scene| request(scene, Verb::Set, len_max))?;
    let part = scene.random.below(slow.batch.bytes.len() as u64) as usize;
    slow.send(part)?;
    let millis = 200 + scene.random.below(3000);
    scene.wait(Duration::from_millis(millis));
    scene.count();
    if scene.random.below(2) == 0 {
        return slow.finish(scene);
    }
    slow.batch.lose_rest();
    Ok(())
}
