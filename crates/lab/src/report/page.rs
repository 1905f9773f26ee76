//! Renders the page of one run, the index page of all runs, and single figures as SVG files.

use super::chart::{
    Absent, COLOURS, Drawing, OURS_COLOUR, PUBLISHED_COLOUR, STYLE, WIDTH, height, svg,
};
use super::counts::CountsTable;
use super::entry::Entry;
use crate::result::{Figure, Outcome, Row, SeedText, Spec, Verdict, format_number_or_dash};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Renders the report of one run. The page links to the address `index`, if given.
pub fn page(spec: &Spec, outcome: &Outcome, index: Option<&str>) -> Markup {
    let (published, ours): (Vec<&Row>, Vec<&Row>) =
        outcome.rows.iter().partition(|row| row.published.is_some());
    let figures = figures(spec, outcome);
    let body = html! {
        @if let Some(index) = index { p.quiet { a href=(index) { "All experiments" } } }
        h1 { (spec.title) }
        p { (size_text(outcome)) }
        p { (outcome.paper.source) }
        p.quiet {
            (spec.name) ", " (SeedText(outcome)) ", commit " (outcome.commit) ", sources " (outcome.sources)
        }
        @if !figures.is_empty() {
            h2 { "Figures" }
            div.figures { @for figure in &figures { (figure_markup(figure, outcome)) } }
        }
        @if !published.is_empty() {
            h2 { "Published values and our values" }
            (comparison(&published, outcome.scale))
        }
        @if !ours.is_empty() {
            details { summary { "Values without a published value" } (findings(&ours)) }
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

/// Returns a sentence on the size of the runs.
pub fn size_text(outcome: &Outcome) -> String {
    let servers = if outcome.live { " on real servers" } else { "" };
    match outcome.scale {
        1.0 => format!("Run at the published size{servers}."),
        scale => format!("Run at {scale} of the published size{servers}."),
    }
}

/// Returns the figures of the experiment's file and then the figures of the additional traces, without those that only
/// runs with `--live` have if this is no such run.
pub fn figures<'f>(spec: &'f Spec, outcome: &'f Outcome) -> Vec<&'f Figure> {
    let figures = spec.figures.iter().chain(&outcome.figures);
    figures.filter(|figure| outcome.live || !figure.is_live).collect()
}

/// Renders an HTML document with the style sheet of reports.
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

fn figure_markup(figure: &Figure, outcome: &Outcome) -> Markup {
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
                        // The function `svg` has escaped all text.
                        (PreEscaped(svg(drawing, figure.logarithmic)))
                    }
                }
            }
            @for (variant, reason) in &absent.unmeasured {
                p.quiet { (variant) ": " (reason) "." }
            }
            @if !absent.unknown.is_empty() {
                p.unknown { "Not in the results: " (absent.unknown.join("; ")) "." }
            }
        }
    }
}

/// Returns the index in [`COLOURS`] and the label of each entry of the drawing's legend. Bars without published values
/// have no legend.
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
                th.number { "ours" } th { "unit" } th.number { "difference" } th { "verdict" }
                th { "remark" } th { "place in the source" }
            }
            @for row in rows {
                tr {
                    td { (row.text) } td { (row.variant) }
                    td.number { (format_number_or_dash(row.published)) }
                    @if is_scaled { td.number { (format_number_or_dash(row.published_at_scale)) } }
                    td.number { (format_number_or_dash(row.ours)) }
                    td { (row.unit) }
                    td.number { (difference(row)) }
                    td { (row.verdict().map_or("", Verdict::label)) }
                    td.note { (row.remarks()) }
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
                    td { (row.text) } td { (row.variant) } td.number { (format_number_or_dash(row.ours)) }
                    td { (row.unit) } td.note { (row.remarks()) }
                }
            }
        } }
    }
}

/// Formats the difference between our value and the published value: in percentage points if the unit is percent, else
/// in percent of the published value.
fn difference(row: &Row) -> String {
    let (Some(ours), Some(published)) = (row.ours, row.published_at_scale) else {
        return "-".to_owned();
    };
    match row.unit.as_str() {
        "%" => format!("{:+.2} percentage points", ours - published),
        _ if published == 0.0 => "-".to_owned(),
        _ => format!("{:+.1} %", (ours / published - 1.0) * 100.0),
    }
}

// Lengths in a picture, in the units of its view box.
const TITLE_HEIGHT: u32 = 30;
const LEGEND_HEIGHT: u32 = 20;
const MARGIN: u32 = 12;
/// Width of the coloured mark of a legend entry, with the space up to the label.
const MARK_WIDTH: u32 = 18;
/// Estimated mean width of a letter of a label.
const LETTER_WIDTH: u32 = 7;

/// Renders a figure with title and legend as an SVG document.
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
            // The function `svg` has escaped all text.
            g transform=(format!("translate(0 {top})")) { (PreEscaped(chart)) }
        }
    }
}

fn fill_of(colour: usize) -> String {
    let colour = COLOURS[colour % COLOURS.len()];
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// A legend entry with its position in the picture.
struct PlacedEntry<'l> {
    label: &'l str,
    /// Index in [`COLOURS`].
    colour: usize,
    /// Distance from the left edge of the picture.
    x: u32,
    /// Row of the legend, from 0.
    row: u32,
}

/// Places legend entries from left to right, and starts a new row if an entry would exceed the width of the picture.
fn placed<'l>(entries: &[(usize, &'l str)]) -> Vec<PlacedEntry<'l>> {
    let (mut x, mut row) = (MARGIN, 0);
    let place = |&(colour, label): &(usize, &'l str)| {
        let width = MARK_WIDTH + LETTER_WIDTH * label.chars().count() as u32 + MARGIN;
        if x > MARGIN && x + width > WIDTH {
            (x, row) = (MARGIN, row + 1);
        }
        let placed = PlacedEntry { label, colour, x, row };
        x += width;
        placed
    };
    entries.iter().map(place).collect()
}

/// Renders the index page. `skipped` are the errors of results that could not be read.
pub fn index(entries: &[Entry<'_>], skipped: &[impl std::fmt::Display]) -> Markup {
    let counts = CountsTable::of(entries);
    let body = html! {
        h1 { "Experiments" }
        p.quiet {
            "Each report compares all published values with our values. A value that could not be measured has a row \
             with the reason."
        }
        div.table { table {
            tr { th { "experiment" } th { "title" } th.number { "scale" } th.number { "seeds" } th { "source" } }
            @for entry in entries {
                tr {
                    td { a href=(entry.page.display()) { (entry.spec.name) } }
                    td.note { (entry.spec.title) }
                    td.number { (entry.outcome.scale) } td.number { (entry.outcome.seeds) }
                    td.note.quiet { (entry.outcome.paper.source) }
                }
            }
        } }
        h2 { "Published values by verdict" }
        div.table { table {
            @for (at, line) in counts.cells().iter().enumerate() {
                tr {
                    @for cell in line {
                        @if at == 0 { th.number { (cell) } } @else { td.number { (cell) } }
                    }
                }
            }
        } }
        p { (counts.sentence()) }
        @for error in skipped {
            p.unknown { "Skipped: " (error) "." }
        }
    };
    document("slabwise lab", &body)
}
