//! A figure as a file of its own: title, legend and drawing in one SVG, for what embeds pictures.

use super::chart::{COLOURS, STYLE, WIDTH, height, svg};
use super::drawing::Drawing;
use super::page::legend_entries;
use maud::{Markup, PreEscaped, html};

const TITLE_HEIGHT: u32 = 30;
const LEGEND_HEIGHT: u32 = 20;
const MARGIN: u32 = 12;
const MARK_WIDTH: u32 = 18;
/// Of a letter of the legend, about.
const LETTER_WIDTH: u32 = 7;

pub fn picture(title: &str, drawing: &Drawing<'_>, logarithmic: bool) -> Markup {
    let entries = placed(&legend_entries(drawing));
    let legend_rows = entries.last().map_or(0, |entry| entry.row + 1);
    let top = TITLE_HEIGHT + legend_rows * LEGEND_HEIGHT;
    let view = format!("0 0 {WIDTH} {}", top + height(drawing));
    let chart = svg(drawing, logarithmic);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(WIDTH * 3 / 2) role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" style="fill: var(--paper)" {}
            text x=(MARGIN) y="20" font-family="sans-serif" font-size="13" font-weight="bold" fill="#222222" { (title) }
            @for entry in &entries {
                @let y = TITLE_HEIGHT + entry.row * LEGEND_HEIGHT;
                rect x=(entry.x) y=(y + 6) width="12" height="4" fill=(fill_of(entry.colour)) {}
                text x=(entry.x + MARK_WIDTH) y=(y + 12) font-family="sans-serif" font-size="11" fill="#222222" {
                    (entry.label)
                }
            }
            // Its texts are escaped by who draws it.
            g transform=(format!("translate(0 {top})")) { (PreEscaped(chart)) }
        }
    }
}

fn fill_of(colour: usize) -> String {
    let colour = COLOURS[colour % COLOURS.len()];
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

struct Placed<'l> {
    label: &'l str,
    colour: usize,
    x: u32,
    row: u32,
}

fn placed<'l>(entries: &[(usize, &'l str)]) -> Vec<Placed<'l>> {
    let (mut x, mut row) = (MARGIN, 0);
    let place = |&(colour, label): &(usize, &'l str)| {
        let width = MARK_WIDTH + LETTER_WIDTH * label.chars().count() as u32 + MARGIN;
        if x > MARGIN && x + width > WIDTH {
            (x, row) = (MARGIN, row + 1);
        }
        let placed = Placed { label, colour, x, row };
        x += width;
        placed
    };
    entries.iter().map(place).collect()
}
