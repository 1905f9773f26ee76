//! `stats` without an argument: the statistics of the whole server.

use super::{StatsContext, StatsRows};
use crate::config::Settings;
use crate::os::process::descriptors_without_clients;
use crate::shared::{ConnectionCounts, READ_BUFFER_BYTES, TrafficCounts, WatchCounts};
use crate::tls::{Tls, TlsCounts};
use crate::wire::VERSION;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use slabwise_base::Seconds;
use slabwise_engine::{Busy, EngineStats};
use std::fmt::Display;
use std::sync::atomic::Ordering;

/// Writes the rows of `stats`, in memcached's order. Statistics without a meaning in slabwise have the value 0.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = context.shared;
    let baseline = shared.baseline();
    let mut general = General {
        context,
        settings: shared.settings,
        engine: shared.engine.stats(context.now).since(&baseline.engine),
        counts: shared.counters.read().since(&baseline.connections),
        traffic: shared.traffic_counts().since(&baseline.traffic),
        watch: shared.watch.counts().since(&baseline.watch),
        rows,
    };
    general.process();
    general.connections();
    general.commands();
    general.network();
    if shared.settings.reassign_enabled {
        general.page_moves();
    }
    general.background();
    if let Some(tls) = &shared.tls {
        general.security(tls, &tls.counters.read().since(&baseline.tls));
    }
    general.rows(&[("unexpected_napi_ids", 0), ("round_robin_fallback", 0)]);
    general.items();
    general.rows.end();
}

/// The counts since the last `stats reset`, and the output to which rows are appended.
struct General<'w, 'o> {
    context: StatsContext<'w>,
    settings: &'w Settings,
    engine: EngineStats,
    counts: ConnectionCounts,
    traffic: TrafficCounts,
    watch: WatchCounts,
    rows: &'w mut StatsRows<'o>,
}

impl General<'_, '_> {
    fn add(&mut self, name: &str, value: impl Display) {
        self.rows.add(name, value);
    }

    fn rows(&mut self, rows: &[(&str, u64)]) {
        self.rows.add_all(rows.iter().copied());
    }

    fn process(&mut self) {
        self.add("pid", std::process::id());
        self.add("uptime", self.context.now.seconds.0 - Seconds::START.0);
        self.add("time", self.context.shared.unix_seconds(self.context.now.seconds));
        self.add("version", VERSION);
        self.add("libevent", "mio");
        self.add("pointer_size", usize::BITS);
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let seconds = |time: fn(&Usage) -> nix::sys::time::TimeVal| {
                let time = time(&usage);
                format!("{}.{:06}", time.num_seconds(), time.num_microseconds() % 1_000_000)
            };
            self.add("rusage_user", seconds(Usage::user_time));
            self.add("rusage_system", seconds(Usage::system_time));
        }
    }

    fn connections(&mut self) {
        let open = self.context.shared.counters.curr_connections.load(Ordering::Relaxed);
        let workers = self.settings.threads as u64;
        self.add("max_connections", self.settings.connections_max);
        self.add("curr_connections", open);
        self.add("total_connections", self.counts.total_connections);
        if self.settings.maxconns_fast {
            self.add("rejected_connections", self.counts.rejected_connections);
        }
        self.rows(&[
            ("connection_structures", open),
            ("response_obj_oom", 0),
            ("response_obj_count", 0),
            ("response_obj_bytes", 0),
            // Each worker has one read buffer, which belongs to no connection between requests.
            ("read_buf_count", workers),
            ("read_buf_bytes", workers * READ_BUFFER_BYTES as u64),
            ("read_buf_bytes_free", workers * READ_BUFFER_BYTES as u64),
            ("read_buf_oom", 0),
            ("reserved_fds", descriptors_without_clients(self.settings)),
        ]);
    }

    fn commands(&mut self) {
        let (engine, counts) = (&self.engine, &self.counts);
        let total = &engine.total;
        let get_hits = total.get_hits();
        self.rows(&[
            ("cmd_get", get_hits + engine.get_misses),
            ("cmd_set", total.sets),
            ("cmd_flush", counts.flushes),
            ("cmd_touch", engine.touches),
            ("cmd_meta", self.traffic.meta_debugs),
            ("get_hits", get_hits),
            ("get_misses", engine.get_misses),
            ("get_expired", engine.get_expired),
            ("get_flushed", engine.get_flushed),
            ("delete_misses", engine.delete_misses),
            ("delete_hits", total.delete_hits),
            ("incr_misses", engine.incr_misses),
            ("incr_hits", total.incr_hits),
            ("decr_misses", engine.decr_misses),
            ("decr_hits", total.decr_hits),
            ("cas_misses", engine.cas_misses),
            ("cas_hits", total.cas_hits),
            ("cas_badval", total.cas_badval),
            ("touch_hits", total.touch_hits),
            ("touch_misses", engine.touch_misses),
            ("store_too_large", engine.store_too_large),
            ("store_no_memory", engine.store_no_memory),
            ("auth_cmds", counts.auth_commands),
            ("auth_errors", counts.auth_errors),
        ]);
    }

    fn network(&mut self) {
        let accepting = self.context.shared.counters.accepting_conns.load(Ordering::Relaxed);
        if self.settings.idle_timeout_seconds.is_some() {
            self.add("idle_kicks", self.counts.idle_kicks);
        }
        let (engine, counts) = (&self.engine, &self.counts);
        self.rows(&[
            ("bytes_read", self.traffic.bytes_read),
            ("bytes_written", self.traffic.bytes_written),
            ("limit_maxbytes", engine.memory_limit_bytes),
            ("accepting_conns", accepting.into()),
            ("listen_disabled_num", counts.listen_disabled_num),
            ("time_in_listen_disabled_us", counts.time_in_listen_disabled_us),
            ("threads", self.settings.threads as u64),
            ("conn_yields", counts.conn_yields),
            ("hash_power_level", hash_power_level(self.settings, engine.index_buckets)),
            ("hash_bytes", engine.index_bytes),
            // The index grows in small steps, so there is never a phase of expansion.
            ("hash_is_expanding", 0),
        ]);
    }

    fn page_moves(&mut self) {
        let mover = self.engine.mover;
        self.rows(&[
            ("slab_reassign_rescues", mover.rescued),
            ("slab_reassign_chunk_rescues", mover.bodies_rescued),
            ("slab_reassign_inline_reclaim", 0),
            ("slab_reassign_busy_items", mover.busy),
            ("slab_reassign_busy_deletes", 0),
            ("slab_reassign_busy_nomem", mover.busy_without_room),
        ]);
        let last_busy = match mover.last_busy.filter(|_| mover.busy > 0) {
            None => "none",
            // memcached's names for the reasons why a chunk of the page could not be emptied. `NoRoom` means that no
            // free chunk was available to which the item could be copied.
            Some(Busy::Pinned) => "busy_active",
            Some(Busy::Unlinked) => "busy_floating",
            Some(Busy::NoRoom) => "from_lru",
        };
        self.add("slab_reassign_last_busy_status", last_busy);
        self.rows(&[
            ("slab_reassign_running", self.engine.mover_running.into()),
            ("slabs_moved", mover.moved),
        ]);
    }

    fn background(&mut self) {
        let shared = self.context.shared;
        let watch = self.watch;
        if shared.tunables().crawler_enabled {
            self.add("lru_crawler_running", u8::from(shared.crawls.is_running()));
            self.add("lru_crawler_starts", shared.crawls.starts());
        }
        if self.settings.lru_maintainer {
            self.add("lru_maintainer_juggles", self.counts.maintainer_steps);
        }
        self.rows(&[
            ("malloc_fails", 0),
            // Workers have no log buffers and drop no lines: they write lines directly to the buffers of watchers.
            ("log_worker_dropped", 0),
            ("log_worker_written", watch.written),
            ("log_watcher_skipped", watch.skipped),
            ("log_watcher_sent", watch.sent),
            ("log_watchers", shared.watch.watcher_count() as u64),
        ]);
    }

    fn security(&mut self, tls: &Tls, counts: &TlsCounts) {
        if tls.settings.session_cache {
            self.add("ssl_new_sessions", counts.new_sessions);
        }
        self.rows(&[
            ("ssl_handshake_errors", counts.handshake_errors),
            ("ssl_proto_errors", counts.protocol_errors),
            (
                "time_since_server_cert_refresh",
                self.context.now.seconds.0.saturating_sub(tls.refreshed_at().0).into(),
            ),
        ]);
    }

    fn items(&mut self) {
        let counters = self.engine.total.counters;
        self.rows(&[
            ("bytes", self.engine.bytes),
            ("curr_items", self.engine.items),
            ("total_items", self.engine.items_total),
            ("slab_global_page_pool", self.engine.pages_free),
            ("expired_unfetched", counters.expired_unfetched),
            ("evicted_unfetched", counters.evicted_unfetched),
        ]);
        if self.settings.lru_maintainer {
            self.add("evicted_active", counters.evicted_active);
        }
        self.rows(&[
            ("evictions", counters.evicted),
            ("reclaimed", counters.reclaimed),
            ("crawler_reclaimed", counters.crawler_reclaimed),
            ("crawler_items_checked", counters.crawler_items_checked),
            ("lrutail_reflocked", counters.tail_pinned),
        ]);
        if !self.settings.lru_maintainer {
            return;
        }
        self.rows(&[
            ("moves_to_cold", counters.moves_to_cold),
            ("moves_to_warm", counters.moves_to_warm),
            ("moves_within_lru", counters.moves_within_lru),
            ("direct_reclaims", counters.direct_reclaims),
            ("lru_bumps_dropped", 0),
        ]);
    }
}

/// Returns the hash power (the base-2 logarithm of the number of buckets) of the memcached hash table that has the
/// capacity of an index with this number of buckets. memcached starts with the power `-o hashpower`, by default 16, and
/// doubles its table when it has more than 1.5 items per bucket.
fn hash_power_level(settings: &Settings, index_buckets: u64) -> u64 {
    const POWER_DEFAULT: u32 = 16;
    // The number of items that a bucket of slabwise's index can hold.
    const ITEMS_PER_BUCKET: u64 = 8;
    let power_min = match settings.hash_power {
        0 => POWER_DEFAULT,
        power => power,
    };
    let memcached_buckets = index_buckets * ITEMS_PER_BUCKET * 2 / 3;
    u64::from(memcached_buckets.next_power_of_two().ilog2().max(power_min))
}
