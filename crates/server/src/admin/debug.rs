//! The commands debugtime, debugitem and misbehave of memcached's debug build, which memcached's tests use. They
//! need `-o debug_commands`, because any client can set the clock and pin memory with them.

use crate::ops::get;
use crate::os::sys;
use crate::shared::WorkerContext;
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::Debug;
use slabwise_protocol::text::reply;
use std::time::Duration;

const MISS: &[u8] = b"MISS\r\n";

const HELD_LAST: &[u8] = b"reffed";

pub(crate) fn carry_out<'e>(
    worker: &mut WorkerContext<'e>,
    command: Debug<'_>,
    held: &mut Vec<Pinned<'e>>,
    reply: &mut Reply<'_>,
) {
    if !worker.shared.settings.debug_commands {
        reply.line(reply::ERROR);
        return;
    }
    let clock = worker.shared.clock;
    let answer = match command {
        Debug::TimePause => {
            clock.pause();
            reply::OK
        }
        Debug::TimeResume => {
            clock.unpause();
            reply::OK
        }
        Debug::TimeMove(seconds) => {
            clock.advance(Duration::from_secs(seconds.into()));
            reply::OK
        }
        Debug::ItemHold(key) => match get::pin(worker, key) {
            Some(pinned) => {
                held.push(pinned);
                reply::OK
            }
            None => MISS,
        },
        Debug::ItemRelease(key) => release(held, key),
        Debug::Misbehave if sys::can_open_sockets() => reply::ERROR,
        Debug::Misbehave => reply::OK,
    };
    worker.now = clock.now();
    reply.line(answer);
}

fn release(held: &mut Vec<Pinned<'_>>, key: &[u8]) -> &'static [u8] {
    let position = match key {
        HELD_LAST => held.len().checked_sub(1),
        _ => held.iter().position(|pinned| pinned.key() == key),
    };
    match position {
        Some(position) => {
            drop(held.remove(position));
            reply::OK
        }
        None => MISS,
    }
}
