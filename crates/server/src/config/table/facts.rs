//! Lines of `stats settings` that no option sets.

use crate::config::option::{Stat, yes_no};
use crate::config::tunables::Running;
use std::sync::atomic::Ordering::Relaxed;

/// memcached's clock starts a minute before ours.
const CLOCK_LEAD_SECONDS: u32 = 60;

/// Lines that no option sets. External storage, kernel TLS and inline responses are never on here; their lines have
/// memcached's defaults.
pub(in crate::config) static FACTS: &[Stat] = &[
    Stat {
        name: "oldest",
        value: |it| match it.tunables.oldest_live.load(Relaxed) {
            // No flush yet.
            0 => "0".to_owned(),
            second => second.saturating_add(CLOCK_LEAD_SECONDS).to_string(),
        },
        changed_by: Some("flush_all"),
    },
    Stat {
        name: "slab_automove_freeratio",
        value: |it| format!("{:.3}", it.tunables.automove_free_ratio.load()),
        changed_by: Some("slabs automove freeratio 0.5"),
    },
    Stat {
        name: "lru_segmented",
        value: |it| yes_no(it.tunables.lru_segmented.load(Relaxed)),
        changed_by: Some("lru mode flat"),
    },
    fact("num_threads_per_udp", |it| it.settings.threads_per_udp_port().to_string()),
    fact("inline_ascii_response", |_| yes_no(false)),
    fact("ext_item_size", |_| "512".to_owned()),
    fact("ext_item_age", |_| u32::MAX.to_string()),
    fact("ext_low_ttl", |_| "0".to_owned()),
    fact("ext_recache_rate", |_| "2000".to_owned()),
    fact("ext_wbuf_size", |_| "4194304".to_owned()),
    fact("ext_compact_under", |_| "0".to_owned()),
    fact("ext_drop_under", |_| "0".to_owned()),
    fact("ext_max_sleep", |_| "1000000".to_owned()),
    fact("ext_max_frag", |_| "0.80".to_owned()),
    fact("ext_drop_unread", |_| yes_no(false)),
    fact("client_flags_size", |_| "4".to_owned()),
];

const fn fact(name: &'static str, value: fn(&Running<'_>) -> String) -> Stat {
    Stat { name, value, changed_by: None }
}
