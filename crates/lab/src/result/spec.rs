//! Experiments as files: what is set up, and what was published of it.
//!
//! A file in `experiments/` names its source, its set-up with every number that matters, and each published figure with
//! its place in the paper. The files are in the binary. The set-up is read by the code that runs the experiment.

use super::figure::Figure;
use super::published::{Explained, Published, explain};
use serde::Deserialize;
use serde::de::DeserializeOwned;

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
