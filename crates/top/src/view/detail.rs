//! The predicted miss ratios and the last plan, which only slabwise has.

use super::tables::shortened;
use crate::numbers;
use crate::sample::{Plan, Profile, Sample};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

/// The width of the longest bar beside a predicted miss ratio.
const BAR_COLUMNS: f64 = 24.0;

/// The width of the title of a line of predictions, and that of each prediction.
const LABEL_COLUMNS: usize = 21;
const CELL_COLUMNS: usize = 8;
/// The memory sizes that are shown if not all predictions fit, in percent of the present memory.
const FEW_PERCENTS: [u64; 7] = [25, 50, 75, 100, 150, 200, 400];

/// Returns the number of lines that [`draw_below`] draws.
pub fn height(sample: &Sample) -> u16 {
    below(sample, u16::MAX).len() as u16
}

/// Draws the predictions and the plan as short lines below the classes.
pub fn draw_below(frame: &mut Frame, area: Rect, sample: &Sample) {
    frame.render_widget(Paragraph::new(below(sample, area.width)), area);
}

fn below(sample: &Sample, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(profile) = predicted(sample) {
        let shown = fitting(&profile.what_if, usize::from(width));
        let cells = |cell: fn(&(u64, f64)) -> String| -> String {
            shown.iter().map(|pair| format!("{:>CELL_COLUMNS$}", cell(pair))).collect()
        };
        let memory = cells(|(percent, _)| format!("{percent}%"));
        let misses = cells(|(_, ratio)| numbers::percent(*ratio));
        lines.push(Line::from(vec![" with this memory    ".dim(), memory.into()]));
        lines.push(Line::from(vec![" predicted miss ratio".dim(), misses.bold()]));
    }
    if let Some(plan) = &sample.plan {
        lines.push(Line::from(shortened(&format!(" {}", plan_text(plan)), width)));
    }
    lines
}

/// Returns the predictions that fit into a line of this width. If there are too many, those of [`FEW_PERCENTS`].
fn fitting(what_if: &[(u64, f64)], width: usize) -> Vec<(u64, f64)> {
    let room = width.saturating_sub(LABEL_COLUMNS) / CELL_COLUMNS;
    let is_shown = |percent| what_if.len() <= room || FEW_PERCENTS.contains(&percent);
    what_if.iter().copied().filter(|&(percent, _)| is_shown(percent)).take(room).collect()
}

/// Draws the predictions as bars, and the plan as a paragraph, beside the classes.
pub fn draw_side(frame: &mut Frame, area: Rect, sample: &Sample) {
    let mut lines = Vec::new();
    if let Some(profile) = predicted(sample) {
        lines.push(Line::from("memory  predicted miss ratio".bold()));
        let highest = profile.what_if.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        for (percent, ratio) in &profile.what_if {
            let columns = ratio / highest.max(f64::MIN_POSITIVE) * BAR_COLUMNS;
            let text = format!("{:>6}  {:>6}  ", format!("{percent}%"), numbers::percent(*ratio));
            lines.push(Line::from(vec![text.into(), "█".repeat(columns as usize).cyan()]));
        }
        lines.push(Line::default());
    }
    if let Some(plan) = &sample.plan {
        lines.push(Line::from("page moves".bold()));
        lines.push(Line::from(plan_text(plan)));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

/// Returns the profile if it has predictions.
fn predicted(sample: &Sample) -> Option<&Profile> {
    sample.profile.as_ref().filter(|profile| !profile.what_if.is_empty())
}

fn plan_text(plan: &Plan) -> String {
    let policy = &plan.policy;
    let Some(last) = &plan.last else {
        return format!("page policy {policy}: no plan with page moves yet");
    };
    let refused = match last.moves_refused {
        0 => String::new(),
        refused => format!(" ({refused} refused)"),
    };
    let moves = match last.moves {
        1 => "1 page move".to_owned(),
        moves => format!("{moves} page moves"),
    };
    let age = numbers::seconds(last.age_seconds);
    format!("{policy} planned {moves}{refused} {age} ago: {}", last.reason)
}
