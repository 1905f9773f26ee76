//! `stats` without a subject: the general counters.

use super::Rows;
use crate::config::Settings;
use crate::context::{READ_BUFFER_BYTES, WorkerContext};
use crate::os::process::descriptors_of_our_own;
use crate::shared::{Baseline, ConnectionCounts, TrafficCounts};
use crate::tls::{Tls, TlsCounts};
use crate::wire::VERSION;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use slabwise_base::Seconds;
use slabwise_engine::{Busy, EngineStats};
use std::fmt::Display;
use std::sync::atomic::Ordering;

pub(super) fn write(worker: &WorkerContext<'_>, rows: &mut Rows<'_>) {
    let shared = worker.shared;
    let baseline = shared.baseline();
    let engine = shared.engine.stats(worker.now).since(&baseline.engine);
    let counts = shared.counters.read().since(&baseline.connections);
    let mut table = Table { rows };
    process(worker, &mut table);
    connections(worker, &counts, &mut table);
    let traffic_counts = shared.traffic_counts().since(&baseline.traffic);
    commands(&engine, &counts, &traffic_counts, &mut table);
    traffic(worker, &engine, &counts, &traffic_counts, &mut table);
    if shared.settings.reassign_enabled {
        page_moves(&engine, &mut table);
    }
    background(worker, &baseline, &counts, &mut table);
    items(worker, &engine, &mut table);
    table.rows.end();
}

struct Table<'t, 'o> {
    rows: &'t mut Rows<'o>,
}

impl Table<'_, '_> {
    fn row(&mut self, name: &str, value: impl Display) {
        self.rows.row(name, value);
    }

    fn rows(&mut self, rows: &[(&str, u64)]) {
        for (name, value) in rows {
            self.row(name, value);
        }
    }
}

fn process(worker: &WorkerContext<'_>, table: &mut Table<'_, '_>) {
    table.row("pid", std::process::id());
    table.row("uptime", worker.now.seconds.0 - Seconds::START.0);
    table.row("time", worker.unix_seconds(worker.now.seconds));
    table.row("version", VERSION);
    // The name of the event library, whichever it is.
    table.row("libevent", "mio");
    table.row("pointer_size", usize::BITS);
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds = |time: fn(&Usage) -> nix::sys::time::TimeVal| {
            let time = time(&usage);
            format!("{}.{:06}", time.num_seconds(), time.num_microseconds() % 1_000_000)
        };
        table.row("rusage_user", seconds(Usage::user_time));
        table.row("rusage_system", seconds(Usage::system_time));
    }
}

fn connections(worker: &WorkerContext<'_>, counts: &ConnectionCounts, table: &mut Table<'_, '_>) {
    let settings = worker.shared.settings;
    let open = worker.shared.counters.curr_connections.load(Ordering::Relaxed);
    let workers = settings.threads as u64;
    table.row("max_connections", settings.connections_max);
    table.row("curr_connections", open);
    table.row("total_connections", counts.total_connections);
    if settings.maxconns_fast {
        table.row("rejected_connections", counts.rejected_connections);
    }
    table.rows(&[
        ("connection_structures", open),
        ("response_obj_oom", 0),
        ("response_obj_count", 0),
        ("response_obj_bytes", 0),
        // One for each worker, in nobody's use between two turns.
        ("read_buf_count", workers),
        ("read_buf_bytes", workers * READ_BUFFER_BYTES as u64),
        ("read_buf_bytes_free", workers * READ_BUFFER_BYTES as u64),
        ("read_buf_oom", 0),
        ("reserved_fds", descriptors_of_our_own(settings)),
    ]);
}

fn commands(
    engine: &EngineStats,
    counts: &ConnectionCounts,
    traffic: &TrafficCounts,
    table: &mut Table<'_, '_>,
) {
    let hits = &engine.total;
    let get_hits = hits.hits_to.iter().sum();
    table.rows(&[
        ("cmd_get", get_hits + engine.get_misses),
        ("cmd_set", hits.sets),
        ("cmd_flush", counts.flushes),
        ("cmd_touch", engine.touches),
        ("cmd_meta", traffic.meta_debugs),
        ("get_hits", get_hits),
        ("get_misses", engine.get_misses),
        ("get_expired", engine.get_expired),
        ("get_flushed", engine.get_flushed),
        ("delete_misses", engine.delete_misses),
        ("delete_hits", hits.delete_hits),
        ("incr_misses", engine.incr_misses),
        ("incr_hits", hits.incr_hits),
        ("decr_misses", engine.decr_misses),
        ("decr_hits", hits.decr_hits),
        ("cas_misses", engine.cas_misses),
        ("cas_hits", hits.cas_hits),
        ("cas_badval", hits.cas_badval),
        ("touch_hits", hits.touch_hits),
        ("touch_misses", engine.touch_misses),
        ("store_too_large", engine.store_too_large),
        ("store_no_memory", engine.store_no_memory),
        ("auth_cmds", counts.auth_commands),
        ("auth_errors", counts.auth_errors),
    ]);
}

fn traffic(
    worker: &WorkerContext<'_>,
    engine: &EngineStats,
    counts: &ConnectionCounts,
    traffic: &TrafficCounts,
    table: &mut Table<'_, '_>,
) {
    let settings = worker.shared.settings;
    let accepting = worker.shared.counters.accepting_conns.load(Ordering::Relaxed);
    if settings.idle_timeout_seconds.is_some() {
        table.row("idle_kicks", counts.idle_kicks);
    }
    table.rows(&[
        ("bytes_read", traffic.bytes_read),
        ("bytes_written", traffic.bytes_written),
        ("limit_maxbytes", engine.memory_limit_bytes),
        ("accepting_conns", accepting.into()),
        ("listen_disabled_num", counts.listen_disabled_num),
        ("time_in_listen_disabled_us", counts.time_in_listen_disabled_us),
        ("threads", settings.threads as u64),
        ("conn_yields", counts.conn_yields),
        ("hash_power_level", hash_power_level(settings, engine.index_buckets)),
        ("hash_bytes", engine.index_bytes),
        // The index grows in steps too small to be seen.
        ("hash_is_expanding", 0),
    ]);
}

/// The power of two of the table that memcached would have for as many items as the index has room for
/// before it grows: it begins with `-o hashpower` and doubles at one and a half items a place.
fn hash_power_level(settings: &Settings, index_buckets: u64) -> u64 {
    const POWER_DEFAULT: u32 = 16;
    const ITEMS_A_BUCKET: u64 = 8;
    let least = match settings.hash_power {
        0 => POWER_DEFAULT,
        power => power,
    };
    let places = index_buckets * ITEMS_A_BUCKET * 2 / 3;
    u64::from(places.next_power_of_two().ilog2().max(least))
}

fn page_moves(engine: &EngineStats, table: &mut Table<'_, '_>) {
    let mover = &engine.mover;
    table.rows(&[
        ("slab_reassign_rescues", mover.rescued),
        ("slab_reassign_chunk_rescues", mover.bodies_rescued),
        ("slab_reassign_inline_reclaim", 0),
        ("slab_reassign_busy_items", mover.busy),
        ("slab_reassign_busy_deletes", 0),
        ("slab_reassign_busy_nomem", mover.busy_without_room),
    ]);
    let last_busy = match mover.last_busy.filter(|_| mover.busy > 0) {
        None => "none",
        // In memcached's words. The last: an item that stands in its queue, and has nowhere to go.
        Some(Busy::Held) => "busy_active",
        Some(Busy::Unlinked) => "busy_floating",
        Some(Busy::NoRoom) => "from_lru",
    };
    table.row("slab_reassign_last_busy_status", last_busy);
    table.rows(&[
        ("slab_reassign_running", engine.mover_running.into()),
        ("slabs_moved", mover.moved),
    ]);
}

fn background(
    worker: &WorkerContext<'_>,
    baseline: &Baseline,
    counts: &ConnectionCounts,
    table: &mut Table<'_, '_>,
) {
    let crawls = &worker.shared.crawls;
    let watch = &worker.shared.watch;
    let watched = watch.counts().since(&baseline.watch);
    if worker.shared.tunables.crawler_enabled.load(Ordering::Relaxed) {
        table.row("lru_crawler_running", u8::from(crawls.is_running()));
        table.row("lru_crawler_starts", crawls.starts());
    }
    if worker.shared.settings.lru_maintainer {
        table.row("lru_maintainer_juggles", counts.maintainer_steps);
    }
    table.rows(&[
        ("malloc_fails", 0),
        // Workers have no buffer that could be full: lines go to the watchers' at once.
        ("log_worker_dropped", 0),
        ("log_worker_written", watched.written),
        ("log_watcher_skipped", watched.skipped),
        ("log_watcher_sent", watched.sent),
        ("log_watchers", watch.watcher_count() as u64),
    ]);
    if let Some(tls) = &worker.shared.tls {
        security(tls, &tls.counters.read().since(&baseline.tls), worker.now.seconds, table);
    }
    table.rows(&[("unexpected_napi_ids", 0), ("round_robin_fallback", 0)]);
}

/// As in memcached, only with `-Z`.
fn security(tls: &Tls, counts: &TlsCounts, now: Seconds, table: &mut Table<'_, '_>) {
    if tls.settings().session_cache {
        table.row("ssl_new_sessions", counts.new_sessions);
    }
    table.rows(&[
        ("ssl_handshake_errors", counts.handshake_errors),
        ("ssl_proto_errors", counts.protocol_errors),
        ("time_since_server_cert_refresh", now.0.saturating_sub(tls.refreshed_at().0).into()),
    ]);
}

fn items(worker: &WorkerContext<'_>, engine: &EngineStats, table: &mut Table<'_, '_>) {
    let has_maintainer = worker.shared.settings.lru_maintainer;
    let counters = &engine.total.counters;
    table.rows(&[
        ("bytes", engine.bytes),
        ("curr_items", engine.items),
        ("total_items", engine.items_total),
        ("slab_global_page_pool", engine.pages_free),
        ("expired_unfetched", counters.expired_unfetched),
        ("evicted_unfetched", counters.evicted_unfetched),
    ]);
    if has_maintainer {
        table.row("evicted_active", counters.evicted_active);
    }
    table.rows(&[
        ("evictions", counters.evicted),
        ("reclaimed", counters.reclaimed),
        ("crawler_reclaimed", counters.crawler_reclaimed),
        ("crawler_items_checked", counters.crawler_items_checked),
        ("lrutail_reflocked", counters.tail_pinned),
    ]);
    if !has_maintainer {
        return;
    }
    table.rows(&[
        ("moves_to_cold", counters.moves_to_cold),
        ("moves_to_warm", counters.moves_to_warm),
        ("moves_within_lru", counters.moves_within_lru),
        ("direct_reclaims", counters.direct_reclaims),
        ("lru_bumps_dropped", 0),
    ]);
}
