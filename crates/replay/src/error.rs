//! Errors that stop a replay.

use crate::workload::WorkloadError;
use slabwise_client::ClientError;

/// An error that stops a replay. Its text names the remedy.
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
    /// A hit whose key or bytes are not those stored.
    #[error("WRONG DATA for key {key}: {what}; the server returns corrupt data")]
    WrongData { key: String, what: String },
    /// A hit with valid bytes that a replay with other lengths stored.
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
    /// Returns the error of an invalid reply to `request`.
    pub(crate) fn malformed(request: &str, line: &[u8]) -> ReplayError {
        let shown = &line[..line.len().min(80)];
        let line = String::from_utf8_lossy(shown).escape_debug().to_string();
        ReplayError::Malformed { context: request.to_owned(), line }
    }
}

fn remedy(error: &ClientError) -> &'static str {
    match error {
        ClientError::Closed => "check the server's log and its connection limit",
        ClientError::Silent => "check whether the server hangs",
        _ => "check the server's log",
    }
}
