//! Merges the outcomes of several seeds into one. A value that one seed does not have has no mean.

use super::outcome::{Outcome, Row, format_number, maximum, mean, minimum};
use std::num::NonZeroU32;

/// Merges the outcomes of runs that differ only in their seeds. A row of the result has the mean of our values, and their
/// spread. Rows, conditions and series that the seeds share are those of the first outcome. `None` if the list is empty.
pub fn merged(outcomes: Vec<Outcome>) -> Option<Outcome> {
    let count = u32::try_from(outcomes.len()).ok().and_then(NonZeroU32::new)?;
    let (mut rows, mut rest) = (Vec::new(), outcomes.into_iter());
    let mut first = rest.next()?;
    let rest: Vec<Outcome> = rest.collect();
    for outcome in std::iter::once(&first).chain(&rest) {
        for row in &outcome.rows {
            if !rows.iter().any(|known: &Row| known.is_like(row)) {
                rows.push(row.clone());
            }
        }
    }
    if count > NonZeroU32::MIN {
        for row in &mut rows {
            merge_row(row, std::iter::once(&first).chain(&rest));
        }
    }
    (first.rows, first.seeds) = (rows, count);
    Some(first)
}

/// Sets the mean and the spread of a row over all outcomes.
fn merge_row<'o>(row: &mut Row, outcomes: impl Iterator<Item = &'o Outcome>) {
    let (mut values, mut spread, mut count) = (Vec::new(), Vec::new(), 0usize);
    let (note, mut differs) = (row.note.clone(), false);
    for outcome in outcomes {
        count += 1;
        let Some(found) = outcome.rows.iter().find(|found| found.is_like(row)) else { continue };
        differs |= found.note != note;
        values.extend(found.ours);
        spread.extend(found.spread.into_iter().flatten().chain(found.ours));
    }
    if values.is_empty() {
        return;
    }
    row.spread = Some([minimum(&spread), maximum(&spread)]);
    row.ours = (values.len() == count).then(|| mean(&values));
    if values.len() < count {
        let (found, mean) = (values.len(), format_number(mean(&values)));
        row.note =
            Some(format!("no value with {} of {count} seeds; {mean} with {found}", count - found));
    } else if differs {
        row.note = note.map(|note| format!("with the first seed, {note}"));
    }
}

#[cfg(test)]
mod tests {
    use super::merged;
    use crate::registry;
    use crate::result::{Outcome, Row};

    fn outcome(seed: u64, rows: &[(&str, Option<f64>)]) -> Outcome {
        let specs = registry::specs();
        let row = |&(variant, ours): &(&str, Option<f64>)| Row {
            variant: variant.to_owned(),
            ours,
            note: ours.is_none().then(|| "not reached".to_owned()),
            ..Row::default()
        };
        let rows = rows.iter().map(row).collect();
        Outcome { rows, ..Outcome::new(&specs[0], seed, 1.0, false) }
    }

    #[test]
    fn a_merged_row_has_the_mean_and_the_spread() {
        let first = outcome(1, &[("base", Some(1.0)), ("fast", None), ("warm", None)]);
        let second = outcome(2, &[("base", Some(4.0)), ("fast", Some(8.0)), ("warm", None)]);
        let found = merged(vec![first, second]).expect("there are two outcomes");
        assert_eq!((found.seed, found.seeds.get()), (1, 2));
        let values: Vec<_> = found.rows.iter().map(|row| (row.ours, row.spread)).collect();
        let expected = [(Some(2.5), Some([1.0, 4.0])), (None, Some([8.0, 8.0])), (None, None)];
        assert_eq!(values, expected);
        assert_eq!(found.rows[1].note.as_deref(), Some("no value with 1 of 2 seeds; 8 with 1"));
        assert_eq!(found.rows[2].note.as_deref(), Some("not reached"));
    }

    #[test]
    fn a_note_that_differs_is_that_of_the_first_seed() {
        let with_note = |seed: u64, note: &str| {
            let mut found = outcome(seed, &[("base", Some(1.0))]);
            found.note_last_row(note);
            found
        };
        let note_of = |notes: [&str; 2]| {
            let outcomes = vec![with_note(1, notes[0]), with_note(2, notes[1])];
            let found = merged(outcomes).expect("there are two outcomes");
            found.rows[0].note.clone().expect("the row has a note")
        };
        assert_eq!(note_of(["in windows of 10", "in windows of 10"]), "in windows of 10");
        let differing = note_of(["a sleep takes 75 us", "a sleep takes 80 us"]);
        assert_eq!(differing, "with the first seed, a sleep takes 75 us");
    }

    #[test]
    fn one_outcome_keeps_its_rows() {
        let found = merged(vec![outcome(1, &[("base", Some(1.0))])]).expect("there is one outcome");
        assert_eq!((found.rows[0].ours, found.rows[0].spread), (Some(1.0), None));
        assert!(merged(Vec::new()).is_none());
    }
}
