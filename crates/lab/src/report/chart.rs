//! Selects the data of a figure from an outcome, and draws it as SVG.
//!
//! Each colour has a role; the style sheet replaces it for light and dark pages. Legends are part of the page, so that
//! they wrap on a phone.

use crate::result::{Draw, Figure, Outcome, Row, Series, number};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

#[derive(Debug)]
pub enum Drawing<'o> {
    Curves { x_unit: &'o str, y_label: String, curves: Vec<Curve<'o>> },
    Bars { label: String, bars: Vec<Bar<'o>> },
}

#[derive(Debug)]
pub struct Curve<'o> {
    pub label: String,
    pub series: &'o Series,
}

#[derive(Debug)]
pub struct Bar<'o> {
    pub label: &'o str,
    pub ours: f64,
    pub published: Option<f64>,
}

impl<'o> Drawing<'o> {
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
    found.sort_by_key(|(_, series)| figure.place_of(&series.variant));
    let curves = found.iter().map(|&(label, series)| {
        let label = match (is_one_name, is_one_variant) {
            (true, _) => label.to_owned(),
            (false, true) => series.name.clone(),
            (false, false) => format!("{label}, {}", series.name),
        };
        Curve { label, series }
    });
    let curves = curves.collect();
    let what = if is_one_name { &first.name } else { name };
    Some(Drawing::Curves { x_unit: &first.x_unit, y_label: with_unit(what, &first.y_unit), curves })
}

fn bars<'o>(figure: &Figure, measure: &str, rows: &'o [Row]) -> Option<Drawing<'o>> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.measure == measure).collect();
    let first = rows.first()?;
    let label = with_unit(&first.text, &first.unit);
    rows.sort_by_key(|row| figure.place_of(&row.variant));
    let bars = rows.iter().filter_map(|row| {
        let (label, ours) = (figure.label(&row.variant)?, row.ours?);
        Some(Bar { label, ours, published: row.published_at_scale })
    });
    let bars: Vec<Bar<'_>> = bars.collect();
    (!bars.is_empty()).then_some(Drawing::Bars { label, bars })
}

fn with_unit(what: &str, unit: &str) -> String {
    if unit.is_empty() { what.to_owned() } else { format!("{what}, {unit}") }
}

/// The variants that a figure names but cannot draw.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Absent<'o> {
    pub unmeasured: Vec<(&'o str, &'o str)>,
    /// Variants that the outcome does not have.
    pub unknown: Vec<&'o str>,
}

impl<'o> Absent<'o> {
    pub fn of(figure: &'o Figure, outcome: &'o Outcome) -> Absent<'o> {
        let mut absent = Absent::default();
        let known: Vec<(&str, Option<&str>)> = match &figure.draw {
            Draw::Curves(name) => {
                let series = outcome.series.iter().filter(|series| series.name.starts_with(name));
                let why = |series: &Series| series.x.is_empty().then_some("no data points");
                series.map(|series| (&*series.variant, why(series))).collect()
            }
            Draw::Bars(measure) => {
                let rows = outcome.rows.iter().filter(|row| row.measure == *measure);
                let why = |row: &'o Row| row.remark().unwrap_or("no reason given");
                rows.map(|row| (&*row.variant, row.ours.is_none().then(|| why(row)))).collect()
            }
        };
        let labelled =
            known.iter().filter_map(|&(variant, why)| Some((figure.label(variant)?, why?)));
        absent.unmeasured.extend(labelled);
        let is_known = |name: &str| {
            known.iter().any(|&(variant, _)| figure.label(variant).is_some_and(|it| it == name))
        };
        let named = figure.variants.iter().map(String::as_str);
        absent.unknown.extend(named.filter(|name| !is_known(name)));
        if known.is_empty() {
            absent.unknown.push(&figure.title);
        }
        absent
    }
}

pub const STYLE: &str = include_str!("style.css");

/// The colours of lines and bars, in order. The style sheet must list the same colours.
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
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

pub const WIDTH: u32 = 480;
const CURVES_HEIGHT: u32 = 300;
const BAR_HEIGHT: u32 = 26;
const AXIS_HEIGHT: u32 = 60;
const NAMES_WIDTH: u32 = 200;
const NAME_LEN_MAX: usize = 31;
const TEXT_SIZE: u32 = 13;
const MARGIN: u32 = 8;
const END_MARGIN: u32 = 24;
/// The part of an axis that is reserved for the numbers of bars.
const NUMBER_SHARE: f64 = 0.25;

pub const OURS_COLOUR: usize = 0;
pub const PUBLISHED_COLOUR: usize = 4;

type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub fn height(drawing: &Drawing<'_>) -> u32 {
    match drawing {
        Drawing::Curves { .. } => CURVES_HEIGHT,
        Drawing::Bars { bars, .. } => bars.len() as u32 * BAR_HEIGHT + AXIS_HEIGHT,
    }
}

pub fn svg(drawing: &Drawing<'_>, logarithmic: bool) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height(drawing))).into_drawing_area();
    let drawn = match drawing {
        Drawing::Curves { x_unit, y_label, curves } => draw_curves(&area, x_unit, y_label, curves),
        Drawing::Bars { label, bars } if logarithmic => {
            let (low, high) = log_range(bars);
            draw_bars(&area, (low..high).log_scale(), low, label, bars)
        }
        Drawing::Bars { label, bars } => draw_bars(&area, range(values(bars)), 0.0, label, bars),
    };
    drawn.unwrap_or_else(|error| panic!("drawing into a string cannot fail: {error}"));
    drop(area);
    text
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_curves(area: &Area<'_>, x_unit: &str, y_label: &str, curves: &[Curve<'_>]) -> DrawResult {
    let x = curves.iter().flat_map(|curve| curve.series.x.iter().copied());
    let (first, last) = ends(x);
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
        .label_style(("sans-serif", TEXT_SIZE, &INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    for (index, curve) in curves.iter().enumerate() {
        let points = curve.series.x.iter().copied().zip(curve.series.y.iter().copied());
        let colour = COLOURS[index % COLOURS.len()];
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    area.present()
}

/// Draws the published value of each variant, if any, and ours below it. Bars start at `origin`.
fn draw_bars<X>(area: &Area<'_>, x: X, origin: f64, label: &str, bars: &[Bar<'_>]) -> DrawResult
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
        .label_style(("sans-serif", TEXT_SIZE, &INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .draw()?;
    let text = ("sans-serif", TEXT_SIZE).into_text_style(area).color(&INK);
    let left = text.pos(Pos::new(HPos::Right, VPos::Center));
    let right = text.pos(Pos::new(HPos::Left, VPos::Center));
    for (row, bar) in bars.iter().enumerate() {
        let top = row as f64;
        let middle = MARGIN + row as u32 * BAR_HEIGHT + BAR_HEIGHT / 2;
        let place = ((NAMES_WIDTH - MARGIN) as i32, middle as i32);
        names.draw_text(&shortened(bar.label), &left, place)?;
        let halves: &[(Option<f64>, f64, f64, RGBColor)] = &match bar.published {
            Some(_) => [
                (bar.published, 0.08, 0.48, COLOURS[PUBLISHED_COLOUR]),
                (Some(bar.ours), 0.5, 0.9, COLOURS[OURS_COLOUR]),
            ],
            None => [(None, 0.0, 0.0, INK), (Some(bar.ours), 0.15, 0.85, COLOURS[OURS_COLOUR])],
        };
        for &(value, from, to, colour) in halves {
            let Some(value) = value else { continue };
            let corners = [(origin, top + from), (value, top + to)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            let end = (value.max(origin), top + f64::midpoint(from, to));
            let label = EmptyElement::at(end) + Text::new(number(value), (3, 0), right.clone());
            chart.draw_series([label])?;
        }
    }
    area.present()
}

fn values<'b>(bars: &'b [Bar<'_>]) -> impl Iterator<Item = f64> + 'b {
    bars.iter().flat_map(|bar| [Some(bar.ours), bar.published]).flatten()
}

/// The range of an axis, which includes 0 and has space for the number of the largest bar.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = ends(values.chain([0.0]));
    let space = (most - least) * NUMBER_SHARE;
    (if least < 0.0 { least - space } else { least })..most + space
}

fn log_range(bars: &[Bar<'_>]) -> (f64, f64) {
    let positive = values(bars).filter(|&value| value > 0.0).map(f64::log10);
    let (least, most) = ends(positive);
    (10f64.powf(least.floor()), 10f64.powf((most + NUMBER_SHARE * (most - least)).ceil()))
}

/// The minimum and the maximum, which are never equal, so that an axis has a length.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    match least < most {
        true => (least, most),
        false if least.is_finite() => (least, least + 1.0),
        false => (0.0, 1.0),
    }
}

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

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LEN_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_LEN_MAX - 1).collect();
    start + "\u{2026}"
}
