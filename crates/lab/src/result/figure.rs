//! Figures as an experiment's file names them.

use serde::{Deserialize, Serialize};

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
