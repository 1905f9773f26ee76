//! Tests of report pages, pictures and the index.

use super::causes::remove_causes_without_row;
use super::chart::{Absent, Drawing};
use super::entry::Entry;
use super::page::{self, picture};
use super::{redraw, write};
use crate::registry;
use crate::result::{
    CHUNK_SIZES, Cause, Classification, Figure, Outcome, Row, Series, ShownBy, Spec,
};

/// Returns an outcome with a row or a series for every variant that the figures of the experiment list.
fn outcome_of(spec: &Spec) -> Outcome {
    let mut outcome = Outcome::new(spec, 7, 0.5, false);
    outcome.add_unmeasured_rows();
    let published: Vec<Row> = outcome.rows.clone();
    let Some(pattern) = published.first().cloned() else { return outcome };
    let series = |name: &str, variant: &str| Series {
        name: name.to_owned(),
        variant: variant.to_owned(),
        x_unit: "requests".into(),
        y_unit: "%".into(),
        x: vec![0.0, 1.0, 2.0],
        y: vec![30.0, 20.0, 10.0],
    };
    for figure in &spec.figures {
        outcome.series.extend(figure.lines.as_deref().map(|lines| series(CHUNK_SIZES, lines)));
        let variants = figure.variants.iter().map(String::as_str);
        for variant in variants.chain(figure.variants.is_empty().then_some("variant")) {
            let variant = format!("{}{variant}", figure.within);
            match &figure.draw {
                crate::result::Draw::Curves(name) => outcome.series.push(series(name, &variant)),
                crate::result::Draw::Bars(measure) => outcome.rows.push(Row {
                    measure: measure.clone(),
                    variant,
                    ours: Some(12.0),
                    published_at_scale: Some(9.0),
                    ..pattern.clone()
                }),
            }
        }
    }
    outcome
}

fn spec(name: &str) -> Spec {
    let spec = registry::specs().into_iter().find(|spec| spec.name == name);
    spec.unwrap_or_else(|| panic!("the registry has the experiment {name}"))
}

fn figure_with_three_variants(spec: &Spec) -> &Figure {
    let figure = spec.figures.iter().find(|figure| figure.variants.len() > 2);
    figure.unwrap_or_else(|| panic!("{} has a figure with at least three variants", spec.name))
}

#[test]
fn a_page_has_every_figure_and_every_published_value() {
    for spec in registry::specs() {
        assert!(!spec.figures.is_empty(), "experiments/{}.toml has a [[figure]]", spec.name);
        let outcome = outcome_of(&spec);
        if outcome.rows.is_empty() {
            continue;
        }
        let text = page::page(&spec, &outcome, None).into_string();
        let name = &spec.name;
        let figures = page::figures(&spec, &outcome).len();
        assert_eq!(text.matches("<svg").count(), figures, "drawings of {name}");
        assert!(!text.contains("This run has no data"), "every figure of {name} has data");
        for published in &spec.published {
            let value = crate::result::format_number(published.value);
            assert!(text.contains(&format!(">{value}</td>")), "the page of {name} has {value}");
        }
    }
}

#[test]
fn a_figure_lists_the_variants_that_it_cannot_draw() {
    let spec = spec("two-phase");
    let figure = figure_with_three_variants(&spec);
    let mut outcome = outcome_of(&spec);
    assert_eq!(Absent::of(figure, &outcome), Absent::default());
    let name = &figure.variants[1];
    let is_match = |series: &Series| series.variant == format!("{}{name}", figure.within);
    outcome.series.iter_mut().filter(|series| is_match(series)).for_each(|series| series.x.clear());
    let absent = Absent::of(figure, &outcome);
    assert_eq!(absent.unmeasured[0], (name.as_str(), "no data points".to_owned()));
    assert!(absent.unknown.is_empty(), "{absent:?}");
    outcome.series.retain(|series| !is_match(series));
    assert_eq!(Absent::of(figure, &outcome).unknown, [name.as_str()]);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(text.contains(&format!("Not in the results: {name}.")), "the page lists {name}");
}

#[test]
fn a_page_names_the_figures_without_data() {
    let spec = spec("two-phase");
    let outcome = Outcome::new(&spec, 7, 1.0, false);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(!text.contains("<svg"));
    assert_eq!(text.matches("This run has no data").count(), spec.figures.len());
}

#[test]
fn a_page_escapes_all_text_and_loads_nothing_from_the_network() {
    let spec = spec("two-phase");
    let mut outcome = outcome_of(&spec);
    let markup = "<script>alert(1)</script>&\"";
    for row in &mut outcome.rows {
        row.note = Some(markup.to_owned());
        row.variant = markup.to_owned();
    }
    for series in &mut outcome.series {
        series.name = format!("{}{markup}", series.name);
        series.y_unit = markup.into();
    }
    outcome.add_setup(markup, markup);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script"), "{text}");
    for loading in ["src=", "url(", "@import", "<link", "http-equiv"] {
        assert!(!text.contains(loading), "the page does not contain {loading}");
    }
}

#[test]
fn curves_are_in_the_order_of_the_figures_variants() {
    let spec = spec("two-phase");
    let mut outcome = outcome_of(&spec);
    outcome.series.reverse();
    let figure = figure_with_three_variants(&spec);
    let Some(Drawing::Curves { curves, .. }) = Drawing::of(figure, &outcome) else {
        panic!("{figure:?} draws no curves")
    };
    let mut drawn: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    drawn.dedup();
    assert_eq!(drawn, figure.variants);
}

#[test]
fn a_picture_has_its_style_legend_and_escaped_text() {
    let spec = spec("two-phase");
    let mut outcome = outcome_of(&spec);
    let figure = figure_with_three_variants(&spec);
    outcome.series.iter_mut().for_each(|series| series.y_unit = "<&\"".into());
    let drawing = Drawing::of(figure, &outcome).expect("the outcome has data for the figure");
    let text = picture(&figure.title, &drawing, figure.logarithmic).into_string();
    assert!(text.starts_with("<svg xmlns=") && text.contains("--ink"), "{text}");
    assert!(figure.variants.iter().all(|name| text.contains(&format!(">{name}<"))), "{text}");
    assert!(!text.contains("<&") && text.contains("&lt;&amp;"), "{text}");
}

#[test]
fn redrawing_writes_the_reports_again_and_an_index() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let folder = folder.path();
    let error = redraw(&registry::specs(), folder, None).expect_err("an empty folder is an error");
    assert!(error.to_string().contains("contain no result.json"), "{error}");
    let spec = spec("toy");
    let outcome = outcome_of(&spec);
    let inner = folder.join("toy");
    std::fs::create_dir(&inner).expect("the subfolder can be created");
    let json = serde_json::to_string(&outcome).expect("an outcome can be serialized");
    std::fs::write(inner.join(super::RESULT_FILE), json).expect("the result can be written");
    let index = redraw(&registry::specs(), folder, None).expect("the folder has a valid result");
    assert!(index.skipped.is_empty(), "no result is skipped: {:?}", index.skipped);
    let text = std::fs::read_to_string(index.path).expect("the index can be read");
    assert!(text.contains("href=\"toy/report.html\""), "{text}");
    let report =
        std::fs::read_to_string(inner.join("report.html")).expect("the report can be read");
    assert!(report.contains("../index.html"), "the report links to the index: {report}");
    let written = write(&spec, &outcome, folder, Some("../index.html"));
    let written = written.expect("the report can be written");
    let written = std::fs::read_to_string(written).expect("the report can be read");
    assert_eq!(report, written, "redrawing writes the same report");
}

#[test]
fn a_cause_without_its_row_is_removed() {
    let spec = spec("toy");
    let [measure, variant] = ["hits", "best"].map(str::to_owned);
    let explained = |experiment: &str| {
        let experiment = experiment.to_owned();
        let shown_by = ShownBy { experiment, measure: measure.clone(), variant: variant.clone() };
        let cause = Some(Cause { why: "the reason".to_owned(), shown_by });
        let classification = Classification { cause, ..Classification::default() };
        Row { measure: "misses".to_owned(), classification, ..Row::default() }
    };
    let shown = Row {
        measure: measure.clone(),
        variant: variant.clone(),
        ours: Some(6.0),
        ..Row::default()
    };
    // Returns the causes without a row, and if the first row keeps its cause.
    let found = |rows: Vec<Row>| {
        let outcome = Outcome { rows, ..Outcome::new(&spec, 1, 1.0, false) };
        let mut entries = [Entry { spec: &spec, outcome, page: "toy/report.html".into() }];
        let without_row = remove_causes_without_row(&mut entries);
        (without_row, entries[0].outcome.rows[0].classification.cause.is_some())
    };
    assert_eq!(found(vec![explained("toy"), shown]), (vec![], true));
    let missing = "the reason (shown by toy: hits of best)".to_owned();
    assert_eq!(found(vec![explained("toy")]), (vec![missing], false));
    assert_eq!(found(vec![explained("two-phase")]), (vec![], false), "two-phase has no result");
}

#[test]
fn redrawing_skips_unreadable_results() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let folder = folder.path();
    let outcome = outcome_of(&spec("toy"));
    let unknown = Outcome { experiment: "removed".to_owned(), ..outcome.clone() };
    let json =
        |outcome: &Outcome| serde_json::to_string(outcome).expect("an outcome can be serialized");
    for (name, text) in [("broken", "{".to_owned()), ("removed", json(&unknown))] {
        let inner = folder.join(name);
        std::fs::create_dir(&inner).expect("the subfolder can be created");
        std::fs::write(inner.join(super::RESULT_FILE), text).expect("the result can be written");
    }
    let error = redraw(&registry::specs(), folder, None).expect_err("no result is valid");
    assert!(error.to_string().contains("is not a result of this version"), "{error}");
    let path = folder.join(super::RESULT_FILE);
    std::fs::write(path, json(&outcome)).expect("the result can be written");
    let index = redraw(&registry::specs(), folder, None).expect("the folder has a valid result");
    let page = std::fs::read_to_string(index.path).expect("the index can be read");
    assert!(page.contains("href=\"report.html\""), "{page}");
    let reasons: Vec<String> = index.skipped.iter().map(ToString::to_string).collect();
    assert!(reasons[0].contains("broken") && reasons[1].contains("'removed'"), "{reasons:?}");
    assert_eq!(page.matches("Skipped: ").count(), reasons.len(), "{page}");
}
