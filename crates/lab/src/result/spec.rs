//! Experiments as files: what is set up, what was published of it with its place in the paper, and what to draw.
//!
//! The files are in the binary. The code that runs an experiment reads its set-up.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest scale: what the numbers of keys of other workloads allow, too.
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
    /// The scale where none is given; none for the published size.
    #[serde(default = "whole")]
    pub scale: f64,
    /// The smallest scale that it can be run at; none for any above 0.
    #[serde(default)]
    scale_min: f64,
    /// The largest; none for [`SCALE_MAX`].
    #[serde(default = "scale_max")]
    scale_max: f64,
    setup: toml::Table,
    /// What was published of it; none where it compares our own variants.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Why ours differ, for figures that give no reason of their own.
    #[serde(default)]
    explained: Vec<Explained>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// What it draws of what a run is given beside the file.
    #[serde(skip)]
    pub figures_added: Vec<Figure>,
}

impl Spec {
    /// Reads the file of this name.
    ///
    /// # Panics
    /// If the file is wrong: it is part of the program.
    pub fn parse(name: &str, text: &str) -> Spec {
        let mut spec: Spec =
            toml::from_str(text).unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"));
        explain(&mut spec.published, &spec.explained);
        assert_eq!(spec.name, name, "experiments/{name}.toml is named after its experiment");
        spec
    }

    /// The set-up, as the code that runs it has it.
    ///
    /// # Panics
    /// If the file is wrong: it is part of the program.
    pub fn setup<S: DeserializeOwned>(&self) -> S {
        let setup = self.setup.clone().try_into();
        setup.unwrap_or_else(|error| panic!("experiments/{}.toml: {error}", self.name))
    }

    /// The scale at which it can be run that is nearest to this one.
    pub fn nearest_scale(&self, scale: f64) -> f64 {
        scale.clamp(self.scale_min, self.scale_max)
    }

    /// Whether it can be run at this scale; if not, what to give.
    pub fn check_scale(&self, scale: f64) -> Result<(), String> {
        if scale > 0.0 && self.nearest_scale(scale) == scale {
            return Ok(());
        }
        let Spec { name, scale_min, scale_max, .. } = self;
        Err(if scale_min == scale_max {
            format!("--scale {scale}: {name} runs at {scale_min} only: leave it out")
        } else if *scale_min > 0.0 {
            format!("--scale {scale}: give {name} at least {scale_min} and at most {scale_max}")
        } else {
            format!("--scale {scale}: give {name} more than 0 and at most {scale_max}")
        })
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured, by the row's name.
    pub measure: String,
    pub variant: String,
    pub value: f64,
    pub place: String,
    /// Why ours differs, where that is known.
    #[serde(default)]
    pub explained: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The rows' measures; all where there are none.
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

/// Gives every figure that tells no reason of its own the first that is for it.
///
/// # Panics
/// If a reason is for no figure: the file is wrong.
pub fn explain(published: &mut [Published], reasons: &[Explained]) {
    for reason in reasons {
        let is_used = published.iter().any(|figure| reason.is_for(figure));
        assert!(is_used, "explained: '{}' is for no published figure", reason.why);
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
    /// The figure of the paper that it draws again; none for one of ours.
    pub place: Option<String>,
    pub draw: Draw,
    /// Of which variants, in this order; all of them where empty.
    #[serde(default)]
    pub variants: Vec<String>,
    /// What the variants' names begin with, which goes without saying then.
    #[serde(default)]
    pub within: String,
    #[serde(default)]
    pub logarithmic: bool,
}

impl Figure {
    /// One of ours: lines of the series of this name, of these variants.
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

    /// What a variant is called in this figure; none if it is not drawn.
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
    /// Rows of this measure, as bars; published figures beside them.
    Bars(String),
}
