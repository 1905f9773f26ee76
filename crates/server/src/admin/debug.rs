//! The commands `debugtime`, `debugitem` and `misbehave` of memcached's debug build, which memcached's tests use, and
//! slabwise's own `debugcheck` and `debugconfine`, which check the invariants and the confinement of the process.
//!
//! The commands are unknown unless `-o debug_commands` enables them, because with them any client can set the clock, pin
//! memory, access the files of the server, and stop the background threads for the duration of a check.

use crate::ops::get;
use crate::os::{sockets, sys};
use crate::shared::WorkerContext;
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::text::reply;
use slabwise_protocol::{Attempt, Debug};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The reply if there is no item, or no pin, with the key.
const MISS: &[u8] = b"MISS\r\n";

/// The word that `debugitem unref` accepts instead of a key: it means the item that the connection pinned last.
const LAST_PIN: &[u8] = b"reffed";

/// A program without effects.
const HARMLESS_PROGRAM: &str = "/bin/true";

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
        Debug::Misbehave if sockets::open_socket().is_ok() => reply::ERROR,
        Debug::Misbehave => reply::OK,
        Debug::Attempt(operation) => match attempt(operation) {
            Ok(()) => reply::OK,
            Err(error) => {
                reply.line(format!("SERVER_ERROR {error}\r\n").as_bytes());
                return;
            }
        },
    };
    worker.now = clock.now();
    reply.line(answer);
}

/// Attempts an operation that the confinement of the process may forbid.
fn attempt(operation: Attempt<'_>) -> io::Result<()> {
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    match operation {
        // `exec` returns only if it fails.
        Attempt::Execute => Err(Command::new(HARMLESS_PROGRAM).exec()),
        Attempt::Fork => Command::new(HARMLESS_PROGRAM).status().map(drop),
        Attempt::Thread => std::thread::Builder::new().spawn(|| ()).map(drop),
        Attempt::Socket => sockets::open_socket(),
        Attempt::Trace => sys::become_traced(),
        Attempt::MapExecutable => sys::map_executable_memory(),
        Attempt::WorkingDirectory => std::env::current_dir().map(drop),
        Attempt::Abort => std::process::abort(),
        Attempt::Read(file) => File::open(path(file)).map(drop),
        Attempt::Create(file) => {
            File::options().write(true).create_new(true).open(path(file)).map(drop)
        }
        Attempt::Remove(file) => std::fs::remove_file(path(file)),
    }
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
