//! Clients that close one or both sides of a connection, or send bytes that are no requests.

use super::slow::{Slow, request};
use super::{FaultError, Scene};
use crate::channel::Channel;
use crate::operation::Verb;
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

/// Sends requests, closes the sending side, and reads all replies.
pub(super) fn half_close(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let count = 1 + scene.random.below(20);
    let mut slow = Slow::begin(scene, count, |scene| {
        let verb = [Verb::Set, Verb::Gets, Verb::Get, Verb::Touch][scene.random.below(4) as usize];
        request(scene, verb, 400)
    })?;
    while !slow.is_sent() {
        slow.send(usize::MAX)?;
    }
    slow.channel.socket().shutdown(Shutdown::Write)?;
    scene.count();
    slow.finish(scene)
}

/// Sends a part of some requests, and resets the connection.
pub(super) fn reset(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let count = 1 + scene.random.below(40);
    let mut slow = Slow::begin(scene, count, |scene| {
        let verb = [Verb::Set, Verb::Gets, Verb::Delete, Verb::Gat][scene.random.below(4) as usize];
        let len_max = scene.world.lengths.len_max.min(100_000);
        request(scene, verb, len_max)
    })?;
    let part = scene.random.below(slow.batch.bytes.len() as u64 + 1) as usize;
    slow.send(part)?;
    let millis = scene.random.below(20);
    scene.wait(Duration::from_millis(millis));
    set_socket_linger(slow.channel.socket(), Some(Duration::ZERO)).map_err(std::io::Error::from)?;
    drop(slow.channel);
    slow.batch.lose_rest();
    scene.count();
    Ok(())
}

/// Sends bytes that are no requests, or requests with wrong bytes. Their keys are not those of the checker.
pub(super) fn send_garbage(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let channel = Channel::connect(scene.address()?)?;
    let mut bytes = garbage(scene);
    for _ in 0..scene.random.below(6) {
        let at = scene.random.below(bytes.len() as u64) as usize;
        bytes[at] = scene.random.next_u64() as u8;
    }
    // The server may close the connection at any time.
    let _ = channel.socket().write(&bytes);
    scene.count();
    let mut replies = [0; 4096];
    for _ in 0..scene.random.below(20) {
        scene.wait(Duration::from_millis(5));
        let _ = channel.socket().read(&mut replies);
    }
    Ok(())
}

fn garbage(scene: &mut Scene<'_>) -> Vec<u8> {
    let random = &mut scene.random;
    let len = 1 + random.below(3000) as usize;
    let noise: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    let requests: [&[u8]; 8] = [
        b"set garbage 0 0 10\r\n0123456789\r\n",
        b"get garbage garbage garbage\r\n",
        b"cas garbage 1 2 3 4 noreply\r\nabc\r\n",
        b"incr garbage 99999999999999999999\r\n",
        b"ms garbage 5 T0 F1 c k O123 q\r\nabcde\r\n",
        b"mg garbage v f t s h l k O1 N30 R60 q\r\n",
        b"\x80\x01\x00\x07\x08\x00\x00\x00\x00\x00\x00\x14aaaa\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0garbagevalue",
        b"\x80\x05\x00\x07\x14\x00\x00\x00\x00\x00\x00\x1baaaa\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0garbage",
    ];
    match random.below(3) {
        0 => noise,
        1 => {
            let mut bytes = vec![0x80];
            bytes.extend_from_slice(&noise);
            bytes
        }
        _ => {
            let kind = random.below(2) * 6;
            let mut bytes = Vec::new();
            for _ in 0..1 + random.below(20) {
                let at = if kind == 0 { random.below(6) } else { 6 + random.below(2) };
                bytes.extend_from_slice(requests[at as usize]);
            }
            bytes
        }
    }
}
