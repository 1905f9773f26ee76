//! Published figures, and why figures of ours differ from them: one reason for all rows that differ for it.

use serde::{Deserialize, Serialize};

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
