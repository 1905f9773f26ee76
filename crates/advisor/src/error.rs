//! Errors of the advisor.

use slabwise_policy::sizes::SizesError;

/// An error of the advisor. Its text names the server or file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum AdvisorError {
    #[error("{file}: {what}")]
    File { file: String, what: String },
    #[error("{file}, line {line}: {what}")]
    Line { file: String, line: u64, what: String },
    #[error("{server} {what}")]
    Server { server: String, what: String },
    #[error(transparent)]
    Sizes(#[from] SizesError),
    #[error("cannot write the advice as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Formats bytes for a message: truncated and on one line.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_LEN_MAX: usize = 60;
    let short = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_LEN_MAX)]);
    let dots = if bytes.len() > SHOWN_LEN_MAX { "..." } else { "" };
    format!("'{}{dots}'", short.escape_debug())
}
