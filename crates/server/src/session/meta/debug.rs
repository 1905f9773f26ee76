//! `me`.

use super::{Asked, ttl_seconds};
use crate::context::WorkerContext;
use crate::ops::look;
use slabwise_base::Ticks;
use slabwise_protocol::meta::{compose, reply};

pub(super) fn debug(worker: &mut WorkerContext<'_>, asked: Asked<'_>, out: &mut Vec<u8>) {
    let now = worker.now;
    let cas_enabled = worker.shared.settings.cas_enabled;
    let key = worker.handle.hashed(asked.key);
    let line = look::examine(worker, key, |view| compose::DebugLine {
        ttl_seconds: ttl_seconds(view.expiry(), now),
        idle_seconds: view.last_access().age_at(now.ticks) / Ticks::PER_SECOND,
        cas: if cas_enabled { view.cas() } else { 0 },
        fetched: view.fetched(),
        class_number: view.class().wire(),
        size_bytes: view.size_bytes(),
    });
    match line {
        Some(line) => compose::debug_line(out, asked.request.key.is_base64(), asked.key, &line),
        None => out.extend_from_slice(reply::MISS),
    }
}
