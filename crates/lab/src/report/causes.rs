//! Finds the rows that show the causes of differences.

use super::entry::Entry;
use crate::result::{Cause, Row};
use std::collections::BTreeSet;

/// Removes each cause that no row of the results shows. Returns the causes whose experiment has a result, because they
/// refer to a row that does not exist.
pub fn remove_causes_without_row(entries: &mut [Entry<'_>]) -> Vec<String> {
    let (mut unshown, mut without_row) = (BTreeSet::new(), BTreeSet::new());
    let rows = entries.iter().flat_map(|entry| &entry.outcome.rows);
    for cause in rows.filter_map(|row| row.classification.cause.as_ref()) {
        let experiment = &cause.shown_by.experiment;
        match entries.iter().find(|entry| entry.spec.name == *experiment) {
            Some(entry) if entry.outcome.rows.iter().any(|row| is_shown_by(cause, row)) => continue,
            Some(_) => without_row.insert(cause.to_string()),
            None => true,
        };
        unshown.insert(cause.to_string());
    }
    for row in entries.iter_mut().flat_map(|entry| &mut entry.outcome.rows) {
        let cause = &mut row.classification.cause;
        cause.take_if(|cause| unshown.contains(&cause.to_string()));
    }
    without_row.into_iter().collect()
}

/// True if the row shows the cause.
fn is_shown_by(cause: &Cause, row: &Row) -> bool {
    let shown_by = &cause.shown_by;
    (&row.measure, &row.variant) == (&shown_by.measure, &shown_by.variant) && row.ours.is_some()
}
