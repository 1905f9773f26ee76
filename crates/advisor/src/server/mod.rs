//! Sizes from a server that runs, and what it is.
//!
//! ```text
//!   version, stats, stats settings, stats slabs, stats items, slabs classes --> state: limits, present table
//!   stats sizes ----- counts all items ------------------------------> spread ---.
//!        '--- off, or counts few --> lru_crawler metadump --> dump: a part ------+--> sizes
//! ```
//!
//! Nothing is changed on the server, and nothing is believed that no server could be.

mod dialogue;
mod dump;
mod state;

use crate::error::AdvisorError;
use crate::sizes_seen::{BAR_WIDTH_BYTES, Source, TooMuch, spread};
use dialogue::{Answer, Dialogue};
use slabwise_client::{Row, ServerAddress, Timeouts};
use state::ServerState;
use std::collections::BTreeMap;

/// The sizes of a server's items, by a dump for those of at most `items_max`, and what it is.
pub fn observe(
    server: &ServerAddress,
    timeouts: Timeouts,
    items_max: u64,
) -> Result<(Source, ServerState), AdvisorError> {
    let mut dialogue = Dialogue::open(server, timeouts)?;
    let state = state::ask(&mut dialogue)?;
    let wrong =
        |what: &str| AdvisorError::Server { server: server.to_string(), what: what.to_owned() };
    let too_much =
        |TooMuch| wrong("tells of more items than any server holds: see whether it is a memcached");
    let item_size_max = state.cache.item_size_bytes_max;
    let bars = bars(&mut dialogue, item_size_max)?;
    let counted = bars.values().fold(0u64, |sum, &items| sum.saturating_add(items));
    let (seen, how) = if counted > 0 && counts_most(counted, state.item_count) {
        let seen = spread(&bars, &state.items_of_chunk_size()).map_err(too_much)?;
        (seen, format!("`stats sizes`, all items in steps of {BAR_WIDTH_BYTES} bytes"))
    } else {
        let dump = dump::look(&mut dialogue, items_max, item_size_max)?;
        let seen = dump.sizes(&state.classes).map_err(too_much)?;
        let looked_at = match dump.is_cut {
            true => format!("a sample of {} items", dump.looked_at),
            false => format!("all {} items", dump.looked_at),
        };
        (seen, format!("`{}`, {looked_at}", dump.command))
    };
    if seen.item_count() == 0 {
        return Err(wrong("holds no item: fill it, or give --from-histogram"));
    }
    let text = format!("{how} of {server}");
    let (version, present) = (Some(state.version.clone()), state.table.clone());
    Ok((Source { text, version, seen, present }, state))
}

/// Whether nearly all items are counted: a server that was told to count later knows only newer ones.
fn counts_most(counted: u64, item_count: u64) -> bool {
    const MISSING_MAX: u64 = 10;
    item_count.saturating_sub(counted) <= item_count / MISSING_MAX
}

/// `stats sizes`: items by the bar's upper end; none where the server does not count.
fn bars(
    dialogue: &mut Dialogue,
    item_size_max: usize,
) -> Result<BTreeMap<usize, u64>, AdvisorError> {
    let mut bars: BTreeMap<usize, u64> = BTreeMap::new();
    let Answer::Given(rows) = dialogue.ask_rows("stats sizes")? else { return Ok(bars) };
    let end_max = item_size_max.next_multiple_of(BAR_WIDTH_BYTES);
    for Row { name, value } in rows.0 {
        if name.starts_with("sizes_") {
            continue;
        }
        let row = (name.parse::<usize>().ok(), value.parse::<u64>().ok());
        match row {
            (Some(end), Some(items))
                if end.is_multiple_of(BAR_WIDTH_BYTES)
                    && (BAR_WIDTH_BYTES..=end_max).contains(&end) =>
            {
                bars.insert(end, items);
            }
            _ => return Err(dialogue.unexpected(format!("STAT {name} {value}").as_bytes())),
        }
    }
    Ok(bars)
}

#[cfg(test)]
mod tests;
