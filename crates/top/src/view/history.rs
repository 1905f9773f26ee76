//! The sparklines of requests per second and hit ratio.

use crate::numbers;
use crate::server::Server;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline};
use std::collections::VecDeque;

/// Draws both sparklines side by side. The newest value is at the right end.
pub fn draw(frame: &mut Frame, area: Rect, server: &Server) {
    let halves = [Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)];
    let [left, _, right] = Layout::horizontal(halves).areas(area);
    let requests = visible(&server.history.requests_per_second, left);
    let ratios = visible(&server.history.hit_ratios, right);
    let highest = requests.iter().flatten().copied().reduce(f64::max);
    let requests_now = newest(&requests, numbers::rate);
    let highest_text = formatted(highest, numbers::rate);
    let title = format!(" requests/s {requests_now}, highest {highest_text}");
    // The bars are integers, so a low rate is multiplied.
    let scaled = requests.iter().map(|rate| rate.map(|rate| (rate * 100.0) as u64)).collect();
    sparkline(
        frame,
        left,
        title,
        scaled,
        ((highest.unwrap_or(0.0) * 100.0) as u64).max(1),
        Style::new().cyan(),
    );
    let lowest = formatted(ratios.iter().flatten().copied().reduce(f64::min), numbers::percent);
    let title = format!(" hit ratio {}, lowest {lowest}", newest(&ratios, numbers::percent));
    let scaled = ratios.iter().map(|ratio| ratio.map(|ratio| (ratio * 1000.0) as u64)).collect();
    sparkline(frame, right, title, scaled, 1000, Style::new().green());
}

/// Returns the values that fit into the width of the area, the newest first.
fn visible(values: &VecDeque<Option<f64>>, area: Rect) -> Vec<Option<f64>> {
    values.iter().rev().take(usize::from(area.width)).copied().collect()
}

fn newest(values: &[Option<f64>], format: fn(f64) -> String) -> String {
    formatted(values.first().copied().flatten(), format)
}

fn formatted(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

fn sparkline(
    frame: &mut Frame,
    area: Rect,
    title: String,
    values: Vec<Option<u64>>,
    max: u64,
    style: Style,
) {
    let [title_area, bars] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::from(title), title_area);
    let sparkline = Sparkline::default()
        .data(values)
        .max(max)
        .direction(RenderDirection::RightToLeft)
        .style(style);
    frame.render_widget(sparkline, bars);
}
