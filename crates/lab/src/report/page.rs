//! Renders the page of one run, the index of all runs, and a figure as an SVG file of its own.

use super::chart::{
    Absent, COLOURS, Drawing, OURS_COLOUR, PUBLISHED_COLOUR, STYLE, WIDTH, height, svg,
};
use crate::result::{Figure, Outcome, Row, Spec, shown};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::path::PathBuf;

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
                None => p.quiet { "This run has no data for this figure." },
                Some(drawing) => {
                    (legend(drawing))
                    div role="img" aria-label=(figure.title) {
                        // `svg` escapes all texts.
                        (PreEscaped(svg(drawing, figure.logarithmic)))
                    }
                }
            }
            @for (variant, why) in &absent.unmeasured {
                p.quiet { (variant) ": " (why) "." }
            }
            @if !absent.unknown.is_empty() {
                p.unknown { "Not in the results: " (absent.unknown.join("; ")) "." }
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
                    td.note { (remarks(row)) }
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
                    td { (row.unit) } td.note { (remarks(row)) }
                }
            }
        } }
    }
}

fn remarks(row: &Row) -> String {
    [&row.note, &row.explained].into_iter().flatten().cloned().collect::<Vec<_>>().join("; ")
}

/// The difference from the published value: in points if both are percentages, else in percent.
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

const TITLE_HEIGHT: u32 = 30;
const LEGEND_HEIGHT: u32 = 20;
const MARGIN: u32 = 12;
const MARK_WIDTH: u32 = 18;
const LETTER_WIDTH: u32 = 7;

pub fn picture(title: &str, drawing: &Drawing<'_>, logarithmic: bool) -> Markup {
    let entries = placed(&legend_entries(drawing));
    let legend_rows = entries.last().map_or(0, |entry| entry.row + 1);
    let top = TITLE_HEIGHT + legend_rows * LEGEND_HEIGHT;
    let view = format!("0 0 {WIDTH} {}", top + height(drawing));
    let chart = svg(drawing, logarithmic);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(WIDTH * 3 / 2) role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" style="fill: var(--paper)" {}
            text x=(MARGIN) y="20" font-family="sans-serif" font-size="13" font-weight="bold" fill="#222222" { (title) }
            @for entry in &entries {
                @let y = TITLE_HEIGHT + entry.row * LEGEND_HEIGHT;
                rect x=(entry.x) y=(y + 6) width="12" height="4" fill=(fill_of(entry.colour)) {}
                text x=(entry.x + MARK_WIDTH) y=(y + 12) font-family="sans-serif" font-size="11" fill="#222222" {
                    (entry.label)
                }
            }
            // `svg` escapes all texts.
            g transform=(format!("translate(0 {top})")) { (PreEscaped(chart)) }
        }
    }
}

fn fill_of(colour: usize) -> String {
    let colour = COLOURS[colour % COLOURS.len()];
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

struct Placed<'l> {
    label: &'l str,
    colour: usize,
    x: u32,
    row: u32,
}

fn placed<'l>(entries: &[(usize, &'l str)]) -> Vec<Placed<'l>> {
    let (mut x, mut row) = (MARGIN, 0);
    let place = |&(colour, label): &(usize, &'l str)| {
        let width = MARK_WIDTH + LETTER_WIDTH * label.chars().count() as u32 + MARGIN;
        if x > MARGIN && x + width > WIDTH {
            (x, row) = (MARGIN, row + 1);
        }
        let placed = Placed { label, colour, x, row };
        x += width;
        placed
    };
    entries.iter().map(place).collect()
}

pub struct Entry<'s> {
    pub spec: &'s Spec,
    pub outcome: Outcome,
    pub page: PathBuf,
}

pub fn index(entries: &[Entry<'_>], skipped: &[impl std::fmt::Display]) -> Markup {
    let count = |entry: &Entry<'_>, is_ours: bool| {
        let rows = entry.outcome.rows.iter().filter(|row| row.published.is_some());
        rows.filter(|row| !is_ours || row.ours.is_some()).count()
    };
    let body = html! {
        h1 { "Experiments" }
        p.quiet {
            "All published figures next to ours. A figure that could not be measured has a row with the reason."
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
        @for error in skipped {
            p.unknown { "Skipped: " (error) "." }
        }
    };
    document("slabwise lab", &body)
}
