//! Errors of the advisor.

use slabwise_policy::sizes::SizesError;

/// An error of the advisor. The text names the server or the file, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum AdvisorError {
    /// A file is invalid or cannot be read.
    #[error("{file}: {what}")]
    File { file: String, what: String },
    /// A line of a file is invalid. `line` counts from 1.
    #[error("{file}, line {line}: {what}")]
    Line { file: String, line: u64, what: String },
    /// A server cannot be reached, or has an invalid reply. `what` is the predicate of a sentence about the server.
    #[error("{server} {what}")]
    Server { server: String, what: String },
    /// A certificate or the file with the credentials cannot be used.
    #[error("{0}")]
    Security(String),
    #[error(
        "--classes {count} is not possible with --method hill-climb, which keeps the number of chunk \
         sizes: leave out --classes, or give --method exact"
    )]
    CountOfClimb { count: usize },
    #[error(transparent)]
    Sizes(#[from] SizesError),
    #[error("cannot write the advice as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Formats bytes for a message: in quotes, truncated to 60 bytes, and without control characters.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN_LEN_MAX: usize = 60;
    let short = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_LEN_MAX)]);
    let dots = if bytes.len() > SHOWN_LEN_MAX { "..." } else { "" };
    format!("'{}{dots}'", short.escape_debug())
}
