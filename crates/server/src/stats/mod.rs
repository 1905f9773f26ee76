//! What `stats` answers: one file per subject, each a table of names and values.
//!
//! Names, their order and their number are memcached's (1.6.45), because dashboards and exporters
//! read them by name and some by position. A name that has no meaning here stays, and reads 0.

mod classes;
mod general;
mod prefix;
mod settings;

pub use prefix::PrefixStats;

use crate::context::WorkerContext;
use crate::session::crawl::{Crawl, Listing, all_classes};
use slabwise_base::ClassId;
use slabwise_protocol::text::{compose, reply};
use slabwise_protocol::{DetailMode, StatsRequest};
use std::sync::atomic::Ordering;

/// Answers a question about the server, or begins the crawl that will.
pub(crate) fn answer<'e>(
    worker: &WorkerContext<'e>,
    question: StatsRequest<'_>,
    out: &mut Vec<u8>,
) -> Option<Crawl<'e>> {
    let shared = worker.shared;
    let engine = shared.engine;
    let track_sizes = &shared.tunables.track_sizes;
    match question {
        StatsRequest::General => general::write(worker, out),
        StatsRequest::Settings => settings::write(worker, out),
        StatsRequest::Items => classes::write_items(worker, out),
        StatsRequest::Slabs => classes::write_slabs(engine, worker.now, out),
        StatsRequest::Sizes if track_sizes.load(Ordering::Relaxed) => {
            let listing = Listing::Sizes(Default::default());
            return Some(Crawl::new(all_classes(engine), listing, None));
        }
        StatsRequest::Sizes => {
            sizes_status(out, "disabled");
            out.extend_from_slice(reply::END);
        }
        StatsRequest::SizesEnable => {
            track_sizes.store(true, Ordering::Relaxed);
            sizes_status(out, "enabled");
        }
        StatsRequest::SizesDisable => {
            track_sizes.store(false, Ordering::Relaxed);
            sizes_status(out, "disabled");
        }
        StatsRequest::Conns => {
            let line = |name: &str, value: &str| compose::stat_line(out, name, value);
            shared.roster.for_each(worker.now, line);
            out.extend_from_slice(reply::END);
        }
        StatsRequest::Detail(_) if !shared.settings.dump_enabled => {
            out.extend_from_slice(reply::DETAIL_FORBIDDEN);
        }
        StatsRequest::Detail(mode) => detail(worker, mode, out),
        StatsRequest::Reset => {
            reset(worker);
            out.extend_from_slice(reply::RESET);
        }
        StatsRequest::Cachedump { .. } if !shared.settings.dump_enabled => {
            out.extend_from_slice(reply::CACHEDUMP_FORBIDDEN);
        }
        StatsRequest::Cachedump { class_number, limit } => {
            let mut classes = all_classes(engine);
            classes.retain(|&class| Some(class) == ClassId::from_wire(class_number));
            return Some(Crawl::new(classes, Listing::cachedump(limit), None));
        }
        StatsRequest::Unknown(_) => out.extend_from_slice(reply::ERROR),
    }
    None
}

fn sizes_status(out: &mut Vec<u8>, status: &str) {
    compose::stat_line(out, "sizes_status", status);
}

fn detail(worker: &WorkerContext<'_>, mode: DetailMode, out: &mut Vec<u8>) {
    let prefixes = &worker.shared.prefixes;
    match mode {
        DetailMode::On => prefixes.set_enabled(true),
        DetailMode::Off => prefixes.set_enabled(false),
        DetailMode::Dump => return prefixes.dump(out),
        DetailMode::Unknown => return out.extend_from_slice(reply::DETAIL_USAGE),
    }
    out.extend_from_slice(reply::OK);
}

fn reset(worker: &WorkerContext<'_>) {
    let shared = worker.shared;
    shared.engine.reset_stats();
    shared.reset_counters();
    shared.flushes.store(0, Ordering::Relaxed);
    shared.prefixes.clear();
}
