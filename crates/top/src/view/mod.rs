//! Draws the state. The screen depends only on the state and on the size of the terminal.

mod detail;
mod help;
mod history;
mod tables;
#[cfg(test)]
mod tests;

use crate::columns::{CLASS_COLUMNS, Column, SERVER_COLUMNS};
use crate::numbers;
use crate::pool;
use crate::server::{Server, ServerState};
use crate::state::{Focus, List, Mode, State};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// The smallest size of the terminal, in columns and rows.
pub const SIZE_MIN: (u16, u16) = (80, 24);

/// The width from which the predictions and the plan are beside the classes, not below them.
const WIDE_COLUMNS: u16 = 130;
/// The width of the predictions and the plan beside the classes.
const SIDE_COLUMNS: u16 = 44;

/// Draws the state.
pub fn draw(frame: &mut Frame, state: &State) {
    let area = frame.area();
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        return too_small(frame, area);
    }
    let server_rows = state.shown_servers().len().max(1) as u16;
    let total = pool::total(&state.servers);
    let total_rows = u16::from(total.is_some());
    let server_height = (server_rows + 1).min(area.height / 4) + total_rows;
    let [title, servers, rule, selected, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(server_height),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(frame, title, state);
    tables::draw_servers(frame, servers, state, total.as_ref());
    draw_rule(frame, rule, state);
    match state.selected_server() {
        Some(server) => draw_selected(frame, selected, state, server),
        None => frame.render_widget(" No server matches the filter.", selected),
    }
    draw_keys(frame, keys, state);
    if state.mode == Mode::Help {
        help::draw(frame, area);
    }
}

fn too_small(frame: &mut Frame, area: Rect) {
    let (columns, rows) = SIZE_MIN;
    let text = format!(
        "The terminal has {} columns and {} rows. slabwise top needs at least {columns} columns and {rows} rows. Make \
         the window larger, or press q to quit.",
        area.width, area.height
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

/// Draws the first line: the number of servers, and the order of their table.
fn draw_title(frame: &mut Frame, area: Rect, state: &State) {
    let down = state.servers.iter().filter(|s| matches!(s.state, ServerState::Down(_))).count();
    let servers = match state.servers.len() {
        1 => "1 server".to_owned(),
        count => format!("{count} servers"),
    };
    let mut left = vec![" slabwise top  ".bold(), servers.into()];
    if down > 0 {
        left.push(format!(", {down} down").red());
    }
    left.push(format!(", every {} s", state.interval.as_secs_f64()).into());
    if state.is_paused() {
        left.push("  ".into());
        left.push(" paused ".black().on_yellow());
    }
    let right = order(&state.server_list, &SERVER_COLUMNS, "servers");
    ends(frame, area, left, right, state.focus == Focus::Servers);
}

/// Draws the line above the selected server: its address, its program, and the order of the table of classes.
fn draw_rule(frame: &mut Frame, area: Rect, state: &State) {
    let mut left = Vec::new();
    if let Some(server) = state.selected_server() {
        left.push(format!(" {}  ", server.address).bold());
        left.push(match &server.state {
            ServerState::Up(reading) => {
                let totals = &reading.sample.totals;
                let uptime = numbers::seconds(totals.uptime_seconds);
                format!("{}, up {uptime}", reading.sample.program()).into()
            }
            ServerState::Waiting => "connecting".into(),
            ServerState::Down(_) => "down".red(),
        });
    }
    let has_classes = state.selected_server().is_some_and(|server| server.reading().is_some());
    let right = match has_classes {
        true => order(&state.class_list, &CLASS_COLUMNS, "classes"),
        false => String::new(),
    };
    ends(frame, area, left, right, state.focus == Focus::Classes);
}

/// Draws a line with text at both ends. The line of the focused table has a brighter background.
fn ends(frame: &mut Frame, area: Rect, left: Vec<Span>, right: String, focused: bool) {
    let style = if focused { Style::new().black().on_cyan() } else { Style::new().on_dark_gray() };
    frame.render_widget(Line::from(left).style(style), area);
    let width = area.width.min(right.chars().count() as u16);
    let right_area = Rect { x: area.right() - width, width, ..area };
    frame.render_widget(Line::from(right).style(style), right_area);
}

/// Returns the order and the filter of a table, such as `servers sorted by req/s, largest first `.
fn order<R>(list: &List, columns: &[Column<R>], rows: &str) -> String {
    let column = &columns[list.sort];
    let direction = if list.is_descending(column) { ", largest first" } else { "" };
    let filter = match list.filter.as_str() {
        "" => String::new(),
        filter => format!(" with \"{filter}\""),
    };
    format!(" {rows}{filter} sorted by {}{direction} ", column.title)
}

/// Draws the last line: the keys, or the filter that the user types.
fn draw_keys(frame: &mut Frame, area: Rect, state: &State) {
    let line = if state.mode == Mode::Filter {
        let (rows, list) = match state.focus {
            Focus::Servers => ("servers", &state.server_list),
            Focus::Classes => ("classes", &state.class_list),
        };
        Line::from(vec![
            format!(" Show only {rows} with: {}", list.filter).into(),
            "_".slow_blink(),
            "   Enter keeps the filter, Esc removes it".dim(),
        ])
    } else {
        const KEYS: [(&str, &str); 7] = [
            ("q", "quit"),
            ("Tab", "servers/classes"),
            ("s", "sort"),
            ("r", "reverse"),
            ("/", "filter"),
            ("Space", "pause"),
            ("?", "help"),
        ];
        let spans = KEYS.iter().flat_map(|(key, effect)| {
            [format!(" {key}").bold().cyan(), format!(" {effect} ").into()]
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    frame.render_widget(line, area);
}

/// Draws the history of the selected server, how it differs from the others, its classes, the predictions and the plan.
fn draw_selected(frame: &mut Frame, area: Rect, state: &State, server: &Server) {
    let bars = if area.height >= 30 { 5 } else { 2 };
    let [history, rest] =
        Layout::vertical([Constraint::Length(1 + bars), Constraint::Min(0)]).areas(area);
    history::draw(frame, history, server);
    let reading = match &server.state {
        ServerState::Up(reading) => reading,
        ServerState::Waiting => {
            return frame.render_widget(format!(" Connecting to {}", server.address), rest);
        }
        ServerState::Down(reason) => {
            let text = format!(
                "{} cannot be read: {reason}. slabwise top tries again every {} s.",
                server.address,
                state.interval.as_secs_f64()
            );
            let text = Paragraph::new(text).red().wrap(Wrap { trim: true });
            return frame.render_widget(text, rest.inner(Margin::new(1, 0)));
        }
    };
    let sample = &reading.sample;
    let differences = state.differences(server).iter();
    let differences: Vec<Line<'_>> =
        differences.map(|it| Line::from(format!(" differs: {it}")).yellow()).collect();
    let [notes, rest] =
        Layout::vertical([Constraint::Length(differences.len() as u16), Constraint::Min(0)])
            .areas(rest);
    frame.render_widget(Paragraph::new(differences), notes);
    if area.width >= WIDE_COLUMNS && detail::height(sample) > 0 {
        let sides = [Constraint::Min(0), Constraint::Length(2), Constraint::Length(SIDE_COLUMNS)];
        let [classes, _, side] = Layout::horizontal(sides).areas(rest);
        tables::draw_classes(frame, classes, state);
        detail::draw_side(frame, side, sample);
    } else {
        let parts = [Constraint::Min(0), Constraint::Length(detail::height(sample))];
        let [classes, below] = Layout::vertical(parts).areas(rest);
        tables::draw_classes(frame, classes, state);
        detail::draw_below(frame, below, sample);
    }
}
