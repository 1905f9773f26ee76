//! Formats the advice as text: a table of classes, the totals, a verdict, and the option for the server in the last
//! line.

use crate::chunk_sizes::advice::{Advice, MemoryUse};
use slabwise_text::{Column, grouped, table};
use std::fmt::Write;

/// Returns the advice as text.
pub fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let version = advice.version.as_deref().map(|v| format!(" {v}")).unwrap_or_default();
    let Advice { items, bytes, program, source, .. } = advice;
    let (items, bytes) = (grouped(*items), grouped(*bytes));
    let _ = writeln!(text, "{items} items of {bytes} bytes for {program}{version}: {source}\n");
    append_classes(&mut text, advice);
    append_totals(&mut text, advice);
    append_verdict(&mut text, advice);
    if advice.is_for_slabwise() {
        let _ = writeln!(text, "while it runs: slabs classes {}", advice.slab_sizes);
    }
    if advice.slab_sizes.split('-').any(|number| !advice.table_has(number)) {
        let _ = writeln!(
            text,
            "where two sizes differ by 8, the option has a lower number, which memcached rounds up"
        );
    }
    if !advice.is_improvement() {
        text.push_str("\nnot recommended; for reference, the computed sizes are:");
    }
    let _ = writeln!(text, "\n-o slab_sizes={}", advice.slab_sizes);
    text
}

/// Appends the number of saved bytes and pages, or the reason why the recommended table is not better.
fn append_verdict(text: &mut String, advice: &Advice) {
    let pages = signed(-advice.saved_pages);
    let bytes = grouped(advice.saved_bytes.unsigned_abs());
    let percent = format!("{:.2} % of the items' bytes", advice.saved_percent.abs());
    let more_lost = format!("{bytes} bytes more are lost, {percent}");
    let _ = match (advice.is_improvement(), advice.saved_bytes >= 0) {
        (true, true) => writeln!(text, "\nsaved: {bytes} bytes, {percent}; pages: {pages}"),
        (true, false) => writeln!(text, "\nsaved by fewer classes: pages: {pages}; {more_lost}"),
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

/// Appends a table of the recommended classes.
fn append_classes(text: &mut String, advice: &Advice) {
    let head = ["chunk size", "items", "of bytes", "lost, bytes", "of chunk", "pages"];
    let all_bytes: u64 = advice.recommended.classes.iter().map(|row| row.bytes).sum();
    let rows = advice.recommended.classes.iter().filter(|row| row.chunks > 0).map(|row| {
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
    let spare_count = advice.recommended.classes.len() - advice.recommended.used_count();
    if spare_count > 0 {
        let _ = writeln!(text, "and {spare_count} spare classes for items of other sizes");
    }
}

/// Appends a comparison of the current and the recommended class table.
fn append_totals(text: &mut String, advice: &Advice) {
    let Advice { current, recommended, .. } = advice;
    let row = |name: &str, of: &dyn Fn(&MemoryUse) -> String| {
        [name.to_owned(), of(current), of(recommended)]
    };
    let count = |name: &str, of: fn(&MemoryUse) -> u64| row(name, &|memory| grouped(of(memory)));
    let pages = format!("pages of {} bytes", grouped(advice.page_size as u64));
    let mut rows = vec![
        ["", "current", "recommended"].map(str::to_owned),
        count("classes in use", |memory| memory.used_count() as u64),
        count(&pages, |memory| memory.pages),
        count("bytes lost in chunks", |memory| memory.lost_in_chunks),
        count("bytes lost at ends of pages", |memory| memory.lost_at_page_ends),
    ];
    if current.lost_by_chaining > 0 {
        rows.push(count("bytes lost by chaining", |memory| memory.lost_by_chaining));
    }
    rows.push(count("bytes lost in total", |memory| memory.lost));
    rows.push(count("bytes free on pages", |memory| memory.free));
    let share = |memory: &MemoryUse| percent(memory.lost, advice.bytes);
    rows.push(row("lost, of the items' bytes", &share));
    text.push('\n');
    text.push_str(&table(&[Column::left(27), Column::right(18), Column::right(18)], rows));
}

/// Formats a share in percent.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", part as f64 / whole.max(1) as f64 * 100.0)
}

/// Formats a number with its sign; 0 has no sign.
fn signed(number: i64) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{sign}{number}")
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn positive_and_negative_numbers_have_a_sign() {
        assert_eq!((signed(-3), signed(0), signed(4)), ("-3".into(), "0".into(), "+4".into()));
    }
}
