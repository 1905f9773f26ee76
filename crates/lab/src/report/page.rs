//! The page of one run.

use super::chart::{COLOURS, OURS_COLOUR, PUBLISHED_COLOUR, STYLE, svg};
use super::drawing::{Absent, Drawing};
use crate::result::{Figure, Outcome, Row, Spec, number};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub fn page(spec: &Spec, outcome: &Outcome, index: Option<&str>) -> Markup {
    let (published, ours): (Vec<&Row>, Vec<&Row>) =
        outcome.rows.iter().partition(|row| row.published.is_some());
    let figures = figures(spec, outcome);
    let body = html! {
        @if let Some(index) = index { p.quiet { a href=(index) { "All experiments" } } }
        h1 { (spec.title) }
        p { (outcome.paper.source) }
        p.quiet {
            (spec.name) ", scale " (outcome.scale) ", seed " (outcome.seed)
            @if outcome.live { ", real servers" }
            ", commit " (outcome.commit)
        }
        @if !figures.is_empty() {
            h2 { "Figures" }
            div.figures { @for figure in &figures { (drawn(figure, outcome)) } }
        }
        @if !published.is_empty() {
            h2 { "Published and ours" }
            (comparison(&published, outcome.scale))
        }
        @if !ours.is_empty() {
            details { summary { "All other rows" } (findings(&ours)) }
        }
        details {
            summary { "Set-up" }
            div.table { table {
                @for (name, value) in &outcome.setup { tr { th { (name) } td { (value) } } }
            } }
        }
    };
    document(&format!("{}: {}", spec.name, spec.title), &body)
}

/// The file's figures as they are now, and those of what the run was given beside it.
pub fn figures<'f>(spec: &'f Spec, outcome: &'f Outcome) -> Vec<&'f Figure> {
    spec.figures.iter().chain(&outcome.figures).collect()
}

pub fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

fn drawn(figure: &Figure, outcome: &Outcome) -> Markup {
    let drawing = Drawing::of(figure, outcome);
    let absent = Absent::of(figure, outcome);
    html! {
        figure {
            figcaption {
                (figure.title)
                @if let Some(place) = &figure.place { span.quiet { " (" (place) ")" } }
            }
            @match &drawing {
                None => p.quiet { "Nothing of it was measured in this run." },
                Some(drawing) => {
                    (legend(drawing))
                    div role="img" aria-label=(figure.title) {
                        // Its texts are escaped by who draws it.
                        (PreEscaped(svg(drawing, figure.logarithmic)))
                    }
                }
            }
            @for (variant, why) in &absent.unmeasured {
                p.quiet { (variant) ": " (why) "." }
            }
            // The experiment's file asks for what its runs do not have.
            @if !absent.unknown.is_empty() {
                p.unknown { "No run knows: " (absent.unknown.join("; ")) "." }
            }
        }
    }
}

pub fn legend_entries<'d>(drawing: &'d Drawing<'_>) -> Vec<(usize, &'d str)> {
    match drawing {
        Drawing::Curves { curves, .. } => {
            curves.iter().map(|curve| curve.label.as_str()).enumerate().collect()
        }
        Drawing::Bars { bars, .. } if bars.iter().any(|bar| bar.published.is_some()) => {
            vec![(PUBLISHED_COLOUR, "published"), (OURS_COLOUR, "ours")]
        }
        Drawing::Bars { .. } => Vec::new(),
    }
}

fn legend(drawing: &Drawing<'_>) -> Markup {
    let entries = legend_entries(drawing);
    if entries.is_empty() {
        return html! {};
    }
    html! {
        ul.legend {
            @for (colour, label) in entries {
                li { i class=(format!("k{}", colour % COLOURS.len())) {} (label) }
            }
        }
    }
}

fn comparison(rows: &[&Row], scale: f64) -> Markup {
    let is_scaled = scale != 1.0;
    html! {
        div.table { table {
            tr {
                th { "measure" } th { "variant" } th.number { "published" }
                @if is_scaled { th.number { "at this scale" } }
                th.number { "ours" } th { "unit" } th.number { "difference" } th { "explained" } th { "where" }
            }
            @for row in rows {
                tr {
                    td { (row.text) } td { (row.variant) }
                    td.number { (shown(row.published)) }
                    @if is_scaled { td.number { (shown(row.published_at_scale)) } }
                    td.number { (shown(row.ours)) }
                    td { (row.unit) }
                    td.number { (difference(row)) }
                    td.note { (said(row)) }
                    td.note { (row.place.as_deref().unwrap_or_default()) }
                }
            }
        } }
    }
}

fn findings(rows: &[&Row]) -> Markup {
    html! {
        div.table { table {
            tr { th { "measure" } th { "variant" } th.number { "ours" } th { "unit" } th { "note" } }
            @for row in rows {
                tr {
                    td { (row.text) } td { (row.variant) } td.number { (shown(row.ours)) }
                    td { (row.unit) } td.note { (said(row)) }
                }
            }
        } }
    }
}

fn said(row: &Row) -> String {
    [&row.note, &row.explained].into_iter().flatten().cloned().collect::<Vec<_>>().join("; ")
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// How far ours lies from what was published: in points where both are percentages, else in percent of it.
fn difference(row: &Row) -> String {
    let (Some(ours), Some(published)) = (row.ours, row.published_at_scale) else {
        return "-".to_owned();
    };
    match row.unit.as_str() {
        "%" => format!("{:+.2} points", ours - published),
        _ if published == 0.0 => "-".to_owned(),
        _ => format!("{:+.1} %", (ours / published - 1.0) * 100.0),
    }
}
