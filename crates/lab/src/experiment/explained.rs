//! Why figures of ours differ from published ones, told once for all rows that differ for the same reason.

use super::spec::Published;
use serde::Deserialize;

/// A reason, and the rows that it is for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The rows' measures; all where there are none.
    #[serde(default)]
    measures: Vec<String>,
    /// What their variants contain.
    #[serde(default)]
    variant: String,
    /// The reason.
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
