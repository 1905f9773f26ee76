//! The `stats` commands. Each module writes the statistics of one or two commands.
//!
//! The names of the statistics and their order are those of memcached 1.6.45, because dashboards and exporters find a
//! statistic by its name or by its position. A statistic without a meaning in slabwise has the value 0.

mod classes;
mod cost;
mod general;
mod memory;
mod moves;
mod profile;
mod sizes;

pub(crate) use crate::wire::rows::{StatsForm, StatsRows};

use crate::admin::crawl::{Crawl, Listing};
use crate::config::{Running, report};
use crate::shared::WorkerContext;
use slabwise_base::ClassId;
use slabwise_base::sync::lock;
use slabwise_protocol::text::reply;
use slabwise_protocol::{DetailMode, StatsRequest};

const SIZES_STATUS: &str = "sizes_status";

/// Writes the reply to a `stats` command. If the reply can be long, returns a crawl instead, which writes the reply in
/// bounded steps.
pub(crate) fn answer<'e>(
    worker: &WorkerContext<'e>,
    request: StatsRequest<'_>,
    rows: &mut StatsRows<'_>,
) -> Option<Crawl<'e>> {
    let shared = worker.shared;
    let engine = shared.engine;
    match request {
        StatsRequest::General => general::write(worker, rows),
        StatsRequest::Settings => write_settings(worker, rows),
        StatsRequest::Items => classes::write_items(worker, rows),
        StatsRequest::Slabs => classes::write_slabs(worker, rows),
        StatsRequest::Cost => cost::write(worker, rows),
        StatsRequest::Memory => memory::write(worker, rows),
        StatsRequest::Moves => moves::write(worker, rows),
        StatsRequest::Profile => profile::write(worker, rows),
        StatsRequest::Plan => moves::write_plan(worker, rows),
        StatsRequest::SizesPlan => sizes::write_plan(worker, rows),
        StatsRequest::Sizes if shared.tunables().track_sizes => sizes::write(engine, rows),
        StatsRequest::Sizes => {
            rows.add(SIZES_STATUS, "disabled");
            rows.end();
        }
        StatsRequest::SizesEnable => {
            lock(&shared.tunables).track_sizes = true;
            rows.add(SIZES_STATUS, "enabled");
        }
        StatsRequest::SizesDisable => {
            lock(&shared.tunables).track_sizes = false;
            rows.add(SIZES_STATUS, "disabled");
        }
        StatsRequest::Conns => {
            return Some(Crawl::new(Vec::new(), Listing::Connections { after: None }, None));
        }
        StatsRequest::Detail(_) if !shared.settings.dump_enabled => {
            rows.refuse(reply::DETAIL_FORBIDDEN);
        }
        StatsRequest::Detail(mode) => return detail(worker, mode, rows),
        StatsRequest::Reset => {
            shared.reset_statistics();
            rows.confirm(reply::RESET);
        }
        StatsRequest::Cachedump { .. } if !shared.settings.dump_enabled => {
            rows.refuse(reply::CACHEDUMP_FORBIDDEN);
        }
        StatsRequest::Cachedump { class_number, limit } => {
            let mut classes = engine.class_ids();
            classes.retain(|&class| Some(class) == ClassId::from_wire(class_number));
            return Some(Crawl::new(classes, Listing::cachedump(limit), None));
        }
        StatsRequest::Unknown(_) => rows.refuse(reply::ERROR),
    }
    None
}

/// The maximum number of prefixes in the packet that answers `detail dump` in the binary protocol. This limit bounds
/// the memory for a client that does not read.
const PACKET_PREFIXES_MAX: usize = 4096;

/// Writes the reply to `stats detail`, or returns a crawl that writes the reply.
fn detail<'e>(
    worker: &WorkerContext<'e>,
    mode: DetailMode,
    rows: &mut StatsRows<'_>,
) -> Option<Crawl<'e>> {
    let prefixes = &worker.shared.prefixes;
    match (mode, rows.form) {
        (DetailMode::On, _) => prefixes.set_enabled(true),
        (DetailMode::Off, _) => prefixes.set_enabled(false),
        (DetailMode::Dump, StatsForm::Text) => {
            return Some(Crawl::new(Vec::new(), Listing::Prefixes { after: None }, None));
        }
        (DetailMode::Dump, StatsForm::Binary { .. }) => {
            rows.add_list("detailed", |out| {
                prefixes.list(None, PACKET_PREFIXES_MAX, out);
                out.extend_from_slice(reply::END);
            });
            return None;
        }
        (DetailMode::Unknown, _) => {
            rows.refuse(reply::DETAIL_USAGE);
            return None;
        }
    }
    rows.confirm(reply::OK);
    None
}

/// Writes the rows of `stats settings`.
fn write_settings(worker: &WorkerContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = worker.shared;
    let engine = shared.engine;
    let running = Running {
        settings: shared.settings,
        tunables: shared.tunables(),
        lru: engine.lru(),
        memory_limit_bytes: engine.page_stats().limit * engine.config().page_size_bytes as u64,
        detail_enabled: shared.counts_prefixes(),
    };
    rows.add_all(report(&running));
    rows.end();
}
