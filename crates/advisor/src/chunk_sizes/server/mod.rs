//! Reads item sizes and limits from a running server.
//!
//! ```text
//!   version, stats, stats settings, stats slabs, stats items, slabs classes --> state: limits, current class table
//!   stats sizes -- if it counts nearly all items --> spread ----------.
//!               -- otherwise --> lru_crawler metadump --> dump -------+--> item sizes
//! ```
//!
//! The commands change nothing on the server. An implausible number in a reply is an error.

mod dialogue;
mod dump;
mod state;

use crate::chunk_sizes::error::AdvisorError;
use crate::chunk_sizes::sizes_seen::{BIN_BYTES, LimitExceeded, Source, spread};
use dialogue::{Answer, Dialogue};
pub use dump::parse as parse_metadump_line;
use slabwise_client::{Connector, Row};
#[cfg(test)]
pub use state::ClassState;
pub use state::ServerState;
use std::collections::BTreeMap;

/// Reads the item sizes and the state of a server. Reads at most `items_max` items of a metadump.
pub fn observe(
    connector: &Connector,
    items_max: u64,
) -> Result<(Source, ServerState), AdvisorError> {
    let server = &connector.address;
    let mut dialogue = Dialogue::open(connector)?;
    let state = state::ask(&mut dialogue)?;
    let server_error =
        |what: &str| AdvisorError::Server { server: server.to_string(), what: what.to_owned() };
    let limit_error = |LimitExceeded| {
        server_error("reports an implausible number of items: check whether it is a memcached")
    };
    let item_size_max = state.cache.item_size_bytes_max;
    let bins = read_size_bins(&mut dialogue, item_size_max)?;
    let counted = bins.values().fold(0u64, |sum, &items| sum.saturating_add(items));
    let (seen, how) = if counted > 0 && counts_most(counted, state.item_count) {
        let seen = spread(&bins, &state.items_of_chunk_size()).map_err(limit_error)?;
        (seen, format!("`stats sizes`, all items in bins of {BIN_BYTES} bytes"))
    } else {
        let dump = dump::read(&mut dialogue, items_max, item_size_max)?;
        let seen = dump.sizes(&state.classes).map_err(limit_error)?;
        let scope = match dump.is_truncated {
            true => format!("a sample of {} items", dump.item_count),
            false => format!("all {} items", dump.item_count),
        };
        (seen, format!("`{}`, {scope}", dump.command))
    };
    if seen.item_count() == 0 {
        return Err(server_error("has no items: fill it, or give --from-histogram"));
    }
    let text = format!("{how} of {server}");
    let (version, current) = (Some(state.version.clone()), state.table.clone());
    Ok((Source { text, version, seen, current }, state))
}

/// Reads only the state of a server: its limits, its classes, and the number of items in each class.
pub fn state(connector: &Connector) -> Result<ServerState, AdvisorError> {
    state::ask(&mut Dialogue::open(connector)?)
}

/// True if `stats sizes` counts at least 90 % of the items. If the counting was enabled while the server ran, items
/// that were stored before are not counted.
fn counts_most(counted: u64, item_count: u64) -> bool {
    /// At most a 10th of the items may be uncounted.
    const UNCOUNTED_DIVISOR: u64 = 10;
    item_count.saturating_sub(counted) <= item_count / UNCOUNTED_DIVISOR
}

/// Reads `stats sizes`. Returns the number of items of each bin, which is given by its upper end in bytes. Returns no
/// bins if the server does not count sizes.
fn read_size_bins(
    dialogue: &mut Dialogue,
    item_size_max: usize,
) -> Result<BTreeMap<usize, u64>, AdvisorError> {
    let mut bins: BTreeMap<usize, u64> = BTreeMap::new();
    let Answer::Given(rows) = dialogue.ask_rows("stats sizes")? else { return Ok(bins) };
    let end_max = item_size_max.next_multiple_of(BIN_BYTES);
    for Row { name, value } in rows.0 {
        if name.starts_with("sizes_") {
            continue;
        }
        let row = (name.parse::<usize>().ok(), value.parse::<u64>().ok());
        match row {
            (Some(end), Some(items))
                if end.is_multiple_of(BIN_BYTES) && (BIN_BYTES..=end_max).contains(&end) =>
            {
                bins.insert(end, items);
            }
            _ => return Err(dialogue.unexpected_line(format!("STAT {name} {value}").as_bytes())),
        }
    }
    Ok(bins)
}

#[cfg(test)]
mod tests;
