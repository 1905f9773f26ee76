//! A finding.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub measure: String,
    pub text: String,
    pub variant: String,
    pub unit: String,
    pub ours: Option<f64>,
    pub published: Option<f64>,
    pub published_at_scale: Option<f64>,
    pub place: Option<String>,
    /// Why ours differs from it, where that is known.
    pub explained: Option<String>,
    /// Why there is no figure of ours, or how it is to be read.
    pub note: Option<String>,
}

impl Row {
    /// How ours is to be read, or why there is none: every row without a figure has one.
    pub fn remark(&self) -> Option<&str> {
        let why_none = self.explained.as_deref().filter(|_| self.ours.is_none());
        self.note.as_deref().or(why_none)
    }
}
