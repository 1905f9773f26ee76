//! Results for people: rows as an aligned table, and numbers.

use super::row::Row;
use slabwise_text::{Column, grouped};

pub fn table(rows: &[Row], scale: f64) -> String {
    // At full scale both columns of the paper are the same.
    let is_scaled = scale != 1.0;
    let line = |[text, variant, paper, at_scale, ours, unit, note]: [String; 7]| {
        let at_scale = is_scaled.then_some(at_scale);
        let papers = [text, variant, paper].into_iter().chain(at_scale);
        papers.chain([ours, unit, note]).collect::<Vec<String>>()
    };
    let head = ["", "", "paper", &format!("paper, at {scale}"), "ours", "", ""];
    let cells = rows.iter().map(|row| {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let place = row.place.as_deref().map_or_else(String::new, |place| format!("[{place}]"));
        let note = [row.remark().unwrap_or_default(), &place].join(" ");
        line([
            row.text.clone(),
            row.variant.clone(),
            shown(row.published),
            shown(row.published_at_scale),
            shown(row.ours),
            row.unit.clone(),
            note.trim().to_owned(),
        ])
    });
    let (left, right) = (Column::left(0), Column::right(0));
    let numbers = vec![right; if is_scaled { 3 } else { 2 }];
    let columns = [vec![left; 2], numbers, vec![left; 2]].concat();
    slabwise_text::table(&columns, std::iter::once(line(head.map(str::to_owned))).chain(cells))
}

pub fn number(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match value.abs() {
        size if size >= 1000.0 => format!("{sign}{}", grouped(size.round_ties_even() as u64)),
        size if value.fract() == 0.0 => format!("{sign}{size:.0}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_grouped() {
        let shown = [314_608.4, 47.95, 15.0, -1_234_567.0, 0.0].map(number);
        assert_eq!(shown, ["314,608", "47.95", "15", "-1,234,567", "0"]);
    }
}
