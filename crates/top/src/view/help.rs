//! The list of keys, which covers the middle of the screen.

use crate::keys::KEYS;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph};

/// Explanations of the tables.
const NOTES: [&str; 5] = [
    "s, r and / apply to the table with the bright title.",
    "req/s   gets, sets, touches, deletes, increments, decrements",
    "hits    hits divided by gets since the last sample",
    "*class  slabwise empties this class",
    "-       unknown, or the server does not have it",
];

/// Draws the list of keys.
pub fn draw(frame: &mut Frame, area: Rect) {
    let key = |(key, effect): &(&str, &str)| {
        Line::from(vec![format!("{key:<18}").bold().cyan(), (*effect).to_owned().into()])
    };
    let mut lines: Vec<Line> = KEYS.iter().map(key).collect();
    lines.push(Line::default());
    lines.extend(NOTES.map(Line::from));
    let height = Constraint::Length(lines.len() as u16 + 2);
    let help = area.centered(Constraint::Length(66), height);
    let block = Block::bordered().title(" keys ").padding(Padding::horizontal(1));
    frame.render_widget(Clear, help);
    frame.render_widget(Paragraph::new(lines).block(block), help);
}
