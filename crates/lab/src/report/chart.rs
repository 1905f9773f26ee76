//! Selects the data of a figure from an outcome, and draws it as SVG.
//!
//! Drawings use fixed colours. The style sheet of the page replaces each of these colours in its dark mode. The page
//! draws the legend, because HTML text wraps on a narrow screen and SVG text does not.

use crate::result::{CHUNK_SIZES, Draw, Figure, Outcome, Row, Series, Verdict, format_number};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The data of a figure, selected from an outcome.
#[derive(Debug)]
pub enum Drawing<'o> {
    Curves {
        x_unit: &'o str,
        y_label: String,
        curves: Vec<Curve<'o>>,
        /// The positions of vertical lines on the horizontal axis.
        lines: &'o [f64],
    },
    /// Horizontal bars; `label` is the text below the axis of the values.
    Bars { label: String, bars: Vec<Bar> },
}

#[derive(Debug)]
pub struct Curve<'o> {
    pub label: String,
    pub series: &'o Series,
}

/// Our value of a variant, and the published value at the scale of the run, if any.
#[derive(Debug)]
pub struct Bar {
    /// The name of the variant. For a value that is no evidence, also the reason.
    pub label: String,
    pub ours: f64,
    pub published: Option<f64>,
}

impl<'o> Drawing<'o> {
    /// Selects the data of a figure. Returns `None` if the outcome has no data for the figure.
    pub fn of(figure: &Figure, outcome: &'o Outcome) -> Option<Drawing<'o>> {
        match &figure.draw {
            Draw::Curves(name) => curves(figure, name, &outcome.series),
            Draw::Bars(measure) => bars(figure, measure, &outcome.rows),
        }
    }
}

fn curves<'o>(figure: &Figure, name: &str, series: &'o [Series]) -> Option<Drawing<'o>> {
    let mut found: Vec<(&str, &Series)> = series
        .iter()
        .filter(|series| series.name.starts_with(name) && !series.x.is_empty())
        .filter_map(|series| Some((figure.label(&series.variant)?, series)))
        .collect();
    let &(_, first) = found.first()?;
    let is_one_name = found.iter().all(|(_, series)| series.name == first.name);
    let is_one_variant = found.iter().all(|(_, series)| series.variant == first.variant);
    found.sort_by_key(|(_, series)| figure.position_of(&series.variant));
    let curves = found.iter().map(|&(label, series)| {
        let label = match (is_one_name, is_one_variant) {
            (true, _) => label.to_owned(),
            (false, true) => series.name.clone(),
            (false, false) => format!("{label}, {}", series.name),
        };
        Curve { label, series }
    });
    let curves = curves.collect();
    let quantity = if is_one_name { &first.name } else { name };
    let y_label = with_unit(quantity, &first.y_unit);
    let lines = figure.lines.as_deref().and_then(|variant| line_series(variant, series));
    let lines = lines.map_or(&[][..], |series| &series.x);
    Some(Drawing::Curves { x_unit: &first.x_unit, y_label, curves, lines })
}

/// Returns the series with the positions of the vertical lines of this variant.
fn line_series<'o>(variant: &str, series: &'o [Series]) -> Option<&'o Series> {
    series.iter().find(|series| series.name == CHUNK_SIZES && series.variant == variant)
}

fn bars<'o>(figure: &Figure, measure: &str, rows: &'o [Row]) -> Option<Drawing<'o>> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.measure == measure).collect();
    let first = rows.first()?;
    let label = with_unit(&first.text, &first.unit);
    rows.sort_by_key(|row| figure.position_of(&row.variant));
    let bars = rows.iter().filter_map(|row| {
        let (label, ours) = (figure.label(&row.variant)?, row.ours?);
        let label = match row.verdict() {
            Some(verdict @ (Verdict::Forced | Verdict::Fitted)) => {
                format!("{label} ({})", verdict.label())
            }
            _ => label.to_owned(),
        };
        Some(Bar { label, ours, published: row.published_at_scale })
    });
    let bars: Vec<Bar> = bars.collect();
    (!bars.is_empty()).then_some(Drawing::Bars { label, bars })
}

fn with_unit(quantity: &str, unit: &str) -> String {
    if unit.is_empty() { quantity.to_owned() } else { format!("{quantity}, {unit}") }
}

/// The variants that a figure should draw, but for which the outcome has no data.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Absent<'o> {
    /// Label and reason of each variant that the run could not measure.
    pub unmeasured: Vec<(&'o str, String)>,
    /// Labels of variants that the outcome does not contain. If the outcome contains nothing for the figure, also the
    /// title of the figure.
    pub unknown: Vec<&'o str>,
}

impl<'o> Absent<'o> {
    /// Compares the variants that a figure lists with the rows or series of the outcome.
    pub fn of(figure: &'o Figure, outcome: &'o Outcome) -> Absent<'o> {
        let mut absent = Absent::default();
        let known: Vec<(&str, Option<String>)> = match &figure.draw {
            Draw::Curves(name) => {
                let series = outcome.series.iter().filter(|series| series.name.starts_with(name));
                let reason =
                    |series: &Series| series.x.is_empty().then(|| "no data points".to_owned());
                series.map(|series| (&*series.variant, reason(series))).collect()
            }
            Draw::Bars(measure) => {
                let rows = outcome.rows.iter().filter(|row| row.measure == *measure);
                rows.map(|row| (&*row.variant, row.ours.is_none().then(|| row.remarks()))).collect()
            }
        };
        let labelled = known
            .iter()
            .filter_map(|(variant, reason)| Some((figure.label(variant)?, reason.clone()?)));
        absent.unmeasured.extend(labelled);
        let is_known =
            |name: &str| known.iter().any(|(variant, _)| figure.label(variant) == Some(name));
        let listed = figure.variants.iter().map(String::as_str);
        absent.unknown.extend(listed.filter(|name| !is_known(name)));
        let lines = figure.lines.as_deref();
        absent
            .unknown
            .extend(lines.filter(|variant| line_series(variant, &outcome.series).is_none()));
        if known.is_empty() {
            absent.unknown.push(&figure.title);
        }
        absent
    }
}

pub const STYLE: &str = include_str!("style.css");

/// The colours of lines and bars, in the order of their use. The style sheet must contain a rule for each colour.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x8C, 0x56, 0x4B),
    RGBColor(0x7F, 0x7F, 0x7F),
];
/// Colour of texts and axes.
const TEXT_COLOUR: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID_COLOUR: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

/// Width of every drawing. All lengths are in the units of the SVG view box.
pub const WIDTH: u32 = 480;
const CURVES_HEIGHT: u32 = 300;
/// Height of a bar, or of the pair of bars of one variant.
const BAR_HEIGHT: u32 = 26;
/// Height of the axis below bars, with its numbers and label.
const AXIS_HEIGHT: u32 = 60;
/// Width of the column of variant names left of bars.
const NAMES_WIDTH: u32 = 200;
/// Largest number of characters of a variant name left of bars.
const NAME_LEN_MAX: usize = 31;
const TEXT_SIZE: u32 = 13;
const MARGIN: u32 = 8;
/// Margin right of curves, which leaves space for half of the last number on the axis.
const END_MARGIN: u32 = 24;
/// Length of the axis that is reserved for the number next to the longest bar, as a fraction of the range of the
/// values.
const NUMBER_SHARE: f64 = 0.25;

/// Index in [`COLOURS`] of the bars of our values.
pub const OURS_COLOUR: usize = 0;
/// Index in [`COLOURS`] of the bars of published values.
pub const PUBLISHED_COLOUR: usize = 4;

type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub fn height(drawing: &Drawing<'_>) -> u32 {
    match drawing {
        Drawing::Curves { .. } => CURVES_HEIGHT,
        Drawing::Bars { bars, .. } => bars.len() as u32 * BAR_HEIGHT + AXIS_HEIGHT,
    }
}

/// Draws the data as SVG. A logarithmic axis is used only for bars.
pub fn svg(drawing: &Drawing<'_>, logarithmic: bool) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height(drawing))).into_drawing_area();
    let drawn = match drawing {
        Drawing::Curves { x_unit, y_label, curves, lines } => {
            draw_curves(&area, [x_unit, y_label], curves, lines)
        }
        Drawing::Bars { label, bars } if logarithmic => {
            let (low, high) = log_range(bars);
            draw_bars(&area, (low..high).log_scale(), low, label, bars)
        }
        Drawing::Bars { label, bars } => draw_bars(&area, range(values(bars)), 0.0, label, bars),
    };
    drawn.unwrap_or_else(|error| panic!("an SVG drawing into a string succeeds, not: {error}"));
    drop(area);
    text
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_curves(
    area: &Area<'_>,
    [x_unit, y_label]: [&str; 2],
    curves: &[Curve<'_>],
    lines: &[f64],
) -> DrawResult {
    let x = curves.iter().flat_map(|curve| curve.series.x.iter().copied());
    let (first, last) = ends(x.chain(lines.iter().copied()));
    let y = ends(curves.iter().flat_map(|curve| curve.series.y.iter().copied()).chain([0.0]));
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(END_MARGIN)
        .x_label_area_size(AXIS_HEIGHT - 2 * MARGIN)
        .y_label_area_size(58)
        .build_cartesian_2d(first..last, y.0..y.1)?;
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(6)
        .x_desc(x_unit)
        .y_desc(y_label)
        .label_style(("sans-serif", TEXT_SIZE, &TEXT_COLOUR))
        .axis_style(TEXT_COLOUR)
        .bold_line_style(GRID_COLOUR)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    let line = |&x: &f64| PathElement::new([(x, y.0), (x, y.1)], TEXT_COLOUR);
    chart.draw_series(lines.iter().map(line))?;
    for (index, curve) in curves.iter().enumerate() {
        let points = curve.series.x.iter().copied().zip(curve.series.y.iter().copied());
        let colour = COLOURS[index % COLOURS.len()];
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    area.present()
}

/// Draws one bar per variant for our value, and above this bar one bar for the published value, if any. Bars start at
/// `origin` on the axis `x`.
fn draw_bars<X>(area: &Area<'_>, x: X, origin: f64, label: &str, bars: &[Bar]) -> DrawResult
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let (names, plot) = area.split_horizontally(NAMES_WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .margin(MARGIN)
        .x_label_area_size(AXIS_HEIGHT - 2 * MARGIN)
        .build_cartesian_2d(x, (bars.len() as f64)..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_labels(4)
        .x_desc(label)
        .label_style(("sans-serif", TEXT_SIZE, &TEXT_COLOUR))
        .axis_style(TEXT_COLOUR)
        .bold_line_style(GRID_COLOUR)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .draw()?;
    let text = ("sans-serif", TEXT_SIZE).into_text_style(area).color(&TEXT_COLOUR);
    let left = text.pos(Pos::new(HPos::Right, VPos::Center));
    let right = text.pos(Pos::new(HPos::Left, VPos::Center));
    for (row, bar) in bars.iter().enumerate() {
        // The vertical axis counts variants, so each variant has the height 1.
        let top = row as f64;
        let middle = MARGIN + row as u32 * BAR_HEIGHT + BAR_HEIGHT / 2;
        let place = ((NAMES_WIDTH - MARGIN) as i32, middle as i32);
        names.draw_text(&shortened(&bar.label), &left, place)?;
        // Value, upper edge, lower edge and colour of each bar.
        let bars_of_variant: &[(Option<f64>, f64, f64, RGBColor)] = &match bar.published {
            Some(_) => [
                (bar.published, 0.08, 0.48, COLOURS[PUBLISHED_COLOUR]),
                (Some(bar.ours), 0.5, 0.9, COLOURS[OURS_COLOUR]),
            ],
            None => {
                [(None, 0.0, 0.0, TEXT_COLOUR), (Some(bar.ours), 0.15, 0.85, COLOURS[OURS_COLOUR])]
            }
        };
        for &(value, from, to, colour) in bars_of_variant {
            let Some(value) = value else { continue };
            let corners = [(origin, top + from), (value, top + to)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            let end = (value.max(origin), top + f64::midpoint(from, to));
            let label =
                EmptyElement::at(end) + Text::new(format_number(value), (3, 0), right.clone());
            chart.draw_series([label])?;
        }
    }
    area.present()
}

fn values<'b>(bars: &'b [Bar]) -> impl Iterator<Item = f64> + 'b {
    bars.iter().flat_map(|bar| [Some(bar.ours), bar.published]).flatten()
}

/// Returns the range of a linear axis. The range includes 0 and space for the number next to the longest bar.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (minimum, maximum) = ends(values.chain([0.0]));
    let space = (maximum - minimum) * NUMBER_SHARE;
    (if minimum < 0.0 { minimum - space } else { minimum })..maximum + space
}

/// Returns the range of a logarithmic axis, rounded to powers of ten, with space for the number next to the longest
/// bar.
fn log_range(bars: &[Bar]) -> (f64, f64) {
    let positive = values(bars).filter(|&value| value > 0.0).map(f64::log10);
    let (minimum, maximum) = ends(positive);
    (10f64.powf(minimum.floor()), 10f64.powf((maximum + NUMBER_SHARE * (maximum - minimum)).ceil()))
}

/// Returns the minimum and the maximum of the finite values. If the two are equal, the maximum is increased by 1,
/// because an axis needs a length above 0. Without finite values, returns 0 and 1.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (minimum, maximum) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(minimum, maximum), value| {
            (minimum.min(value), maximum.max(value))
        });
    match minimum < maximum {
        true => (minimum, maximum),
        false if minimum.is_finite() => (minimum, minimum + 1.0),
        false => (0.0, 1.0),
    }
}

/// Formats a number of an axis with at most two decimals and the letter k, M or G for thousands, millions and billions.
fn short(value: f64) -> String {
    let (divisor, letter) = match value.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let rounded = (value / divisor * 100.0).round() / 100.0;
    format!("{rounded}{letter}")
}

/// Returns the name, cut to [`NAME_LEN_MAX`] characters with an ellipsis at the end if it is longer.
fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LEN_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_LEN_MAX - 1).collect();
    start + "\u{2026}"
}
