//! The parts of a value: appends and prepends to a version.
//!
//! Rules for a request that reads a version with some parts:
//! - Each part belongs to an append or prepend that began before the request ended, was not refused, and may have
//!   changed this version. No part occurs twice. Prepended parts are before the part of the store, appended ones after.
//! - A part is not missing if its append was complete before the request began, and began after the store of the version
//!   had taken effect: the version was current all the time.
//! - If one append was complete before another one began, then their parts are in this order; for prepends, in the
//!   opposite order.

use crate::stamps::{NEVER, Stamp};

/// The side of a value to which a part is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// An append.
    End,
    /// A prepend.
    Start,
}

/// An append or prepend that may have changed a version.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The number of the append or prepend.
    pub id: u32,
    /// Whether it is an append or a prepend.
    pub side: Side,
    /// The stamp at which the request began.
    pub begin: Stamp,
    /// The stamp at which the reply had arrived; [`NEVER`] if it has not.
    pub end: Stamp,
}

impl Part {
    /// Returns a part whose request begins.
    pub fn new(id: u32, side: Side, begin: Stamp) -> Part {
        Part { id, side, begin, end: NEVER }
    }
}

/// Judges the parts of a value that a request from `begin` to `end` has read. `prepended` and `appended` are the numbers
/// before and after the part of the store, in the order of the value. `parts` are those that may have changed the
/// version, and `stored` is the stamp at which the version had taken effect. Returns the problem.
pub fn judge(
    parts: &[Part],
    stored: Stamp,
    (prepended, appended): (&[u32], &[u32]),
    (begin, end): (Stamp, Stamp),
) -> Result<(), String> {
    // The oldest part is next to the part of the store.
    let prepended: Vec<Part> = find(parts, Side::Start, prepended.iter().rev(), end)?;
    let appended: Vec<Part> = find(parts, Side::End, appended.iter(), end)?;
    for list in [&prepended, &appended] {
        // The latest begin of the parts before this one, which must not follow the end of this one.
        let mut begin_max: Option<Part> = None;
        for &part in list {
            if let Some(earlier) = begin_max.filter(|earlier| part.end < earlier.begin) {
                return Err(format!(
                    "part {} is after part {}, but was added before",
                    part.id, earlier.id
                ));
            }
            if begin_max.is_none_or(|earlier| earlier.begin < part.begin) {
                begin_max = Some(part);
            }
        }
    }
    let present = |part: &Part| prepended.iter().chain(&appended).any(|it| it.id == part.id);
    let required = |part: &&Part| part.end < begin && stored < part.begin;
    match parts.iter().filter(required).find(|part| !present(part)) {
        Some(lost) => {
            Err(format!("part {} is missing, although its request was complete", lost.id))
        }
        None => Ok(()),
    }
}

/// Returns the parts with these numbers. Returns the problem if one is not possible.
fn find<'a>(
    parts: &[Part],
    side: Side,
    ids: impl Iterator<Item = &'a u32>,
    end: Stamp,
) -> Result<Vec<Part>, String> {
    let mut found: Vec<Part> = Vec::new();
    for &id in ids {
        match parts.iter().find(|part| part.id == id && part.side == side && part.begin < end) {
            _ if found.iter().any(|part| part.id == id) => {
                return Err(format!("part {id} occurs twice"));
            }
            Some(&part) => found.push(part),
            None => return Err(format!("part {id} was not added to this version, or was refused")),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Part, Side, judge};

    fn part(id: u32, side: Side, begin: u64, end: u64) -> Part {
        Part { end, ..Part::new(id, side, begin) }
    }

    #[test]
    fn parts_are_complete_unique_and_in_order() {
        // The store had taken effect at stamp 2. Part 1 began before, so the store may have replaced it.
        let parts = [
            part(1, Side::End, 1, 3),
            part(2, Side::End, 4, 5),
            part(3, Side::End, 6, 20),
            part(4, Side::Start, 7, 8),
            part(5, Side::Start, 9, 10),
        ];
        let read = |prepended: &[u32], appended: &[u32], begin: u64| {
            judge(&parts, 2, (prepended, appended), (begin, begin + 5))
        };
        assert_eq!(read(&[5, 4], &[2], 11), Ok(()));
        assert_eq!(read(&[5, 4], &[1, 2, 3], 11), Ok(()));
        assert_eq!(read(&[5, 4], &[2, 3], 30), Ok(()));
        let wrong = |result: Result<(), String>, text: &str| {
            assert!(result.as_ref().is_err_and(|it| it.contains(text)), "{text}: {result:?}");
        };
        wrong(read(&[5, 4], &[2], 30), "part 3 is missing");
        wrong(read(&[4], &[2], 11), "part 5 is missing");
        wrong(read(&[4, 5], &[2], 11), "was added before");
        wrong(read(&[5, 4], &[2, 1], 11), "was added before");
        wrong(read(&[5, 4], &[2, 2], 11), "occurs twice");
        wrong(read(&[5, 4], &[2, 9], 11), "not added to this version");
        wrong(read(&[5, 4, 2], &[], 11), "not added to this version");
    }
}
