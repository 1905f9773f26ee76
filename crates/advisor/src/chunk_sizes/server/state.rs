//! Reads the state of a server: its limits, its classes, and the number of items in each class.

use super::dialogue::{Answer, Dialogue};
use crate::chunk_sizes::cache::{Cache, Program};
use crate::chunk_sizes::error::AdvisorError;
use slabwise_base::memcached;
use slabwise_client::{Row, Rows};
use std::collections::BTreeMap;

// A server that reports a number above these limits is not a memcached.
const ITEM_SIZE_BYTES_MAX: u64 = 1 << 30;
const PAGE_SIZE_BYTES_MAX: usize = 16 << 20;

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    pub cache: Cache,
    pub version: String,
    pub item_count: u64,
    /// The chunk sizes of the current class table that `stats slabs` reports, and the largest chunk size. In bytes,
    /// ascending.
    pub table: Vec<usize>,
    /// The classes by their numbers.
    pub classes: BTreeMap<u64, ClassState>,
}

/// The state of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassState {
    pub chunk_size_bytes: usize,
    pub chunks_per_page: usize,
    /// The number of items. The class of the largest chunks also counts the chained items.
    pub items: u64,
}

impl ServerState {
    /// Returns the number of items for each chunk size in bytes.
    pub fn items_of_chunk_size(&self) -> BTreeMap<usize, u64> {
        let mut items: BTreeMap<usize, u64> = BTreeMap::new();
        for class in self.classes.values() {
            let sum = items.entry(class.chunk_size_bytes).or_default();
            *sum = sum.saturating_add(class.items);
        }
        items
    }
}

/// Asks the server for its state.
pub fn ask(dialogue: &mut Dialogue) -> Result<ServerState, AdvisorError> {
    let version = match dialogue.ask_line("version")? {
        Answer::Refused(line) => return Err(dialogue.refusal(&line)),
        Answer::Given(line) => match line.strip_prefix("VERSION ") {
            Some(version) => version.to_owned(),
            None => return Err(dialogue.unexpected_line(line.as_bytes())),
        },
    };
    let general = dialogue.rows("stats")?;
    let item_count = required_number(dialogue, &general, "curr_items")?;
    let settings = dialogue.rows("stats settings")?;
    let item_size_max = required_number(dialogue, &settings, "item_size_max")?;
    // A server without chained items has no `slab_chunk_max`.
    let largest = number(dialogue, &settings, "slab_chunk_max")?.unwrap_or(item_size_max);
    let chunk_size = number(dialogue, &settings, "chunk_size")?;
    if !(1..=ITEM_SIZE_BYTES_MAX).contains(&item_size_max)
        || !(8..=item_size_max).contains(&largest)
        || chunk_size.is_some_and(|size| size > largest)
    {
        return Err(dialogue.error(&format!(
            "reports item_size_max {item_size_max}, slab_chunk_max {largest} and chunk_size {}, which \
             are inconsistent: check whether it is a memcached",
            chunk_size.unwrap_or(0)
        )));
    }
    let mut classes = read_classes(dialogue)?;
    read_item_counts(dialogue, &mut classes)?;
    let page_size_bytes = page_size(&classes);
    let program = match dialogue.ask_line("slabs classes")? {
        Answer::Given(line) if line.starts_with("CLASSES ") => Program::Slabwise,
        _ => Program::Memcached,
    };
    let item_size_max = item_size_max as usize;
    let largest = (largest as usize).min(page_size_bytes);
    let cache = Cache::new(
        program,
        page_size_bytes,
        largest,
        item_size_max,
        chunk_size.map(|n| n as usize),
    );
    let largest = cache.layout.chunk_size_bytes_max;
    let in_use = classes.values().map(|class| class.chunk_size_bytes);
    let mut table: Vec<usize> = in_use.filter(|&size| size < largest).chain([largest]).collect();
    table.sort_unstable();
    table.dedup();
    Ok(ServerState { cache, version, item_count, table, classes })
}

/// Reads the chunk sizes of the classes from `stats slabs`, which reports only classes that own pages.
fn read_classes(dialogue: &mut Dialogue) -> Result<BTreeMap<u64, ClassState>, AdvisorError> {
    let mut classes: BTreeMap<u64, ClassState> = BTreeMap::new();
    for row in dialogue.rows("stats slabs")?.0 {
        let Some((class, field)) = row.class_field() else { continue };
        if !matches!(field, "chunk_size" | "chunks_per_page") {
            continue;
        }
        let (Ok(class), Ok(value)) = (class.parse::<u64>(), row.value.parse::<usize>()) else {
            return Err(not_a_number(dialogue, &row));
        };
        let entry = classes.entry(class).or_default();
        match field {
            "chunk_size" => entry.chunk_size_bytes = value,
            _ => entry.chunks_per_page = value,
        }
    }
    for (number, class) in &classes {
        let ClassState { chunk_size_bytes, chunks_per_page, .. } = *class;
        let bytes = chunk_size_bytes.checked_mul(chunks_per_page);
        if !bytes.is_some_and(|bytes| (1..=PAGE_SIZE_BYTES_MAX).contains(&bytes)) {
            return Err(dialogue.error(&format!(
                "reports {chunks_per_page} chunks of {chunk_size_bytes} bytes per page for class \
                 {number} of `stats slabs`, an invalid page size: check whether it is a memcached"
            )));
        }
    }
    Ok(classes)
}

/// Reads the number of items of each class from `stats items`.
fn read_item_counts(
    dialogue: &mut Dialogue,
    classes: &mut BTreeMap<u64, ClassState>,
) -> Result<(), AdvisorError> {
    for row in dialogue.rows("stats items")?.0 {
        let Some((class, "number")) = row.class_field() else { continue };
        let (Ok(class), Ok(value)) = (class.parse::<u64>(), row.value.parse::<u64>()) else {
            return Err(not_a_number(dialogue, &row));
        };
        if let Some(class) = classes.get_mut(&class) {
            class.items = value;
        }
    }
    Ok(())
}

/// Returns the page size for which each class has its number of chunks per page. A power of two is preferred, because
/// chunks do not fill a page completely.
fn page_size(classes: &BTreeMap<u64, ClassState>) -> usize {
    let chunk_bytes = classes.values().map(|class| class.chunk_size_bytes * class.chunks_per_page);
    let Some(chunk_bytes) = chunk_bytes.max() else { return memcached::PAGE_SIZE_BYTES };
    let fits_all_classes =
        |page: usize| classes.values().all(|c| page / c.chunk_size_bytes == c.chunks_per_page);
    let page = chunk_bytes.next_power_of_two();
    if fits_all_classes(page) { page } else { chunk_bytes }
}

/// Returns the number of a statistic, or `None` if the server does not report it.
fn number(dialogue: &Dialogue, rows: &Rows, name: &str) -> Result<Option<u64>, AdvisorError> {
    let Some(row) = rows.get(name) else { return Ok(None) };
    row.value.parse().map(Some).map_err(|_| not_a_number(dialogue, row))
}

/// Returns the error of a statistic that must be a number.
fn not_a_number(dialogue: &Dialogue, row: &Row) -> AdvisorError {
    dialogue.unexpected_line(format!("STAT {} {}", row.name, row.value).as_bytes())
}

/// Returns the number of a statistic. Fails if the server does not report it.
fn required_number(dialogue: &Dialogue, rows: &Rows, name: &str) -> Result<u64, AdvisorError> {
    number(dialogue, rows, name)?.ok_or_else(|| {
        let what = format!("does not report {name}: check whether it is a memcached");
        dialogue.error(&what)
    })
}
