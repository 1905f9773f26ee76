//! The table that counts the published values of all experiments by verdict.

use super::entry::Entry;
use crate::result::{Row, Verdict, VerdictCounts};
use slabwise_text::Column;

/// The rows of the table: one per experiment with published values, and one for their sum.
pub struct CountsTable {
    rows: Vec<(String, VerdictCounts)>,
    total: VerdictCounts,
}

impl CountsTable {
    pub fn of(entries: &[Entry<'_>]) -> CountsTable {
        let counts = |entry: &Entry<'_>| {
            (
                entry.spec.name.clone(),
                VerdictCounts::of(entry.outcome.rows.iter().filter_map(Row::verdict)),
            )
        };
        let rows = entries.iter().map(counts).filter(|(_, counts)| counts.total() > 0);
        let rows: Vec<_> = rows.collect();
        let mut total = VerdictCounts::default();
        rows.iter().for_each(|(_, counts)| total.add(counts));
        CountsTable { rows, total }
    }

    /// Returns the head and the rows as texts. Columns: the name, the number of each verdict, and the sum.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let labels = Verdict::ALL.map(|verdict| verdict.label().to_owned());
        let head =
            [vec!["experiment".to_owned()], labels.to_vec(), vec!["all".to_owned()]].concat();
        let total = (format!("all {}", self.rows.len()), self.total);
        let lines = self.rows.iter().chain([&total]).map(|(name, counts)| {
            let numbers = Verdict::ALL.map(|verdict| counts.count(verdict).to_string());
            [vec![name.clone()], numbers.to_vec(), vec![counts.total().to_string()]].concat()
        });
        std::iter::once(head).chain(lines).collect()
    }

    /// Returns the sentence below the table.
    pub fn sentence(&self) -> String {
        let (all, counts) = (self.total.total(), &self.total);
        let percent = |verdict| counts.count(verdict) as f64 / all.max(1) as f64 * 100.0;
        format!(
            "Of {all} published values, {:.0} % agree, and {:.0} % differ with a cause that an experiment shows.",
            percent(Verdict::Agrees),
            percent(Verdict::CauseShown)
        )
    }

    /// Formats the table for the terminal.
    pub fn text(&self) -> String {
        let numbers = vec![Column::right(0); Verdict::ALL.len() + 1];
        let columns = [vec![Column::left(0)], numbers].concat();
        format!("{}{}\n", slabwise_text::table(&columns, self.cells()), self.sentence())
    }
}
