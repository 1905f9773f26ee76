//! The side of the old process: a thread that waits for connections to the control socket. The parent module describes the
//! states.

use super::counters;
use super::dialogue::{Failure, STEP_TIMEOUT, rebuild_timeout, receive, send};
use super::message::{
    Logins, Message, Offer, SocketKind, StateParts, VERSION, VERSION_OLDEST, common_version,
};
use crate::os::channel::{self, Channel, ReceiveError};
use crate::os::service::Notifications;
use crate::os::sys;
use crate::shared::{Shared, Wake};
use slabwise_base::Moment;
use slabwise_base::clock::unix_time;
use slabwise_engine::{Engine, Stop};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLockWriteGuard};
use std::time::Duration;

/// The time that a new process has to serve after `take`. This process cannot serve any more, and a service manager may end
/// the new one together with it, so it waits long.
const SERVING_TIMEOUT: Duration = Duration::from_secs(600);
/// The time within which all threads reach a point at which they can pause.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The control socket of a server that can be upgraded, and what it hands over.
pub(crate) struct Giver {
    listener: OwnedFd,
    path: PathBuf,
    /// The user of this process. It is read at the start, because a confined process cannot ask for it.
    user_id: u32,
    /// Second descriptors of the listening sockets.
    sockets: Vec<(SocketKind, OwnedFd)>,
    are_passed: bool,
    /// The file to which the state is written. It is opened at the start, because a confined process opens none.
    state: File,
    /// An event counter that ends the waits of the thread.
    waker: OwnedFd,
    notifications: Option<Notifications>,
}

impl Giver {
    /// Opens the control socket at this path, or uses that of the earlier process.
    pub fn open(
        path: &Path,
        sockets: Vec<(SocketKind, OwnedFd)>,
        are_passed: bool,
        inherited: Option<OwnedFd>,
    ) -> Result<Giver, String> {
        let fail = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "a running server uses it: use `slabwise upgrade`, or give another path"
                }
                _ => "give a path in a folder of this user",
            };
            format!("-o control={}: {error}: {remedy}", path.display())
        };
        let listener = inherited.map_or_else(|| channel::listen(path), Ok).map_err(fail)?;
        let state = sys::nameless_file("slabwise-state").map_err(fail)?;
        Ok(Giver {
            listener,
            path: path.to_path_buf(),
            user_id: sys::user_id(),
            sockets,
            are_passed,
            state: state.into(),
            waker: sys::event_counter().map_err(fail)?,
            notifications: Notifications::from_environment(),
        })
    }

    /// Ends the current wait of the thread, which then ends if the server stops.
    pub fn wake(&self) {
        sys::increment(self.waker.as_fd());
    }

    /// Answers connections to the control socket until the server stops, or another process has taken over. In this case
    /// the process ends.
    pub fn run(&self, shared: &Shared<'_>) {
        while !shared.is_stopping() {
            let waits = [self.listener.as_fd(), self.waker.as_fd()];
            if let Err(error) = channel::wait_for(&waits) {
                return tracing::error!("the control socket cannot be used any more: {error}");
            }
            sys::clear(self.waker.as_fd());
            let is_pending =
                channel::is_ready(self.listener.as_fd()).unwrap_or(false) && !shared.is_stopping();
            if is_pending && let Ok(channel) = Channel::accept(self.listener.as_fd()) {
                self.answer(shared, channel);
            }
        }
        // An error is ignored, because the file may have been removed.
        let _ = std::fs::remove_file(&self.path);
    }

    fn answer(&self, shared: &Shared<'_>, channel: Channel) {
        let own = self.user_id;
        match channel.peer_user_id() {
            Ok(user) if user == own => {}
            Ok(user) => {
                return tracing::warn!(
                    "upgrade: refused a process of the user {user}: only the user {own} can take over"
                );
            }
            Err(error) => return tracing::warn!("upgrade: {error}"),
        }
        let channel = Arc::new(channel);
        let mut pause = None;
        let Err(failure) = self.hand_over(shared, &channel, &mut pause);
        // The new process learns that this one serves on before a thread does so.
        give_up(&channel, &failure);
        drop(pause);
        if let Err(error) = self.state.set_len(0) {
            tracing::warn!("upgrade: cannot free the memory of the state: {error}");
        }
        match failure {
            Failure::Channel(ReceiveError::Closed) => {
                tracing::warn!("upgrade: the new process has ended: this process serves on");
            }
            failure => tracing::warn!("upgrade: {failure}: this process serves on"),
        }
    }

    /// Hands over, after which the process ends. Returns only if it serves on. The threads then pause until the caller has
    /// dropped `pause`.
    fn hand_over<'s, 'e>(
        &self,
        shared: &'s Shared<'e>,
        channel: &Arc<Channel>,
        pause: &mut Option<Paused<'s, 'e>>,
    ) -> Result<std::convert::Infallible, Failure> {
        let version = match self.next(shared, channel, STEP_TIMEOUT)? {
            Message::Hello { oldest, newest } => common_version(oldest, newest).ok_or_else(|| {
                Failure::Own(format!(
                    "the running server has versions {VERSION_OLDEST} to {VERSION} of the handover, and the new one \
                     {oldest} to {newest}: stop the server, and start the new one"
                ))
            })?,
            _ => return Err(Failure::Invalid),
        };
        let arena = shared.engine.arena().expect("the arena of an upgradable server is in a file");
        let offer = self.offer(shared, version);
        let items = offer.items;
        send(channel, &Message::Offer(offer), &[])?;
        for (kind, socket) in &self.sockets {
            send(channel, &Message::Socket(*kind), &[socket.as_fd()])?;
        }
        send(channel, &Message::Socket(SocketKind::Control), &[self.listener.as_fd()])?;
        send(channel, &Message::Memory, &[arena, self.state.as_fd()])?;
        // Memory that is allocated now need not be allocated during the pause.
        self.reserve_state(shared.engine.state_len_estimate())?;
        if self.next(shared, channel, rebuild_timeout(items))? != Message::Collect {
            return Err(Failure::Invalid);
        }
        let begun_nanos = shared.clock.nanos();
        *pause = Some(Paused::begin(shared, channel)?);
        let connections = shared.pause.moved()?;
        let parts = self.save_state(shared, connections)?;
        for lines in counters::compose(shared) {
            send(channel, &Message::Counters { lines }, &[])?;
        }
        send(channel, &Message::State(parts), &[])?;
        if self.next(shared, channel, rebuild_timeout(items))? != Message::Ready {
            return Err(Failure::Invalid);
        }
        send(channel, &Message::Take, &[])?;
        let paused = Duration::from_nanos(shared.clock.nanos() - begun_nanos);
        self.end(channel, paused)
    }

    /// Allocates the memory of the file for the state.
    fn reserve_state(&self, len_bytes: u64) -> io::Result<()> {
        let zeros = vec![0; 1 << 20];
        let mut offsets = (0..len_bytes).step_by(zeros.len());
        offsets.try_for_each(|offset| self.state.write_all_at(&zeros, offset))
    }

    /// Writes the state to its file. No thread uses the cache.
    fn save_state(&self, shared: &Shared<'_>, connections: u64) -> io::Result<StateParts> {
        let nanos = shared.clock.nanos();
        let stop = Stop { unix_time: unix_time(), elapsed: Duration::from_nanos(nanos) };
        let lens = shared.engine.save(stop, Moment::from_nanos(nanos), &self.state)?;
        Ok(StateParts { text_len_bytes: lens.text, image_len_bytes: lens.image_words, connections })
    }

    /// Ends the process after `take`, without destructors.
    fn end(&self, channel: &Channel, paused: Duration) -> ! {
        let code = match receive(channel, SERVING_TIMEOUT, None) {
            Ok((Message::Serving { process }, _)) => {
                tracing::warn!(
                    "upgrade: process {process} serves; the pause took {} ms",
                    paused.as_millis()
                );
                self.notifications.as_ref().inspect(|it| it.replaced_by(process));
                0
            }
            Ok(_) => 0,
            Err(failure) => {
                tracing::error!(
                    "upgrade: the new process took over, but does not serve: {failure}"
                );
                1
            }
        };
        std::process::exit(code)
    }

    fn offer(&self, shared: &Shared<'_>, version: u32) -> Offer {
        let config = shared.engine.config();
        let [index_buckets, index_overflow_buckets] = shared.engine.index_buckets_max();
        Offer {
            version,
            start_limit_bytes: config.memory_limit_bytes,
            option_limit_bytes: shared.tunables().memory_limit_option_bytes,
            memory_limit_bytes: shared.engine.memory_limit_bytes(),
            items: shared.engine.stats(shared.clock.now()).total.items.iter().sum(),
            hash_seed: config.hash_seed,
            index_format: Engine::INDEX_FORMAT,
            index_buckets,
            index_overflow_buckets,
            sockets: self.sockets.len() as u64 + 1,
            are_passed: self.are_passed,
            logins: Logins::of(shared.settings),
            layout: Engine::layout(config),
        }
    }

    /// Receives a message without descriptors. Fails if the server stops.
    fn next(
        &self,
        shared: &Shared<'_>,
        channel: &Channel,
        timeout: Duration,
    ) -> Result<Message, Failure> {
        loop {
            match receive(channel, timeout, Some(self.waker.as_fd())) {
                Ok((message, descriptors)) if descriptors.is_empty() => return Ok(message),
                Ok(_) => return Err(Failure::Invalid),
                Err(Failure::Channel(ReceiveError::Interrupted)) if !shared.is_stopping() => {
                    sys::clear(self.waker.as_fd());
                }
                Err(Failure::Channel(ReceiveError::Interrupted)) => {
                    return Err(Failure::Own("the running server stops".to_owned()));
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Tells the new process, unless it has ended or given up itself, that this process serves on.
fn give_up(channel: &Arc<Channel>, failure: &Failure) {
    if matches!(failure, Failure::Aborted(_) | Failure::Channel(ReceiveError::Closed)) {
        return;
    }
    if let Err(Failure::Send(error)) = send(channel, &Message::abort(&failure.to_string()), &[])
        && error.kind() == io::ErrorKind::TimedOut
    {
        // The new process must not take the end of the channel for the end of this process.
        std::mem::forget(Arc::clone(channel));
    }
}

/// The pause of the acceptor, the workers and the background threads, which ends when this value is dropped.
struct Paused<'s, 'e> {
    shared: &'s Shared<'e>,
    steps: Option<RwLockWriteGuard<'s, ()>>,
}

impl<'s, 'e> Paused<'s, 'e> {
    fn begin(shared: &'s Shared<'e>, channel: &Arc<Channel>) -> Result<Paused<'s, 'e>, Failure> {
        let pause = &shared.pause;
        pause.begin(Arc::clone(channel));
        let mut paused = Paused { shared, steps: None };
        shared.wake(Wake::All);
        let fail = |who| Failure::Own(format!("{who} did not pause within {PAUSE_TIMEOUT:?}"));
        if !pause.wait_for(1, PAUSE_TIMEOUT) {
            return Err(fail("the acceptor"));
        }
        pause.include_workers();
        shared.wake(Wake::All);
        if !pause.wait_for(1 + shared.settings.threads, PAUSE_TIMEOUT) {
            return Err(fail("a worker"));
        }
        paused.steps = Some(shared.hold_background_steps());
        Ok(paused)
    }
}

impl Drop for Paused<'_, '_> {
    fn drop(&mut self) {
        self.shared.pause.end();
    }
}

/// Returns second descriptors of sockets.
pub(crate) fn duplicates<'s>(
    kind: SocketKind,
    sockets: impl Iterator<Item = BorrowedFd<'s>>,
) -> io::Result<Vec<(SocketKind, OwnedFd)>> {
    sockets.map(|socket| Ok((kind, socket.try_clone_to_owned()?))).collect()
}
