//! The commands `debugtime`, `debugitem` and `misbehave` of memcached's debug build, which memcached's tests use, and
//! slabwise's own `debugcheck`.
//!
//! The commands are unknown unless `-o debug_commands` enables them, because with them any client can set the clock, pin
//! memory, and stop the background threads for the duration of a check.

use crate::ops::get;
use crate::os::sys;
use crate::shared::WorkerContext;
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::Debug;
use slabwise_protocol::text::reply;
use std::time::Duration;

/// The reply if there is no item, or no pin, with the key.
const MISS: &[u8] = b"MISS\r\n";

/// The word that `debugitem unref` accepts instead of a key: it means the item that the connection pinned last.
const LAST_PIN: &[u8] = b"reffed";

/// Executes a debug command and writes its reply. `pins` are the items that this connection has pinned.
pub(crate) fn carry_out<'e>(
    worker: &mut WorkerContext<'e>,
    command: Debug<'_>,
    pins: &mut Vec<Pinned<'e>>,
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
                pins.push(pinned);
                reply::OK
            }
            None => MISS,
        },
        Debug::ItemRelease(key) => release(pins, key),
        Debug::Check => {
            worker.shared.check_invariants();
            reply::OK
        }
        Debug::Misbehave if sys::can_open_sockets() => reply::ERROR,
        Debug::Misbehave => reply::OK,
    };
    worker.now = clock.now();
    reply.line(answer);
}

/// Releases the pin of this key, or the last pin if `key` is `reffed`. Returns the reply.
fn release(pins: &mut Vec<Pinned<'_>>, key: &[u8]) -> &'static [u8] {
    let position = match key {
        LAST_PIN => pins.len().checked_sub(1),
        _ => pins.iter().position(|pinned| pinned.key() == key),
    };
    match position {
        Some(position) => {
            drop(pins.remove(position));
            reply::OK
        }
        None => MISS,
    }
}
