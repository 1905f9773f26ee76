//! Text output of commands: tables, numbers with separators, and error lines.
#![forbid(unsafe_code)]

pub mod command;

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    alignment: CellAlignment,
    width_min: u16,
}

impl Column {
    /// Returns a left-aligned column. It is as wide as its widest cell, and at least `width_min` wide.
    pub const fn left(width_min: u16) -> Column {
        Column { alignment: CellAlignment::Left, width_min }
    }

    /// Returns a right-aligned column. It is as wide as its widest cell, and at least `width_min` wide.
    pub const fn right(width_min: u16) -> Column {
        Column { alignment: CellAlignment::Right, width_min }
    }
}

/// Spaces between columns.
const GAP: u16 = 2;

/// Formats rows as a table, one line per row, without trailing spaces.
pub fn table<R: AsRef<[String]>>(columns: &[Column], rows: impl IntoIterator<Item = R>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for row in rows {
        table.add_row(row.as_ref());
    }
    for (shown, column) in table.column_iter_mut().zip(columns) {
        shown.set_padding((0, GAP)).set_cell_alignment(column.alignment);
        shown.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(column.width_min + GAP)));
    }
    let lines = table.trim_fmt();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// Formats a number with commas between thousands.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Column, grouped, table};

    #[test]
    fn separates_thousands_with_commas() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_048_576, "1,048,576")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn columns_fit_their_cells_without_trailing_spaces() {
        let rows = [["size", "é", ""], ["1,024", "second", "note"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let columns = [Column::right(7), Column::left(0), Column::left(0)];
        assert_eq!(table(&columns, rows), "   size  é\n  1,024  second  note\n");
        assert_eq!(table(&columns, [["a".to_owned()]]), "      a\n");
    }
}
