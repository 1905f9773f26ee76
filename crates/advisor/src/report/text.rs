//! The report as text for a terminal.

use super::numbers::{between, fewer, fewer_between, memory, percent, rate, worth};
use super::{Action, Change, Failed, Report, ServerReport, Verdict};
use crate::fleet::Fleet;
use slabwise_text::{Column, grouped, table};
use std::fmt::Write;

/// Returns the report as text.
pub fn text(report: &Report) -> String {
    let mut parts: Vec<String> = report.servers.iter().map(of_server).collect();
    parts.extend(report.fleet.as_ref().map(of_fleet));
    let failed =
        |Failed { server, reason }: &Failed| format!("{server} was not observed: {reason}\n");
    parts.extend(report.failed.iter().map(failed));
    parts.join("\n")
}

/// Returns what to do and what it brings, as sentences.
pub fn headline(server: &ServerReport) -> Vec<String> {
    let mut sentences = vec![];
    if let Some(action) = server.recommended() {
        sentences.push(format!("{}: {}.", instruction(action), effect(action)));
    }
    if let Some(action) = server.best() {
        sentences.push(format!("{}: {}.", instruction(action), effect(action)));
    }
    if sentences.is_empty() {
        sentences.push(no_gain(server).to_owned());
    }
    sentences
}

fn no_gain(server: &ServerReport) -> &'static str {
    match (server.program, server.is_memory_full) {
        ("slabwise", _) => "slabwise divides its pages and chooses its chunk sizes itself.",
        (_, false) => {
            "The memory is not full, so nothing is evicted, and no other division saves misses."
        }
        (_, true) => "No change was found that saves misses beyond the error of this report.",
    }
}

fn instruction(action: &Action) -> String {
    match action.change {
        Change::Pages => format!("Run `{}`", action.how),
        Change::ChunkSizes => "Restart it with the chunk sizes below".to_owned(),
        Change::Together => "Restart it with the chunk sizes below, and steer it".to_owned(),
        Change::Slabwise => format!("Run `{}` instead", action.how),
    }
}

/// Returns the effect of an action, such as "41 % fewer misses, between 38 and 44 %; worth 12 MiB more memory".
pub fn effect(action: &Action) -> String {
    let (saved, band) = (fewer(action.fewer_misses.value), fewer_between(action.fewer_misses));
    format!("{saved}, {band}; {}", worth(action.worth))
}

fn of_server(server: &ServerReport) -> String {
    let mut text = String::new();
    let ServerReport { program, version, seconds, .. } = server;
    let limit = memory(server.memory_limit_bytes);
    let _ = writeln!(
        text,
        "{}: {program} {version}, {limit}, watched for {seconds:.0} s\n{} gets and {} misses per second: {} miss\n",
        server.server,
        rate(server.gets_per_second),
        rate(server.misses_per_second),
        percent(server.miss_ratio),
    );
    headline(server).iter().for_each(|it| text.push_str(&format!("{it}\n")));
    text.push('\n');
    text.push_str(&actions(server));
    if let Some(sizes) = &server.chunk_sizes {
        let saved = memory(sizes.saved_bytes.value as u64);
        let _ = writeln!(
            text,
            "\nchunk sizes: {saved} saved, {} of the memory, {}, from {} item sizes\n-o slab_sizes={}",
            percent(sizes.saved_share.value),
            between(sizes.saved_share),
            grouped(sizes.items_seen),
            sizes.slab_sizes,
        );
    }
    text.push_str(&division(server));
    text.push_str(&by_memory(server));
    if !server.notes.is_empty() {
        text.push('\n');
    }
    server.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    text
}

fn actions(server: &ServerReport) -> String {
    let head = ["", "misses", "", "saved", "worth"].map(str::to_owned);
    let now = ["now", &percent(server.miss_ratio), "", "", ""].map(str::to_owned);
    let row = |action: &Action| {
        let unclear = if action.verdict == Verdict::Unclear { " (unclear)" } else { "" };
        [
            action.change.words().to_owned(),
            percent(action.miss_ratio.value),
            between(action.miss_ratio),
            format!("{:.0} %{unclear}", action.fewer_misses.value * 100.0),
            worth(action.worth).trim_start_matches("worth ").to_owned(),
        ]
    };
    let rows = [head, now].into_iter().chain(server.actions.iter().map(row));
    let columns =
        [Column::left(0), Column::right(0), Column::left(0), Column::right(0), Column::left(0)];
    table(&columns, rows)
}

/// Returns a table of the classes whose pages change.
fn division(server: &ServerReport) -> String {
    let Some(pages) = server.pages.as_ref().filter(|pages| pages.pages_moved > 0) else {
        return String::new();
    };
    let head = ["class", "chunk size", "pages now", "then"].map(str::to_owned);
    let changed = pages.classes.iter().filter(|class| class.pages_now != class.pages_then);
    let rows = changed.map(|class| {
        [
            class.class.to_string(),
            class.chunk_size.to_string(),
            grouped(class.pages_now),
            grouped(class.pages_then),
        ]
    });
    let table = table(&[Column::right(0); 4], std::iter::once(head).chain(rows));
    format!("\nthe best division of the pages, {} moves:\n{table}", grouped(pages.pages_moved))
}

fn by_memory(server: &ServerReport) -> String {
    let head = ["memory", "misses", "", "divided best", ""].map(str::to_owned);
    let rows = server.memory.points.iter().map(|point| {
        let note = if point.is_measured { "" } else { "not measured, continued" };
        [
            memory(point.memory_bytes),
            percent(point.miss_ratio.value),
            between(point.miss_ratio),
            point.miss_ratio_best_division.map_or(String::new(), |best| percent(best.value)),
            note.to_owned(),
        ]
    });
    let columns =
        [Column::right(0), Column::right(0), Column::left(0), Column::right(0), Column::left(0)];
    format!("\n{}", table(&columns, std::iter::once(head).chain(rows)))
}

fn of_fleet(fleet: &Fleet) -> String {
    let count = fleet.servers.len();
    let mut text = format!(
        "all {count} servers: {}, {} gets and {} misses per second\n",
        memory(fleet.memory_bytes),
        rate(fleet.gets_per_second),
        rate(fleet.misses_per_second),
    );
    if !fleet.is_recommended() {
        text.push_str("Their memory is spread well: no other spread saves 1 % of the misses.\n");
        return text + &of_pool(fleet);
    }
    let then = fleet.misses_per_second_then;
    let _ = writeln!(
        text,
        "with their memory spread as follows: {} misses per second, between {} and {}\n",
        rate(then.value),
        rate(then.low),
        rate(then.high),
    );
    let head = ["server", "-m now", "then"].map(str::to_owned);
    let rows = fleet.servers.iter().map(|server| {
        [
            server.server.clone(),
            (server.memory_bytes_now >> 20).to_string(),
            (server.memory_bytes_then >> 20).to_string(),
        ]
    });
    let columns = [Column::left(0), Column::right(0), Column::right(0)];
    text.push_str(&table(&columns, std::iter::once(head).chain(rows)));
    text.push_str(
        "\nchange it with -m at the next start, or with the command cache_memlimit while the server runs\n",
    );
    text + &of_pool(fleet)
}

/// Returns a table of the misses of all servers with more or less memory.
fn of_pool(fleet: &Fleet) -> String {
    let head = ["memory of each server", "all servers", "misses/s", "from", "to", ""];
    let rows = fleet.points.iter().map(|point| {
        let misses = point.misses_per_second;
        [
            percent(point.factor),
            memory(point.memory_bytes),
            rate(misses.value),
            rate(misses.low),
            rate(misses.high),
            if point.is_measured { String::new() } else { "not measured".to_owned() },
        ]
    });
    let columns = [
        Column::right(0),
        Column::right(0),
        Column::right(0),
        Column::right(0),
        Column::right(0),
        Column::left(0),
    ];
    let head = std::iter::once(head.map(str::to_owned));
    format!("\n{}", table(&columns, head.chain(rows)))
}
