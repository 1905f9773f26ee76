//! The report as one HTML page, which loads nothing from the network.
//!
//! The first screen has what to do and what it brings. Each drawing has a table with its numbers. All text is escaped by
//! maud, except the drawings, whose texts are numbers and fixed words.

use super::numbers::{between, fewer, fewer_between, memory, percent, rate, worth};
use super::text::headline;
use super::{Action, Change, Report, ServerReport, Verdict, chart};
use crate::fleet::Fleet;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use slabwise_text::grouped;

const STYLE: &str = include_str!("style.css");

/// Renders the report.
pub fn page(report: &Report) -> Markup {
    let title = match report.servers.as_slice() {
        [] => "No server was observed".to_owned(),
        [one] => format!("What {} would gain", one.server),
        several => format!("What {} servers would gain", several.len()),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    @if let Some(fleet) = &report.fleet { (of_fleet(fleet)) }
                    @if report.servers.len() > 1 { (summary(report)) }
                    @for (number, server) in report.servers.iter().enumerate() {
                        (of_server(server, number, report.servers.len() == 1))
                    }
                    @if !report.failed.is_empty() {
                        h2 { "Servers that were not observed" }
                        ul { @for failed in &report.failed {
                            li { strong { (failed.server) } ": " (failed.reason) }
                        } }
                    }
                    (method())
                }
            }
        }
    }
}

/// Returns a list of all servers, with a link to each.
fn summary(report: &Report) -> Markup {
    html! {
        h2 { "The servers" }
        ul.servers { @for (number, server) in report.servers.iter().enumerate() { li {
            a href=(format!("#server-{number}")) { (server.server) }
            span.quiet {
                " " (memory(server.memory_limit_bytes)) ", " (rate(server.gets_per_second)) " gets per second, "
                (percent(server.miss_ratio)) " miss"
            }
            @for sentence in headline(server) { div { (code(&sentence)) } }
        } } }
    }
}

fn of_server(server: &ServerReport, number: usize, is_only: bool) -> Markup {
    let saves = server.recommended().is_some();
    html! {
        section id=(format!("server-{number}")) aria-label=(server.server) {
            @if !is_only { h2 { (server.server) } }
            p.quiet {
                (server.program) " " (server.version) ", " (memory(server.memory_limit_bytes)) ", watched for "
                (format!("{:.0}", server.seconds)) " s: " (rate(server.gets_per_second)) " gets and "
                (rate(server.misses_per_second)) " misses per second; " strong { (percent(server.miss_ratio)) " miss" }
            }
            div.todo.none[!saves] {
                @if is_only { h2 { "What to do" } }
                @for sentence in headline(server) { p { (code(&sentence)) } }
            }
            @if !server.actions.is_empty() { (gains(server)) }
            div.columns {
                (curve(server))
                div {
                    @if let Some(sizes) = &server.chunk_sizes {
                        h3 { "Chunk sizes" }
                        p {
                            "These chunk sizes save " (memory(sizes.saved_bytes.value as u64)) ", "
                            (percent(sizes.saved_share.value)) " of the memory (" (between(sizes.saved_share))
                            "). They are computed from the sizes of " (grouped(sizes.items_seen)) " items."
                        }
                        p { code { "-o slab_sizes=" (sizes.slab_sizes) } }
                    }
                    (division(server))
                }
            }
            @if !server.notes.is_empty() {
                h3 { "What the report does not know" }
                ul { @for note in &server.notes { li { (note) } } }
            }
        }
    }
}

/// Returns the gains as cards.
fn gains(server: &ServerReport) -> Markup {
    html! {
        ul.gains { @for action in &server.actions {
            li.saves[action.verdict == Verdict::Saves] {
                h3 { (action.change.words()) }
                div.number { (fewer(action.fewer_misses.value)) }
                p.quiet { (fewer_between(action.fewer_misses)) (verdict(action)) }
                div.bar aria-hidden="true" { i style=(bar(action, server)) {} }
                p {
                    (percent(action.miss_ratio.value)) " of the gets miss instead of " (percent(server.miss_ratio)) ", "
                    (worth(action.worth)) "."
                }
                p.quiet { (action.change.effort()) }
                @if action.change != Change::ChunkSizes { code { (action.how) } }
            }
        } }
    }
}

fn verdict(action: &Action) -> &'static str {
    match action.verdict {
        Verdict::Saves => "",
        Verdict::Unclear => "; the error is larger than the gain",
        Verdict::Nothing => "; nothing worth a change",
    }
}

/// Returns the width of the bar that shows the remaining misses.
fn bar(action: &Action, server: &ServerReport) -> String {
    let share = action.miss_ratio.value / server.miss_ratio.max(f64::MIN_POSITIVE);
    format!("width: {:.1}%", (share * 100.0).clamp(0.0, 100.0))
}

fn curve(server: &ServerReport) -> Markup {
    let title = format!("Gets of {} that miss, by its memory", server.server);
    html! {
        figure {
            figcaption { (title) }
            // The drawing has only numbers and fixed words.
            div role="img" aria-label=(format!("{title}. The table below has the numbers.")) {
                (PreEscaped(chart::svg(server)))
            }
            ul.legend {
                li { i.present {} "as it is; the area is the error" }
                @if server.pages.is_some() { li { i.divided {} "with the best division of the pages" } }
                @if server.slabwise.is_some() { li { i.slabwise {} "slabwise with the present memory" } }
                li { "dashed: not measured, continued" }
            }
            details {
                summary { "The numbers" }
                div.scroll tabindex="0" { table {
                    thead { tr {
                        th.number scope="col" { "memory" } th.number scope="col" { "miss" } th scope="col" { "error" }
                        th.number scope="col" { "best division" } th scope="col" { "" }
                    } }
                    tbody { @for point in &server.memory.points { tr {
                        th.number scope="row" { (memory(point.memory_bytes)) }
                        td.number { (percent(point.miss_ratio.value)) }
                        td { (between(point.miss_ratio)) }
                        td.number { @if let Some(best) = point.miss_ratio_best_division { (percent(best.value)) } }
                        td { @if !point.is_measured { "not measured" } }
                    } } }
                } }
            }
        }
    }
}

fn division(server: &ServerReport) -> Markup {
    let Some(pages) = server.pages.as_ref().filter(|pages| pages.pages_moved > 0) else {
        return html! {};
    };
    html! {
        details {
            summary { "The best division of the pages: " (grouped(pages.pages_moved)) " moves" }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th.number scope="col" { "class" } th.number scope="col" { "chunk size" }
                    th.number scope="col" { "pages now" } th.number scope="col" { "then" }
                } }
                tbody { @for class in &pages.classes { tr {
                    th.number scope="row" { (class.class) }
                    td.number { (grouped(class.chunk_size as u64)) }
                    td.number { (grouped(class.pages_now)) }
                    td.number { (grouped(class.pages_then)) }
                } } }
            } }
        }
    }
}

fn of_fleet(fleet: &Fleet) -> Markup {
    let then = fleet.misses_per_second_then;
    let saved = fleet.saved_share();
    html! {
        section aria-label="all servers" {
            p.quiet {
                (fleet.servers.len()) " servers with " (memory(fleet.memory_bytes)) ": " (rate(fleet.gets_per_second))
                " gets and " (rate(fleet.misses_per_second)) " misses per second"
            }
            @if fleet.is_recommended() {
                div.todo {
                    p {
                        "With their memory spread as follows, they would have " strong { (fewer(saved)) } ": "
                        (rate(then.value)) " per second, between " (rate(then.low)) " and " (rate(then.high)) "."
                    }
                }
                div.scroll tabindex="0" { table {
                    caption { "The best spread of the memory" }
                    thead { tr {
                        th scope="col" { "server" } th.number scope="col" { "-m now" } th.number scope="col" { "then" }
                    } }
                    tbody { @for server in &fleet.servers { tr {
                        th scope="row" { (server.server) }
                        td.number { (server.memory_bytes_now >> 20) }
                        td.number { (server.memory_bytes_then >> 20) }
                    } } }
                } }
                p.quiet {
                    "Change it with " code { "-m" } " at the next start, or with the command " code { "cache_memlimit" }
                    " while the server runs."
                }
            } @else {
                div.todo.none { p { "Their memory is spread well: no other spread saves 1 % of the misses." } }
            }
            div.scroll tabindex="0" { table {
                caption { "All servers with more or less memory" }
                thead { tr {
                    th.number scope="col" { "memory of each server" } th.number scope="col" { "all servers" }
                    th.number scope="col" { "misses per second" } th.number scope="col" { "between" }
                    th scope="col" { "measured" }
                } }
                tbody { @for point in &fleet.points { tr {
                    th.number scope="row" { (percent(point.factor)) }
                    td.number { (memory(point.memory_bytes)) }
                    td.number { (rate(point.misses_per_second.value)) }
                    td.number {
                        (rate(point.misses_per_second.low)) " and " (rate(point.misses_per_second.high))
                    }
                    td { @if point.is_measured { "yes" } @else { "no" } }
                } } }
            } }
        }
    }
}

fn method() -> Markup {
    html! {
        details {
            summary { "How this was computed" }
            p {
                "The command watched the requests of each server, and changed nothing on it. From the requests it \
                 estimated how many gets of each class would miss with more or fewer chunks. “Divide the pages \
                 better” is the division of the present pages with the fewest misses by these curves. “Other chunk \
                 sizes” are those that waste the fewest bytes for the sizes of the items. “Run slabwise instead” is a \
                 simulation of its eviction and of its smaller items with the same requests and the same memory."
            }
            p {
                "“Between” is the range that should contain the number in nine of ten cases, if the requests stay as \
                 they were. “Worth” is the additional memory with which the server as it is would have the same misses. \
                 The gains cannot be added. " code { "docs/advise.md" } " describes the method and its limits."
            }
        }
    }
}

/// Returns a sentence whose parts between backticks are code.
fn code(sentence: &str) -> Markup {
    html! {
        @for (number, part) in sentence.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
