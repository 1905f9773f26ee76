//! Text output of the subcommands of `slabwise`: tables, numbers with commas, and error lines.
#![forbid(unsafe_code)]

pub mod command;

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};

/// The alignment and the minimum width of a column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    alignment: CellAlignment,
    /// The minimum width in characters.
    width_min: u16,
}

impl Column {
    /// Returns a left-aligned column. Its width is that of its widest cell, and at least `width_min` characters.
    pub const fn left(width_min: u16) -> Column {
        Column { alignment: CellAlignment::Left, width_min }
    }

    /// Returns a right-aligned column. Its width is that of its widest cell, and at least `width_min` characters.
    pub const fn right(width_min: u16) -> Column {
        Column { alignment: CellAlignment::Right, width_min }
    }
}

/// The number of spaces between two columns.
const GAP: u16 = 2;

/// Formats rows as a table, one line per row, without trailing spaces.
pub fn table<R: AsRef<[String]>>(columns: &[Column], rows: impl IntoIterator<Item = R>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for row in rows {
        table.add_row(row.as_ref());
    }
    for (cells, column) in table.column_iter_mut().zip(columns) {
        cells.set_padding((0, GAP)).set_cell_alignment(column.alignment);
        cells.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(column.width_min + GAP)));
    }
    let lines = table.trim_fmt();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// Formats a number with commas between its groups of three digits, such as 1,048,576.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Column, grouped, table};

    #[test]
    fn grouped_separates_groups_of_three_digits_with_commas() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_048_576, "1,048,576")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn table_aligns_columns_and_omits_trailing_spaces() {
        let rows = [["size", "é", ""], ["1,024", "second", "note"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let columns = [Column::right(7), Column::left(0), Column::left(0)];
        assert_eq!(table(&columns, rows), "   size  é\n  1,024  second  note\n");
        assert_eq!(table(&columns, [["a".to_owned()]]), "      a\n");
    }
}
