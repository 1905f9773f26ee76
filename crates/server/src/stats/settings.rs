//! `stats settings`: the options, with what commands have changed since the start in their places.

use super::Rows;
use crate::context::WorkerContext;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(super) fn write(worker: &WorkerContext<'_>, rows: &mut Rows<'_>) {
    let changed = changed(worker);
    for (name, value) in worker.shared.settings.stats() {
        match changed.iter().find(|(changed_name, _)| *changed_name == name) {
            Some((_, changed_value)) => rows.row(name, changed_value),
            None => rows.row(name, value),
        }
    }
    rows.end();
}

/// memcached's clock starts a minute before ours.
const CLOCK_LEAD_SECONDS: u32 = 60;

/// The last second that a flush ended; 0 stands for none, and for all before the start.
fn oldest(second: u32) -> String {
    let shown = if second == 0 { 0 } else { second.saturating_add(CLOCK_LEAD_SECONDS) };
    shown.to_string()
}

/// The settings that commands can change, as they are now.
fn changed(worker: &WorkerContext<'_>) -> Vec<(&'static str, String)> {
    let engine = worker.shared.engine;
    let tunables = &worker.shared.tunables;
    let lru = engine.lru();
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let number = |cell: &AtomicU32| cell.load(Ordering::Relaxed).to_string();
    let flag = |cell: &AtomicBool| yes_or_no(cell.load(Ordering::Relaxed));
    vec![
        ("maxbytes", engine.stats(worker.now).memory_limit_bytes.to_string()),
        ("verbosity", number(&tunables.verbosity)),
        ("oldest", oldest(tunables.oldest_live.load(Ordering::Relaxed))),
        ("detail_enabled", yes_or_no(worker.shared.prefixes.is_enabled())),
        ("slab_automove", number(&tunables.automove_level)),
        ("slab_automove_ratio", format!("{:.2}", tunables.automove_ratio.load())),
        ("slab_automove_window", number(&tunables.automove_window)),
        ("slab_automove_freeratio", format!("{:.3}", tunables.automove_free_ratio.load())),
        ("lru_crawler", flag(&tunables.crawler_enabled)),
        ("lru_crawler_sleep", number(&tunables.crawler_sleep_us)),
        ("lru_crawler_tocrawl", number(&tunables.crawler_tocrawl)),
        ("lru_segmented", flag(&tunables.lru_segmented)),
        ("hot_lru_pct", lru.hot_percent.to_string()),
        ("warm_lru_pct", lru.warm_percent.to_string()),
        ("hot_max_factor", format!("{:.2}", lru.hot_age_factor)),
        ("warm_max_factor", format!("{:.2}", lru.warm_age_factor)),
        ("temp_lru", yes_or_no(lru.temporary_ttl.is_some())),
        ("temporary_ttl", number(&tunables.temporary_ttl)),
        ("track_sizes", flag(&tunables.track_sizes)),
    ]
}
