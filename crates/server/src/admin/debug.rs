//! debugtime, debugitem, misbehave: what memcached's tests ask of its debug build. Off unless
//! `-o debug_commands` is given, as they let any client move the clock and hold memory.

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
    order: Debug<'_>,
    held: &mut Vec<Pinned<'e>>,
    reply: &mut Reply<'_>,
) {
    if !worker.shared.settings.debug_commands {
        reply.line(reply::ERROR);
        return;
    }
    let clock = worker.shared.clock;
    let answer = match order {
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
