//! Sizes by `lru_crawler metadump`: a line an item, as many as there is patience for.
//!
//! ```text
//!   key=a exp=-1 la=1700000000 cas=1 fetch=no cls=1 size=63
//! ```
//!
//! By `hash` the server goes through its index, so that what was seen when the dump is cut is a fair sample;
//! an older server knows only `all`, which goes through its classes. Either way the items of a class that were
//! seen then stand for all of that class; of a class of which none was seen, sizes are taken to be anywhere between
//! the chunk size below and its own.

use super::dialogue::{Answer, Dialogue};
use super::state::ClassState;
use crate::error::{AdvisorError, shown};
use crate::sizes_seen::{SizesSeen, TooMuch};
use slabwise_client::{ClientError, is_refusal};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    pub command: &'static str,
    pub looked_at: u64,
    pub is_cut: bool,
    items: BTreeMap<(u64, usize), u64>,
}

/// Looks at up to `items_max` items of at most `item_size_max` bytes.
pub fn look(
    dialogue: &mut Dialogue,
    items_max: u64,
    item_size_max: usize,
) -> Result<Dump, AdvisorError> {
    for command in ["lru_crawler metadump hash", "lru_crawler metadump all"] {
        match ask(dialogue, command, items_max, item_size_max)? {
            Answer::Given(dump) => return Ok(dump),
            Answer::Refused(_) if command.ends_with("hash") => {}
            Answer::Refused(line) => {
                return Err(dialogue.error(&format!(
                    "refused `{command}`: {line}; try again if it is busy, or start it \
                     with -o track_sizes, or give --from-histogram"
                )));
            }
        }
    }
    unreachable!("the last command's answer was returned")
}

fn ask(
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
            Err(ClientError::ReplyTimeout) if dump.looked_at > 0 => {
                dump.is_cut = true;
                return Ok(Answer::Given(dump));
            }
            Err(error) => return Err(dialogue.failed(error)),
        };
        match parse(line) {
            _ if line == b"END" => return Ok(Answer::Given(dump)),
            // Newer servers say that they have begun.
            _ if line == b"OK" && dump.looked_at == 0 => {}
            _ if is_refusal(line) && dump.looked_at == 0 => {
                return Ok(Answer::Refused(shown(line)));
            }
            Some(place) if (1..=item_size_max).contains(&place.1) => {
                dump.looked_at += 1;
                *dump.items.entry(place).or_default() += 1;
            }
            _ => {
                let line = line.to_vec();
                return Err(dialogue.unexpected(&line));
            }
        }
        if dump.looked_at >= items_max {
            dump.is_cut = true;
            return Ok(Answer::Given(dump));
        }
    }
}

fn parse(line: &[u8]) -> Option<(u64, usize)> {
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("key=")?;
    let field = |name: &str| text.split(' ').find_map(|word| word.strip_prefix(name));
    Some((field("cls=")?.parse().ok()?, field("size=")?.parse().ok()?))
}

impl Dump {
    /// The sizes of all items, where `classes` say how many there are.
    pub fn sizes(&self, classes: &BTreeMap<u64, ClassState>) -> Result<SizesSeen, TooMuch> {
        let mut looked_at: BTreeMap<u64, u64> = BTreeMap::new();
        for (&(class, _), items) in &self.items {
            *looked_at.entry(class).or_default() += items;
        }
        let mut seen = SizesSeen::default();
        for (&(class, size_bytes), &items) in &self.items {
            let part = looked_at[&class];
            let all = classes.get(&class).map_or(part, |class| class.items.max(part));
            let stands_for = u128::from(items) * u128::from(all) / u128::from(part);
            let items = if self.is_cut { stands_for as u64 } else { items };
            seen.add(size_bytes, items)?;
        }
        if self.is_cut {
            let unseen = classes.iter().filter(|(number, _)| !looked_at.contains_key(number));
            for (_, class) in unseen {
                add_unseen(&mut seen, class, classes)?;
            }
        }
        Ok(seen)
    }
}

/// Adds the items of a class as if they were spread over what only it holds.
fn add_unseen(
    seen: &mut SizesSeen,
    class: &ClassState,
    classes: &BTreeMap<u64, ClassState>,
) -> Result<(), TooMuch> {
    const POINTS_MAX: u64 = 16;
    let chunk_size = class.chunk_size_bytes;
    let smaller = classes.values().map(|other| other.chunk_size_bytes);
    let below = smaller.filter(|&size| size < chunk_size).max().unwrap_or(0);
    let points = class.items.min(POINTS_MAX);
    let up_to =
        |point: u64| (u128::from(class.items) * u128::from(point) / u128::from(points)) as u64;
    for point in 0..points {
        let part = (chunk_size - below) as u64 * (point + 1) / points;
        seen.add(below + part as usize, up_to(point + 1) - up_to(point))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ClassState, Dump, parse};
    use slabwise_base::Random;
    use std::collections::BTreeMap;

    #[test]
    fn a_line_tells_class_and_size() {
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
    fn no_line_breaks_it() {
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
    fn a_cut_dump_stands_for_all_items_of_its_classes() {
        let items = BTreeMap::from([((1, 64), 10), ((1, 90), 30), ((2, 100), 5)]);
        let dump = Dump { looked_at: 45, is_cut: true, items, ..Dump::default() };
        let class =
            |chunk_size_bytes, items| ClassState { chunk_size_bytes, chunks_per_page: 1, items };
        let classes =
            [(1, class(96, 400)), (2, class(120, 7)), (3, class(152, 2)), (4, class(192, 0))];
        let classes = BTreeMap::from(classes);
        let sizes = |dump: &Dump| {
            let seen = dump.sizes(&classes).unwrap_or_default();
            seen.bars().collect::<Vec<_>>()
        };
        // Of class 3 none was seen.
        assert_eq!(sizes(&dump), [(64, 100), (90, 300), (100, 7), (136, 1), (152, 1)]);
        assert_eq!(sizes(&Dump { is_cut: false, ..dump }), [(64, 10), (90, 30), (100, 5)]);
    }
}
