//! watch: the connection becomes a watcher, for good. What it sends from then on means nothing.

use super::{Phase, Session, Step};
use crate::context::WorkerContext;
use crate::out::Out;
use crate::shared::Watcher;
use slabwise_protocol::WatchKinds;
use slabwise_protocol::text::reply;

impl<'e> Session<'e> {
    /// A `watch` line of so many bytes.
    pub(super) fn watch(
        &mut self,
        worker: &WorkerContext<'e>,
        kinds: Option<WatchKinds>,
        consumed: usize,
        out: &mut Out<'e>,
    ) -> Step {
        let reply = if !worker.shared.settings.watch_enabled {
            reply::WATCH_FORBIDDEN
        } else if !out.is_empty() {
            reply::WATCH_PIPELINED
        } else if let Some(kinds) = kinds {
            match Watcher::new(worker.shared, worker.index, kinds) {
                Some(watcher) => {
                    self.phase = Phase::Watch(watcher);
                    reply::OK
                }
                None => reply::WATCH_TOO_MANY,
            }
        } else {
            reply::ERROR
        };
        out.bytes().extend_from_slice(reply);
        Step::Took(consumed)
    }

    /// Whether the connection is a watcher.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watch(_))
    }

    /// Appends the lines that a watcher has not been given yet; nothing for other connections. Call it
    /// when everything before is written.
    pub fn take_lines(&mut self, out: &mut Out<'e>) {
        if let Phase::Watch(watcher) = &mut self.phase {
            watcher.take_lines(out.bytes());
        }
    }
}
