//! The metrics of the server in the text format of Prometheus (version 0.0.4), for `/metrics`.
//!
//! ```text
//!   replies to `stats` --tables of `memcached`--> Families --TextEncoder--> text
//!   shared state       --functions of `ours`----->
//! ```
//!
//! The metrics `memcached_*` are those of prometheus/memcached_exporter. They come from the replies that the exporter
//! would read, so both always show the same values. The metrics `slabwise_*` are slabwise's own. A test checks that each
//! metric is in `docs/metrics.md` (`tests/http/documents.rs`).
//!
//! OpenMetrics is not offered: its parsers require that the names of counters end in `_total`, which those of the
//! exporter do not.

mod families;
mod memcached;
mod ours;

use crate::stats::StatsContext;
use families::Families;

/// The value of `Content-Type` for the text that [`render`] returns.
pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Returns all metrics. Those of classes are left out if `has_classes` is false (`-o http_slab_metrics=off`).
pub(crate) fn render(context: StatsContext<'_>, has_classes: bool) -> Vec<u8> {
    let mut families = Families::default();
    memcached::add(context, has_classes, &mut families);
    ours::add(context, has_classes, &mut families);
    families.encode()
}
