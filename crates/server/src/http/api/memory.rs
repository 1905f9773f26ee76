//! `/api/v1/memory`: the parts of the process's memory.

use crate::stats::StatsContext;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Memory {
    resident_bytes: Option<u64>,
    memory_limit_bytes: u64,
    /// The pages of the cache that hold memory.
    held_bytes: u64,
    /// The maximum of the process's memory: the memory limit and all parts.
    model_bytes: u64,
    /// The maximum of each part in addition to the memory limit.
    parts: Vec<Part>,
    /// The memory whose size clients determine.
    uses: Vec<Use>,
}

#[derive(Serialize)]
struct Part {
    name: &'static str,
    description: String,
    bytes_max: u64,
}

#[derive(Serialize)]
struct Use {
    name: &'static str,
    bytes: u64,
    bytes_max: u64,
}

pub(super) fn memory(context: StatsContext<'_>) -> Memory {
    let shared = context.shared;
    let stats = shared.engine.stats(context.now);
    let (uploads, replies) = (shared.uploads.stats(), shared.replies.stats());
    let (watcher_bytes, watcher_bytes_max) = shared.watch.buffer_bytes();
    let uses = [
        ("uploads", uploads.admitted_bytes, uploads.budget_bytes),
        ("replies", replies.buffered_bytes, replies.buffered_bytes_max),
        ("pinned values", replies.pinned_bytes, replies.pinned_bytes_max),
        ("watchers", watcher_bytes as u64, watcher_bytes_max as u64),
    ];
    let model = context.memory_model();
    let part = |part: &crate::memory_model::Part| Part {
        name: part.name,
        description: part.description.clone(),
        bytes_max: part.bytes_max,
    };
    Memory {
        resident_bytes: shared.resident_bytes(),
        memory_limit_bytes: stats.memory_limit_bytes,
        held_bytes: stats.pages * stats.page_size_bytes,
        model_bytes: model.total_bytes(),
        parts: model.parts().iter().map(part).collect(),
        uses: uses.map(|(name, bytes, bytes_max)| Use { name, bytes, bytes_max }).into(),
    }
}
