//! Parses the files of experiments: the set-up, the published values with their places in the source, and the figures
//! of the report.
//!
//! The files are part of the program. Each experiment's code parses its own set-up.

use super::verdict::{Cause, Classification, Origin, ShownBy, Tolerance};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// The largest scale at which the number of keys of every workload is valid.
const SCALE_MAX: f64 = 1000.0;

fn scale_max() -> f64 {
    SCALE_MAX
}

fn default_scale() -> f64 {
    1.0
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// The parsed file of an experiment, except that the set-up is not yet parsed into the experiment's type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the experiment, which is the name of the file without `.toml`.
    pub name: String,
    /// One line for `slabwise lab list` and the report.
    pub title: String,
    /// The publication: authors, title, venue, year and section.
    pub source: String,
    /// The scale of a run without `--scale`.
    #[serde(default = "default_scale")]
    pub scale: f64,
    /// The smallest scale that `--scale` accepts. 0 means that every scale above 0 is accepted.
    #[serde(default)]
    scale_min: f64,
    /// The largest scale that `--scale` accepts.
    #[serde(default = "scale_max")]
    scale_max: f64,
    /// Factor on the scale that `--scale` gives for all experiments, for an experiment that takes long.
    #[serde(default = "default_scale")]
    pub scale_factor_in_all: f64,
    /// The number of seeds of a run without `--seeds`.
    #[serde(default = "one")]
    pub seeds: NonZeroU32,
    setup: toml::Table,
    /// The published values. Empty if the experiment compares only our own variants.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Published values that our values equal because the set-up allows no other value.
    #[serde(default)]
    forced: Vec<Remark>,
    /// Published values for which the experiment chooses an input.
    #[serde(default)]
    fitted: Vec<Remark>,
    /// Published values that no run measures.
    #[serde(default)]
    not_measured: Vec<Remark>,
    /// Causes of differences.
    #[serde(default)]
    explained: Vec<Explained>,
    /// Tolerances of values that the default does not suit.
    #[serde(default)]
    tolerance: Vec<ToleranceRemark>,
    /// The figures of the report.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// One figure per trace of `--traces`.
    #[serde(skip)]
    pub figures_added: Vec<Figure>,
}

impl Spec {
    /// Parses `text`, the content of `experiments/NAME.toml`, where NAME is `name`.
    ///
    /// # Panics
    /// If the text is invalid. The text is part of the program, so this is a mistake in the source tree.
    pub fn parse(name: &str, text: &str) -> Spec {
        let mut spec: Spec =
            toml::from_str(text).unwrap_or_else(|error| panic!("experiments/{name}.toml: {error}"));
        spec.classify();
        assert_eq!(
            spec.name, name,
            "experiments/{name}.toml: the key `name` equals the file name without .toml"
        );
        spec
    }

    /// Gives each published value its origin, its cause and its tolerance: those of the first remark that applies to the
    /// value.
    ///
    /// # Panics
    /// If a remark applies to no published value.
    fn classify(&mut self) {
        let published = &mut self.published;
        for remark in &self.forced {
            remark.apply(published, |value, why| value.set_origin(Origin::Forced(why)));
        }
        for remark in &self.fitted {
            remark.apply(published, |value, why| value.set_origin(Origin::Fitted(why)));
        }
        for remark in &self.not_measured {
            remark.apply(published, |value, why| value.set_origin(Origin::NotMeasured(why)));
        }
        for Explained { remark, shown_by } in &self.explained {
            remark.apply(published, |value, why| {
                let cause = || Cause { why, shown_by: shown_by.clone() };
                value.classification.cause.get_or_insert_with(cause);
            });
        }
        // The first remark is applied last, and replaces the others.
        for ToleranceRemark { remark, tolerance } in self.tolerance.iter().rev() {
            remark.apply(published, |value, _| value.classification.tolerance = *tolerance);
        }
    }

    /// Parses the set-up into the experiment's type.
    ///
    /// # Panics
    /// If the set-up is invalid. The file is part of the program, so this is a mistake in the source tree.
    pub fn setup<S: DeserializeOwned>(&self) -> S {
        let setup = self.setup.clone().try_into();
        setup.unwrap_or_else(|error| panic!("experiments/{}.toml: {error}", self.name))
    }

    /// Returns the set-up as JSON.
    pub fn setup_json(&self) -> String {
        serde_json::to_string(&self.setup).expect("a set-up can be serialized")
    }

    /// Returns the scale between the smallest and the largest accepted scale that is nearest to `scale`.
    pub fn nearest_scale(&self, scale: f64) -> f64 {
        scale.clamp(self.scale_min, self.scale_max)
    }

    /// Returns an error text with the accepted scales if `scale` is not accepted.
    pub fn check_scale(&self, scale: f64) -> Result<(), String> {
        if scale > 0.0 && self.nearest_scale(scale) == scale {
            return Ok(());
        }
        let Spec { name, scale_min, scale_max, .. } = self;
        Err(if scale_min == scale_max {
            format!("--scale {scale}: {name} runs only at scale {scale_min}; omit --scale")
        } else if *scale_min > 0.0 {
            format!("--scale {scale}: {name} needs a scale from {scale_min} to {scale_max}")
        } else {
            format!("--scale {scale}: {name} needs a scale above 0 and at most {scale_max}")
        })
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// [`Measure::name`](super::Measure) of the measured quantity.
    pub measure: String,
    /// The configuration that was measured, exactly as in the row of our value.
    pub variant: String,
    /// The published value, in the measure's unit and at scale 1.
    pub value: f64,
    /// The part of the source that contains the value, for example "table 3".
    pub place: String,
    #[serde(skip)]
    pub classification: Classification,
}

impl Published {
    /// Sets the origin, unless a remark has set it before.
    fn set_origin(&mut self, origin: Origin) {
        if self.classification.origin.is_measured() {
            self.classification.origin = origin;
        }
    }
}

/// A remark on several published values.
#[derive(Clone, Debug, Deserialize)]
struct Remark {
    /// Names of the measures to which the remark applies. Empty means all measures.
    #[serde(default)]
    measures: Vec<String>,
    /// The remark applies to variants with one of these names. A name may begin or end with `*`, which matches any
    /// text. Empty means all variants.
    #[serde(default)]
    variants: Vec<String>,
    /// The reason, without a full stop at the end.
    why: String,
}

impl Remark {
    fn applies_to(&self, published: &Published) -> bool {
        let has_measure = self.measures.is_empty() || self.measures.contains(&published.measure);
        let matches = |name: &String| is_match(name, &published.variant);
        has_measure && (self.variants.is_empty() || self.variants.iter().any(matches))
    }

    /// Calls `set` with the reason for each published value to which the remark applies.
    ///
    /// # Panics
    /// If there is no such value, which is a mistake in the experiment's file.
    fn apply(&self, published: &mut [Published], set: impl Fn(&mut Published, String)) {
        let mut is_used = false;
        for value in published.iter_mut().filter(|value| self.applies_to(value)) {
            set(value, self.why.clone());
            is_used = true;
        }
        assert!(is_used, "the remark '{}' applies to at least one published value", self.why);
    }
}

/// True if `name` is the name of the variant. A `*` at the start or at the end matches any text.
fn is_match(name: &str, variant: &str) -> bool {
    match (name.strip_prefix('*'), name.strip_suffix('*')) {
        (Some(end), None) => variant.ends_with(end),
        (None, Some(start)) => variant.starts_with(start),
        (Some(_), Some(_)) => variant.contains(name.trim_matches('*')),
        (None, None) => variant == name,
    }
}

/// A cause of differences, with the row that shows it.
#[derive(Clone, Debug, Deserialize)]
struct Explained {
    #[serde(flatten)]
    remark: Remark,
    shown_by: ShownBy,
}

/// A tolerance of published values, with the reason for it.
#[derive(Clone, Debug, Deserialize)]
struct ToleranceRemark {
    #[serde(flatten)]
    remark: Remark,
    tolerance: Tolerance,
}

/// A figure of the report.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub title: String,
    /// The figure of the publication that this figure repeats. `None` if the publication has no such figure.
    pub place: Option<String>,
    /// The kind of drawing and the data to draw.
    pub draw: Draw,
    /// The variants to draw, in this order and without the prefix `within`. Empty means all variants.
    #[serde(default)]
    pub variants: Vec<String>,
    /// The figure draws only variants whose names begin with this prefix. Labels omit the prefix.
    #[serde(default)]
    pub within: String,
    /// The variant of the series `chunk sizes` that a figure with curves shows as vertical lines. `None`: no lines.
    #[serde(default)]
    pub lines: Option<String>,
    /// True if only runs with `--live` have this figure.
    #[serde(default)]
    pub is_live: bool,
    /// True if the axis of the values is logarithmic. A figure with curves ignores this field.
    #[serde(default)]
    pub logarithmic: bool,
}

impl Figure {
    /// Creates a figure that draws the series with the name `series` and the given variants.
    pub fn of_curves(title: &str, series: &str, within: &str, variants: &[String]) -> Figure {
        Figure {
            title: title.to_owned(),
            place: None,
            draw: Draw::Curves(series.to_owned()),
            variants: variants.to_vec(),
            within: within.to_owned(),
            lines: None,
            is_live: false,
            logarithmic: false,
        }
    }

    /// Returns the label of a variant in this figure, or `None` if the figure does not draw the variant.
    pub fn label<'v>(&self, variant: &'v str) -> Option<&'v str> {
        let label = variant.strip_prefix(self.within.as_str())?;
        (self.variants.is_empty() || self.variants.iter().any(|name| name == label))
            .then_some(label)
    }

    /// Returns the position of a variant in the order of the figure. Variants without an order are last.
    pub fn position_of(&self, variant: &str) -> usize {
        let label = self.label(variant);
        let position = self.variants.iter().position(|name| Some(name.as_str()) == label);
        position.unwrap_or(self.variants.len())
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Draws all series whose names begin with this text.
    Curves(String),
    /// Draws our values of the measure with this name as bars, next to the published values.
    Bars(String),
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn a_star_matches_any_text() {
        assert!(is_match("lama, fast", "lama, fast"));
        assert!(!is_match("fast", "lama, fast") && !is_match("lama, fast", "lama, fast, 2"));
        assert!(is_match("*, lru", "small, lru") && !is_match("*, lru", "small, lru + automove"));
        assert!(is_match("large, *", "large, lru") && !is_match("large, *", "small, large, lru"));
        assert!(is_match("*large*", "small, large, lru"));
    }
}
