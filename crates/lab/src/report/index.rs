//! The page over all runs.

use super::error::ReportError;
use super::page::document;
use crate::result::{Outcome, Spec};
use maud::{Markup, html};
use std::path::PathBuf;

pub struct Entry<'s> {
    pub spec: &'s Spec,
    pub outcome: Outcome,
    pub page: PathBuf,
}

pub fn page(entries: &[Entry<'_>], left_out: &[ReportError]) -> Markup {
    let count = |entry: &Entry<'_>, is_ours: bool| {
        let rows = entry.outcome.rows.iter().filter(|row| row.published.is_some());
        rows.filter(|row| !is_ours || row.ours.is_some()).count()
    };
    let body = html! {
        h1 { "Experiments" }
        p.quiet {
            "Every published figure beside ours. What could not be measured has a row that says why."
        }
        div.table { table {
            tr {
                th { "experiment" } th { "question" } th.number { "scale" } th.number { "seed" }
                th.number { "published figures" } th.number { "measured" } th { "source" }
            }
            @for entry in entries {
                tr {
                    td { a href=(entry.page.display()) { (entry.spec.name) } }
                    td.note { (entry.spec.title) }
                    td.number { (entry.outcome.scale) } td.number { (entry.outcome.seed) }
                    td.number { (count(entry, false)) } td.number { (count(entry, true)) }
                    td.note.quiet { (entry.outcome.paper.source) }
                }
            }
        } }
        @for error in left_out {
            p.unknown { "Left out: " (error) "." }
        }
    };
    document("slabwise lab", &body)
}
