//! The API: JSON documents about the cache, for the dashboard and for programs. `docs/http-api.md` describes them.
//!
//! Invariant: a name that has been published keeps its meaning; new names may be added. Units are at the end of names.

mod classes;
mod hot_keys;
mod memory;
mod overview;
mod tuning;

use super::history::History;
use super::hot_keys::HotKeys;
use crate::stats::StatsContext;
use serde::Serialize;
use serde_json::Value;

/// The path before the names of all documents.
pub(super) const PREFIX: &str = "/api/v1/";
/// The default and the maximum number of seconds of the history.
const HISTORY_SECONDS: (u64, u64) = (600, 6 * 3600);
/// The maximum number of samples in a history.
const HISTORY_POINTS_MAX: usize = 600;

/// What the HTTP server has recorded about the past.
pub(super) struct Sources<'r> {
    pub history: &'r History,
    /// `None` without `-o http_hot_keys`.
    pub hot_keys: Option<&'r HotKeys>,
}

/// Returns the document with this name, or `None` if there is none. `query` is the part of the address after `?`.
pub(super) fn document(
    context: StatsContext<'_>,
    sources: &Sources<'_>,
    name: &str,
    query: Option<&str>,
) -> Option<Vec<u8>> {
    let value = match name {
        "overview" => json(overview::overview(context)),
        "history" => json(sources.history.last(seconds(query), HISTORY_POINTS_MAX)),
        "classes" => json(classes::classes(context)),
        "pages" => json(classes::pages(context)),
        "what-if" => json(tuning::what_if(context)),
        "plans" => json(tuning::plans(context)),
        "sizes" => json(tuning::sizes(context)),
        "memory" => json(memory::memory(context)),
        "hot-keys" => json(hot_keys::hot_keys(context, sources.hot_keys)),
        _ => return None,
    };
    Some(value.to_string().into_bytes())
}

/// The names of all documents.
pub(super) const NAMES: [&str; 9] =
    ["overview", "history", "classes", "pages", "what-if", "plans", "sizes", "memory", "hot-keys"];

fn json(document: impl Serialize) -> Value {
    serde_json::to_value(document).expect("the documents have only text keys")
}

/// Returns the number of seconds in the query `seconds=N`.
fn seconds(query: Option<&str>) -> u64 {
    let (default, max) = HISTORY_SECONDS;
    let given = query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("seconds="));
    given.and_then(|text| text.parse().ok()).unwrap_or(default).min(max)
}
