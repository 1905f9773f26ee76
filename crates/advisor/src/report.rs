//! The advice as text: a table, the totals and, in the last line, the option for the server.

use crate::advice::{Advice, Outcome};
use slabwise_text::{Column, grouped, table};
use std::fmt::Write;

pub fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let version = advice.version.as_deref().map(|v| format!(" {v}")).unwrap_or_default();
    let Advice { items, bytes, program, source, .. } = advice;
    let (items, bytes) = (grouped(*items), grouped(*bytes));
    let _ = writeln!(text, "{items} items of {bytes} bytes for {program}{version}: {source}\n");
    classes(&mut text, advice);
    totals(&mut text, advice);
    verdict(&mut text, advice);
    if advice.is_for_slabwise() {
        let _ = writeln!(text, "while it runs: slabs classes {}", advice.slab_sizes);
    }
    if advice.slab_sizes.split('-').any(|number| !advice.table_has(number)) {
        let _ = writeln!(
            text,
            "sizes that are 8 apart are listed as lower numbers, which memcached rounds up"
        );
    }
    if !advice.gains() {
        text.push_str("\nnot recommended; the computed sizes, for reference:");
    }
    let _ = writeln!(text, "\n-o slab_sizes={}", advice.slab_sizes);
    text
}

fn verdict(text: &mut String, advice: &Advice) {
    let pages = signed(-advice.saved_pages);
    let bytes = grouped(advice.saved_bytes.unsigned_abs());
    let percent = format!("{:.2} % of the items' bytes", advice.saved_percent.abs());
    let more_lost = format!("{bytes} bytes more are lost, {percent}");
    let _ = match (advice.gains(), advice.saved_bytes >= 0) {
        (true, true) => writeln!(text, "\nsaved: {bytes} bytes, {percent}; pages: {pages}"),
        (true, false) => writeln!(text, "\nsaved, by fewer classes: pages: {pages}; {more_lost}"),
        (false, true) => writeln!(
            text,
            "\nsaved: {bytes} bytes, {percent}, but pages: {pages}: give fewer classes"
        ),
        (false, false) => writeln!(
            text,
            "\nnothing is saved ({more_lost}; pages: {pages}): keep the current table, or give another \
             number of classes"
        ),
    };
}

fn classes(text: &mut String, advice: &Advice) {
    let head = ["chunk size", "items", "of bytes", "lost, bytes", "of chunk", "pages"];
    let all_bytes: u64 = advice.then.classes.iter().map(|row| row.bytes).sum();
    let rows = advice.then.classes.iter().filter(|row| row.chunks > 0).map(|row| {
        [
            row.chunk_size.to_string(),
            grouped(row.chunks),
            percent(row.bytes, all_bytes),
            grouped(row.bytes_lost),
            percent(row.bytes_lost, row.bytes + row.bytes_lost),
            grouped(row.pages),
        ]
    });
    let rows = std::iter::once(head.map(str::to_owned)).chain(rows);
    text.push_str(&table(&[10, 14, 8, 15, 8, 9].map(Column::right), rows));
    let spare_count = advice.then.classes.len() - advice.then.used_count();
    if spare_count > 0 {
        let _ = writeln!(text, "and {spare_count} spare classes for items of other sizes");
    }
}

fn totals(text: &mut String, advice: &Advice) {
    let Advice { now, then, .. } = advice;
    let row = |name: &str, of: &dyn Fn(&Outcome) -> String| [name.to_owned(), of(now), of(then)];
    let count = |name: &str, of: fn(&Outcome) -> u64| row(name, &|outcome| grouped(of(outcome)));
    let pages = format!("pages of {} bytes", grouped(advice.page_size as u64));
    let mut rows = vec![
        ["", "current", "recommended"].map(str::to_owned),
        count("classes in use", |outcome| outcome.used_count() as u64),
        count(&pages, |outcome| outcome.pages),
        count("bytes lost in chunks", |outcome| outcome.lost_in_chunks),
        count("bytes lost at ends of pages", |outcome| outcome.lost_at_page_ends),
    ];
    if now.lost_by_chaining > 0 {
        rows.push(count("bytes lost by chaining", |outcome| outcome.lost_by_chaining));
    }
    rows.push(count("bytes lost in total", |outcome| outcome.lost));
    rows.push(count("bytes free on pages", |outcome| outcome.free));
    let share = |outcome: &Outcome| percent(outcome.lost, advice.bytes);
    rows.push(row("lost, of the items' bytes", &share));
    text.push('\n');
    text.push_str(&table(&[Column::left(27), Column::right(18), Column::right(18)], rows));
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", part as f64 / whole.max(1) as f64 * 100.0)
}

fn signed(number: i64) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{sign}{number}")
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn signed_numbers_have_a_sign() {
        assert_eq!((signed(-3), signed(0), signed(4)), ("-3".into(), "0".into(), "+4".into()));
    }
}
