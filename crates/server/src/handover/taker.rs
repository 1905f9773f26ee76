//! The side of the new process. The parent module describes the states.

use super::counters;
use super::dialogue::{Failure, STEP_TIMEOUT, receive, send};
use super::message::{Logins, Message, Offer, SocketKind, StateParts, VERSION, VERSION_OLDEST};
use crate::config::{Protocol, Settings, with_page_size_of};
use crate::os::channel::{Channel, ReceiveError};
use crate::os::inherited::InheritedSockets;
use crate::os::sys;
use crate::shared::Shared;
use slabwise_base::Clock;
use slabwise_base::clock::unix_time;
use slabwise_engine::{AdoptedEngine, Adoption, Engine, StateLens};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The time that a rebuild takes for a million items, for a message.
const REBUILD_MILLIS_PER_MILLION: u64 = 400;

/// A connection that the old process has handed over.
pub(crate) struct MovedConnection {
    pub socket: OwnedFd,
    pub protocol: Protocol,
    /// True if the client has authenticated.
    pub has_logged_in: bool,
}

/// How the new process gets its index and queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the image of the old process.
    Image,
    /// It rebuilds them from the items, because the format of the image differs.
    Rebuild,
    /// It starts with an empty cache, because the format of the arena differs.
    Empty,
}

/// A handover in progress. If this value is dropped before [`Taker::commit`], the old process serves on.
pub(crate) struct Taker {
    channel: Channel,
    offer: Offer,
    way: Cell<Way>,
    memory: RefCell<Option<(OwnedFd, OwnedFd)>>,
    /// The lines of the counters that were received.
    counters: RefCell<String>,
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
        send(&channel, &Message::Hello { oldest: VERSION_OLDEST, newest: VERSION }, &[])?;
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
        let way = Cell::new(Way::Image);
        let counters = RefCell::default();
        Ok((Taker { channel, offer, way, memory, counters }, sockets))
    }

    /// Returns the settings with which this process can use the memory: `-m` at the start of the old process determines its
    /// layout, its page size stands in for a missing `-o page_size`, and the index depends on the seed of the hash. The caller
    /// sets the limit of [`Taker::limit_bytes`] later.
    pub fn adjusted(&self, settings: &Settings) -> Result<Settings, String> {
        let with_pages = with_page_size_of(settings, &self.offer.layout);
        let mut settings = with_pages.unwrap_or_else(|| settings.clone());
        settings.engine.memory_limit_bytes = self.offer.start_limit_bytes;
        settings.engine.hash_seed = self.offer.hash_seed;
        let own = Engine::layout(&settings.engine);
        let (own_format, own_settings) = own.split_once('\n').unwrap_or_default();
        let (format, theirs) = self.offer.layout.split_once('\n').unwrap_or_default();
        if own_format != format {
            tracing::warn!(
                "upgrade: the running server has another format of the memory ({format}, here {own_format}): this \
                 server takes its sockets and connections over, and starts with an empty cache"
            );
            self.way.set(Way::Empty);
            return Ok(settings);
        }
        if own_settings == theirs {
            let has_same_index = self.offer.index_format == Engine::INDEX_FORMAT;
            self.way.set(if has_same_index { Way::Image } else { Way::Rebuild });
            return Ok(settings);
        }
        let differs = |(own, theirs): &(&str, &str)| own != theirs;
        let pairs = own_settings.lines().zip(theirs.lines());
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

    /// Maps the memory of the old process, pauses it, receives its connections, and opens its cache, which is only read
    /// until [`Taker::commit`].
    pub fn open_engine(
        &self,
        settings: &Settings,
    ) -> Result<(Engine, Clock, Vec<MovedConnection>), String> {
        self.try_open(settings).map_err(|failure| {
            let reason = format!("upgrade: {failure}");
            self.refuse(&reason);
            reason
        })
    }

    fn try_open(
        &self,
        settings: &Settings,
    ) -> Result<(Engine, Clock, Vec<MovedConnection>), Failure> {
        let own = |error: &dyn std::fmt::Display| Failure::Own(error.to_string());
        let (arena, state) = self.memory.take().ok_or(Failure::Invalid)?;
        let config = settings.engine.clone();
        let path = settings.memory_file.as_deref();
        if self.way.get() == Way::Empty {
            let engine = match path {
                None => Engine::new_nameless(config),
                Some(_) => Adoption::prepare(config, arena, path, [0; 2]).and_then(Adoption::empty),
            };
            let engine = engine.map_err(|error| own(&error))?;
            let (_, moved) = self.collect(settings)?;
            return Ok((engine, Clock::real(), moved));
        }
        let buckets = match self.way.get() {
            Way::Image => [self.offer.index_buckets, self.offer.index_overflow_buckets],
            _ => [0; 2],
        };
        let prepared =
            Adoption::prepare(config, arena, path, buckets).map_err(|error| own(&error))?;
        if self.way.get() == Way::Rebuild {
            self.warn_about_rebuild("the formats of the index differ");
        }
        let (parts, moved) = self.collect(settings)?;
        let image_words = match self.way.get() {
            Way::Image => parts.image_len_bytes,
            _ => 0,
        };
        if self.way.get() == Way::Image && image_words == 0 {
            self.warn_about_rebuild("the running server cannot hand its index over");
        }
        let lens = StateLens { text: parts.text_len_bytes, image_words };
        // `complete` computes the time of the clock at this date, and then takes long.
        let (mut clock, date) = (Clock::real(), unix_time());
        let adopted = prepared.complete(&File::from(state), lens, date);
        let AdoptedEngine { engine, warm, rebuilt_because } =
            adopted.map_err(|error| own(&error))?;
        if let Some(reason) = rebuilt_because {
            tracing::warn!("upgrade: the index of {} items was rebuilt: {reason}", warm.items);
        }
        clock.resume(warm.elapsed);
        Ok((engine, clock, moved))
    }

    fn warn_about_rebuild(&self, reason: &str) {
        let items = self.offer.items;
        tracing::warn!(
            "upgrade: {reason}: requests wait while the index of {items} items is rebuilt, for about {} ms",
            items.saturating_mul(REBUILD_MILLIS_PER_MILLION) / 1_000_000
        );
    }

    /// Pauses the old process, and receives its connections. Closes those whose clients have authenticated in another way
    /// than this server requires.
    fn collect(&self, settings: &Settings) -> Result<(StateParts, Vec<MovedConnection>), Failure> {
        send(&self.channel, &Message::Collect, &[])?;
        let has_same_logins = self.offer.logins == Logins::of(settings);
        let (mut moved, mut count) = (Vec::new(), 0);
        loop {
            match next(&self.channel, 2 * STEP_TIMEOUT)? {
                (Message::Connections { protocol, has_logged_in, .. }, sockets) => {
                    let connection = |socket| MovedConnection { socket, protocol, has_logged_in };
                    count += sockets.len() as u64;
                    if has_same_logins || !has_logged_in {
                        moved.extend(sockets.into_iter().map(connection));
                    }
                }
                (Message::Counters { lines }, _) => self.counters.borrow_mut().push_str(&lines),
                (Message::State(parts), _) if count == parts.connections => {
                    return Ok((parts, moved));
                }
                _ => return Err(Failure::Invalid),
            }
        }
    }

    /// Takes over. If the old process has ended, it has written nothing since it sent the state, so this process takes over,
    /// too.
    pub fn commit(&self, engine: &Engine) -> Result<(), String> {
        let sent = send(&self.channel, &Message::Ready, &[]);
        let permission = match (next(&self.channel, STEP_TIMEOUT), sent) {
            (Ok((Message::Take, _)), _) => Ok(()),
            (Err(Failure::Channel(ReceiveError::Closed)), _) => {
                tracing::warn!("upgrade: the old process has ended: this process takes over");
                Ok(())
            }
            (Ok(_), Ok(())) => Err(Failure::Invalid),
            (Err(failure), Ok(())) | (_, Err(failure)) => Err(failure),
        };
        if let Err(failure) = permission {
            // From now on the old process cannot send `take`, and serves on. But it may just have sent it.
            self.channel.close_input();
            if !matches!(next(&self.channel, Duration::ZERO), Ok((Message::Take, _))) {
                return Err(format!("upgrade: the running server serves on: {failure}"));
            }
        }
        engine.take_over().map_err(|error| format!("upgrade: {error}"))
    }

    /// Adds the counters of the old process. No thread serves requests yet.
    pub fn restore_counters(&self, shared: &Shared<'_>) {
        counters::restore(shared, &self.counters.borrow());
    }

    /// Returns the memory limit of this process. If its `-m` is that of the old process, the present limit of the old process
    /// stays.
    pub fn limit_bytes(&self, settings: &Settings) -> u64 {
        let option = settings.tunables.memory_limit_option_bytes;
        let is_unchanged = option == self.offer.option_limit_bytes;
        if is_unchanged { self.offer.memory_limit_bytes } else { option }
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
