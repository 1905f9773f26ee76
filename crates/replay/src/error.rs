//! Why a replay stops.

use crate::workload::WorkloadError;
use slabwise_client::ClientError;

/// What ends a replay before its last request. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what each is")]
pub enum ReplayError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Option(String),
    #[error("cannot connect to {server}: {source}; start the server or give another --server")]
    Connect { server: String, source: std::io::Error },
    #[error("{error}; {remedy}", error = .0, remedy = remedy(.0))]
    Dialogue(ClientError),
    #[error("the server answered {context} with '{line}', which is no reply to it")]
    Malformed { context: String, line: String },
    /// A hit that is not what was stored: the server has mixed up or damaged data.
    #[error("WRONG DATA for key {key}: {what}; the server must not be trusted")]
    WrongData { key: String, what: String },
    /// A hit that is whole and of the right key, but was stored by a replay with other lengths.
    #[error(
        "key {key} holds {found} B instead of {value_len} B, left by a replay with another seed or \
         other sizes; empty the server (flush_all) and start again"
    )]
    OtherReplay { key: String, found: usize, value_len: usize },
}

impl From<ClientError> for ReplayError {
    fn from(error: ClientError) -> ReplayError {
        match error {
            ClientError::Unexpected(bytes) => ReplayError::malformed("nothing", &bytes),
            other => ReplayError::Dialogue(other),
        }
    }
}

impl ReplayError {
    /// The server's `line` is no reply to `request`.
    pub(crate) fn malformed(request: &str, line: &[u8]) -> ReplayError {
        let shown = &line[..line.len().min(80)];
        let line = String::from_utf8_lossy(shown).escape_debug().to_string();
        ReplayError::Malformed { context: request.to_owned(), line }
    }
}

fn remedy(error: &ClientError) -> &'static str {
    match error {
        ClientError::Closed => "see its log and its limit of connections",
        ClientError::Silent => "see whether it hangs",
        _ => "see the server's log",
    }
}
