//! The advice for people: a table, the totals, and the line to start the server with, which comes last.

use crate::advice::{Advice, Outcome};
use std::fmt::Write;

/// The whole text.
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
            "sizes 8 apart are listed by lower numbers, as memcached wants, and rounded up by it"
        );
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
            "\nnothing is saved ({more_lost}; pages: {pages}): keep the present table, or give another \
             number of classes"
        ),
    };
}

fn classes(text: &mut String, advice: &Advice) {
    let _ = writeln!(
        text,
        "{:>10}  {:>14}  {:>8}  {:>15}  {:>8}  {:>9}",
        "chunk size", "items", "of bytes", "lost, bytes", "of chunk", "pages"
    );
    let all_bytes: u64 = advice.then.classes.iter().map(|row| row.bytes).sum();
    for row in advice.then.classes.iter().filter(|row| row.chunks > 0) {
        let of_bytes = percent(row.bytes, all_bytes);
        let of_chunk = percent(row.bytes_lost, row.bytes + row.bytes_lost);
        let _ = writeln!(
            text,
            "{:>10}  {:>14}  {of_bytes:>6.2} %  {:>15}  {of_chunk:>6.2} %  {:>9}",
            row.chunk_size,
            grouped(row.chunks),
            grouped(row.bytes_lost),
            grouped(row.pages)
        );
    }
    let spare_count = advice.then.classes.len() - advice.then.used_count();
    if spare_count > 0 {
        let _ = writeln!(text, "and {spare_count} between and above them for items of other sizes");
    }
}

fn totals(text: &mut String, advice: &Advice) {
    let Advice { now, then, .. } = advice;
    let pages = format!("pages of {} bytes", grouped(advice.page_size as u64));
    let used = |outcome: &Outcome| outcome.used_count() as u64;
    let mut rows = vec![
        ("classes in use", used(now), used(then)),
        (pages.as_str(), now.pages, then.pages),
        ("bytes lost in chunks", now.lost_in_chunks, then.lost_in_chunks),
        ("bytes lost at ends of pages", now.lost_at_page_ends, then.lost_at_page_ends),
    ];
    if now.lost_by_chaining > 0 {
        rows.push(("bytes lost by chaining", now.lost_by_chaining, then.lost_by_chaining));
    }
    rows.push(("bytes lost in all", now.lost, then.lost));
    rows.push(("bytes free on pages", now.free, then.free));
    let _ = writeln!(text, "\n{:<27}  {:>18}  {:>18}", "", "now", "then");
    for (name, now, then) in rows {
        let _ = writeln!(text, "{name:<27}  {:>18}  {:>18}", grouped(now), grouped(then));
    }
    let of_bytes = |lost: u64| format!("{:.2} %", percent(lost, advice.bytes));
    let name = "lost, of the items' bytes";
    let _ = writeln!(text, "{name:<27}  {:>18}  {:>18}", of_bytes(now.lost), of_bytes(then.lost));
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn signed(number: i64) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{sign}{number}")
}

#[cfg(test)]
mod tests {
    use super::{grouped, signed};

    #[test]
    fn numbers_are_easy_to_read() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_048_576, "1,048,576")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((signed(-3), signed(0), signed(4)), ("-3".into(), "0".into(), "+4".into()));
    }
}
