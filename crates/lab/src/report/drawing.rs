//! What a figure draws of an outcome.

use crate::result::{Draw, Figure, Outcome, Row, Series};

#[derive(Debug)]
pub enum Drawing<'o> {
    Curves {
        /// What `x` counts.
        x_unit: &'o str,
        y_label: String,
        curves: Vec<Curve<'o>>,
    },
    Bars {
        label: String,
        bars: Vec<Bar<'o>>,
    },
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
    /// What the figure draws; none if the outcome has nothing of it.
    pub fn of(figure: &Figure, outcome: &'o Outcome) -> Option<Drawing<'o>> {
        match &figure.draw {
            Draw::Curves(name) => curves(figure, name, &outcome.series),
            Draw::Bars(measure) => bars(figure, measure, &outcome.rows),
        }
    }
}

fn curves<'o>(figure: &Figure, name: &str, series: &'o [Series]) -> Option<Drawing<'o>> {
    let found: Vec<(&str, &Series)> = series
        .iter()
        .filter(|series| series.name.starts_with(name) && !series.x.is_empty())
        .filter_map(|series| Some((figure.label(&series.variant)?, series)))
        .collect();
    let (_, first) = found.first()?;
    let is_one_name = found.iter().all(|(_, series)| series.name == first.name);
    let is_one_variant = found.iter().all(|(_, series)| series.variant == first.variant);
    let mut curves: Vec<Curve<'_>> = found
        .iter()
        .map(|&(label, series)| Curve {
            label: match (is_one_name, is_one_variant) {
                (true, _) => label.to_owned(),
                (false, true) => series.name.clone(),
                (false, false) => format!("{label}, {}", series.name),
            },
            series,
        })
        .collect();
    curves.sort_by_key(|curve| figure.place_of(&curve.series.variant));
    let what = if is_one_name { &first.name } else { name };
    Some(Drawing::Curves { x_unit: &first.x_unit, y_label: with_unit(what, &first.y_unit), curves })
}

fn bars<'o>(figure: &Figure, measure: &str, rows: &'o [Row]) -> Option<Drawing<'o>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.measure == measure).collect();
    let first = rows.first()?;
    let label = with_unit(&first.text, &first.unit);
    let bars = rows.iter().filter_map(|row| {
        let bar = Bar {
            label: figure.label(&row.variant)?,
            ours: row.ours?,
            published: row.published_at_scale,
        };
        Some((figure.place_of(&row.variant), bar))
    });
    let mut bars: Vec<(usize, Bar<'_>)> = bars.collect();
    bars.sort_by_key(|&(place, _)| place);
    let bars: Vec<Bar<'_>> = bars.into_iter().map(|(_, bar)| bar).collect();
    (!bars.is_empty()).then_some(Drawing::Bars { label, bars })
}

fn with_unit(what: &str, unit: &str) -> String {
    if unit.is_empty() { what.to_owned() } else { format!("{what}, {unit}") }
}

/// What a figure names, but does not draw.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Absent<'o> {
    pub unmeasured: Vec<(&'o str, &'o str)>,
    pub unknown: Vec<&'o str>,
}

impl<'o> Absent<'o> {
    pub fn of(figure: &'o Figure, outcome: &'o Outcome) -> Absent<'o> {
        let mut absent = Absent::default();
        let known: Vec<(&str, Option<&str>)> = match &figure.draw {
            Draw::Curves(name) => outcome
                .series
                .iter()
                .filter(|series| series.name.starts_with(name))
                .map(|series| (&*series.variant, series.x.is_empty().then_some("no point of it")))
                .collect(),
            Draw::Bars(measure) => outcome
                .rows
                .iter()
                .filter(|row| row.measure == *measure)
                .map(|row| {
                    let why = || row.remark().unwrap_or("no reason is told");
                    (&*row.variant, row.ours.is_none().then(why))
                })
                .collect(),
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
