//! watch: the connection becomes a watcher, for good. What it sends from then on means nothing.

use crate::context::WorkerContext;
use crate::out::Out;
use crate::shared::Watcher;
use slabwise_protocol::WatchKinds;
use slabwise_protocol::text::reply;

/// Begins to watch, if the client may, and answers.
pub(crate) fn begin<'e>(
    worker: &WorkerContext<'e>,
    kinds: Option<WatchKinds>,
    out: &mut Out<'e>,
) -> Option<Watcher<'e>> {
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
    watcher.ok()
}
