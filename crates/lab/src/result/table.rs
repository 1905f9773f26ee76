//! Results for people: rows as an aligned table, and numbers.

use super::row::Row;
use std::fmt::Write;

/// Rows in columns as wide as they need to be.
pub fn table(rows: &[Row], scale: f64) -> String {
    let paper = if scale == 1.0 { "paper".to_owned() } else { format!("paper, at {scale}") };
    let head = ["", "", "paper", &paper, "ours", "", ""].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let place = row.place.as_deref().map_or_else(String::new, |place| format!("[{place}]"));
        let note = [row.remark().unwrap_or_default(), &place].join(" ");
        [
            row.text.clone(),
            row.variant.clone(),
            shown(row.published),
            shown(row.published_at_scale),
            shown(row.ours),
            row.unit.clone(),
            note.trim().to_owned(),
        ]
    });
    let mut lines = vec![head];
    lines.extend(cells);
    // At full scale both columns of the paper are the same.
    let columns: &[usize] = if scale == 1.0 { &[0, 1, 2, 4, 5, 6] } else { &[0, 1, 2, 3, 4, 5, 6] };
    let mut text = String::new();
    for line in &lines {
        for &column in columns {
            let width = lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let cell = &line[column];
            let _ = match column {
                2..=4 => write!(text, "{cell:>width$}  "),
                _ => write!(text, "{cell:<width$}  "),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A number with as many digits as one wants to read.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{:.0}", value.abs());
            let groups = digits.as_bytes().rchunks(3).rev();
            let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", groups.collect::<Vec<_>>().join(","))
        }
        size if value.fract() == 0.0 => format!("{}{size:.0}", if value < 0.0 { "-" } else { "" }),
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
