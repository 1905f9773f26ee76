//! The miss ratio by memory, as SVG.
//!
//! The drawing uses fixed colours, which the style sheet of the page replaces, as in the reports of the lab. The page has
//! the legend and a table with the numbers.

use super::ServerReport;
use crate::gains::memory::MemoryPoint;
use plotters::prelude::*;

/// The width and the height of the drawing in units of its view box.
const SIZE: (u32, u32) = (560, 320);
const TEXT_SIZE: u32 = 14;
const MARGIN: u32 = 8;
/// The colours; the style sheet has a rule for each.
const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const PRESENT: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const DIVIDED: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const SLABWISE: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
/// The length of the dashes of a line that was not measured, and of the gaps between them.
const DASHES: (u32, u32) = (6, 5);

type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws the curves of a server.
pub fn svg(server: &ServerReport) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&area, server)
        .unwrap_or_else(|error| panic!("an SVG drawing into a string succeeds, not: {error}"));
    drop(area);
    // The page has a text that describes the drawing, and the size is that of the page.
    text.replacen("<svg ", "<svg aria-hidden=\"true\" ", 1)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    server: &ServerReport,
) -> DrawResult {
    let points = &server.memory.points;
    let mib = |point: &MemoryPoint| point.memory_bytes as f64 / f64::from(1 << 20);
    let (first, last) = match points.as_slice() {
        [first, .., last] => (mib(first), mib(last)),
        _ => (0.0, 1.0),
    };
    let highest = points.iter().map(|point| point.miss_ratio.high).fold(0.0, f64::max);
    let high = (highest * 100.0).clamp(0.001, 100.0);
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(3 * MARGIN)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(first..last, 0.0..high)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(6)
        .x_desc("memory, MiB")
        .y_desc("gets that miss, %")
        .label_style(("sans-serif", TEXT_SIZE, &TEXT))
        .axis_style(TEXT)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| slabwise_text::grouped(*x as u64))
        .y_label_formatter(&|y| if high < 10.0 { format!("{y:.1}") } else { format!("{y:.0}") })
        .draw()?;
    // The band of the present division.
    let upper = points.iter().map(|it| (mib(it), (it.miss_ratio.high * 100.0).min(high)));
    let lower = points.iter().rev().map(|it| (mib(it), it.miss_ratio.low * 100.0));
    let band: Vec<(f64, f64)> = upper.chain(lower).collect();
    chart.draw_series([Polygon::new(band, PRESENT.mix(0.15))])?;
    let present = points.iter().map(|it| (mib(it), it.miss_ratio.value, it.is_measured));
    let divided = points
        .iter()
        .filter_map(|it| Some((mib(it), it.miss_ratio_best_division?.value, it.is_measured)));
    for (colour, line) in [(PRESENT, present.collect::<Vec<_>>()), (DIVIDED, divided.collect())] {
        for two in line.windows(2) {
            let ends = two.iter().map(|&(x, ratio, _)| (x, ratio * 100.0));
            let style = colour.stroke_width(2);
            match two.iter().all(|&(.., is_measured)| is_measured) {
                true => chart.draw_series(LineSeries::new(ends, style))?,
                false => {
                    chart.draw_series(DashedLineSeries::new(ends, DASHES.0, DASHES.1, style))?
                }
            };
        }
    }
    if let Some(slabwise) = &server.slabwise {
        let at = (server.memory_limit_bytes as f64 / f64::from(1 << 20), slabwise.miss_ratio);
        let (x, ratio) = (at.0, at.1);
        let ends = [(x, ratio.low * 100.0), (x, (ratio.high * 100.0).min(high))];
        chart.draw_series([PathElement::new(ends, SLABWISE.stroke_width(2))])?;
        chart.draw_series([Circle::new((x, ratio.value * 100.0), 5, SLABWISE.filled())])?;
    }
    let now = (server.memory_limit_bytes as f64 / f64::from(1 << 20), server.miss_ratio * 100.0);
    chart.draw_series([Circle::new(now, 5, PRESENT.filled())])?;
    area.present()
}
