//! Checks the contents of report pages.

use super::chart::{Absent, Drawing};
use super::page::{self, picture};
use super::{redraw, write};
use crate::registry;
use crate::result::{Outcome, Row, Series, Spec};

/// An outcome with rows and series for everything that the figures of the experiment name.
fn outcome_of(spec: &Spec) -> Outcome {
    let mut outcome = Outcome::new(spec, 7, 0.5, false);
    outcome.complete();
    let published: Vec<Row> = outcome.rows.clone();
    let Some(pattern) = published.first().cloned() else { return outcome };
    for figure in &spec.figures {
        let variants = figure.variants.iter().map(String::as_str);
        for variant in variants.chain(figure.variants.is_empty().then_some("any")) {
            let variant = format!("{}{variant}", figure.within);
            match &figure.draw {
                crate::result::Draw::Curves(name) => outcome.series.push(Series {
                    name: name.clone(),
                    variant,
                    x_unit: "requests".into(),
                    y_unit: "%".into(),
                    x: vec![0.0, 1.0, 2.0],
                    y: vec![30.0, 20.0, 10.0],
                }),
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
    registry::specs().into_iter().find(|spec| spec.name == name).expect("it is there")
}

#[test]
fn a_page_has_every_figure_and_every_published_number() {
    for spec in registry::specs() {
        assert!(!spec.figures.is_empty(), "{} has no figure", spec.name);
        let outcome = outcome_of(&spec);
        if outcome.rows.is_empty() {
            continue;
        }
        let text = page::page(&spec, &outcome, None).into_string();
        assert_eq!(text.matches("<svg").count(), spec.figures.len(), "{}", spec.name);
        assert!(!text.contains("This run has no data"), "{}", spec.name);
        for figure in &spec.published {
            let value = crate::result::number(figure.value);
            assert!(text.contains(&format!(">{value}</td>")), "{}: {value}", spec.name);
        }
    }
}

#[test]
fn a_figure_lists_the_variants_that_it_cannot_draw() {
    let spec = spec("two-phase");
    let figure = spec.figures.iter().find(|figure| figure.variants.len() > 2).expect("one has");
    let mut outcome = outcome_of(&spec);
    assert_eq!(Absent::of(figure, &outcome), Absent::default());
    let name = &figure.variants[1];
    let is_it = |series: &Series| series.variant == format!("{}{name}", figure.within);
    outcome.series.iter_mut().filter(|series| is_it(series)).for_each(|series| series.x.clear());
    let absent = Absent::of(figure, &outcome);
    assert_eq!(absent.unmeasured[0], (name.as_str(), "no data points"));
    assert!(absent.unknown.is_empty(), "{absent:?}");
    outcome.series.retain(|series| !is_it(series));
    assert_eq!(Absent::of(figure, &outcome).unknown, [name.as_str()]);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(text.contains(&format!("Not in the results: {name}.")), "{name}");
}

#[test]
fn a_figure_without_data_says_so() {
    let spec = spec("two-phase");
    let outcome = Outcome::new(&spec, 7, 1.0, false);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(!text.contains("<svg"));
    assert_eq!(text.matches("This run has no data").count(), spec.figures.len());
}

#[test]
fn a_page_escapes_all_text_and_loads_nothing() {
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
    outcome.choose(markup, markup);
    let text = page::page(&spec, &outcome, None).into_string();
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script"), "{text}");
    for loading in ["src=", "url(", "@import", "<link", "http-equiv"] {
        assert!(!text.contains(loading), "{loading}");
    }
}

#[test]
fn curves_follow_the_order_of_the_figures_variants() {
    let spec = spec("two-phase");
    let mut outcome = outcome_of(&spec);
    outcome.series.reverse();
    let figure = spec.figures.iter().find(|figure| figure.variants.len() > 2).expect("one has");
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
    let figure = spec.figures.iter().find(|figure| figure.variants.len() > 2).expect("one has");
    outcome.series.iter_mut().for_each(|series| series.y_unit = "<&\"".into());
    let drawing = Drawing::of(figure, &outcome).expect("it draws");
    let text = picture(&figure.title, &drawing, figure.logarithmic).into_string();
    assert!(text.starts_with("<svg xmlns=") && text.contains("--ink"), "{text}");
    assert!(figure.variants.iter().all(|name| text.contains(&format!(">{name}<"))), "{text}");
    assert!(!text.contains("<&") && text.contains("&lt;&amp;"), "{text}");
}

#[test]
fn reports_are_redrawn_from_results_with_an_index() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    let error = redraw(&registry::specs(), folder).expect_err("there is nothing");
    assert!(error.to_string().contains("lab run writes them"), "{error}");
    let spec = spec("toy");
    let outcome = outcome_of(&spec);
    let inner = folder.join("toy");
    std::fs::create_dir(&inner).expect("a folder can be made");
    let json = serde_json::to_string(&outcome).expect("plain data");
    std::fs::write(inner.join(super::RESULT_FILE), json).expect("a file can be written");
    let index = redraw(&registry::specs(), folder).expect("a result is there");
    assert!(index.skipped.is_empty(), "{:?}", index.skipped);
    let text = std::fs::read_to_string(index.path).expect("it was written");
    assert!(text.contains("href=\"toy/report.html\""), "{text}");
    assert!(
        std::fs::read_to_string(inner.join("report.html"))
            .is_ok_and(|it| it.contains("../index.html"))
    );
    let redrawn = std::fs::read(inner.join("report.html")).expect("it was written");
    let first =
        write(&spec, &outcome, folder, Some("../index.html")).expect("a page can be written");
    assert_eq!(redrawn, std::fs::read(first).expect("it was written"));
}

#[test]
fn unreadable_results_are_skipped() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    let outcome = outcome_of(&spec("toy"));
    let gone = Outcome { experiment: "gone".to_owned(), ..outcome.clone() };
    let json = |outcome: &Outcome| serde_json::to_string(outcome).expect("plain data");
    for (name, text) in [("broken", "{".to_owned()), ("gone", json(&gone))] {
        let inner = folder.join(name);
        std::fs::create_dir(&inner).expect("a folder can be made");
        std::fs::write(inner.join(super::RESULT_FILE), text).expect("a file can be written");
    }
    let error = redraw(&registry::specs(), folder).expect_err("no result can be read");
    assert!(error.to_string().contains("is not a result of this program"), "{error}");
    std::fs::write(folder.join(super::RESULT_FILE), json(&outcome)).expect("it can be written");
    let index = redraw(&registry::specs(), folder).expect("one can be read");
    let page = std::fs::read_to_string(index.path).expect("it was written");
    assert!(page.contains("href=\"report.html\""), "{page}");
    let reasons: Vec<String> = index.skipped.iter().map(ToString::to_string).collect();
    assert!(reasons[0].contains("broken") && reasons[1].contains("'gone'"), "{reasons:?}");
    assert_eq!(page.matches("Skipped: ").count(), reasons.len(), "{page}");
}
