//! Reads item sizes with `lru_crawler metadump`. Its reply has one line per item:
//!
//! ```text
//!   key=a exp=-1 la=1700000000 cas=1 fetch=no cls=1 size=63
//! ```
//!
//! With the argument `hash`, the server iterates over its hash table, so a truncated dump is a random sample of the
//! items. Older servers have only the argument `all`, which iterates over the classes.
//!
//! The sizes of a truncated dump are extrapolated: the items of a class in the dump represent all items of the class.
//! If the dump has no item of a class, the sizes of its items are assumed to be spread evenly from the next smaller
//! chunk size to the chunk size of the class.

use super::dialogue::{Answer, Dialogue};
use super::state::ClassState;
use crate::chunk_sizes::error::{AdvisorError, quoted};
use crate::chunk_sizes::sizes_seen::{LimitExceeded, SizesSeen};
use slabwise_client::{ClientError, is_refusal};
use std::collections::BTreeMap;

/// The items that a metadump has listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The command that the server has replied to.
    pub command: &'static str,
    /// The number of all items read.
    pub item_count: u64,
    /// True if reading stopped before the end of the dump.
    pub is_truncated: bool,
    /// The number of items read for each pair of class number and item size in bytes.
    items: BTreeMap<(u64, usize), u64>,
}

/// Reads up to `items_max` items. Fails if an item is larger than `item_size_max` bytes.
pub fn read(
    dialogue: &mut Dialogue,
    items_max: u64,
    item_size_max: usize,
) -> Result<Dump, AdvisorError> {
    for command in ["lru_crawler metadump hash", "lru_crawler metadump all"] {
        match request_dump(dialogue, command, items_max, item_size_max)? {
            Answer::Given(dump) => return Ok(dump),
            Answer::Refused(_) if command.ends_with("hash") => {}
            Answer::Refused(line) => {
                return Err(dialogue.error(&format!(
                    "refused `{command}`: {line}; try again if it is busy, start it with -o \
                     track_sizes, or give --from-histogram"
                )));
            }
        }
    }
    unreachable!("the reply to the last command ends the loop")
}

/// Sends a metadump command and reads its reply.
fn request_dump(
    dialogue: &mut Dialogue,
    command: &'static str,
    items_max: u64,
    item_size_max: usize,
) -> Result<Answer<Dump>, AdvisorError> {
    dialogue.send(command)?;
    let mut dump = Dump { command, ..Dump::default() };
    loop {
        let line = match dialogue.line() {
            Ok(line) => line,
            Err(ClientError::ReplyTimeout) if dump.item_count > 0 => {
                dump.is_truncated = true;
                return Ok(Answer::Given(dump));
            }
            Err(error) => return Err(dialogue.failure(error)),
        };
        match parse(line) {
            _ if line == b"END" => return Ok(Answer::Given(dump)),
            // The reply of newer servers starts with this line.
            _ if line == b"OK" && dump.item_count == 0 => {}
            _ if is_refusal(line) && dump.item_count == 0 => {
                return Ok(Answer::Refused(quoted(line)));
            }
            Some(class_and_size) if (1..=item_size_max).contains(&class_and_size.1) => {
                dump.item_count += 1;
                *dump.items.entry(class_and_size).or_default() += 1;
            }
            _ => {
                let line = line.to_vec();
                return Err(dialogue.unexpected_line(&line));
            }
        }
        if dump.item_count >= items_max {
            dump.is_truncated = true;
            return Ok(Answer::Given(dump));
        }
    }
}

/// Returns the class number and the size of the item that a line of a metadump describes. Returns `None` if the line is
/// invalid.
pub fn parse(line: &[u8]) -> Option<(u64, usize)> {
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("key=")?;
    let field = |name: &str| text.split(' ').find_map(|word| word.strip_prefix(name));
    Some((field("cls=")?.parse().ok()?, field("size=")?.parse().ok()?))
}

impl Dump {
    /// Returns the sizes of all items of the server. Extrapolates a truncated dump to the numbers of items in
    /// `classes`.
    pub fn sizes(&self, classes: &BTreeMap<u64, ClassState>) -> Result<SizesSeen, LimitExceeded> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (&(class, _), items) in &self.items {
            *counts.entry(class).or_default() += items;
        }
        let mut seen = SizesSeen::default();
        for (&(class, size_bytes), &items) in &self.items {
            let read_items = counts[&class];
            let class_items =
                classes.get(&class).map_or(read_items, |class| class.items.max(read_items));
            let extrapolated = u128::from(items) * u128::from(class_items) / u128::from(read_items);
            let items = if self.is_truncated { extrapolated as u64 } else { items };
            seen.add(size_bytes, items)?;
        }
        if self.is_truncated {
            let unread_classes = classes.iter().filter(|(number, _)| !counts.contains_key(number));
            for (_, class) in unread_classes {
                add_unread_class(&mut seen, class, classes)?;
            }
        }
        Ok(seen)
    }
}

/// Adds the items of a class that has no item in the dump. Their sizes are spread evenly from the next smaller chunk
/// size to the chunk size of the class.
fn add_unread_class(
    seen: &mut SizesSeen,
    class: &ClassState,
    classes: &BTreeMap<u64, ClassState>,
) -> Result<(), LimitExceeded> {
    /// The maximum number of different sizes.
    const SIZES_MAX: u64 = 16;
    let chunk_size = class.chunk_size_bytes;
    let smaller = classes.values().map(|other| other.chunk_size_bytes);
    let below = smaller.filter(|&size| size < chunk_size).max().unwrap_or(0);
    let size_count = class.items.min(SIZES_MAX);
    let up_to =
        |at: u64| (u128::from(class.items) * u128::from(at) / u128::from(size_count)) as u64;
    for at in 0..size_count {
        let offset = (chunk_size - below) as u64 * (at + 1) / size_count;
        seen.add(below + offset as usize, up_to(at + 1) - up_to(at))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ClassState, Dump, parse};
    use slabwise_base::Random;
    use std::collections::BTreeMap;

    #[test]
    fn a_line_has_a_class_and_a_size() {
        let line = b"key=a exp=-1 la=1700000000 cas=1 fetch=no cls=1 size=63";
        assert_eq!(parse(line), Some((1, 63)));
        assert_eq!(parse(b"key=size=9%20 cls=4 size=120 flags=0"), Some((4, 120)));
        let bad: [&[u8]; 5] =
            [b"key=a cls=1", b"key=a size=63", b"a cls=1 size=63", b"key=a cls=1 size=-1", b"\xff"];
        for line in bad {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn random_lines_do_not_panic() {
        for seed in 0..5_000 {
            let mut random = Random::new(seed);
            let mut line = b"key=a exp=-1 cas=1 cls=1 size=63".to_vec();
            for _ in 0..random.below(6) {
                let at = random.below(line.len() as u64) as usize;
                line[at] = random.next_u64() as u8;
            }
            line.truncate(random.below(40) as usize);
            let _ = parse(&line);
        }
    }

    #[test]
    fn a_truncated_dump_is_extrapolated_to_all_items() {
        let items = BTreeMap::from([((1, 64), 10), ((1, 90), 30), ((2, 100), 5)]);
        let dump = Dump { item_count: 45, is_truncated: true, items, ..Dump::default() };
        let class =
            |chunk_size_bytes, items| ClassState { chunk_size_bytes, chunks_per_page: 1, items };
        let classes =
            [(1, class(96, 400)), (2, class(120, 7)), (3, class(152, 2)), (4, class(192, 0))];
        let classes = BTreeMap::from(classes);
        let sizes = |dump: &Dump| {
            let seen = dump.sizes(&classes).unwrap_or_default();
            seen.bins().collect::<Vec<_>>()
        };
        // The dump has no item of class 3.
        assert_eq!(sizes(&dump), [(64, 100), (90, 300), (100, 7), (136, 1), (152, 1)]);
        assert_eq!(sizes(&Dump { is_truncated: false, ..dump }), [(64, 10), (90, 30), (100, 5)]);
    }
}
