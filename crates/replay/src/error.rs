//! Errors that stop a replay.

use crate::workload::WorkloadError;
use slabwise_client::ClientError;

/// An error that stops a replay. The text of an error that the user can correct names the remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum ReplayError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Option(String),
    #[error("cannot connect to {server}: {source}; start the server or give another --server")]
    Connect { server: String, source: std::io::Error },
    #[error("{error}; {remedy}", error = .0, remedy = remedy(.0))]
    Dialogue(ClientError),
    #[error("invalid reply to {context}: '{line}'")]
    Malformed { context: String, line: String },
    /// The key or the value of a hit differs from the stored item. `what` describes the difference.
    #[error("WRONG DATA for key {key}: {what}; the server returns corrupt data")]
    WrongData { key: String, what: String },
    /// A hit has a value that is valid, but has another length: a replay with other options has stored it. `found` and
    /// `value_len` are the lengths in bytes of the hit and of the request.
    #[error(
        "key {key} has {found} B instead of {value_len} B, from a replay with another seed or other \
         sizes; empty the server (flush_all) and start again"
    )]
    OtherReplay { key: String, found: usize, value_len: usize },
}

impl From<ClientError> for ReplayError {
    fn from(error: ClientError) -> ReplayError {
        match error {
            ClientError::Unexpected(bytes) => ReplayError::malformed("no request", &bytes),
            other => ReplayError::Dialogue(other),
        }
    }
}

impl ReplayError {
    /// Returns the error of an invalid reply. `context` describes the request, and `line` is the start of the reply.
    pub(crate) fn malformed(context: &str, line: &[u8]) -> ReplayError {
        let shown = &line[..line.len().min(80)];
        let line = String::from_utf8_lossy(shown).escape_debug().to_string();
        ReplayError::Malformed { context: context.to_owned(), line }
    }
}

/// Returns the remedy for an error of the connection, as the end of an error text.
fn remedy(error: &ClientError) -> &'static str {
    match error {
        ClientError::Closed => "check the server's log and its connection limit",
        ClientError::ReadTimeout => "check whether the server hangs",
        _ => "check the server's log",
    }
}
