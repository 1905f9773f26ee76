//! Why a replay stops.

use crate::workload::WorkloadError;
use slabwise_client::ClientError;

/// What ends a replay before its last request. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The workload could not be opened or read on.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// An option that cannot be honoured.
    #[error("{0}")]
    Option(String),
    /// No connection.
    #[error("cannot connect to {server}: {source}; start the server or give another --server")]
    Connect {
        /// The address as given.
        server: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The dialogue broke off.
    #[error("{error}; {remedy}", error = .0, remedy = remedy(.0))]
    Dialogue(ClientError),
    /// The server's bytes are no reply to what was asked.
    #[error("the server answered {context} with '{line}', which is no reply to it")]
    Malformed {
        /// The request.
        context: String,
        /// The reply's line, shortened.
        line: String,
    },
    /// A hit that is not what was stored: the server has mixed up or damaged data.
    #[error("WRONG DATA for key {key}: {what}; the server must not be trusted")]
    WrongData {
        /// The key that was asked for.
        key: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// A hit that is whole and of the right key, but was stored by a replay with other lengths.
    #[error(
        "key {key} holds {found} B instead of {value_len} B, left by a replay with another seed or \
         other sizes; empty the server (flush_all) and start again"
    )]
    OtherReplay {
        /// The key that was asked for.
        key: String,
        /// The length found in bytes.
        found: usize,
        /// The length that this replay stores.
        value_len: usize,
    },
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
