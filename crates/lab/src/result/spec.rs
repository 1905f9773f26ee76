//! The files of experiments: the set-up, the published figures with their places in the paper, and the report figures.
//!
//! The files are part of the binary. Each experiment's code parses its set-up.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest scale that the number of keys of every workload allows.
const SCALE_MAX: f64 = 1000.0;

fn scale_max() -> f64 {
    SCALE_MAX
}

fn whole() -> f64 {
    1.0
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub name: String,
    pub title: String,
    pub source: String,
    /// The scale of a run without `--scale`.
    #[serde(default = "whole")]
    pub scale: f64,
    /// The smallest allowed scale; 0 allows every scale above 0.
    #[serde(default)]
    scale_min: f64,
    #[serde(default = "scale_max")]
    scale_max: f64,
    setup: toml::Table,
    /// The published figures; none for a comparison of our own variants.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Why ours differ, for published figures without a reason of their own.
    #[serde(default)]
    explained: Vec<Explained>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// The figures of the traces that the run is given.
    #[serde(skip)]
    pub figures_added: Vec<Figure>,
}

impl Spec {
    /// Parses the file with this name.
    ///
    /// # Panics
    /// If the file, which is part of the program, is invalid.
    pub fn parse(name: &str, text: &str) -> Spec {
        let mut spec: Spec =
            toml::from_str(text).unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"));
        explain(&mut spec.published, &spec.explained);
        assert_eq!(spec.name, name, "experiments/{name}.toml has another name inside");
        spec
    }

    /// Parses the set-up into the experiment's type.
    ///
    /// # Panics
    /// If the file, which is part of the program, is invalid.
    pub fn setup<S: DeserializeOwned>(&self) -> S {
        let setup = self.setup.clone().try_into();
        setup.unwrap_or_else(|error| panic!("experiments/{}.toml: {error}", self.name))
    }

    pub fn nearest_scale(&self, scale: f64) -> f64 {
        scale.clamp(self.scale_min, self.scale_max)
    }

    pub fn check_scale(&self, scale: f64) -> Result<(), String> {
        if scale > 0.0 && self.nearest_scale(scale) == scale {
            return Ok(());
        }
        let Spec { name, scale_min, scale_max, .. } = self;
        Err(if scale_min == scale_max {
            format!("--scale {scale}: {name} runs at {scale_min} only; leave --scale out")
        } else if *scale_min > 0.0 {
            format!("--scale {scale}: {name} needs at least {scale_min} and at most {scale_max}")
        } else {
            format!("--scale {scale}: {name} needs more than 0 and at most {scale_max}")
        })
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub measure: String,
    pub variant: String,
    pub value: f64,
    pub place: String,
    #[serde(default)]
    pub explained: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The measures that this is for; all if empty.
    #[serde(default)]
    measures: Vec<String>,
    #[serde(default)]
    variant: String,
    why: String,
}

impl Explained {
    fn is_for(&self, figure: &Published) -> bool {
        let is_measured = self.measures.is_empty() || self.measures.contains(&figure.measure);
        is_measured && figure.variant.contains(&self.variant)
    }
}

/// Sets the reason of every figure that has none to the first reason that matches it.
///
/// # Panics
/// If a reason matches no figure, so that the file is invalid.
pub fn explain(published: &mut [Published], reasons: &[Explained]) {
    for reason in reasons {
        let is_used = published.iter().any(|figure| reason.is_for(figure));
        assert!(is_used, "explained: '{}' matches no published figure", reason.why);
    }
    for figure in published.iter_mut().filter(|figure| figure.explained.is_none()) {
        let reason = reasons.iter().find(|reason| reason.is_for(figure));
        figure.explained = reason.map(|reason| reason.why.clone());
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub title: String,
    /// The figure of the paper that this repeats; none for one of our own.
    pub place: Option<String>,
    pub draw: Draw,
    /// The variants to draw, in this order; all if empty.
    #[serde(default)]
    pub variants: Vec<String>,
    /// The prefix of the variants' names, which labels leave out.
    #[serde(default)]
    pub within: String,
    #[serde(default)]
    pub logarithmic: bool,
}

impl Figure {
    /// A figure of our own that draws the series with this name and these variants.
    pub fn of_curves(title: &str, series: &str, within: &str, variants: &[String]) -> Figure {
        Figure {
            title: title.to_owned(),
            place: None,
            draw: Draw::Curves(series.to_owned()),
            variants: variants.to_vec(),
            within: within.to_owned(),
            logarithmic: false,
        }
    }

    /// The label of a variant in this figure; none if it is not drawn.
    pub fn label<'v>(&self, variant: &'v str) -> Option<&'v str> {
        let label = variant.strip_prefix(self.within.as_str())?;
        (self.variants.is_empty() || self.variants.iter().any(|name| name == label))
            .then_some(label)
    }

    pub fn place_of(&self, variant: &str) -> usize {
        let label = self.label(variant);
        let place = self.variants.iter().position(|name| Some(name.as_str()) == label);
        place.unwrap_or(self.variants.len())
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    Curves(String),
    /// The rows of this measure as bars, next to the published figures.
    Bars(String),
}
