//! The `stats` commands. Each module writes the statistics of one or two commands.
//!
//! The names of the statistics and their order are those of memcached 1.6.45, because dashboards and exporters find a
//! statistic by its name or by its position. A statistic without a meaning in slabwise has the value 0.

mod classes;
mod context;
mod cost;
mod general;
mod locks;
mod memory;
mod moves;
mod profile;
mod sizes;

pub(crate) use crate::wire::rows::{StatsForm, StatsRows};
pub(crate) use context::StatsContext;

use crate::admin::crawl::{Crawl, Listing};
use crate::config::{Running, report};
use slabwise_base::ClassId;
use slabwise_base::sync::lock;
use slabwise_protocol::text::reply;
use slabwise_protocol::{DetailMode, StatsRequest};

const SIZES_STATUS: &str = "sizes_status";

/// Returns the names and the values that a client receives in reply to a `stats` command, in their order. The request
/// must be one that [`answer`] answers at once.
pub(crate) fn rows(context: StatsContext<'_>, request: StatsRequest<'_>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let crawl = answer(context, request, &mut StatsRows::text(&mut out));
    debug_assert!(crawl.is_none(), "only requests without a crawl have rows");
    let text = String::from_utf8_lossy(&out);
    let row = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Writes the reply to a `stats` command. If the reply can be long, returns a crawl instead, which writes the reply in
/// bounded steps.
pub(crate) fn answer<'e>(
    context: StatsContext<'e>,
    request: StatsRequest<'_>,
    rows: &mut StatsRows<'_>,
) -> Option<Crawl<'e>> {
    let shared = context.shared;
    let engine = shared.engine;
    match request {
        StatsRequest::General => general::write(context, rows),
        StatsRequest::Settings => write_settings(context, rows),
        StatsRequest::Items => classes::write_items(context, rows),
        StatsRequest::Slabs => classes::write_slabs(context, rows),
        StatsRequest::Cost => cost::write(context, rows),
        StatsRequest::Locks => locks::write(context, rows),
        StatsRequest::Memory => memory::write(context, rows),
        StatsRequest::Moves => moves::write(context, rows),
        StatsRequest::Profile => profile::write(context, rows),
        StatsRequest::Plan => moves::write_plan(context, rows),
        StatsRequest::SizesPlan => sizes::write_plan(context, rows),
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
        StatsRequest::Detail(mode) => return detail(context, mode, rows),
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
    context: StatsContext<'e>,
    mode: DetailMode,
    rows: &mut StatsRows<'_>,
) -> Option<Crawl<'e>> {
    let prefixes = &context.shared.prefixes;
    match (mode, rows.form) {
        (DetailMode::On, _) => context.shared.key_observers.set_counts_prefixes(true),
        (DetailMode::Off, _) => context.shared.key_observers.set_counts_prefixes(false),
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
fn write_settings(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = context.shared;
    let engine = shared.engine;
    let running = Running {
        settings: shared.settings,
        tunables: shared.tunables(),
        lru: engine.lru(),
        memory_limit_bytes: engine.page_stats().limit * engine.config().page_size_bytes as u64,
        detail_enabled: shared.counts_prefixes(),
        io: shared.io,
    };
    rows.add_all(report(&running));
    rows.end();
}
