//! Clients that do not read their replies, or read them slowly.

use super::slow::{Slow, request};
use super::{FaultError, Scene};
use crate::channel::Channel;
use crate::operation::Verb;
use crate::world::World;
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::time::Duration;

/// The time for which a slow reader reads.
const SLOW_READ_NANOS_MAX: u64 = 4_000_000_000;

/// Sends many gets on several connections, and reads nothing.
pub(super) fn read_nothing(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut channels = Vec::new();
    for _ in 0..1 + scene.random.below(20) {
        let channel = Channel::connect(scene.address()?)?;
        let mut requests = Vec::new();
        for _ in 0..200 {
            requests.extend_from_slice(b"get");
            for _ in 0..1 + scene.random.below(4) {
                requests.push(b' ');
                let key = scene.world.keys.draw(&mut scene.random);
                requests.extend_from_slice(scene.world.keys.name(key));
            }
            requests.extend_from_slice(b"\r\n");
        }
        // The socket accepts only a part when its buffers are full, which is the purpose.
        let _ = channel.socket().write(&requests);
        channels.push(channel);
    }
    scene.count();
    let millis = scene.random.below(3000);
    scene.wait(Duration::from_millis(millis));
    Ok(())
}

/// Sends gets, and reads the replies in small pieces. The server may close the connection if others wait.
pub(super) fn read_slowly(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let count = 1 + scene.random.below(32);
    let mut slow = Slow::begin(scene, count, |scene| request(scene, Verb::Gets, 0))?;
    while !slow.is_sent() {
        slow.send(usize::MAX)?;
    }
    let world: &World = scene.world;
    let deadline = world.clock.nanos() + SLOW_READ_NANOS_MAX;
    let mut received = Vec::new();
    let mut piece = vec![0; 1 + scene.random.below(8000) as usize];
    while world.clock.nanos() < deadline && !world.gate.is_closed() {
        match slow.channel.socket().read(&mut piece) {
            Ok(0) => break,
            Ok(len) => {
                received.extend_from_slice(&piece[..len]);
                let (used, flow) = slow.batch.receive(&received);
                received.drain(..used);
                if flow == ControlFlow::Break(()) {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        scene.wait(Duration::from_millis(3));
    }
    scene.count();
    slow.batch.lose_rest();
    Ok(())
}

/// Requests a dump of all keys, or the events of a watcher, and reads nothing.
pub(super) fn read_no_lines(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let commands: [&[u8]; 5] = [
        b"lru_crawler metadump all\r\n",
        b"lru_crawler mgdump all\r\n",
        b"watch fetchers mutations\r\n",
        b"watch evictions deletions connevents\r\n",
        b"stats sizes\r\nstats items\r\nstats slabs\r\nstats conns\r\n",
    ];
    let channel = Channel::connect(scene.address()?)?;
    let command = commands[scene.random.below(commands.len() as u64) as usize];
    channel.socket().write_all(command)?;
    scene.count();
    let millis = scene.random.below(3000);
    scene.wait(Duration::from_millis(millis));
    Ok(())
}
