//! The side of the new process. The parent module describes the states.

use super::dialogue::{Failure, STEP_TIMEOUT, receive, send};
use super::message::{Message, Offer, SocketKind, VERSION};
use crate::config::{Protocol, Settings};
use crate::os::channel::{Channel, ReceiveError};
use crate::os::inherited::InheritedSockets;
use crate::os::sys;
use slabwise_base::Clock;
use slabwise_base::clock::unix_time;
use slabwise_engine::Engine;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The maximum length of the state, in bytes.
const STATE_LEN_MAX: u64 = 1 << 30;
/// The time that a rebuild takes for a million items, for a message.
const REBUILD_MILLIS_PER_MILLION: u64 = 400;

/// A connection that the old process has handed over.
pub(crate) type MovedConnection = (OwnedFd, Protocol);

/// A handover in progress. If this value is dropped before [`Taker::commit`], the old process serves on.
pub(crate) struct Taker {
    channel: Channel,
    offer: Offer,
    memory: RefCell<Option<(OwnedFd, OwnedFd)>>,
}

impl Taker {
    /// Connects to the running server, and receives its sockets and its memory. The running server still serves.
    pub fn connect(settings: &Settings) -> Result<(Taker, InheritedSockets), String> {
        let path = settings
            .control_path
            .as_deref()
            .ok_or("give `upgrade` the options of the running server, among them -o upgradable")?;
        Taker::try_connect(path)
            .map_err(|failure| format!("-o control={}: {failure}", path.display()))
    }

    fn try_connect(path: &Path) -> Result<(Taker, InheritedSockets), Failure> {
        let channel = Channel::connect(path).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "no server with -o upgradable runs there: start the server without `upgrade`"
                }
                io::ErrorKind::PermissionDenied => "run `upgrade` as the user of the server",
                _ => "check the path",
            };
            Failure::Own(format!("{error}: {remedy}"))
        })?;
        let (user, own) = (channel.peer_user_id()?, sys::user_id());
        if user != own {
            return Err(Failure::Own(format!(
                "a process of the user {user} listens there, and this one has the user {own}: run both as the same user"
            )));
        }
        send(&channel, &Message::Hello { version: VERSION }, &[])?;
        let Message::Offer(offer) = next(&channel, STEP_TIMEOUT)?.0 else {
            return Err(Failure::Invalid);
        };
        let mut sockets =
            InheritedSockets { are_passed: offer.are_passed, ..InheritedSockets::default() };
        for _ in 0..offer.sockets {
            let (Message::Socket(kind), descriptors) = next(&channel, STEP_TIMEOUT)? else {
                return Err(Failure::Invalid);
            };
            for socket in descriptors {
                match kind {
                    SocketKind::Stream => sockets.stream.push(socket),
                    SocketKind::Datagram => sockets.datagram.push(socket),
                    SocketKind::Http => sockets.http = Some(socket),
                    SocketKind::Control => sockets.control = Some(socket),
                }
            }
        }
        let (Message::Memory, descriptors) = next(&channel, STEP_TIMEOUT)? else {
            return Err(Failure::Invalid);
        };
        let [arena, state]: [OwnedFd; 2] = descriptors.try_into().map_err(|_| Failure::Invalid)?;
        let memory = RefCell::new(Some((arena, state)));
        Ok((Taker { channel, offer, memory }, sockets))
    }

    /// Returns the settings with which this process can use the memory: `-m` at the start of the old process determines its
    /// layout. The caller sets the limit of [`Taker::limit_bytes`] later.
    pub fn adjusted(&self, settings: &Settings) -> Result<Settings, String> {
        let mut settings = settings.clone();
        settings.engine.memory_limit_bytes = self.offer.start_limit_bytes;
        let own = Engine::layout(&settings.engine);
        if own == self.offer.layout {
            return Ok(settings);
        }
        let differs = |(own, theirs): &(&str, &str)| own != theirs;
        let pairs = own.lines().zip(self.offer.layout.lines());
        let reason = pairs.into_iter().find(differs).map_or_else(
            || "the two versions have different settings".to_owned(),
            |(own, theirs)| format!("the running server has {theirs}, and the new one {own}"),
        );
        let remedy = "stop the server and start the new one; with -e a change of these settings empties the cache";
        self.refuse(&reason);
        Err(format!("the memory of the running server cannot be used: {reason}: {remedy}"))
    }

    /// Tells the old process why this one ends.
    pub fn refuse(&self, reason: &str) {
        // An error is ignored, because the old process may have ended.
        let _ = send(&self.channel, &Message::abort(reason), &[]);
    }

    /// Pauses the old process, receives its connections, and opens its cache, which is only read until [`Taker::commit`].
    pub fn open_engine(
        &self,
        settings: &Settings,
    ) -> Result<(Engine, Clock, Vec<MovedConnection>), String> {
        let items = self.offer.items;
        tracing::warn!(
            "upgrade: requests wait while the index of {items} items is built, for about {} ms",
            items * REBUILD_MILLIS_PER_MILLION / 1_000_000
        );
        self.collect(settings).map_err(|failure| {
            let reason = format!("upgrade: {failure}");
            self.refuse(&reason);
            reason
        })
    }

    fn collect(
        &self,
        settings: &Settings,
    ) -> Result<(Engine, Clock, Vec<MovedConnection>), Failure> {
        send(&self.channel, &Message::Collect, &[])?;
        let mut moved = Vec::new();
        let (len_bytes, connections) = loop {
            match next(&self.channel, 2 * STEP_TIMEOUT)? {
                (Message::Connections { protocol, .. }, sockets) => {
                    moved.extend(sockets.into_iter().map(|socket| (socket, protocol)));
                }
                (Message::State { len_bytes, connections }, _) => break (len_bytes, connections),
                _ => return Err(Failure::Invalid),
            }
        };
        if len_bytes > STATE_LEN_MAX || moved.len() as u64 != connections {
            return Err(Failure::Invalid);
        }
        let (arena, state) = self.memory.take().ok_or(Failure::Invalid)?;
        let mut text = vec![0; len_bytes as usize];
        File::from(state).read_exact_at(&mut text, 0)?;
        let mut clock = Clock::real();
        let path = settings.memory_file.as_deref();
        let (engine, warm) =
            Engine::adopt(settings.engine.clone(), arena, path, &text, unix_time())
                .map_err(|error| Failure::Own(error.to_string()))?;
        clock.resume(warm.elapsed);
        Ok((engine, clock, moved))
    }

    /// Takes over. If the old process has ended, it has written nothing since it sent the state, so this process takes over,
    /// too.
    pub fn commit(&self, engine: &Engine) -> Result<(), String> {
        let permission = send(&self.channel, &Message::Ready, &[])
            .and_then(|()| next(&self.channel, STEP_TIMEOUT));
        match permission {
            Ok((Message::Take, _)) => {}
            Ok(_) => return Err("upgrade: the running server sent an invalid message".to_owned()),
            Err(Failure::Channel(ReceiveError::Closed)) => {
                tracing::warn!("upgrade: the old process has ended: this process takes over");
            }
            // A closed channel is an error of `send`, too. An `abort` may precede the end of the channel.
            Err(Failure::Send(_)) => match next(&self.channel, STEP_TIMEOUT) {
                Err(Failure::Channel(ReceiveError::Closed)) => {}
                _ => return Err("upgrade: the running server has given up".to_owned()),
            },
            Err(failure) => {
                return Err(format!("upgrade: the running server serves on: {failure}"));
            }
        }
        engine.take_over().map_err(|error| format!("upgrade: {error}"))
    }

    /// Returns the memory limit of this process, whose `-m` is `limit_bytes`. If `-m` has not changed since the start of the
    /// old process, the present limit of the old process stays.
    pub fn limit_bytes(&self, limit_bytes: u64) -> u64 {
        let is_unchanged = limit_bytes == self.offer.start_limit_bytes;
        if is_unchanged { self.offer.memory_limit_bytes } else { limit_bytes }
    }

    /// Notifies the old process, which then ends.
    pub fn notify_serving(&self) {
        // An error is ignored, because the old process may have ended.
        let _ = send(&self.channel, &Message::Serving { process: std::process::id() }, &[]);
    }
}

fn next(channel: &Channel, timeout: Duration) -> Result<(Message, Vec<OwnedFd>), Failure> {
    receive(channel, timeout, None)
}
