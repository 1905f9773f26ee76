//! The tables of servers and of classes.

use crate::columns::{CLASS_COLUMNS, Column, SERVER_COLUMNS};
use crate::server::{Server, ServerState};
use crate::state::{Focus, State};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Margin, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table, TableState};

/// The most spaces between two columns.
const SPACING_MAX: u16 = 4;
/// The space at the left and at the right of a table.
const MARGIN: Margin = Margin::new(1, 0);

/// Draws the table of servers, and their sums below it. A server that differs from the others has another colour.
pub fn draw_servers(frame: &mut Frame, area: Rect, state: &State, total: Option<&Server>) {
    let area = area.inner(MARGIN);
    let servers = state.shown_servers();
    let mut widths: Vec<u16> = SERVER_COLUMNS.iter().map(|column| column.width).collect();
    let longest = servers.iter().map(|server| server.address.chars().count() as u16).max();
    widths[0] = longest.unwrap_or(0).clamp(widths[0], widths[0] + spare(&widths, area.width));
    let rows = servers.iter().map(|server| match &server.state {
        ServerState::Up(_) => {
            let row = Row::new(cells(*server, &SERVER_COLUMNS, &widths));
            if state.differences(server).is_empty() { row } else { row.yellow() }
        }
        ServerState::Waiting => with_reason(server, widths[0], "connecting").dim(),
        ServerState::Down(reason) => with_reason(server, widths[0], reason).red(),
    });
    let selection = Selection {
        position: state.server_list.selected_position(&servers),
        focused: state.focus == Focus::Servers,
        sort: state.server_list.sort,
    };
    let [rows_area, total_area] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(u16::from(total.is_some()))])
            .areas(area);
    let rows = rows.collect();
    draw(frame, rows_area, &SERVER_COLUMNS, &widths, rows, selection);
    if let Some(total) = total {
        let row = Row::new(cells(total, &SERVER_COLUMNS, &widths)).bold();
        let table = Table::new([row], widths.iter().map(|&width| Constraint::Length(width)));
        frame.render_widget(table.column_spacing(spacing(&widths, area.width)), total_area);
    }
}

/// Draws the table of the classes of the selected server.
pub fn draw_classes(frame: &mut Frame, area: Rect, state: &State) {
    let classes = state.shown_classes();
    if classes.is_empty() {
        let text = match state.class_list.filter.as_str() {
            "" => " The server has no items.",
            _ => " No class matches the filter.",
        };
        return frame.render_widget(text, area);
    }
    let area = area.inner(MARGIN);
    let widths = CLASS_COLUMNS.map(|column| column.width);
    let rows = classes.iter().map(|row| Row::new(cells(*row, &CLASS_COLUMNS, &widths)));
    let selection = Selection {
        position: state.class_list.selected_position(&classes),
        focused: state.focus == Focus::Classes,
        sort: state.class_list.sort,
    };
    draw(frame, area, &CLASS_COLUMNS, &widths, rows.collect(), selection);
}

/// The selected row of a table, and the column by which its rows are sorted.
struct Selection {
    position: usize,
    focused: bool,
    sort: usize,
}

fn draw<R>(
    frame: &mut Frame,
    area: Rect,
    columns: &[Column<R>],
    widths: &[u16],
    rows: Vec<Row>,
    selection: Selection,
) {
    let titles = columns.iter().enumerate().map(|(number, column)| {
        let style = match number == selection.sort {
            true => Style::new().bold().underlined(),
            false => Style::new().bold(),
        };
        Cell::new(aligned(column, column.title.to_owned()).style(style))
    });
    let highlight = match selection.focused {
        true => Style::new().add_modifier(Modifier::REVERSED),
        false => Style::new().add_modifier(Modifier::BOLD),
    };
    let mut table_state = TableState::new().with_selected(selection.position).with_offset(offset(
        selection.position,
        rows.len(),
        usize::from(area.height).saturating_sub(1),
    ));
    let table = Table::new(rows, widths.iter().map(|&width| Constraint::Length(width)))
        .header(Row::new(titles))
        .column_spacing(spacing(widths, area.width))
        .row_highlight_style(highlight);
    frame.render_stateful_widget(table, area, &mut table_state);
}

/// Returns the number of spaces between two columns.
fn spacing(widths: &[u16], available: u16) -> u16 {
    (1 + spare(widths, available) / widths.len() as u16).min(SPACING_MAX)
}

/// Returns the number of columns of the terminal that are left if one space is between the columns of the table.
fn spare(widths: &[u16], available: u16) -> u16 {
    let used = widths.iter().sum::<u16>() + widths.len() as u16 - 1;
    available.saturating_sub(used)
}

/// Returns the position of the first visible row. The selected row is in the middle, except near the ends of the table.
fn offset(selected: usize, rows: usize, visible: usize) -> usize {
    selected.saturating_sub(visible / 2).min(rows.saturating_sub(visible))
}

fn cells<R>(row: &R, columns: &[Column<R>], widths: &[u16]) -> Vec<Cell<'static>> {
    let cell = |(column, &width): (&Column<R>, &u16)| {
        Cell::new(aligned(column, shortened(&(column.value)(row).text(), width)))
    };
    columns.iter().zip(widths).map(cell).collect()
}

/// Returns the row of a server without values: its address, and a text in place of the values.
fn with_reason(server: &Server, width: u16, reason: &str) -> Row<'static> {
    let span = SERVER_COLUMNS.len() as u16 - 1;
    let address = Cell::new(shortened(&server.address, width));
    Row::new([address, Cell::new(reason.to_owned()).column_span(span)])
}

fn aligned<R>(column: &Column<R>, text: String) -> Text<'static> {
    let alignment = if column.left { Alignment::Left } else { Alignment::Right };
    Text::from(text).alignment(alignment)
}

/// Returns the text, or its start and an ellipsis if it is wider than the column.
pub fn shortened(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::{offset, shortened};

    #[test]
    fn the_selected_row_is_visible() {
        assert_eq!(offset(0, 40, 10), 0);
        assert_eq!(offset(4, 40, 10), 0);
        assert_eq!(offset(20, 40, 10), 15);
        assert_eq!(offset(39, 40, 10), 30);
        assert_eq!(offset(3, 4, 10), 0);
    }

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(shortened("abcd", 4), "abcd");
        assert_eq!(shortened("abcde", 4), "abc…");
    }
}
