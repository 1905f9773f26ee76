//! Executes administrative commands.

use super::crawl::{Crawl, Listing};
use crate::os::process;
use crate::out::Out;
use crate::shared::{BackgroundThread, CloseReason, Shared, Watcher, WorkerContext};
use crate::wire::text::Reply;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Seconds};
use slabwise_engine::{ClassChangeError, Engine, LimitError, LruConfig, ReassignError};
use slabwise_protocol::text::reply;
use slabwise_protocol::{
    Admin, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Exptime, LruMode, LruRequest,
    ShutdownMode, WatchKinds,
};
use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

/// The action that the session takes after a command.
pub(crate) enum NextAction<'e> {
    /// The session reads the next request.
    Nothing,
    /// The session completes the crawl before it reads further requests.
    Crawl(Box<Crawl<'e>>),
    /// The connection becomes a watcher.
    Watch(Watcher<'e>),
    /// The session closes the connection for this reason.
    Close(CloseReason),
}

/// The maximum level of the command `verbosity`. The trace output of level 3 can only be enabled at start (`-vvv`).
const VERBOSITY_MAX: u32 = 2;
/// The minimum memory limit that the command `cache_memlimit` accepts, in MiB, as in memcached.
pub(crate) const MEMORY_LIMIT_MEGABYTES_MIN: u32 = 8;
/// The maximum memory limit that the command `cache_memlimit` accepts, in MiB. The client probably means a larger
/// number in bytes.
const MEMORY_LIMIT_MEGABYTES_MAX: u32 = 1_000_000_000;

/// Executes a command and writes its reply. Returns the session's next action.
pub(crate) fn carry_out<'e>(
    worker: &mut WorkerContext<'e>,
    command: Admin<'_>,
    reply: &mut Reply<'_>,
) -> NextAction<'e> {
    let shared = worker.shared;
    match command {
        Admin::Classes(Classes::Show) => {
            let sizes = slab_sizes(shared.engine.class_table().sizes());
            reply.line(format!("CLASSES {sizes}\r\n").as_bytes());
        }
        Admin::RefreshCertificates => refresh_certificates(worker, reply),
        Admin::Crawler(Crawler::Crawl(kind, classes)) => {
            match start_crawl(worker, kind, classes, reply) {
                Err(error) => reply.line(error),
                Ok(crawl) => {
                    reply.line(reply::OK);
                    return crawl
                        .map_or(NextAction::Nothing, |crawl| NextAction::Crawl(Box::new(crawl)));
                }
            }
        }
        Admin::Shutdown(_) if !shared.settings.shutdown_enabled => {
            reply.line(reply::SHUTDOWN_FORBIDDEN);
        }
        Admin::Shutdown(ShutdownMode::Unknown) => reply.line(reply::SHUTDOWN_UNKNOWN),
        Admin::Shutdown(ShutdownMode::Now) => {
            shared.stop();
            return NextAction::Close(CloseReason::Shutdown);
        }
        Admin::Shutdown(ShutdownMode::Graceful) => {
            shared.stop_gracefully();
            return NextAction::Close(CloseReason::Shutdown);
        }
        command => match execute(worker, command) {
            Ok(()) => reply.line(reply::OK),
            Err(error) => reply.line(&error),
        },
    }
    NextAction::Nothing
}

/// The line of an error reply, including its line end.
type ErrorLine = Cow<'static, [u8]>;

/// Executes a command whose reply is `OK` or an error line.
fn execute(worker: &WorkerContext<'_>, command: Admin<'_>) -> Result<(), ErrorLine> {
    let Shared { settings, notifier, counters, .. } = worker.shared;
    let tunables = || lock(&worker.shared.tunables);
    match command {
        Admin::FlushAll { .. } if !settings.flush_enabled => {
            counters.flushes.fetch_add(1, Relaxed);
            return Err(reply::FLUSH_FORBIDDEN.into());
        }
        Admin::FlushAll(exptime) => flush_all(worker, exptime),
        Admin::Verbosity(level) => {
            let level = level.min(VERBOSITY_MAX);
            tunables().verbosity = level;
            process::set_verbosity(level);
        }
        Admin::MemoryLimit(megabytes) => {
            set_memory_limit(worker.shared, megabytes).map_err(MemoryLimitError::reply)?;
        }
        // A new class table retires classes, and only page moves can drain the pages of retired classes.
        Admin::Reassign { .. } | Admin::Classes(_) if !settings.reassign_enabled => {
            return Err(reply::REASSIGN_FORBIDDEN.into());
        }
        Admin::Reassign { victim, receiver } => reassign(worker, victim, receiver)?,
        Admin::Classes(Classes::Set(sizes)) => change_classes(worker, sizes)?,
        Admin::Classes(_) if !settings.engine.eviction_enabled => {
            let error = b"CLIENT_ERROR learning class tables needs evictions: start without -M\r\n";
            return Err(error[..].into());
        }
        Admin::Classes(_) => {
            tunables().set_learns_classes = true;
            notifier.wake(BackgroundThread::Tuner);
        }
        Admin::Automove(setting) => {
            match setting {
                Automove::Level(level) => tunables().automove.level = level,
                Automove::Ratio(ratio) => tunables().automove.age_ratio = ratio,
                Automove::FreeRatio(ratio) => tunables().automove_free_ratio = ratio,
                Automove::Window(seconds) => tunables().automove.window_seconds = seconds,
            }
            notifier.wake(BackgroundThread::Tuner);
        }
        Admin::Lru(request) => set_lru(worker, request)?,
        Admin::Crawler(Crawler::Enable) => {
            if std::mem::replace(&mut tunables().crawler_enabled, true) {
                return Err(reply::CRAWLER_ALREADY_ENABLED.into());
            }
        }
        Admin::Crawler(Crawler::Disable) => tunables().crawler_enabled = false,
        Admin::Crawler(Crawler::Sleep(micros)) => tunables().crawler_sleep_us = micros,
        Admin::Crawler(Crawler::Tocrawl(items)) => tunables().crawler_tocrawl = items,
        _ => unreachable!("carry_out and the session handle the other commands"),
    }
    Ok(())
}

/// Invalidates all items that were stored before `exptime`, and counts a flush. Without a time, invalidates all items
/// that are stored now.
pub(crate) fn flush_all(worker: &WorkerContext<'_>, exptime: Exptime) {
    let shared = worker.shared;
    shared.counters.flushes.fetch_add(1, Relaxed);
    let at = match exptime {
        Exptime::At(time) => Some(worker.second(time)),
        Exptime::Never | Exptime::Past => None,
    };
    // Before the server's start no items were stored, so a time before the start invalidates nothing.
    if at.is_none_or(|second| second >= Seconds::START) {
        shared.engine.flush_all(at, worker.now);
    }
    // As in memcached, `stats settings` shows the last second whose items are invalid.
    let last = at.unwrap_or(worker.now.seconds).0.saturating_sub(1);
    lock(&shared.tunables).oldest_live = last;
}

/// Reads the certificate files again. Reading takes milliseconds, so the connection's round ends: the worker serves
/// other connections before the client's next request. As in memcached, `noreply` does not suppress an error.
fn refresh_certificates(worker: &mut WorkerContext<'_>, reply: &mut Reply<'_>) {
    let Some(tls) = &worker.shared.tls else {
        return reply.out.extend_from_slice(reply::TLS_DISABLED);
    };
    worker.requests_left = 0;
    match tls.refresh(worker.now.seconds) {
        Ok(()) => reply.line(reply::OK),
        Err(error) => reply.out.extend_from_slice(format!("{error}\r\n").as_bytes()),
    }
}

/// The reason why a memory limit is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryLimitError {
    /// The limit is below [`MEMORY_LIMIT_MEGABYTES_MIN`].
    #[error("give at least {MEMORY_LIMIT_MEGABYTES_MIN} (MiB)")]
    TooSmall,
    /// The limit is so large that it is probably in bytes.
    #[error("give at most {MEMORY_LIMIT_MEGABYTES_MAX} (MiB): the number is in MiB, not in bytes")]
    InBytes,
    /// The limit is above the addresses that the engine has reserved at its start.
    #[error(
        "give at most {} (MiB), for which addresses are reserved, or start the server again",
        bytes_max >> 20
    )]
    OutOfBounds { bytes_max: u64 },
    /// The file system has too little room for the memory file, or another error of the file.
    #[error(transparent)]
    File(LimitError),
}

impl MemoryLimitError {
    /// Returns the reply to `cache_memlimit`.
    fn reply(self) -> ErrorLine {
        match self {
            MemoryLimitError::TooSmall => reply::MEMORY_LIMIT_TOO_SMALL.into(),
            MemoryLimitError::InBytes => reply::MEMORY_LIMIT_IN_BYTES.into(),
            MemoryLimitError::OutOfBounds { .. } => reply::MEMORY_LIMIT_OUT_OF_BOUNDS.into(),
            MemoryLimitError::File(error) => {
                format!("SERVER_ERROR {error}\r\n").into_bytes().into()
            }
        }
    }
}

/// Changes the memory limit of the cache, and the limits of the buffers that depend on it. With a memory file, a higher limit
/// waits until the file system has allocated the blocks.
pub(crate) fn set_memory_limit(
    shared: &Shared<'_>,
    megabytes: u32,
) -> Result<(), MemoryLimitError> {
    match megabytes {
        0..MEMORY_LIMIT_MEGABYTES_MIN => return Err(MemoryLimitError::TooSmall),
        MEMORY_LIMIT_MEGABYTES_MIN..=MEMORY_LIMIT_MEGABYTES_MAX => {}
        _ => return Err(MemoryLimitError::InBytes),
    }
    let bytes = u64::from(megabytes) << 20;
    shared.engine.set_memory_limit(bytes).map_err(|error| match error {
        LimitError::TooLarge { bytes_max, .. } => MemoryLimitError::OutOfBounds { bytes_max },
        error @ LimitError::File { .. } => MemoryLimitError::File(error),
    })?;
    if let Some(kept) = shared.engine.kept_bytes().filter(|&kept| kept > bytes) {
        tracing::warn!(
            "-e: the memory limit is now {megabytes} (MiB), but the memory file keeps {} MiB, because its file system cannot \
             free a part of a file",
            kept >> 20
        );
    }
    shared.uploads.set_memory_limit(bytes);
    shared.replies.set_memory_limit(bytes);
    // If the limit is lower than before, the tuner releases pages.
    shared.notifier.wake(BackgroundThread::Tuner);
    Ok(())
}

/// The victim of `slabs reassign` that means any class.
const ANY_CLASS: i32 = -1;
/// The class number of `slabs reassign` that means the page pool.
const PAGE_POOL: i32 = 0;

/// Starts a page move (`slabs reassign`).
fn reassign(worker: &WorkerContext<'_>, victim: i32, receiver: i32) -> Result<(), &'static [u8]> {
    let engine = worker.shared.engine;
    // A running move is reported before any other error, as in memcached.
    if engine.chunks_of_moving_page().is_some() {
        return Err(reply::REASSIGN_BUSY);
    }
    if victim == receiver {
        return Err(reply::REASSIGN_SAME);
    }
    let classes = engine.class_ids();
    let class = |number: i32| {
        let class = u32::try_from(number).ok().and_then(ClassId::from_wire);
        class.filter(|class| classes.contains(class)).ok_or(reply::REASSIGN_BAD_CLASS).map(Some)
    };
    let receiver = if receiver == PAGE_POOL { None } else { class(receiver)? };
    let victim = match victim {
        // A class takes pages from the page pool when it needs them, so a client cannot move pages of the pool.
        PAGE_POOL => return Err(reply::REASSIGN_NO_SPARE),
        ANY_CLASS => None,
        number => class(number)?,
    };
    let reassigned = engine.reassign(victim, receiver, "requested by a command", worker.now);
    reassigned.map_err(|error| match error {
        ReassignError::Running => reply::REASSIGN_BUSY,
        // The victim -1 means any class, but no class can give a page. memcached then reports a bad class.
        ReassignError::NoMovablePage if victim.is_none() => reply::REASSIGN_BAD_CLASS,
        ReassignError::NoMovablePage => reply::REASSIGN_NO_SPARE,
        ReassignError::SameClass => reply::REASSIGN_SAME,
        ReassignError::BadClass => reply::REASSIGN_BAD_CLASS,
    })?;
    worker.shared.notifier.wake(BackgroundThread::Tuner);
    Ok(())
}

/// Formats chunk sizes like the value of `-o slab_sizes`: `96-120-152`.
pub(crate) fn slab_sizes(sizes: &[impl ToString]) -> String {
    sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
}

/// Changes the class table (`slabs classes`).
fn change_classes(worker: &WorkerContext<'_>, sizes: ChunkSizes<'_>) -> Result<(), ErrorLine> {
    let sizes: Vec<usize> = sizes.iter().map(|size| size as usize).collect();
    worker.shared.engine.change_classes(&sizes).map_err(|error| {
        // The client can repeat the command when the retired classes are drained. The other errors are permanent.
        let is_temporary = matches!(error, ClassChangeError::Draining { .. });
        let kind = if is_temporary { "SERVER_ERROR" } else { "CLIENT_ERROR" };
        format!("{kind} {error}\r\n").into_bytes()
    })?;
    // From now on a learned class table must not replace the client's class table.
    lock(&worker.shared.tunables).set_learns_classes = false;
    // The tuner drains the retired classes.
    worker.shared.notifier.wake(BackgroundThread::Tuner);
    Ok(())
}

/// Changes the settings of the segmented LRU (`lru tune`, `lru mode`, `lru temp_ttl`).
fn set_lru(worker: &WorkerContext<'_>, request: LruRequest) -> Result<(), ErrorLine> {
    let Shared { engine, tunables, .. } = worker.shared;
    match request {
        LruRequest::Tune { hot_percent, warm_percent, hot_age_factor, warm_age_factor } => {
            engine.set_lru(LruConfig {
                hot_percent,
                warm_percent,
                hot_age_factor,
                warm_age_factor,
                ..engine.lru()
            });
        }
        LruRequest::Mode(_) if !engine.config().eviction.info().can_switch => {
            let name = engine.config().eviction.name();
            let error = format!("CLIENT_ERROR lru mode is fixed by -o eviction={name}\r\n");
            return Err(error.into_bytes().into());
        }
        LruRequest::Mode(mode) => {
            let is_segmented = mode == LruMode::Segmented;
            engine.set_segmented(is_segmented);
            lock(tunables).lru_segmented = is_segmented;
        }
        LruRequest::TemporaryTtl(seconds) => {
            let ttl = u32::try_from(seconds).ok();
            if let Some(ttl) = ttl {
                lock(tunables).temporary_ttl = ttl;
            }
            engine.set_lru(LruConfig { temporary_ttl: ttl.map(Seconds), ..engine.lru() });
        }
    }
    Ok(())
}

/// Starts a crawl. Returns a crawl that lists items, for the session to run. Returns `None` if the crawl only reclaims
/// expired items, which the crawler's thread does.
fn start_crawl<'e>(
    worker: &WorkerContext<'e>,
    kind: CrawlKind,
    classes: &[u8],
    waiting: &Reply<'_>,
) -> Result<Option<Crawl<'e>>, &'static [u8]> {
    let shared = worker.shared;
    if !shared.tunables().crawler_enabled {
        return Err(reply::CRAWLER_DISABLED);
    }
    let dump_enabled = shared.settings.dump_enabled;
    let listing = match kind {
        CrawlKind::Metadump if !dump_enabled => return Err(reply::METADUMP_FORBIDDEN),
        CrawlKind::Mgdump if !dump_enabled => return Err(reply::MGDUMP_FORBIDDEN),
        // As in memcached, a dump is refused while earlier replies are not sent yet.
        CrawlKind::Metadump if !waiting.out.is_empty() => return Err(reply::METADUMP_PIPELINED),
        CrawlKind::Mgdump if !waiting.out.is_empty() => return Err(reply::MGDUMP_PIPELINED),
        CrawlKind::Metadump => Some(Listing::Metadump),
        CrawlKind::Mgdump => Some(Listing::Mgdump),
        CrawlKind::Expire if classes == b"hash" => return Err(reply::CRAWLER_BAD_HASH),
        CrawlKind::Expire => None,
    };
    let classes_list_is_empty = classes.iter().all(|&byte| byte == b',');
    let classes = parse_classes(shared.engine, classes).ok_or(reply::CRAWLER_BAD_CLASS)?;
    if classes_list_is_empty {
        return Err(reply::CRAWLER_NOT_STARTED);
    }
    let ticket = shared.crawls.begin().ok_or(reply::CRAWLER_BUSY)?;
    match listing {
        Some(listing) => Ok(Some(Crawl::new(classes, listing, Some(ticket)))),
        None => {
            let items_max = shared.tunables().crawler_tocrawl;
            shared.crawls.expire(ticket, classes, items_max);
            shared.notifier.wake(BackgroundThread::Crawler);
            Ok(None)
        }
    }
}

/// Parses the classes of a crawl: `all`, `hash` (which visits the same items) or a list of class numbers. Ignores a
/// valid number that no class has. Returns `None` if the list is invalid.
fn parse_classes(engine: &Engine, list: &[u8]) -> Option<Vec<ClassId>> {
    let all = engine.class_ids();
    if list == b"all" || list == b"hash" {
        return Some(all);
    }
    let mut classes = Vec::new();
    for number in list.split(|&byte| byte == b',').filter(|number| !number.is_empty()) {
        let number: u32 = str::from_utf8(number).ok()?.parse().ok()?;
        let class = ClassId::from_wire(number)?;
        // A number above memcached's largest class number is valid only if the class exists.
        if class.index() >= ClassId::COUNT_MAX && !all.contains(&class) {
            return None;
        }
        if all.contains(&class) && !classes.contains(&class) {
            classes.push(class);
        }
    }
    Some(classes)
}

/// Serves the command `watch`: makes the connection a watcher of these kinds of events, or writes an error. `kinds` is
/// `None` if the client named an unknown kind.
pub(crate) fn watch<'e>(
    worker: &WorkerContext<'e>,
    kinds: Option<WatchKinds>,
    out: &mut Out<'e>,
) -> NextAction<'e> {
    let watcher = if !worker.shared.settings.watch_enabled {
        Err(reply::WATCH_FORBIDDEN)
    } else if !out.is_empty() {
        Err(reply::WATCH_PIPELINED)
    } else if let Some(kinds) = kinds {
        Watcher::new(&worker.shared.watch, worker.shared.engine, worker.index, kinds)
            .ok_or(reply::WATCH_TOO_MANY)
    } else {
        Err(reply::ERROR)
    };
    out.bytes().extend_from_slice(watcher.as_ref().err().copied().unwrap_or(reply::OK));
    watcher.map_or(NextAction::Nothing, NextAction::Watch)
}
